"""Whatever is a secret shows up nowhere: each that there can be is planted as a marker and looked for in all output.

The markers of each seed differ in form: some hold what URLs, JSON or base64 write in another way.
"""

import base64
import io
import json
import logging
import random
import sys
from contextlib import asynccontextmanager
from urllib.parse import quote

import aiohttp
import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner

from berth.api.errors import TransportError
from berth.api.resources import RESOURCES
from berth.cli.run import command
from berth.config.load import load_config
from berth.kube.credentials.access import kubeconfig_access
from berth.kube.http.client import HttpTransport
from berth.runtime.observing import logs
from berth.runtime.observing.metrics import Metrics
from berth.runtime.observing.rest_client import RestClientMetrics
from berth.runtime.serving.server import HealthServer
from packages.scheduler.tests.kube.servers import Certificates, serving
from tests.e2e.processes import free_port
from tests.runtime.world import World, scheduling
from tests.waiting import until

SEEDS = range(4)


class Markers:
    """Secrets by name, and whether any of them is in a text, in whatever form."""

    def __init__(self, seed):
        self._rng = random.Random(seed)
        self._made = {}

    def __call__(self, name, special=True):
        tail = self._rng.choice(["", "/+=", "@~", ":x", "%zz", "é"]) if special else ""
        made = f"Sec{self._rng.getrandbits(72):018x}{tail}"
        self._made[name] = made
        return made

    def found_in(self, text):
        text = text.replace("\n", "").replace("\\n", "")
        return [name for name, secret in self._made.items() if any(form in text for form in self._forms(secret))]

    def _forms(self, secret):
        core = secret[:21]
        yield core
        yield base64.b64encode(core.encode()).decode().rstrip("=")

    def add(self, name, text):
        """A secret that is as it is."""
        self._made[name] = text


