"""The hooks for observers: metrics, traces, logs. The main path calls one instrument and knows none of them by name.

Every method does nothing by default; an observer overrides what it needs. Durations are in seconds of the stopwatch
that the core was given; times are the core's own.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from berth.api.pod import Pod
from berth.cycle.decision import Decision, Trace
from berth.engine.profile import Profile
from berth.engine.promise_check import BrokenPromise
from berth.framework.extenders import ExtenderCallRecord
from berth.framework.health import PluginHealth
from berth.framework.observations import Observation
from berth.framework.waiting_pods import WaitingPod
from berth.state.cache import Expired
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable


class Observed(NamedTuple):
    """What an observer may read of the core, only from within its own methods; it must not change anything."""

    generation: str
    """Whose rules apply: `v1.36` or `v1.20`."""
    table: NodeTable
    profiles: Mapping[str, Profile]
    trace: Trace
    """The last decision about each recent pod."""


class Times:
    """A counter that the counting code holds and increments itself, since it changes too often to be reported each
    time.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Instrument:
    """An observer of the scheduler."""

    followed: Container[str] | None = None
    """The uids of the pods for which `point_run` and `answered` are called; None if they are never called."""

    leaves_out_plain = False
    """Whether it needs to hear no more than the decision about pods that are bound at once (`Core.let_bind`)."""

    def attached(self, observed: Observed) -> None:
        """The core that this instrument observes is complete; `observed` is what it may read."""

    def attempting(self, queued: QueuedPod) -> None:
        """A scheduling cycle begins."""

    def decided(self, decision: Decision, seconds: float) -> None:
        """An attempt has ended with a node, a rejection or an error."""

    def group_decided(self, profile: str, result: str, seconds: float, algorithm_seconds: float) -> None:
        """A pod group's cycle has ended with this result; `algorithm_seconds` is the part of `seconds` spent trying its
        pods.
        """

    def extension_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """An extension point has been run."""

    def plugin_run(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin has been run; over all nodes, if it is Filter or Score."""

    def evaluations(self, profile: str, point: str, plugins: tuple[str, ...]) -> "Times":
        """Return counters of how often these plugins answer: about a node (Filter, Score), or about a pod."""
        return Times()

    def hinted(self, pod: PodInfo, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A plugin was asked whether an event helps a pod: `Queue`, `QueueSkip`, or `Error` if its hint raised."""

    def hinted_alike(self, pods: Sequence[PodInfo], plugin: str, event: str, hint: str) -> None:
        """The answer that `hinted` reported holds for these pods as well, without asking.

        They are like that pod in everything that the plugin looks at.
        """

    def hint_broke(self, pod: PodInfo, plugin: str, event: str, error: Exception) -> None:
        """A queueing hint's bug; it counts as Queue."""

    def point_run(self, pod: PodInfo, point: str, status: str, seconds: float) -> None:
        """An extension point has been run for a pod that is traced."""

    def answered(self, pod: PodInfo, effect: Any, error: str, seconds: float) -> None:
        """Whatever a point of a traced pod was waiting for, such as an answer, has arrived."""

    def queue_incoming(self, queue: str, event: str, queued: QueuedPod) -> None:
        """A pod has entered a queue because of an event."""

    def queue_left(self, queued: QueuedPod) -> None:
        """A pod has left the queues untried: it is gone or being deleted, bound by somebody else, or no longer ours."""

    def waits_on_permit(self, waiting: WaitingPod) -> None:
        """Permit holds a pod, whose binding cycle waits: its node, which plugins hold it, and for how long."""

    def waited_on_permit(self, result: str, seconds: float) -> None:
        """A pod's wait for Permit is over."""

    def binding(self, pod: PodInfo) -> None:
        """A pod has passed Permit: PreBind and Bind begin."""

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """A pod was bound."""

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """A node was chosen for a pod, but binding failed: by an error, or because a plugin rejected it after all.

        If it `is_gone`, it has been or is being deleted, and will not be tried again.
        """

    def making_room(self, preemptor: PodInfo, victims_on: Mapping[str, Sequence[PodInfo]]) -> None:
        """Pods, given by node, are about to be evicted for another pod, or for a group; then `preemptor` is its first
        member.
        """

    def victim_answered(self, victim: PodInfo, preemptor: PodInfo, node_name: str, refusal: str) -> None:
        """A victim is going, or `refusal` says why it may not be evicted."""

    def room_made(self, has_failed: bool, seconds: float) -> None:
        """The API server has answered for the last victim of a preemption that ran alongside the cycles."""

    def api_called(self, call_type: str, *, has_failed: bool, seconds: float) -> None:
        """A request to the API server has ended: a `pod_binding`, `pod_status_patch` or `other`."""

    def claim_created(self, *, has_failed: bool) -> None:
        """Creating a ResourceClaim for a pod's extended resources has succeeded or failed."""

    def extender_failed(self, pod: PodInfo, asked: ExtenderCallRecord) -> None:
        """A call to an extender about a pod has failed."""

    def shadowed(self, shadow: str, of: str, kind: str, plugins: Sequence[str]) -> None:
        """A shadow profile has decided alongside another: see `berth.cycle.shadow` for `kind`; `plugins` caused the
        difference.
        """

    def shadow_skipped(self, shadow: str, reason: str) -> None:
        """A shadow profile has skipped a pod of its share: `busy`, `error` or `extenders`."""

    def observed(self, result: str, points: int) -> None:
        """A pod that another scheduler bound was judged (`berth.agreement`); `points` were lost to sampling."""

    def plugin_health(self, health: PluginHealth) -> None:
        """An optional plugin was taken out, is tried again, or is back."""

    def swept(self, expired: Expired) -> None:
        """The cache has looked for assumed pods that have expired; usually there are none."""

    def conflicted(self, pod: PodInfo, how: str) -> None:
        """Another scheduler was faster: see `berth.cycle.conflicts` for `how`."""

    def looked_for(self, pod: PodInfo, found: str, detail: str) -> None:
        """A bound pod that no watch had confirmed was read: `bound`, `elsewhere`, `unbound`, `gone` or `unreadable`."""

    def pod_heard_of(self, change: str, pod: Pod) -> None:
        """A pod was `ADDED`, `MODIFIED` or `DELETED`, whichever scheduler it belongs to."""

    def event_handled(self, event: str, seconds: float) -> None:
        """An event from the cluster has been taken in, under one of the names it has in upstream's metrics."""

    def broke(self, pod: PodInfo, error: Exception) -> None:
        """A bug has ended an attempt; the pod is tried again after a backoff."""

    def plugin_observed(self, observation: Observation) -> None:
        """A plugin reports something that only it sees."""

    def plugin_broke(self, plugin: str, method: str, bug: Exception) -> None:
        """A method of an out-of-tree plugin has raised, for the first time at this place in its code."""

    def promise_broken(self, broken: BrokenPromise) -> None:
        """A plugin's answers depend on more than it declares; each fault is reported once."""
