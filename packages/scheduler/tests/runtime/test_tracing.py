"""Traces of pods: spans as an exporter in memory gets them, of a core in virtual time."""

import gzip
import http.server
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import StatusCode

from berth.config.errors import ConfigError
from berth.config.tracing import TracingConfiguration
from berth.core.builders import make_node, make_pod
from berth.core.virtual_cluster import VirtualCluster
from berth.cycle.instrument import Instrument
from berth.framework.status import Code, Status
from berth.runtime.observing.metrics import Metrics
from berth.runtime.observing.several import Instruments
from berth.runtime.observing.tracing import pod_traces
from berth.runtime.observing.tracing.exporter import start_tracing
from berth.runtime.observing.tracing.pod_traces import trace_id_of

S = 1_000_000_000
ALL = TracingConfiguration(sampling_rate_per_million=1_000_000)


class Traced:
    """A cluster whose pods are traced, and the spans that were sent."""

    def __init__(self, *objects, config=ALL, beside=None, **options):
        self.exporter = InMemorySpanExporter()
        self.tracing = start_tracing(
            config, identity="replica-1", processor=SimpleSpanProcessor(self.exporter), environ={}
        )
        self.tracing.instrument._clock_ns = lambda: int(self.cluster.now * S) if self.cluster else 0
        self.cluster = None
        instrument = self.tracing.instrument if beside is None else Instruments(beside, self.tracing.instrument)
        self.cluster = VirtualCluster(
            *objects, instrument=instrument, stopwatch=lambda: self.cluster.now if self.cluster else 0.0, **options
        )

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def one(self, name):
        (span,) = self.named(name)
        return span

    def tree(self, uid):
        """The names of a pod's spans, each under its parent's."""
        own = [span for span in self.spans if span.context.trace_id == trace_id_of(uid)]
        by_id = {span.context.span_id: span for span in own}

        def below(parent):
            children = [span for span in own if (span.parent.span_id if span.parent else None) == parent]
            children.sort(key=lambda span: (span.start_time, list(by_id).index(span.context.span_id)))
            return [(span.name, below(span.context.span_id)) for span in children]

        return below(None)


def nodes(count=1, cpu="1"):
    return [make_node(f"n{index}").capacity(cpu=cpu, memory="8Gi", pods=110) for index in range(count)]


def pod(name="web", cpu="100m"):
    return make_pod(name).request(cpu=cpu)


def lasts(span):
    return (span.start_time / S, span.end_time / S)


def points(*names):
    return [(name, []) for name in names]


def test_a_pod_that_is_bound_at_once():
    traced = Traced(*nodes(2), pod())
    traced.cluster.run()
    uid = traced.cluster.pod("web").metadata.uid
    cycle = points("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit")
    binding = [("PreBindPreFlight", []), ("PreBind", []), ("Bind", [("bind Pod", [])]), ("PostBind", [])]
    (root,) = traced.tree(uid)
    assert root[0] == "Pod"
    assert sorted(root[1]) == sorted([("Queue", []), ("SchedulingCycle", cycle), ("BindingCycle", binding)])


def test_spans_say_whose_they_are_and_what_came_of_them():
    traced = Traced(*nodes(), pod())
    traced.cluster.run()
    root, cycle, binding = (traced.one(name) for name in ("Pod", "SchedulingCycle", "BindingCycle"))
    uid = traced.cluster.pod("web").metadata.uid
    assert root.attributes == {
        "k8s.pod.name": "web",
        "k8s.namespace.name": "default",
        "k8s.pod.uid": uid,
        "k8s.node.name": "n0",
        "scheduler.result": "scheduled",
        "scheduler.attempts": 1,
    }
    assert cycle.attributes == {
        "scheduler.attempt": 1,
        "scheduler.profile": "default-scheduler",
        "scheduler.result": "scheduled",
        "k8s.node.name": "n0",
    }
    assert binding.attributes == {"scheduler.result": "bound", "k8s.node.name": "n0"}
    assert traced.one("Queue").attributes == {"scheduler.queue": "active", "scheduler.event": "UnschedulablePodAdd"}
    assert traced.one("Filter").attributes == {"scheduler.status": "Success"}
    resource = root.resource.attributes
    assert (resource["service.name"], resource["service.instance.id"]) == ("berth-scheduler", "replica-1")


