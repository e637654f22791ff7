"""What a running scheduler serves, asked over HTTP."""

import asyncio
import contextlib
import logging
import platform
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from berth import __version__
from berth.decisions.fit import Fit
from berth.runtime.observing.metrics import Metrics
from berth.runtime.scheduler import LiveScheduler
from berth.runtime.serving import server as serving
from berth.runtime.serving.options import PortTaken
from berth.runtime.serving.server import MAX_BODY_BYTES, HealthServer, Listener
from tests.e2e.processes import free_port
from tests.runtime.world import World, configuration, scheduling
from tests.waiting import until


class Client:
    def __init__(self, session, url):
        self._session, self._url = session, url
        self.port = int(url.rpartition(":")[2])

    async def text(self, path):
        async with self._session.get(self._url + path) as answer:
            return answer.status, await answer.text()

    async def headers(self, path):
        async with self._session.get(self._url + path) as answer:
            return answer.status, answer.headers

    async def status_for(self, host, path):
        async with self._session.get(self._url + path, headers={"Host": host}) as answer:
            return answer.status

    async def accepting(self, kind, path):
        async with self._session.get(self._url + path, headers={"Accept": kind}) as answer:
            return answer.status

    async def put(self, path, text):
        async with self._session.put(self._url + path, data=text) as answer:
            return answer.status, await answer.text()

    async def post(self, path, body):
        async with self._session.post(self._url + path, data=body) as answer:
            return answer.status, await answer.text()

    async def ask(self, method, path, headers, body=None):
        host = self._url.partition("//")[2]
        headers = {name: value.format(host=host) for name, value in headers.items()}
        async with self._session.request(method, self._url + path, data=body, headers=headers) as answer:
            return answer.status, await answer.text()

    async def json(self, path):
        async with self._session.get(self._url + path) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def served(scheduler, metrics, config):
    port = free_port()
    server = HealthServer(scheduler, metrics, config, port=port)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(session, f"http://127.0.0.1:{port}")
    finally:
        await server.stop()


@asynccontextmanager
async def at_work(world, config=None):
    config, metrics = config or configuration(), Metrics()
    async with scheduling(world, config, instrument=metrics) as scheduler, served(scheduler, metrics, config) as client:
        metrics.observe(scheduler)
        yield client


@pytest.fixture
def world():
    world = World(nodes=2, cpu="1")
    world.add_pod("web")
    world.add_pod("big", cpu="5")
    return world


def is_settled(world):
    return world.node_of("web") and world.condition("big")


async def test_healthy_and_ready_once_synced(world):
    async with at_work(world) as client:
        for endpoint in ("healthz", "livez", "readyz"):
            assert await client.text(f"/{endpoint}") == (200, "ok")
        _, verbose = await client.text("/readyz?verbose")
        assert "[+]informer-sync ok" in verbose and "[+]informer-freshness ok" in verbose
        assert verbose.endswith("readyz check passed\n")


async def test_not_ready_before_it_is_synced_but_alive():
    world, config = World(), configuration()
    scheduler = LiveScheduler(config, world.transport)
    async with served(scheduler, Metrics(), config) as client:
        status, text = await client.text("/readyz")
        assert status == 500
        assert "[-]informer-sync failed: pods: no answer yet; nodes: no answer yet; " in text
        assert await client.text("/readyz?exclude=informer-sync") == (200, "ok")
        assert await client.text("/livez") == (200, "ok")
        assert (await client.text("/readyz/informer-sync"))[0] == 500
        assert await client.text("/readyz/ping") == (200, "ok")
        assert (await client.text("/readyz/nonsense"))[0] == 404


