"""`berth explain` reaches the scheduler: on this machine by the file it left, elsewhere through its pod."""

import asyncio
import json
import os
import ssl
from contextlib import asynccontextmanager

import pytest
import yaml
from aiohttp import WSMsgType, web
from click.testing import CliRunner

from berth.cli import main
from berth.cli import scheduler_in_use as asking
from berth.cli.explain import command
from berth.cli.local_record import ServedLocally, local_url, read_records, record_directory, recorded
from packages.scheduler.tests.kube.servers import Certificates
from tests.e2e.processes import free_port

REPORT = {"pod": "default/web", "decision": None, "pending": None}


class Place:
    """A scheduler that answers one token, and what it was asked."""

    def __init__(self, port, certificate_pem):
        self.port, self.certificate_pem, self.tokens = port, certificate_pem, []


@asynccontextmanager
async def a_scheduler(directory, status=200):
    """A TLS server with a certificate of its own."""
    directory.mkdir(exist_ok=True)
    certificate, key = Certificates(directory).issue("scheduler")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def answer(request):
        place.tokens.append(request.headers.get("Authorization"))
        return web.json_response(REPORT, status=status)

    async with listening([web.get("/debug/decisions/default/web", answer)], context) as port:
        place = Place(port, certificate.read_text())
        yield place


@asynccontextmanager
async def listening(routes, context=None):
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def kubeconfig(directory, server):
    path = directory / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": "the-token"}}],
            }
        )
    )
    return path


async def explain(*arguments):
    return await asyncio.to_thread(CliRunner().invoke, command, [*map(str, arguments), "--json"])