@pytest.fixture
def log():
    """All that is logged at the highest verbosity, in both formats."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    berth_level = logging.getLogger("berth").level
    streams = io.StringIO(), io.StringIO()
    logs.set_up("json", 10, streams[0])
    json_handler = root.handlers[0]
    logs.set_up("text", 10, streams[1])
    root.addHandler(json_handler)
    yield lambda: "".join(stream.getvalue() for stream in streams)
    root.handlers[:] = before
    root.setLevel(level)
    logging.getLogger("berth").setLevel(berth_level)


@asynccontextmanager
async def repeating():
    """A server that refuses everything and repeats what it was sent, as some proxies do."""

    async def repeat(request):
        said = " ".join(f"{name}: {value}" for name, value in request.headers.items())
        body = {"kind": "Status", "message": f"refused {request.url}: {said}", "reason": "Forbidden", "code": 403}
        plain = request.path.startswith("/api/v1/nodes")
        return web.Response(status=403, text=said) if plain else web.json_response(body, status=403)

    async with serving(repeat) as url:
        yield url


@asynccontextmanager
async def echoing_extender():
    """An extender that repeats the header by which it was asked."""

    async def answer(request):
        return web.json_response({"error": f"not you: {request.headers.get('Authorization')} at {request.url}"})

    async with serving(answer) as url:
        yield url


def with_userinfo(url, user, password):
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{rest}"


PATHS = (
    "/", "/configz", "/metrics", "/metrics/slis", "/metrics/resources", "/debug/decisions",
    "/debug/decisions/default/web", "/debug/queue", "/healthz?verbose", "/readyz?verbose",
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_endpoint_and_no_log_line_shows_what_the_configuration_holds(seed, tmp_path, log):
    markers = Markers(seed)
    certificate, key = Certificates(tmp_path).issue("client")
    markers.add("key", base64.b64encode(key.read_bytes()).decode()[60:100])
    async with echoing_extender() as url:
        extender = {
            "urlPrefix": with_userinfo(url, "me", markers("URL password")),
            "filterVerb": "filter",
        }
        dead = {
            "urlPrefix": with_userinfo("https://127.0.0.1:1", markers("user"), markers("password of the dead")),
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "ignorable": True,
            "tlsConfig": {
                "insecure": True,
                "keyData": base64.b64encode(key.read_bytes()).decode(),
                "certData": base64.b64encode(certificate.read_bytes()).decode(),
            },
        }
        config = load_config(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "extenders": [extender, dead],
            },
            "a test",
        )
        world, metrics, port = World(nodes=2), Metrics(), free_port()
        world.add_pod("web")
        requests = RestClientMetrics()
        async with scheduling(world, config, instrument=metrics) as scheduler:
            metrics.observe(scheduler)
            server = HealthServer(scheduler, metrics, config, port=port, requests=requests)
            await server.start()
            await until(lambda: world.condition("web") or world.events("FailedScheduling"))
            async with aiohttp.ClientSession() as session:
                shown = [await text_of(session, f"http://127.0.0.1:{port}{path}") for path in PATHS]
            await server.stop()
    stored = json.dumps([world.pod("web"), *world.events("FailedScheduling")], default=str)
    assert "not you" in stored  # it did fail, and this was told
    for text in (*shown, stored, log(), repr(config)):
        assert markers.found_in(text) == []


async def text_of(session, url):
    async with session.get(url) as answer:
        return await answer.text()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("each_way")
async def test_what_a_server_repeats_is_not_shown(seed, tmp_path, log):
    """Token, token file, exec plugin and proxy: the server (or proxy) sends back every header in its errors."""
    markers = Markers(seed)
    (tmp_path / "token").write_text(markers("token file", special=False))
    async with repeating() as url:
        users = [
            {"token": markers("token", special=False)},
            {"tokenFile": "token"},
            {"exec": exec_user(tmp_path, markers)},
        ]
        for user in users:
            for cluster in ({"server": url}, {"server": "https://127.0.0.1:1", "proxy-url": proxy(url, markers)}):
                access = kubeconfig_access([write_kubeconfig(tmp_path, cluster, user)], environ={})
                told = await errors_of(access)
                assert told
                assert markers.found_in(told) == []
    assert markers.found_in(log()) == []


def proxy(url, markers):
    return with_userinfo(url, "me", markers("proxy"))


def exec_user(directory, markers, code=0):
    """A plugin that prints its environment to stderr."""
    script = directory / "plugin.py"
    status = {"token": markers("exec token", special=False)}
    printed = {"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status}
    script.write_text(
        f"import os, sys\nprint(os.environ, sys.argv, file=sys.stderr)\nprint({json.dumps(json.dumps(printed))})\n"
        f"sys.exit({code})\n"
    )
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "env": [{"name": "CLIENT_SECRET", "value": markers("exec env", special=False)}],
        "interactiveMode": "Never",
    }


def write_kubeconfig(directory, cluster, user):
    path = directory / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    return path


async def errors_of(access):
    """What is said of a list, a get and a watch that are refused, or that fail."""
    transport = HttpTransport(access)
    said = [access.description, repr(access)]
    try:
        for call in (
            lambda: transport.list(RESOURCES["Node"]),
            lambda: transport.get(RESOURCES["Pod"], "default", "web"),
            lambda: anext(transport.watch(RESOURCES["Pod"], resource_version="1", timeout_s=1)),
        ):
            with pytest.raises(TransportError) as caught:
                await call()
            logging.getLogger("berth.test").error("it failed", exc_info=caught.value)
            said.append(repr(caught.value))
    finally:
        await transport.close()
    return " ".join(said)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("each_way")
async def test_a_plugin_that_fails_and_tells_its_environment(seed, tmp_path):
    markers = Markers(seed)
    user = {"exec": exec_user(tmp_path, markers, code=1)}
    access = kubeconfig_access([write_kubeconfig(tmp_path, {"server": "https://127.0.0.1:1"}, user)], environ={})
    told = await errors_of(access)
    assert "exit code 1" in told
    assert markers.found_in(told) == []


def broken(markers, key):
    """Kubeconfigs' clusters and users that cannot be used, each in another way, with a secret near the fault."""
    good = "https://127.0.0.1:1"
    yield {"server": with_userinfo(good, "me", markers("server"))}, {}
    yield {"server": f"https://me:{markers('raw', special=False)}@[::1"}, {}
    yield {"server": good, "proxy-url": f"socks5://me:{markers('socks')}@p"}, {}
    yield {"server": good, "proxy-url": f"http://me:{markers('raw proxy', special=False)}/@:x"}, {}
    yield {"server": "http://api.example:8080"}, {"token": markers("clear", special=False)}
    yield {"server": good}, {"token": markers("spaced", special=False) + " \n x"}
    yield {"server": good}, {"token": [markers("in a list")]}
    yield {"server": good}, {"username": "me", "password": markers("password")}
    yield {"server": good}, {"auth-provider": {"name": "x", "config": {"client-secret": markers("provider")}}}
    yield {"server": good}, {"client-key-data": markers("key that is none")}
    yield {"server": good}, {"client-certificate-data": key, "client-key-data": key}
    yield {"server": good}, {"exec": {"command": "", "env": [{"name": "A", "value": markers("env")}]}}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_refusal_of_a_kubeconfig_shows_a_secret(seed, tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    markers = Markers(seed)
    key = base64.b64encode(Certificates(tmp_path).issue("client")[1].read_bytes()).decode()
    markers.add("key", key[60:100])
    for cluster, user in broken(markers, key):
        path = write_kubeconfig(tmp_path, cluster, user)
        result = CliRunner().invoke(command, ["--kubeconfig", str(path), "-v", "10"])
        assert result.exit_code == 2, (cluster, user, result.output)
        assert str(path) in result.output and "Traceback" not in result.output
        assert markers.found_in(result.output) == [], result.output


CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_refusal_of_a_configuration_shows_a_secret(seed, tmp_path):
    markers = Markers(seed)
    encoded = base64.b64encode(Certificates(tmp_path).issue("client")[1].read_bytes()).decode()
    markers.add("key", encoded[60:100])
    faults = [
        {"urlPrefix": f"http://me:{markers('clear')}@extender.example/"},
        {"urlPrefix": f"http://me:{markers('raw', special=False)}/@:x"},
        {"urlPrefix": f"ftp://me:{markers('ftp')}@host"},
        {"urlPrefix": [f"https://me:{markers('list')}@host"]},
        {"urlPrefix": "https://host", "tlsConfig": {"keyData": markers("no base64"), "certData": "x"}},
        {"urlPrefix": "https://host", "tlsConfig": [{"keyData": encoded}]},
        {"urlPrefix": "https://host", "enableHTTPS": True, "tlsConfig": {"keyData": encoded}},
        {"urlPrefix": "https://host", "enableHTTPS": True,
         "tlsConfig": {"keyData": encoded, "certData": encoded}},
    ]  # fmt: skip
    kubeconfig = write_kubeconfig(tmp_path, {"server": "https://127.0.0.1:1"}, {})
    for fault in faults:
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump({**CONFIGURATION, "extenders": [{"filterVerb": "filter", **fault}]}))
        arguments = ["--config", path, "--kubeconfig", kubeconfig, "--secure-port", "0"]
        result = CliRunner().invoke(command, [str(one) for one in arguments])
        assert result.exit_code == 2, (fault, result.output)
        assert "extenders[0]" in result.output and "Traceback" not in result.output
        assert markers.found_in(result.output) == [], result.output


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_written_holds_no_secret(seed, tmp_path):
    markers = Markers(seed)
    certificate, key = (path.read_bytes() for path in Certificates(tmp_path).issue("client"))
    encoded = base64.b64encode(key).decode()
    markers.add("key", encoded[60:100])
    tls = {"keyData": encoded, "certData": base64.b64encode(certificate).decode()}
    url = with_userinfo("https://extender.example/x", "me", markers("password"))
    extender = {"urlPrefix": url, "filterVerb": "filter", "enableHTTPS": True, "tlsConfig": tls}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**CONFIGURATION, "extenders": [extender]}))
    target = tmp_path / "written.yaml"
    result = CliRunner().invoke(command, ["--config", str(tmp_path / "config.yaml"), "--write-config-to", str(target)])
    assert result.exit_code == 0, result.output
    assert markers.found_in(target.read_text() + result.output) == []
    written = yaml.safe_load(target.read_text())["extenders"][0]
    assert written["tlsConfig"]["keyData"] == "[redacted]"
    assert written["tlsConfig"]["certData"] == tls["certData"]
    assert written["urlPrefix"] == "https://[redacted]@extender.example/x"
    # It cannot be mistaken for a configuration that works.
    again = CliRunner().invoke(command, ["--config", str(target), "--write-config-to", str(tmp_path / "again.yaml")])
    assert again.exit_code == 2
    assert "extenders[0].urlPrefix" in again.output or "keyData" in again.output
