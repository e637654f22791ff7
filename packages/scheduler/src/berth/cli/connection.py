"""How `berth explain` reaches the scheduler, wherever it runs, with the credentials of a kubeconfig.

A scheduler of this machine has left a file that says where it serves and with which certificate (`local_record`). Any
other is found through its lease: its holder is a pod, and the API server forwards a port of that pod. What comes
over such a tunnel is the pod's, as the API server and its kubelet vouch, which is why the certificate that the
scheduler made for itself is taken there, and nowhere else.
"""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from berth.cli.local_record import ServedLocally
    from berth.kube.credentials.sources import ClusterAccess

CLUSTER_HEADER, API_SERVER_HEADER = "Berth-Cluster", "Berth-Api-Server"
TIMEOUT_S = 15.0
SECURE_PORT = 10259
LEASES = (("kube-system", "kube-scheduler"), ("kube-system", "berth"))
SELECTORS = ("component=kube-scheduler", "app.kubernetes.io/name=berth")
OBSERVERS = "app.kubernetes.io/component=observer"
OK = 200
PORT_FORWARD = "v4.channel.k8s.io"
"""The kubelet's port forwarding over WebSocket: each message begins with the number of its channel, 0 for data and 1
for errors, and the first message of each channel is the port."""

Json = dict[str, Any]


class UnreachableError(Exception):
    """The scheduler cannot be reached, or gave no answer that can be read; the message says why."""


class _Headers(Protocol):
    def get(self, name: str, /) -> str | None:
        """Return a header, whatever the case of its name."""


class Answered(msgspec.Struct, frozen=True):
    """What the scheduler answered, and about which cluster it says that this is."""

    status: int
    body: bytes
    cluster_id: str = ""
    """The uid of the cluster's kube-system; empty where the scheduler does not know it or is an older one."""
    api_server: str = ""
    where: str = ""
    """Who has answered: an address, or a pod."""

    @classmethod
    def of(cls, status: int, body: bytes, headers: "_Headers", where: str) -> "Answered":
        """Make it of an HTTP answer."""
        return cls(status, body, headers.get(CLUSTER_HEADER) or "", headers.get(API_SERVER_HEADER) or "", where)


def pinned(certificate_pem: str) -> ssl.SSLContext:
    """A context that takes this certificate, or one that it has signed, whatever the name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate_pem)
    return context


async def ask_local(
    record: "ServedLocally", path: str, access: "ClusterAccess | None", body: bytes | None = None
) -> Answered:
    """Ask a scheduler of this machine; here and below, with a body it is a POST."""
    return await _ask(record.url + path, pinned(record.certificate_pem), access, body)


async def ask_at(
    url: str, path: str, authority_pem: str, access: "ClusterAccess | None", body: bytes | None = None
) -> Answered:
    """Ask at an https:// address; its certificate has to be one of the authority's, or of the system's."""
    context = ssl.create_default_context(cadata=authority_pem or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # on since Python 3.13, and refuses certificates that many have
    return await _ask(url.rstrip("/") + path, context, access, body)


async def ask_in_cluster(access: "ClusterAccess", path: str, lease: str, body: bytes | None = None) -> Answered:
    """Ask the pod that holds the lease, through the API server; or an observer, where that is none of ours.

    An observer holds no lease, since it stands beside somebody else's scheduler: its pod is found by its label.
    """
    from berth.api.errors import TransportError
    from berth.kube.http.client import HttpTransport

    transport = HttpTransport(access)
    problem: UnreachableError | None = None
    found: Answered | None = None
    try:
        try:
            found = await _ask_pod(access, await _holder(transport, lease), path, body)
        except UnreachableError as error:
            problem = error
        is_ours = found is not None and (found.status == OK or bool(found.cluster_id))
        observer = None if is_ours or lease else await _observer(transport)
    except TransportError as error:
        raise UnreachableError(str(error)) from None
    finally:
        await transport.close()
    if observer is not None:
        return await _ask_pod(access, observer, path, body)
    if found is None:
        assert problem is not None, "either somebody has answered, or why nobody has is known"
        raise problem
    return found


async def _ask_pod(access: "ClusterAccess", place: tuple[str, str, int], path: str, body: bytes | None) -> Answered:
    """Ask what serves at a pod's port."""
    namespace, pod, port = place
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the tunnel says whose it is
    async with _forwarded(access, namespace, pod, port) as local:
        found = await _ask(f"https://127.0.0.1:{local}{path}", context, access, body)
    return msgspec.structs.replace(found, where=f"pod {namespace}/{pod}")


async def _ask(url: str, context: ssl.SSLContext, access: "ClusterAccess | None", body: bytes | None) -> Answered:
    """GET, or POST a body, with the kubeconfig's credentials: a token in the header, a certificate in the handshake."""
    import aiohttp

    from berth.api.errors import TransportError
    from berth.api.redaction import redact_url

    headers = {}
    where = redact_url(url.partition("/debug")[0].removesuffix("/fit"))
    try:
        if access is not None:
            credential = await access.credential()
            if credential.token:
                headers["Authorization"] = f"Bearer {credential.token}"
            access.identify(context, credential)
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.request(
                "GET" if body is None else "POST", url, data=body, headers=headers, ssl=context, allow_redirects=False
            ) as answer,
        ):
            return Answered.of(answer.status, await answer.read(), answer.headers, where)
    except TransportError as error:
        raise UnreachableError(str(error)) from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise UnreachableError(f"{where} does not answer: {_words(error)}") from None