async def berth(*words):
    return await asyncio.to_thread(CliRunner().invoke, main, list(words))


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(asking, "PLAIN_SERVER", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def left_by(place, cluster="http://127.0.0.1:1"):
    record = ServedLocally(f"https://127.0.0.1:{place.port}", place.certificate_pem, cluster, os.getpid())
    return recorded(record, record_directory())


async def test_a_scheduler_of_this_machine_is_shown_the_token(tmp_path):
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    async with a_scheduler(tmp_path / "s") as place:
        with left_by(place):
            result = await explain("web", "--kubeconfig", config)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == REPORT
    assert place.tokens == ["Bearer the-token"]


async def test_a_wrong_kubeconfig_of_the_environment_is_an_error_and_nobody_is_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nope")
    async with a_scheduler(tmp_path / "s") as place:
        with left_by(place):
            result = await berth("explain", "web")
            named = await berth("explain", "web", "--server", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1 and result.output.count("\n") == 1
    assert "/nope (from KUBECONFIG) does not exist" in result.output
    assert "does not answer" in named.output  # who names the scheduler needs no cluster
    assert place.tokens == []


async def test_a_kubeconfig_at_home_that_cannot_be_read_is_an_error_too(tmp_path):
    home = tmp_path / ".kube"
    home.mkdir()
    (home / "config").write_text("clusters: [")
    async with a_scheduler(tmp_path / "s") as place:
        with left_by(place):
            result = await berth("explain", "web")
    assert result.exit_code == 1 and str(home / "config") in result.output
    assert place.tokens == []


async def test_whoever_took_its_port_is_shown_nothing(tmp_path):
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    async with a_scheduler(tmp_path / "s") as place, a_scheduler(tmp_path / "t") as thief:
        place.port = thief.port
        with left_by(place):
            result = await explain("web", "--kubeconfig", config)
    assert result.exit_code == 1
    assert thief.tokens == []


async def test_a_scheduler_of_another_cluster_is_not_asked(tmp_path):
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    async with a_scheduler(tmp_path / "s") as place:
        with left_by(place, cluster="https://elsewhere:6443"):
            result = await explain("web", "--kubeconfig", config)
    assert result.exit_code == 1
    assert place.tokens == []


async def test_a_server_with_a_certificate_of_its_own_has_to_be_named(tmp_path):
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    async with a_scheduler(tmp_path / "s") as place:
        server = f"https://127.0.0.1:{place.port}"
        refused = await explain("web", "--kubeconfig", config, "--server", server)
        assert place.tokens == []
        told = await explain(
            "web", "--kubeconfig", config, "--server", server, "--certificate-authority", tmp_path / "s" / "ca.crt"
        )
    assert refused.exit_code == 1
    assert told.exit_code == 0, told.output


def test_files_are_read_from_a_directory_of_ours_only(tmp_path):
    directory = record_directory()
    served = ServedLocally("https://127.0.0.1:1", "PEM", "https://api", os.getpid())
    with recorded(served, directory):
        (path,) = directory.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert read_records(directory) == [served]
        (directory / "scheduler-x.json").write_text("{")
        assert read_records(directory) == [served]
        directory.chmod(0o777)
        assert read_records(directory) == []
        directory.chmod(0o700)
        path.write_text(path.read_text().replace("https://127", "http://127"))
        assert read_records(directory) == []
    assert not path.exists()


def test_a_place_that_cannot_be_written_to_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    with recorded(ServedLocally("https://127.0.0.1:1", "", "", os.getpid()), tmp_path / "file" / "x"):
        pass


@pytest.mark.parametrize(
    ("bound", "url"),
    [("0.0.0.0", "https://127.0.0.1:1"), ("::", "https://[::1]:1"), ("10.0.0.1", "https://10.0.0.1:1")],
)
def test_how_this_machine_reaches_an_address(bound, url):
    assert local_url(bound, 1) == url


# --- whose pods an answer is about ------------------------------------------------------------------------------------


@asynccontextmanager
async def on_loopback(monkeypatch, *, cluster_id="", api_server="", report=REPORT):
    """A scheduler where `berth up` serves, which says which cluster it follows."""

    async def answer(request):
        assert "Authorization" not in request.headers
        return web.json_response(report, headers={"Berth-Cluster": cluster_id, "Berth-Api-Server": api_server})

    async with listening([web.get("/debug/decisions/default/web", answer)]) as port:
        monkeypatch.setattr(asking, "PLAIN_SERVER", f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def api_server(uid="", status=200):
    """An API server of which little more than its kube-system is known."""

    async def answer(request):
        return web.json_response({"kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}}, status=status)

    async with listening([web.get("/api/v1/namespaces/kube-system", answer)]) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_scheduler_of_another_cluster_is_not_believed_although_it_knows_such_a_pod(tmp_path, monkeypatch):
    async with api_server("ours") as ours, on_loopback(monkeypatch, cluster_id="theirs", api_server="https://x") as url:
        result = await explain("web", "--kubeconfig", kubeconfig(tmp_path, ours))
    assert result.exit_code == 1
    assert f"the scheduler at {url} follows another cluster, https://x" in result.output
    assert f"--server {url} asks it" in result.output


async def test_one_that_does_not_say_is_not_believed(tmp_path, monkeypatch):
    async with api_server("ours") as ours, on_loopback(monkeypatch):
        result = await explain("web", "--kubeconfig", kubeconfig(tmp_path, ours))
    assert result.exit_code == 1


async def test_the_same_cluster_under_another_address_is_ours(tmp_path, monkeypatch):
    async with api_server("ours") as ours, on_loopback(monkeypatch, cluster_id="ours", api_server="https://10.0.0.1"):
        result = await explain("web", "--kubeconfig", kubeconfig(tmp_path, ours))
    assert result.exit_code == 0, result.output


async def test_an_address_that_leads_elsewhere_by_now_is_not_ours(tmp_path, monkeypatch):
    async with api_server("ours") as ours, on_loopback(monkeypatch, cluster_id="theirs", api_server=ours):
        result = await explain("web", "--kubeconfig", kubeconfig(tmp_path, ours))
    assert result.exit_code == 1


@pytest.mark.parametrize(("is_same", "code"), [(True, 0), (False, 1)])
async def test_where_kube_system_may_not_be_read_the_address_counts(tmp_path, monkeypatch, is_same, code):
    async with api_server(status=403) as ours:
        follows = ours if is_same else "https://elsewhere:6443"
        async with on_loopback(monkeypatch, cluster_id="any", api_server=follows):
            result = await explain("web", "--kubeconfig", kubeconfig(tmp_path, ours))
    assert result.exit_code == code


async def test_without_any_kubeconfig_whoever_serves_here_is_asked(monkeypatch):
    async with on_loopback(monkeypatch, cluster_id="any"):
        result = await explain("web")
    assert result.exit_code == 0, result.output


async def test_a_server_and_a_kubeconfig_have_to_go_together(tmp_path, monkeypatch):
    async with api_server("ours") as ours, on_loopback(monkeypatch, cluster_id="theirs") as url:
        refused = await explain("web", "--server", url, "--kubeconfig", kubeconfig(tmp_path, ours))
        told = await explain("web", "--server", url)
    assert refused.exit_code == 1
    assert "follows another cluster than --kubeconfig" in refused.output
    assert told.exit_code == 0, told.output


async def test_an_embedded_cluster_is_found_on_any_port_without_credentials(tmp_path, monkeypatch):
    async with api_server("ours") as ours, on_loopback(monkeypatch, cluster_id="ours") as url:
        monkeypatch.setattr(asking, "PLAIN_SERVER", "http://127.0.0.1:1")
        with recorded(ServedLocally(url, "", ours, os.getpid()), record_directory()):
            result = await explain("web", "--kubeconfig", kubeconfig(tmp_path, ours))
    assert result.exit_code == 0, result.output


class Cluster:
    """An API server with a lease and its holder's pod, of which it forwards ports as the kubelet does."""

    def __init__(self, pod_name="berth-0", node="node-1", holder="berth-0_uuid", flags=()):
        self.forwarded, self._lead_to = [], 0
        self._pod = {
            "metadata": {"name": pod_name, "namespace": "kube-system"},
            "spec": {"nodeName": node, "containers": [{"command": ["kube-scheduler", *flags]}]},
        }
        self._lease = {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": holder}}

    def routes(self, port):
        self._lead_to = port
        pods = "/api/v1/namespaces/kube-system/pods"
        return [
            web.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}", self._get_lease),
            web.get(pods, self._list),
            web.get(pods + "/{name}", self._get_pod),
            web.get(pods + "/{name}/portforward", self._forward),
        ]

    async def _get_lease(self, request):
        found = request.match_info["name"] == "kube-scheduler"
        return web.json_response(self._lease if found else {"code": 404}, status=200 if found else 404)

    async def _get_pod(self, request):
        found = request.match_info["name"] == self._pod["metadata"]["name"]
        return web.json_response(self._pod if found else {"code": 404}, status=200 if found else 404)

    async def _list(self, request):
        is_asked_for = request.query["labelSelector"] == "component=kube-scheduler"
        return web.json_response({"items": [self._pod] if is_asked_for else []})

    async def _forward(self, request):
        assert request.headers["Authorization"] == "Bearer the-token"
        self.forwarded.append((request.match_info["name"], request.query["ports"]))
        tunnel = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await tunnel.prepare(request)
        port = int(request.query["ports"]).to_bytes(2, "little")
        await tunnel.send_bytes(b"\0" + port)
        await tunnel.send_bytes(b"\1" + port)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._lead_to)

        async def down():
            while data := await reader.read(1000):
                await tunnel.send_bytes(b"\0" + data)

        pump = asyncio.create_task(down())
        async for message in tunnel:
            if message.type is WSMsgType.BINARY and message.data[:1] == b"\0":
                writer.write(message.data[1:])
        pump.cancel()
        writer.close()
        return tunnel


@pytest.mark.parametrize(
    ("cluster", "asked"),
    [
        (Cluster(), ("berth-0", "10259")),
        (
            Cluster("kube-scheduler-node-1", "node-1", "node-1_uuid", ("--secure-port=10333",)),
            ("kube-scheduler-node-1", "10333"),
        ),
    ],
)
async def test_a_scheduler_in_a_pod_is_reached_through_the_api_server(tmp_path, cluster, asked):
    async with a_scheduler(tmp_path / "s") as place, listening(cluster.routes(place.port)) as port:
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{port}")
        result = await explain("web", "--kubeconfig", config)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == REPORT
    assert place.tokens == ["Bearer the-token"]
    assert cluster.forwarded == [asked]


class ClusterWithObserver(Cluster):
    """Somebody else's scheduler holds the lease, or nobody, and an observer of ours looks on."""

    def routes(self, port):
        return [*super().routes(port), web.get("/api/v1/pods", self._list_everywhere)]

    async def _list_everywhere(self, request):
        assert request.query["labelSelector"] == "app.kubernetes.io/component=observer"
        args = ["observe", "--secure-port=10260"]
        starting = {"metadata": {"name": "new", "namespace": "kube-system"}, "status": {"phase": "Pending"}}
        observer = {
            "metadata": {"name": "observer-0", "namespace": "kube-system"},
            "spec": {"containers": [{"args": args}]},
            "status": {"phase": "Running"},
        }
        return web.json_response({"items": [starting, observer]})

    async def _forward(self, request):
        if request.match_info["name"] != "observer-0":
            self._lead_to, observers = self.stock_port, self._lead_to
            try:
                return await super()._forward(request)
            finally:
                self._lead_to = observers
        return await super()._forward(request)


@pytest.mark.parametrize(("holder", "asked"), [("", ["observer-0"]), ("berth-0_uuid", ["berth-0", "observer-0"])])
@pytest.mark.parametrize("status", [403, 404])
async def test_an_observer_beside_somebody_elses_scheduler_is_found_by_its_label(tmp_path, holder, asked, status):
    cluster = ClusterWithObserver(holder=holder)
    async with (
        a_scheduler(tmp_path / "stock", status=status) as stock,
        a_scheduler(tmp_path / "s") as place,
        listening(cluster.routes(place.port)) as port,
    ):
        cluster.stock_port = stock.port
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{port}")
        result = await explain("web", "--kubeconfig", config)
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == REPORT
    assert [pod for pod, _ in cluster.forwarded] == asked
    assert cluster.forwarded[-1] == ("observer-0", "10260")


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (Cluster(holder=""), "nobody holds the lease"),
        (Cluster("another", "node-2", "node-1_uuid"), "no pod of a scheduler is there"),
    ],
)
async def test_where_there_is_none_it_says_so(tmp_path, cluster, words):
    async with listening(cluster.routes(1)) as port:
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{port}")
        result = await explain("web", "--kubeconfig", config)
    assert result.exit_code == 1
    assert words in result.output
    assert "Traceback" not in result.output


# --- whose refusal it is ----------------------------------------------------------------------------------------------


async def test_without_a_kubeconfig_a_refusal_says_whose_it_is_and_why_that_was_asked(tmp_path):
    async with a_scheduler(tmp_path / "s", status=401) as place:
        with left_by(place, cluster="https://10.0.0.1:6443"):
            result = await explain("web")
    assert result.exit_code == 1
    told = " ".join(result.output.split())
    assert f"the scheduler at https://127.0.0.1:{place.port} answered 401 when asked for default/web" in told
    assert "It follows https://10.0.0.1:6443, and was asked without credentials, as one of this machine: " in told
    assert "--kubeconfig names your cluster, --server its scheduler" in told


async def test_without_a_kubeconfig_one_that_answers_is_preferred_to_one_that_refuses(tmp_path, monkeypatch):
    async with a_scheduler(tmp_path / "s", status=403) as place, on_loopback(monkeypatch):
        with left_by(place):
            result = await explain("web")
    assert result.exit_code == 0, result.output


async def test_a_named_server_that_refuses_is_named(tmp_path):
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")

    async def answer(request):
        return web.json_response({"message": "no"}, status=403)

    async with listening([web.get("/debug/decisions/default/web", answer)]) as port:
        result = await explain("web", "--server", f"http://127.0.0.1:{port}", "--kubeconfig", config)
    assert f"the scheduler at http://127.0.0.1:{port} answered 403 when asked for default/web: no" in result.output


async def test_a_certificate_that_is_not_accepted_is_told_in_words(tmp_path):
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    async with a_scheduler(tmp_path / "s") as place:
        result = await explain("web", "--server", f"https://127.0.0.1:{place.port}", "--kubeconfig", config)
    assert f"https://127.0.0.1:{place.port} does not answer: its certificate is not accepted (" in result.output
    assert "--certificate-authority names the one to expect" in result.output
    assert "object at 0x" not in result.output


async def test_a_port_that_nobody_listens_on_and_one_without_tls_are_told_in_words(tmp_path):
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    port = free_port()
    gone = await explain("web", "--server", f"https://127.0.0.1:{port}", "--kubeconfig", config)
    assert f"https://127.0.0.1:{port} does not answer: " in gone.output and "refused" in gone.output.lower()
    async with listening([]) as plain:
        strange = await explain("web", "--server", f"https://127.0.0.1:{plain}", "--kubeconfig", config)
    assert f"https://127.0.0.1:{plain} does not answer: " in strange.output
    for told in (gone.output, strange.output):
        assert "object at 0x" not in told and "ssl:" not in told