def test_each_stay_in_a_queue_and_each_attempt_has_a_span():
    traced = Traced(*nodes(cpu="1"), pod("big", cpu="2"))
    cluster = traced.cluster.run()
    cluster.advance(30)
    cluster.put(make_node("roomy").capacity(cpu="4", memory="8Gi", pods=110))
    cluster.run()
    stays = [(span.attributes["scheduler.queue"], span.attributes["scheduler.event"]) for span in traced.named("Queue")]
    assert stays == [
        ("active", "UnschedulablePodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("active", "NodeAdd"),
    ]
    assert [lasts(span) for span in traced.named("Queue")] == [(0, 0), (0, 30), (30, 30)]
    first, second = traced.named("SchedulingCycle")
    assert (first.attributes["scheduler.result"], second.attributes["scheduler.result"]) == (
        "unschedulable",
        "scheduled",
    )
    assert first.attributes["scheduler.message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert second.attributes["scheduler.attempt"] == 2
    assert lasts(traced.one("Pod")) == (0, 30)
    assert len({span.context.trace_id for span in traced.spans}) == 1


def test_a_gated_pod_stays_gated():
    gated = make_pod("late").request(cpu="100m").gate("example.com/wait")
    traced = Traced(*nodes(), gated)
    traced.cluster.run()
    traced.tracing.stop()
    assert traced.one("Queue").attributes["scheduler.queue"] == "gated"
    assert traced.one("Pod").attributes["scheduler.result"] == "unfinished"


class Patient:
    """Permit that holds every pod for a minute."""

    name = "Patient"

    def __init__(self, args, handle):
        self.handle = handle

    def permit(self, state, pod, node_name):
        return Status(Code.WAIT), 60.0


def test_the_wait_for_permit():
    traced = Traced(*nodes(), pod(), plugins=[Patient])
    cluster = traced.cluster.run()
    cluster.advance(10)
    (waiting,) = list(cluster.core.waiting)
    waiting.allow("Patient")
    cluster.run()
    wait_span = traced.one("WaitOnPermit")
    assert lasts(wait_span) == (0, 10)
    assert wait_span.attributes == {"scheduler.status": "Success"}
    assert lasts(traced.one("SchedulingCycle")) == (0, 0)
    assert lasts(traced.one("BindingCycle")) == (0, 10)


def test_a_wait_that_is_over_without_permission():
    traced = Traced(*nodes(), pod(), plugins=[Patient])
    traced.cluster.run()
    traced.cluster.advance(61)
    traced.tracing.stop()
    first = traced.named("WaitOnPermit")[0]
    assert lasts(first) == (0, 60)
    assert first.attributes["scheduler.status"] == "Unschedulable"
    assert traced.named("BindingCycle")[0].attributes["scheduler.result"] == "rejected"


def test_requests_take_the_time_that_they_take():
    traced = Traced(*nodes(), pod())
    cluster = traced.cluster
    cluster.answers_binds = False
    cluster.run()
    cluster.advance(3)
    (request,) = cluster.requests
    cluster.answer(request)
    assert lasts(traced.one("bind Pod")) == (0, 3)
    assert lasts(traced.one("Bind")) == (0, 3)


def test_a_refused_binding_is_an_error_and_the_pod_goes_on():
    traced = Traced(*nodes(), pod())
    traced.cluster.refuse("the server is down")
    traced.cluster.run()
    traced.cluster.advance(10)
    failed, bound = traced.named("BindingCycle")
    assert failed.status.status_code is StatusCode.ERROR and "the server is down" in failed.status.description
    assert failed.attributes["scheduler.result"] == "error"
    assert bound.attributes["scheduler.result"] == "bound"
    request = traced.named("bind Pod")[0]
    assert request.status.status_code is StatusCode.ERROR
    assert traced.one("Pod").attributes["scheduler.attempts"] == 2
    assert [span.attributes["scheduler.queue"] for span in traced.named("Queue")] == ["active", "backoff", "active"]


class Broken:
    """A plugin with a bug."""

    name = "Broken"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        raise RuntimeError("oops")


def test_an_attempt_that_breaks_is_an_error():
    traced = Traced(*nodes(), pod(), plugins=[Broken])
    traced.cluster.run()
    traced.tracing.stop()
    cycle = traced.named("SchedulingCycle")[0]
    assert cycle.status.status_code is StatusCode.ERROR and "oops" in cycle.status.description


def test_a_pod_that_is_deleted_while_it_waits():
    traced = Traced(*nodes(cpu="1"), pod("big", cpu="2"))
    traced.cluster.run()
    traced.cluster.advance(5)
    traced.cluster.delete("Pod", "default/big")
    assert traced.one("Pod").attributes["scheduler.result"] == "gone"
    assert lasts(traced.one("Pod")) == (0, 5)
    assert traced.tracing.instrument._open == {}


# -- which pods, and how much ---------------------------------------------------------------------------------------


def test_pods_are_sampled_as_opentelemetrys_own_sampler_would():
    rate = 300_000
    traced = Traced(*nodes(cpu="64"), config=TracingConfiguration(sampling_rate_per_million=rate))
    for number in range(100):
        traced.cluster.put(pod(f"p{number}"))
    traced.cluster.run()
    bound = TraceIdRatioBased(rate / 1_000_000).bound
    uids = [traced.cluster.pod(f"p{number}").metadata.uid for number in range(100)]
    wanted = {uid for uid in uids if trace_id_of(uid) & (2**64 - 1) < bound}
    assert {span.attributes["k8s.pod.uid"] for span in traced.named("Pod")} == wanted
    assert 10 < len(wanted) < 60


@pytest.mark.parametrize("rate", [None, 0])
def test_nothing_is_traced_unless_asked_for(rate):
    traced = Traced(*nodes(), pod(), config=TracingConfiguration(sampling_rate_per_million=rate))
    traced.cluster.run()
    traced.tracing.stop()
    assert traced.spans == ()


def test_open_traces_are_bounded(monkeypatch):
    monkeypatch.setattr(pod_traces, "MOST_TRACES", 3)
    traced = Traced(*nodes(cpu="1"))
    for number in range(5):
        traced.cluster.put(pod(f"p{number}", cpu="2"))
    traced.cluster.run()
    assert len(traced.tracing.instrument._open) == 3
    assert {span.attributes["scheduler.result"] for span in traced.named("Pod")} == {"dropped"}


def test_a_traces_spans_are_bounded(monkeypatch):
    monkeypatch.setattr(pod_traces, "MOST_SPANS", 20)
    traced = Traced(*nodes(cpu="1"), pod("big", cpu="2"), unschedulable_age_s=1.0)
    traced.cluster.run()
    for _ in range(20):
        traced.cluster.advance(60)
    traced.tracing.stop()
    root = traced.one("Pod")
    assert len(traced.spans) <= 21
    assert root.attributes["scheduler.attempts"] > 10 and root.attributes["scheduler.spans_dropped"] > 0


def test_long_messages_are_cut(monkeypatch):
    monkeypatch.setattr(pod_traces, "MOST_MESSAGE", 10)
    traced = Traced(*nodes(cpu="1"), pod("big", cpu="2"))
    traced.cluster.run()
    traced.tracing.stop()
    assert traced.one("SchedulingCycle").attributes["scheduler.message"] == "0/1 nodes "


def test_secrets_in_messages_are_left_out():
    traced = Traced(*nodes(), pod())
    traced.cluster.refuse("GET https://user:hunter2@extender.example.com failed")
    traced.cluster.run()
    traced.tracing.stop()
    failed = traced.named("BindingCycle")[0]
    assert "extender.example.com" in failed.status.description
    assert all("hunter2" not in f"{span.attributes} {span.status.description}" for span in traced.spans)


def test_two_schedulers_write_one_trace():
    found = []
    for _ in range(2):
        traced = Traced(*nodes(), pod())
        traced.cluster.run()
        found.append(traced.one("Pod").context.trace_id)
    assert found[0] == found[1] != 0


# -- beside other observers -----------------------------------------------------------------------------------------


def test_metrics_are_counted_beside_it_as_they_are_alone():
    def told(metrics):
        lines = metrics.exposition().decode().splitlines()
        return [line for line in lines if not line.startswith("scheduler_goroutines")]

    alone, beside = Metrics(lambda: 0.0), Metrics(lambda: 0.0)
    objects = [*nodes(2), pod(), pod("big", cpu="2")]
    VirtualCluster(*objects, instrument=alone, stopwatch=lambda: 0.0).run()
    traced = Traced(*objects, beside=beside)
    traced.cluster.run()
    assert told(alone) == told(beside)
    assert len(traced.named("SchedulingCycle")) == 2


def test_an_event_that_one_instrument_wants_goes_straight_to_it():
    class Counts(Instrument):
        def __init__(self):
            self.count = 0

        def attempting(self, queued):
            self.count += 1

    one, other = Counts(), Instrument()
    both = Instruments(one, other)
    assert both.attempting == one.attempting
    assert both.followed is None
    twice = Instruments(one, Counts())
    twice.attempting(None)
    assert one.count == 1


# -- where it is sent -----------------------------------------------------------------------------------------------

HEADERS = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret"}


@pytest.mark.parametrize(
    ("endpoint", "environ", "is_refused"),
    [
        ("http://collector.example.com:4318", HEADERS, True),
        ("http://collector.example.com:4318", {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b"}, True),
        (None, HEADERS | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://10.0.0.1:4318"}, True),
        ("http://collector.example.com:4318", {}, False),
        ("https://collector.example.com", HEADERS, False),
        ("localhost:4318", HEADERS, False),
        ("[::1]:4318", HEADERS, False),
        (None, HEADERS, False),
    ],
)
def test_headers_are_not_sent_in_the_clear(endpoint, environ, is_refused):
    config = TracingConfiguration(endpoint=endpoint)
    processor = SimpleSpanProcessor(InMemorySpanExporter())
    if not is_refused:
        start_tracing(config, identity="x", processor=processor, environ=environ)
        return
    with pytest.raises(ConfigError, match="in the clear") as caught:
        start_tracing(config, identity="x", processor=processor, environ=environ)
    assert "secret" not in str(caught.value)


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes traces as an OpenTelemetry collector does; `server.received` has path, headers and request of each."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
        self.server.received.append(
            (
                self.path,
                {name.lower(): value for name, value in self.headers.items()},
                ExportTraceServiceRequest.FromString(body),
            )
        )
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def collector():
    server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    server.received = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_sent_is_otlp(collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=test")
    config = TracingConfiguration(f"127.0.0.1:{collector.server_port}", 1_000_000)
    tracing = start_tracing(config, identity="replica-1")
    VirtualCluster(*nodes(), pod(), instrument=tracing.instrument, stopwatch=lambda: 0.0).run()
    tracing.stop()
    ((path, headers, request),) = collector.received
    assert (path, headers["authorization"]) == ("/v1/traces", "secret")
    (sent,) = request.resource_spans
    about = {each.key: each.value.string_value for each in sent.resource.attributes}
    assert (about["service.name"], about["k8s.cluster.name"]) == ("berth-scheduler", "test")
    spans = [span for scope in sent.scope_spans for span in scope.spans]
    assert {"Pod", "Queue", "SchedulingCycle", "Filter", "BindingCycle", "bind Pod"} <= {span.name for span in spans}
    assert len({span.trace_id for span in spans}) == 1
