"""One trace for each pod, from the queue to its binding: an observer of the core that makes OpenTelemetry's spans.

    Pod                              from when it first enters a queue until it is bound or gone
    ├─ Queue                         each stay: active, backoff, unschedulable, gated, and the event that began it
    ├─ SchedulingCycle               each attempt, with its result
    │  └─ PreFilter, Filter, …       each extension point
    └─ BindingCycle
       ├─ WaitOnPermit
       ├─ PreBind ─ patch PersistentVolumeClaim, …     what it asked the API server for, or waited for
       └─ Bind ─ bind Pod

A pod's trace id is derived from its uid, so a user who knows a pod finds its trace, and two schedulers that take turns
write one trace. Whether a pod is traced depends on that id alone. An untraced pod costs a dictionary look-up at each
call. The number of open traces and of spans in each is bounded; the oldest is ended to make room.
"""

import hashlib
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from berth.api.redaction import redact
from berth.cycle.decision import Decision
from berth.cycle.instrument import Instrument
from berth.framework.effects import ApiCall, Bind, CallExtenders, WaitUntil
from berth.framework.waiting_pods import WaitingPod
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

MOST_TRACES = 4096
"""So many pods are followed at a time; one that has to make room begins a new root when it is heard of again."""
MOST_SPANS = 512
"""So many spans a trace has at most; what a pod does afterwards shows in the root's `scheduler.attempts` only."""
MOST_MESSAGE = 1024
"""So many characters of a message are kept."""
NS = 1_000_000_000

Attributes = Mapping[str, str | int]


def trace_id_of(uid: str) -> int:
    """Return the trace id of a pod: 128 bits, spread evenly, and never 0."""
    return int.from_bytes(hashlib.sha256(uid.encode()).digest()[:16], "big") | 1


class PodIds(IdGenerator):
    """Span ids at random, and the trace id that was set last."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self.trace_id = 0

    def generate_span_id(self) -> int:
        """64 bits, not 0."""
        return self._rng.getrandbits(64) | 1

    def generate_trace_id(self) -> int:
        """Of the pod whose trace begins."""
        return self.trace_id


@dataclass(slots=True, eq=False, repr=False)
class PodTrace:
    """The spans of one pod that have not ended."""

    root: Span
    place: Context
    """The context of the root, in which its children begin."""
    queue: Span | None = None
    cycle: Span | None = None
    cycle_ns: int = 0
    """When the last thing of the scheduling cycle was over."""
    binding: Span | None = None
    waiting_ns: int | None = None
    """When the wait for Permit began, if the pod waits."""
    requests: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Name, begin, end and error of what the point that is running has waited for."""
    spans: int = 0
    attempts: int = 0