async def test_who_is_refused_is_not_ready_but_alive(world):
    """kube-scheduler's /livez does not ask either: a restart would be refused as well."""
    refused = []
    config, metrics = configuration(), Metrics()
    options = {"instrument": metrics, "refused": lambda: "; ".join(refused)}
    async with scheduling(world, config, **options) as scheduler, served(scheduler, metrics, config) as client:
        assert await client.text("/readyz") == (200, "ok")
        refused.append("bindings have been forbidden for 31 s: why")
        status, text = await client.text("/readyz")
        assert status == 500
        assert "[-]api-server-access failed: bindings have been forbidden for 31 s: why" in text
        assert await client.text("/livez") == (200, "ok")


async def test_health_watches_the_lease_where_leaders_are_elected():
    world = World()
    async with at_work(world, configuration(leader_elect=True)) as client:
        assert "[+]leaderElection ok" in (await client.text("/healthz?verbose"))[1]


async def test_metrics_count_what_happened(world):
    async with at_work(world) as client:
        await until(lambda: is_settled(world) and world.events("Scheduled"))
        _, text = await client.text("/metrics")
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(name, **labels):
        return samples[f"scheduler_{name}", frozenset(labels.items())]

    profile = "default-scheduler"
    assert value("schedule_attempts_total", result="scheduled", profile=profile) == 1
    assert value("schedule_attempts_total", result="unschedulable", profile=profile) == 1
    assert value("scheduling_attempt_duration_seconds_count", result="scheduled", profile=profile) == 1
    assert value("scheduling_algorithm_duration_seconds_count") == 2
    assert value("pod_scheduling_attempts_bucket", le="1") == 1
    assert value("pod_scheduling_sli_duration_seconds_count", attempts="1") == 1
    assert value("pending_pods", queue="unschedulable") == 1
    assert value("pending_pods", queue="active") == 0
    assert value("cache_size", type="nodes") == 2
    assert value("goroutines", operation="binding") == 0
    assert value("unschedulable_pods", plugin="NodeResourcesFit", profile=profile) == 1
    assert value("queue_incoming_pods_total", queue="active", event="UnschedulablePodAdd") == 2
    point = {"extension_point": "Filter", "status": "Success", "profile": profile}
    assert value("framework_extension_point_duration_seconds_count", **point) == 2


async def test_the_configuration_is_shown_as_a_document(world):
    async with at_work(world) as client:
        _, shown = await client.json("/configz")
    assert shown["componentconfig"]["profiles"][0]["schedulerName"] == "default-scheduler"


async def test_the_version_is_told(world):
    async with at_work(world) as client:
        _, told = await client.json("/debug/version")
    assert told == {"version": __version__, "generation": "v1.36", "python": platform.python_version()}


async def test_decisions_and_queue_are_shown(world):
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        _, listed = await client.json("/debug/decisions")
        _, web = await client.json("/debug/decisions/default/web?node=node-0")
        _, big = await client.json("/debug/decisions/default/big")
        _, queue = await client.json("/debug/queue")
        status, unknown = await client.json("/debug/decisions/default/nobody")
    outcomes = {line["pod"]: line["outcome"] for line in listed["decisions"]}
    assert outcomes == {"default/web": "scheduled", "default/big": "unschedulable"}
    assert web["decision"]["node"] == world.node_of("web")
    assert web["decision"]["nodes"][0]["fits"] is True
    assert web["pending"] is None
    assert big["pending"]["queue"] == "unschedulable"
    assert big["pending"]["waitsFor"]["NodeResourcesFit"]
    assert big["decision"]["waitsFor"] == big["pending"]["waitsFor"]
    assert [pod["pod"] for pod in queue["pods"]] == ["default/big"]
    assert status == 404
    assert "default/nobody" in unknown["error"]


async def test_a_pod_that_was_bound_before_is_told_from_one_that_nobody_knows():
    world = World()
    world.add_pod("early", nodeName="node-0")
    async with at_work(world) as client:
        status, told = await client.json("/debug/decisions/default/early")
    assert status == 404
    assert told["error"].startswith("pod default/early is on node node-0, and nobody remembers why: it was bound bef")