def _words(error: Exception) -> str:
    """Why there is no answer, and what to do where the certificate is the reason."""
    import aiohttp

    from berth.kube.http.connections import reason_of

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        said = f"its certificate is not accepted ({reason_of(error)})"
        return f"{said}; --certificate-authority names the one to expect, or its authority's"
    return reason_of(error)


# -- which pod ---------------------------------------------------------------------------------------------------------


async def _holder(transport: Any, lease: str) -> tuple[str, str, int]:
    """Namespace, name and port of the pod that holds the lease."""
    from berth.api.errors import ApiError
    from berth.api.resources import RESOURCES

    namespace, _, name = lease.rpartition("/")
    wanted = ((namespace or "kube-system", name),) if lease else LEASES
    for place in wanted:
        try:
            found = msgspec.json.decode(await transport.get(RESOURCES["Lease"], *place))
        except ApiError as error:
            if not error.is_not_found:
                raise
            continue
        host = ((found.get("spec") or {}).get("holderIdentity") or "").partition("_")[0]
        if host:
            pod = await _pod_on(transport, place[0], host)
            if pod is None:
                raise UnreachableError(f"{host} holds the lease {'/'.join(place)}, and no pod of a scheduler is there")
            return place[0], pod["metadata"]["name"], _port_of(pod)
    raise UnreachableError(f"nobody holds the lease {' or '.join(map('/'.join, wanted))}; --lease names another")


async def _observer(transport: Any) -> tuple[str, str, int] | None:
    """Namespace, name and port of a pod that looks on; None where there is none, or pods may not be listed."""
    from berth.api.errors import ApiError
    from berth.api.resources import RESOURCES

    try:
        listed = msgspec.json.decode(await transport.list(RESOURCES["Pod"], label_selector=OBSERVERS))
    except ApiError:
        return None
    running = (each for each in listed.get("items") or () if (each.get("status") or {}).get("phase") == "Running")
    pod = next(running, None)
    return None if pod is None else (pod["metadata"]["namespace"], pod["metadata"]["name"], _port_of(pod))


async def _pod_on(transport: Any, namespace: str, host: str) -> Json | None:
    """The scheduler's pod whose host name this is: its own, or its node's."""
    from berth.api.errors import ApiError
    from berth.api.resources import RESOURCES

    try:
        pod: Json = msgspec.json.decode(await transport.get(RESOURCES["Pod"], namespace, host))
        return pod
    except ApiError as error:
        if not error.is_not_found:
            raise
    for selector in SELECTORS:
        listed = msgspec.json.decode(
            await transport.list(RESOURCES["Pod"], namespace=namespace, label_selector=selector)
        )
        for one in listed.get("items") or ():
            if (one.get("spec") or {}).get("nodeName") == host:
                return one  # type: ignore[no-any-return]
    return None


def _port_of(pod: Json) -> int:
    """Where the pod serves: as its command line says."""
    for container in (pod.get("spec") or {}).get("containers") or ():
        line = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
        if found := re.search(r"--secure-port[= ](\d{1,5})\b", line):
            return int(found[1])
    return SECURE_PORT


# -- the tunnel --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _forwarded(access: "ClusterAccess", namespace: str, pod: str, port: int) -> AsyncIterator[int]:
    """A local port that leads to one of a pod; for one connection."""
    import aiohttp

    from berth.api.errors import TransportError
    from berth.api.resources import RESOURCES

    path = RESOURCES["Pod"].path(namespace, pod, "portforward")
    try:
        credential = await access.credential()
        headers = {"Authorization": f"Bearer {credential.token}"} if credential.token else {}
        async with (
            aiohttp.ClientSession(headers=[*access.headers, *headers.items()]) as session,
            session.ws_connect(
                f"{access.server}{path}?ports={port}",
                protocols=(PORT_FORWARD,),
                ssl=access.tls_context(credential) or True,
                server_hostname=access.server_name,
                proxy=access.proxy or None,
                timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
            ) as tunnel,
        ):
            pumps: set[asyncio.Task[None]] = set()

            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                server.close()  # for one connection only
                up = asyncio.create_task(_upwards(reader, tunnel))
                down = asyncio.create_task(_downwards(tunnel, writer))
                pumps.update((up, down))

            server = await asyncio.start_server(connected, "127.0.0.1", 0)
            try:
                yield server.sockets[0].getsockname()[1]
            finally:
                server.close()
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
    except TransportError as error:
        raise UnreachableError(str(error)) from None
    except (aiohttp.ClientError, OSError) as error:
        raise UnreachableError(f"port {port} of pod {namespace}/{pod} cannot be forwarded: {_words(error)}") from None


async def _upwards(reader: asyncio.StreamReader, tunnel: Any) -> None:
    while data := await reader.read(32 * 1024):
        await tunnel.send_bytes(b"\0" + data)


async def _downwards(tunnel: Any, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes on the channel of data, but for the port that comes first; an error ends it."""
    has_begun = False
    try:
        async for message in tunnel:
            content = message.data if isinstance(message.data, bytes) else b""
            if content[:1] == b"\1" and len(content) > 3:
                break
            if content[:1] == b"\0":
                if has_begun:
                    writer.write(content[1:])
                    await writer.drain()
                has_begun = True
    finally:
        writer.close()