class PodTraces(Instrument):
    """Follows pods, and makes spans of what happens to those that are sampled."""

    def __init__(
        self,
        provider: TracerProvider,
        ids: PodIds,
        *,
        sampling_rate_per_million: int,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`ids` is what the provider makes its ids with."""
        self._tracer = provider.get_tracer("berth.scheduler")
        self._ids = ids
        self._bound = sampling_rate_per_million * 2**64 // 1_000_000
        self._clock_ns = clock_ns
        self._open: OrderedDict[str, PodTrace] = OrderedDict()
        self.followed = self._open

    # -- the queue -----------------------------------------------------------------------------------------

    def queue_incoming(self, queue: str, event: str, queued: QueuedPod) -> None:
        """A stay in a queue begins; whatever the pod did before is over."""
        now = self._clock_ns()
        trace = self._open.get(queued.pod.uid) or self._begin(queued.pod, now)
        if trace is None:
            return
        self._end_cycles(trace, now)
        name = "gated" if queued.is_gated else queue
        trace.queue = self._child(trace, "Queue", trace.place, now, {"scheduler.queue": name, "scheduler.event": event})

    def queue_left(self, queued: QueuedPod) -> None:
        """The pod is no longer ours."""
        if queued.pod.uid in self._open:
            self._end(queued.pod.uid, "gone", self._clock_ns())

    # -- the scheduling cycle ------------------------------------------------------------------------------

    def attempting(self, queued: QueuedPod) -> None:
        """An attempt begins."""
        trace = self._open.get(queued.pod.uid)
        if trace is None:
            return
        now = self._clock_ns()
        self._end_cycles(trace, now)
        trace.attempts = queued.attempts
        about: Attributes = {
            "scheduler.attempt": queued.attempts,
            "scheduler.profile": queued.pod.profile_name,
        }
        trace.cycle, trace.cycle_ns = self._child(trace, "SchedulingCycle", trace.place, now, about), now

    def decided(self, decision: Decision, seconds: float) -> None:
        """The search of an attempt is over; Reserve and Permit may follow."""
        trace = self._open.get(decision.pod.uid)
        if trace is None or trace.cycle is None:
            return
        trace.cycle_ns = self._clock_ns()
        trace.cycle.set_attribute("scheduler.result", decision.outcome)
        if decision.chosen is not None:
            trace.cycle.set_attribute("k8s.node.name", decision.chosen)
        else:
            trace.cycle.set_attribute("scheduler.message", shortened(decision.message))
        if decision.outcome == "error":
            trace.cycle.set_status(Status(StatusCode.ERROR, shortened(decision.message)))

    def point_run(self, pod: PodInfo, point: str, status: str, seconds: float) -> None:
        """A point is over, and with it what it waited for."""
        trace = self._open.get(pod.uid)
        if trace is None or point == "PreEnqueue":
            return
        now = self._clock_ns()
        if point == "PreBindPreFlight":
            self._begin_binding(trace, now - int(seconds * NS))
        parent = trace.binding or trace.cycle
        if trace.binding is None:
            trace.cycle_ns = now
        about = {"scheduler.status": status}
        span = self._child(trace, point, _within(trace, parent), now - int(seconds * NS), about)
        self._end_requests(trace, span or parent)
        if span is not None:
            span.end(now)
        if point == "PostBind":
            self._end(pod.uid, "scheduled", now)

    def answered(self, pod: PodInfo, effect: Any, error: str, seconds: float) -> None:
        """The answer to something that the current point asked for has come."""
        trace = self._open.get(pod.uid)
        if trace is not None and len(trace.requests) < MOST_SPANS:
            now = self._clock_ns()
            trace.requests.append((name_of(effect), now - int(seconds * NS), now, error))

    # -- the binding cycle ---------------------------------------------------------------------------------

    def waits_on_permit(self, waiting: WaitingPod) -> None:
        """Permit holds the pod."""
        trace = self._open.get(waiting.pod.uid)
        if trace is not None:
            trace.waiting_ns = self._clock_ns()
            self._begin_binding(trace, trace.waiting_ns)

    def waited_on_permit(self, result: str, seconds: float) -> None:
        """Told without its pod; `binding` or `binding_failed` follows, which is when the wait's span is made."""

    def binding(self, pod: PodInfo) -> None:
        """PreBind begins."""
        trace = self._open.get(pod.uid)
        if trace is not None:
            now = self._clock_ns()
            self._begin_binding(trace, now)
            self._end_wait(trace, now, "Success")

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """The pod is on its node; PostBind is all that is left."""
        trace = self._open.get(queued.pod.uid)
        if trace is not None:
            trace.attempts = queued.attempts
            trace.root.set_attribute("k8s.node.name", node_name)
            if trace.binding is not None:
                trace.binding.set_attribute("scheduler.result", "bound")
                trace.binding.set_attribute("k8s.node.name", node_name)

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """The pod does not go to the node chosen for it; the queue is next."""
        trace = self._open.get(pod.uid)
        if trace is None:
            return
        now = self._clock_ns()
        self._end_wait(trace, now, "Unschedulable" if is_rejection else "Error")
        span = trace.binding or trace.cycle
        if span is not None:
            span.set_attribute("scheduler.result", "rejected" if is_rejection else "error")
            span.set_attribute("scheduler.message", shortened(reason))
            if not is_rejection:
                span.set_status(Status(StatusCode.ERROR, shortened(reason)))
        trace.cycle_ns = now

    # -- ends ----------------------------------------------------------------------------------------------

    def end_all(self) -> None:
        """End everything that is open: the scheduler is ending."""
        now = self._clock_ns()
        for uid in list(self._open):
            self._end(uid, "unfinished", now)

    def _begin(self, pod: PodInfo, now: int) -> PodTrace | None:
        """Begin a pod's trace, if the pod is sampled."""
        trace_id = trace_id_of(pod.uid)
        if (trace_id & (2**64 - 1)) >= self._bound:
            return None
        if len(self._open) >= MOST_TRACES:
            self._end(next(iter(self._open)), "dropped", now)
        self._ids.trace_id = trace_id
        about = {"k8s.pod.name": pod.name, "k8s.namespace.name": pod.namespace, "k8s.pod.uid": pod.uid}
        root = self._tracer.start_span("Pod", context=Context(), start_time=now, attributes=about)
        trace = self._open[pod.uid] = PodTrace(root, set_span_in_context(root, Context()))
        return trace

    def _child(
        self, trace: PodTrace, name: str, place: Context, start_ns: int, about: Attributes | None = None
    ) -> Span | None:
        """Begin a span, unless the trace has enough of them."""
        trace.spans += 1
        if trace.spans > MOST_SPANS:
            return None
        return self._tracer.start_span(name, context=place, start_time=start_ns, attributes=about)

    def _begin_binding(self, trace: PodTrace, now: int) -> None:
        """End the scheduling cycle, and begin the binding cycle if it has not begun."""
        if trace.binding is None:
            self._end_cycles(trace, now)
            trace.binding = self._child(trace, "BindingCycle", trace.place, now)

    def _end_wait(self, trace: PodTrace, now: int, status: str) -> None:
        if trace.waiting_ns is None:
            return
        about = {"scheduler.status": status}
        span = self._child(trace, "WaitOnPermit", _within(trace, trace.binding), trace.waiting_ns, about)
        if span is not None:
            span.end(now)
        trace.waiting_ns = None

    def _end_requests(self, trace: PodTrace, parent: Span | None) -> None:
        for name, begun, ended, error in trace.requests:
            span = self._child(trace, name, _within(trace, parent), begun)
            if span is None:
                break
            if error:
                span.set_status(Status(StatusCode.ERROR, shortened(error)))
            span.end(ended)
        trace.requests.clear()

    def _end_cycles(self, trace: PodTrace, now: int) -> None:
        """End the stay in a queue, the scheduling cycle and the binding cycle, whichever is open."""
        self._end_requests(trace, trace.binding or trace.cycle)
        if trace.queue is not None:
            trace.queue.end(now)
        if trace.cycle is not None:
            trace.cycle.end(trace.cycle_ns)
        if trace.binding is not None:
            trace.binding.end(now)
        trace.queue = trace.cycle = trace.binding = None

    def _end(self, uid: str, result: str, now: int) -> None:
        trace = self._open.pop(uid)
        self._end_cycles(trace, now)
        trace.root.set_attribute("scheduler.result", result)
        trace.root.set_attribute("scheduler.attempts", trace.attempts)
        if trace.spans > MOST_SPANS:
            trace.root.set_attribute("scheduler.spans_dropped", trace.spans - MOST_SPANS)
        trace.root.end(now)


def _within(trace: PodTrace, parent: Span | None) -> Context:
    return trace.place if parent is None else set_span_in_context(parent, Context())


def shortened(message: str) -> str:
    """Return a message as a span has it: not too long, and without what looks like a secret."""
    return redact(message[:MOST_MESSAGE])


def name_of(effect: Any) -> str:
    """Return the name of a span in which a point waits for an effect's answer: verb and kind."""
    if isinstance(effect, Bind):
        return "bind Pod"
    if isinstance(effect, ApiCall):
        return f"{effect.verb} {effect.kind}"
    if isinstance(effect, CallExtenders):
        return "call extenders"
    return "wait" if isinstance(effect, WaitUntil) else type(effect).__name__