async def test_a_gated_pod_is_shown_as_gated():
    world = World()
    world.add_pod("later", schedulingGates=[{"name": "wait"}])
    async with at_work(world) as client:
        _, shown = await client.json("/debug/decisions/default/later")
    assert shown["decision"] is None
    assert (shown["pending"]["queue"], shown["pending"]["gatedBy"]) == ("gated", "SchedulingGates")


async def test_a_port_that_is_taken_is_told(world):
    config = configuration()
    scheduler = LiveScheduler(config, world.transport)
    port = free_port()
    first, second = (HealthServer(scheduler, Metrics(), config, port=port) for _ in range(2))
    await first.start()
    try:
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}.*--secure-port"):
            await second.start()
    finally:
        await first.stop()


async def test_port_0_serves_nothing(world):
    server = HealthServer(LiveScheduler(configuration(), world.transport), Metrics(), configuration(), port=0)
    await server.start()
    assert server.address == ""
    await server.stop()


async def test_a_second_address_serves_the_same(world):
    config, metrics = configuration(), Metrics()
    scheduler = LiveScheduler(config, world.transport)
    secure, insecure = free_port(), free_port()
    also = Listener("127.0.0.1", insecure, "--port")
    server = HealthServer(scheduler, metrics, config, port=secure, also=also)
    await server.start()
    try:
        assert server.addresses == [f"http://127.0.0.1:{secure}", f"http://127.0.0.1:{insecure}"]
        assert server.address == server.addresses[0]
        async with aiohttp.ClientSession() as session:
            client = Client(session, f"http://127.0.0.1:{insecure}")
            assert await client.text("/healthz") == (200, "ok")
            status, text = await client.text("/metrics")
            assert status == 200
            assert "scheduler_schedule_attempts_total" in text
        with pytest.raises(PortTaken, match=f"127.0.0.1:{insecure}.*--port"):
            await HealthServer(scheduler, metrics, config, port=free_port(), also=also).start()
    finally:
        await server.stop()


async def test_an_address_that_nobody_asked_for_is_no_reason_to_give_up(world, caplog):
    scheduler, port = LiveScheduler(configuration(), world.transport), free_port()
    servers = [
        HealthServer(scheduler, Metrics(), configuration(), port=free_port(),
                     also=Listener("127.0.0.1", port, "--port", is_optional=True))
        for _ in range(2)
    ]  # fmt: skip
    try:
        for server in servers:
            await server.start()
        assert f"cannot serve health and metrics on 127.0.0.1:{port}" in caplog.text
    finally:
        for server in servers:
            await server.stop()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:10259", 200),
        ("127.0.0.1", 200),
        ("[::1]:10259", 200),
        ("10.0.0.7:10259", 200),
        ("rebound.example.com", 403),
        ("localhost.example.com:10259", 403),
        ("[::1", 403),
    ],
)
async def test_a_web_page_that_made_its_name_point_here_reads_nothing(world, host, status):
    async with at_work(world) as client:
        for path in ("/debug/decisions", "/configz", "/healthz"):
            assert await client.status_for(host, path) == status


