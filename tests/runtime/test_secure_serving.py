"""The secure port on an embedded cluster: who gets what, with which credential, and what strangers can do to it."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import msgspec
import pytest

from berth.api.errors import ConnectionLost
from berth.kube.credentials.access import kubeconfig_access
from berth.kube.http.client import HttpTransport
from berth.runtime.observing.metrics import Metrics
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.serving import server as serving
from berth.runtime.serving.options import (
    AuthenticationLookupError,
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
    TlsOptions,
)
from berth.runtime.serving.secure import SecureServing
from berth.runtime.serving.server import HealthServer
from berth.serving.connections import ConnectionLimits
from berth_cluster.serving.certificates import ClusterAuthority
from berth_cluster.serving.rbac import ClusterUser
from berth_cluster.serving.server import ApiServer
from berth_cluster.storage.store import Store
from packages.scheduler.tests.kube.servers import Certificates
from tests.e2e.processes import free_port
from tests.runtime.world import World, configuration
from tests.waiting import WAIT_S, until

MONITOR = ClusterUser("prometheus", ("system:monitoring",))
USERS = {"monitor-token": MONITOR, "nobody-token": ClusterUser("nobody", ())}


class CountingTransport:
    """A transport that counts reviews, and fails them when told to."""

    def __init__(self, inner):
        self._inner, self.asked, self.problem = inner, [], None

    async def create(self, resource, *arguments, **options):
        self.asked.append(resource.kind)
        if self.problem is not None:
            raise self.problem
        return await self._inner.create(resource, *arguments, **options)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Served:
    def __init__(self, port, session, transport, cluster, directory):
        self.port, self.transport, self.cluster = port, transport, cluster
        self._session, self._directory = session, directory

    async def get(self, path, token="", tls=None, **headers):
        if token:
            headers["Authorization"] = f"Bearer {token}"
        url = f"https://127.0.0.1:{self.port}{path}"
        async with self._session.get(url, headers=headers, ssl=tls or unverified()) as answer:
            return answer.status, await answer.text()

    async def post(self, path, token):
        url, headers = f"https://127.0.0.1:{self.port}{path}", {"Authorization": f"Bearer {token}"}
        async with self._session.post(url, headers=headers, data=b"{}", ssl=unverified()) as answer:
            return answer.status, await answer.text()

    def certified(self, pair):
        """A client that shows a certificate."""
        path = self._directory / "client.pem"
        path.write_bytes(pair.certificate_pem + pair.key_pem)
        context = unverified()
        context.load_cert_chain(path)
        return context


def unverified():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def a_cluster(directory):
    server = ApiServer(Store(clock=lambda: datetime.now(UTC)), directory / "cluster", users=USERS)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def served(directory, cluster=None, **options):
    """The secure port of a scheduler; without a cluster there is nobody to ask."""
    transport = None
    if cluster is not None:
        transport = CountingTransport(HttpTransport(kubeconfig_access([cluster.kubeconfig], environ={})))
    port = free_port()
    secure = SecureServing(ServingOptions("127.0.0.1", port, **options), transport, transport)
    config = configuration()
    scheduler = LiveScheduler(config, World().transport)
    server = HealthServer(scheduler, Metrics(), config, secure=secure)
    try:
        await server.start()
        async with aiohttp.ClientSession() as session:
            yield Served(port, session, transport, cluster, directory)
    finally:
        await server.stop()
        if transport is not None:
            await transport.close()


async def test_everybody_gets_what_the_api_server_says(tmp_path):
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:
        assert await port.get("/livez") == (200, "ok")
        assert (await port.get("/readyz"))[0] == 500  # it follows nothing yet; but this may be known
        status, text = await port.get("/metrics")
        assert status == 403
        assert msgspec.json.decode(text) == {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden",
            "message": 'forbidden: User "system:anonymous" cannot get path "/metrics"', "details": {}, "code": 403,
        }  # fmt: skip
        status, text = await port.get("/livez", token="wrong")
        assert status == 401
        assert msgspec.json.decode(text) == {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
            "reason": "Unauthorized", "code": 401,
        }  # fmt: skip
        assert (await port.get("/metrics", token="monitor-token"))[0] == 200
        for path in ("/configz", "/debug/decisions", "/debug/queue", "/metrics/slis", "/healthz/ping"):
            assert (await port.get(path, token="nobody-token"))[0] == 403
            assert (await port.get(path, token=cluster.token))[0] == 200
        assert (await port.get("/nowhere", token=cluster.token))[0] == 404
        assert (await port.get("/nowhere"))[0] == 403


async def test_asking_whether_a_manifest_fits_is_a_post_for_the_api_server(tmp_path):
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:
        status, text = await port.post("/fit", "nobody-token")
        assert status == 403
        assert msgspec.json.decode(text)["message"] == 'forbidden: User "nobody" cannot post path "/fit"'
        assert (await port.post("/fit", "wrong"))[0] == 401
        assert (await port.post("/fit", cluster.token))[0] == 400


async def test_client_certificates_of_the_cluster_count_and_no_others(tmp_path):
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:
        admin = cluster.authority.client_certificate("someone", ["system:masters"])
        await until_asks_for_certificates(port, admin)
        assert (await port.get("/configz", tls=port.certified(admin)))[0] == 200
        monitor = cluster.authority.client_certificate("prometheus", ["system:monitoring"])
        assert (await port.get("/metrics", tls=port.certified(monitor)))[0] == 200
        assert (await port.get("/configz", tls=port.certified(monitor)))[0] == 403
        stranger = ClusterAuthority.new().client_certificate("someone", ["system:masters"])
        with pytest.raises(aiohttp.ClientError):
            await port.get("/configz", tls=port.certified(stranger))


async def until_asks_for_certificates(port, pair):
    """The authorities are looked up beside what is served."""

    async def is_known():
        return (await port.get("/configz", tls=port.certified(pair)))[0] == 200

    await until(is_known)


async def test_a_front_proxy_asks_for_others_and_nobody_else_does(tmp_path):
    proxies, clients = ClusterAuthority.new(), ClusterAuthority.new()
    files = {"proxies": tmp_path / "proxies.crt", "clients": tmp_path / "clients.crt"}
    files["proxies"].write_bytes(proxies.certificate_pem)
    files["clients"].write_bytes(clients.certificate_pem)
    options = AuthenticationOptions(
        client_ca_file=str(files["clients"]),
        requestheader_client_ca_file=str(files["proxies"]),
        requestheader_allowed_names=("front-proxy-client",),
    )
    claim = {"X-Remote-User": "somebody", "X-Remote-Group": "system:masters"}
    async with served(tmp_path, authentication=options) as port:
        proxy = port.certified(proxies.client_certificate("front-proxy-client"))
        assert (await port.get("/configz", tls=proxy, **claim))[0] == 200
        assert (await port.get("/configz", tls=proxy))[0] == 401  # for nobody
        for pair in (proxies.client_certificate("another"), clients.client_certificate("front-proxy-client")):
            assert (await port.get("/configz", tls=port.certified(pair), **claim))[0] in (401, 403)
        assert (await port.get("/configz", **claim))[0] == 403


async def test_where_nobody_can_be_asked_nobody_may(tmp_path):
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:
        port.transport.problem = ConnectionLost("the API server is away")
        assert (await port.get("/metrics", token=cluster.token))[0] == 401
        status, text = await port.get("/metrics")
        assert (status, text) == (500, 'Internal Server Error: "/metrics": the API server is away')
        assert await port.get("/livez") == (200, "ok")
        port.transport.problem = None
        assert (await port.get("/metrics", token=cluster.token))[0] == 200  # a failure is not remembered
    async with served(tmp_path) as port:
        assert (await port.get("/metrics", token="anything"))[0] == 403
        assert await port.get("/livez") == (200, "ok")


async def test_answers_are_kept_and_health_asks_nobody(tmp_path):
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:
        for _ in range(5):
            await port.get("/livez")
        assert port.transport.asked == []
        for _ in range(5):
            await port.get("/metrics", token="monitor-token")
            await port.get("/metrics", token="wrong")
            await port.get("/metrics")
        assert sorted(port.transport.asked) == ["SubjectAccessReview"] * 2 + ["TokenReview"] * 2


async def test_without_time_to_live_each_request_is_reviewed(tmp_path):
    authentication = AuthenticationOptions(token_cache_ttl_s=0)
    authorization = AuthorizationOptions(allowed_ttl_s=0, denied_ttl_s=0)
    async with (
        a_cluster(tmp_path) as cluster,
        served(tmp_path, cluster, authentication=authentication, authorization=authorization) as port,
    ):
        for _ in range(3):
            await port.get("/metrics", token="monitor-token")
        assert sorted(port.transport.asked) == ["SubjectAccessReview"] * 3 + ["TokenReview"] * 3


async def test_paths_that_everybody_may_read(tmp_path):
    options = AuthorizationOptions(always_allow_paths=("/metrics", "healthz/*"))
    async with served(tmp_path, authorization=options) as port:
        assert (await port.get("/metrics"))[0] == 200
        assert (await port.get("/healthz/ping"))[0] == 200
        for path in ("/livez", "/healthz", "/metrics/slis"):
            assert (await port.get(path))[0] == 403


async def test_a_lookup_that_must_not_fail(tmp_path):
    options = AuthenticationOptions(tolerate_lookup_failure=False)
    async with a_cluster(tmp_path) as cluster:
        async with served(tmp_path, cluster, authentication=options) as port:
            admin = port.certified(cluster.authority.client_certificate("a", ["system:masters"]))
            assert (await port.get("/configz", tls=admin))[0] == 200  # from the first request on
        await cluster.stop()
        with pytest.raises(AuthenticationLookupError, match="cannot look up"):
            async with served(tmp_path, cluster, authentication=options):
                pass


async def test_silent_strangers_keep_nobody_out(tmp_path, monkeypatch):
    """On the port before, 300 connections without a word, or with half a head, were kept for ever."""
    monkeypatch.setattr(serving, "LIMITS", ConnectionLimits(total=40, on_trial=20))
    async with served(tmp_path) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(15)]
        halves = [await asyncio.open_connection("127.0.0.1", port.port, ssl=unverified()) for _ in range(25)]
        for _, writer in halves:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-")
        assert await port.get("/livez") == (200, "ok")
        for _, writer in silent + halves:
            writer.close()


async def test_whoever_is_late_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "LIMITS", ConnectionLimits(handshake_s=0.2, head_s=0.2))
    async with served(tmp_path) as port:
        silent, other = await asyncio.open_connection("127.0.0.1", port.port)
        half, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=unverified())
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
        async with asyncio.timeout(WAIT_S):
            for reader in (silent, half):
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await reader.readexactly(1)
        for each in (writer, other):
            each.close()


async def test_those_with_a_credential_are_not_dropped_for_strangers(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "LIMITS", ConnectionLimits(total=8, on_trial=4))
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=unverified())
        asked = b"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer monitor-token\r\n\r\n"
        strangers = []
        for _ in range(2):
            writer.write(asked)
            async with asyncio.timeout(WAIT_S):
                assert b" 200 OK" in await reader.readuntil(b"\r\n\r\nok")
            strangers += [await asyncio.open_connection("127.0.0.1", port.port) for _ in range(8)]
        for _, other in [(reader, writer), *strangers]:
            other.close()


async def test_a_manifest_that_trickles_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "LIMITS", ConnectionLimits(body_s=0.05))
    async with a_cluster(tmp_path) as cluster, served(tmp_path, cluster) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=unverified())
        head = (
            f"POST /fit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.token}\r\nContent-Length: 100\r\n\r\n{{"
        )
        writer.write(head.encode())
        async with asyncio.timeout(WAIT_S):
            assert b" 408 Request Timeout" in await reader.read()
        writer.close()


async def test_plain_http_is_not_spoken_on_the_secure_port(tmp_path):
    async with served(tmp_path) as port, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://127.0.0.1:{port.port}/livez")
        assert await port.get("/livez") == (200, "ok")


async def test_a_certificate_in_files_is_reread(tmp_path):
    made = Certificates(tmp_path)
    (certificate, key), trusted = made.issue("first"), ssl.create_default_context(cafile=made.ca)
    trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT  # on since Python 3.13, and openssl's certificates are plain
    options = TlsOptions(str(certificate), str(key))
    async with served(tmp_path, tls=options) as port:
        first = await shown_by(port, trusted)
        assert b"first" in first
        certificate.write_bytes(b"half a")
        assert await shown_by(port, trusted) == first  # what can still be used stays
        replacement = made.issue("second")
        key.write_bytes(replacement[1].read_bytes())
        certificate.write_bytes(replacement[0].read_bytes())
        await until_shows(port, trusted, b"second")


async def until_shows(port, trusted, name):
    async def is_shown():
        return name in await shown_by(port, trusted)

    await until(is_shown)


async def shown_by(port, trusted):
    _, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=trusted)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown


async def test_versions_and_ciphers_are_those_asked_for(tmp_path):
    options = TlsOptions(
        min_version="VersionTLS12", cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256")
    )
    async with served(tmp_path, tls=options) as port:
        older = unverified()
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        _, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=older)
        assert writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
        writer.close()
        older.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port.port, ssl=older)
    async with served(tmp_path, tls=TlsOptions(min_version="VersionTLS13")) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port.port, ssl=older)
        assert await port.get("/livez") == (200, "ok")


async def test_a_certificate_of_our_own_is_kept_where_it_should_be(tmp_path):
    options = TlsOptions(cert_dir=str(tmp_path / "pki"))
    shown = []
    for _ in range(2):
        async with served(tmp_path, tls=options) as port:
            trusted = ssl.create_default_context(cafile=tmp_path / "pki" / "kube-scheduler.crt")
            shown.append(await shown_by(port, trusted))
    assert shown[0] == shown[1]
    assert (tmp_path / "pki" / "kube-scheduler.key").stat().st_mode & 0o777 == 0o600
    async with served(tmp_path) as port:
        assert await shown_by(port, unverified()) != shown[0]