NOT_HTTP = {
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
    "no version": b"GET /metrics\r\n\r\n",
    "another version": b"GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "a header without a colon": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
    "a header with a line end in it": b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\n\x00c\r\n\r\n",
    "a long line": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"b" * 200_000 + b"\r\n\r\n",
    "two lengths": b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\nabcde",
    "a length that is none": b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    "chunks that are none": b"POST /fit HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "an encoding that is none": b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
    b"Content-Length: 5\r\n\r\nabcde",
    "an end in the middle": b"POST /fit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\nabcde",
    "a path that is none": b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a port that is none": b"GET http://a:b/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a host that is none": b"GET / HTTP/1.1\r\nHost: [\r\n\r\n",
    "a broken escape": b"GET /%zz%ff?%zz=%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a verb that is none": b"G\xffT / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("sent", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_what_strangers_send_that_is_not_http_is_a_line_of_the_log_at_most(world, sent, caplog):
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        caplog.clear()
        for _ in range(50):
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(sent)
            with contextlib.suppress(OSError):
                writer.write_eof()
                await reader.read()
            writer.close()
        assert (await client.text("/healthz"))[0] == 200
    lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(lines) <= 2 and not any(record.exc_info for record in lines), lines
    assert all(len(record.getMessage()) < 500 and "\n" not in record.getMessage() for record in lines)


FOREIGN = {
    "another site": {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    "another site, an older browser": {"Origin": "https://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"},
    "a frame without an origin": {"Origin": "null"},
    "an image": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "another scheme": {"Origin": "https://{host}"},
}
OWN = {
    "a program": {},
    "the address line": {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    "a page from here": {"Origin": "http://{host}", "Sec-Fetch-Site": "same-origin"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
async def test_another_web_page_has_nothing_done(world, headers, monkeypatch):
    read = []
    monkeypatch.setattr(serving, "read_question", lambda *_: read.append(1))
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        for method, path in (
            ("POST", "/fit"),
            ("GET", "/debug/pprof/profile?seconds=60"),
            ("GET", "/debug/decisions"),
            ("GET", "/metrics"),
            ("PUT", "/debug/flags/v"),
        ):
            status, text = await client.ask(method, path, headers)
            assert (status, text) == (403, "requests of other web pages are not answered here\n"), path
    assert not read


@pytest.mark.parametrize("headers", OWN.values(), ids=OWN)
async def test_programs_people_and_pages_from_here_are_answered(world, headers):
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        assert (await client.ask("GET", "/metrics", headers))[0] == 200
        assert (await client.ask("POST", "/fit", headers, fit_manifest("100m")))[0] == 200


def fit_manifest(cpu):
    spec = f"{{containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}"
    return f"kind: Pod\nmetadata: {{name: asked}}\nspec: {spec}"


async def test_whether_a_manifest_fits_is_answered_and_nothing_comes_of_it(world):
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        status, text = await client.post("/fit", fit_manifest("100m"))
        told = msgspec.json.decode(text, type=Fit)
        assert (status, told.fits, told.decision.feasible_count) == (200, True, 2)
        _, text = await client.post("/fit?allNodes=true", fit_manifest("3"))
        told = msgspec.json.decode(text, type=Fit)
        assert not told.fits and told.decision.message == "0/2 nodes are available: 2 Insufficient cpu."
        _, queue = await client.json("/debug/queue")
        assert [each["pod"] for each in queue["pods"]] == ["default/big"]
        assert (await client.text("/fit"))[0] == 405


async def test_a_manifest_that_cannot_be_asked_about_is_refused_with_its_field(world):
    async with at_work(world) as client:
        await until(lambda: is_settled(world))
        status, text = await client.post("/fit", fit_manifest("lots"))
        assert (status, msgspec.json.decode(text)["field"]) == (400, "spec.containers[0].resources.requests[cpu]")
        assert (await client.post("/fit", b"x" * (MAX_BODY_BYTES + 1)))[0] == 413


async def test_nothing_fits_before_the_cluster_has_been_seen():
    config = configuration()
    async with served(LiveScheduler(config, World().transport), Metrics(), config) as client:
        status, text = await client.post("/fit", fit_manifest("1"))
        assert (status, text) == (503, "it has not seen the cluster yet; try again\n")


async def test_asking_whether_a_manifest_fits_waits_no_longer_than_a_while(world, monkeypatch):
    monkeypatch.setattr(serving, "CORE_TIMEOUT_S", 0.01)
    config, metrics = configuration(), Metrics()
    async with scheduling(world, config, instrument=metrics) as scheduler, served(scheduler, metrics, config) as client:
        await until(lambda: is_settled(world))
        async with scheduler.between_cycles(5):
            assert (await client.post("/fit", fit_manifest("1")))[0] == 503
        assert (await client.post("/fit", fit_manifest("1")))[0] == 200
