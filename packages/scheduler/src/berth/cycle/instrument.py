"""Where observers hang: metrics, traces, logs. The main path calls one instrument and knows none by name.

Every method does nothing by default; an observer overrides what it wants. Durations are seconds of the stopwatch that
the core was given, times are the core's own.
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
    """What an observer may read of the core, from within its own methods only; it must not change any of it."""

    generation: str
    """Whose rules apply: `v1.36` or `v1.20`."""
    table: NodeTable
    profiles: Mapping[str, Profile]
    trace: Trace
    """The last decision about each of the latest pods."""


class Times:
    """A number that the counting code keeps at hand and adds to, since it changes too often to be told of each time."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Instrument:
    """An observer of the scheduler."""

    followed: Container[str] | None = None
    """The uids of the pods of which `point_run` and `answered` are to tell; None where they are never told."""

    leaves_out_plain = False
    """Whether of pods that are bound at once it need not hear more than what was decided (`Core.let_bind`)."""

    def attached(self, observed: Observed) -> None:
        """The core that this instrument observes is complete; `observed` is what may be read of it."""

    def attempting(self, queued: QueuedPod) -> None:
        """A scheduling cycle begins."""

    def decided(self, decision: Decision, seconds: float) -> None:
        """An attempt has ended with a node, a rejection or an error."""

    def group_decided(self, profile: str, result: str, seconds: float, algorithm_seconds: float) -> None:
        """A pod group's cycle has ended with this result; of `seconds`, trying its pods took `algorithm_seconds`."""

    def extension_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """A point has been run."""

    def plugin_run(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin has been run; over all nodes where it is Filter or Score."""

    def evaluations(self, profile: str, point: str, plugins: tuple[str, ...]) -> "Times":
        """Return where to count how often these plugins have their say: on a node (Filter, Score), or on a pod."""
        return Times()

    def hinted(self, pod: PodInfo, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A plugin was asked whether an event helps a pod: `Queue`, `QueueSkip`, or `Error` where its hint broke."""

    def hinted_alike(self, pods: Sequence[PodInfo], plugin: str, event: str, hint: str) -> None:
        """The answer that `hinted` told of holds for these pods as well; they were not asked about.

        They are like that pod in all that the plugin looks at.
        """

    def hint_broke(self, pod: PodInfo, plugin: str, event: str, error: Exception) -> None:
        """A queueing hint's bug; it counts as Queue."""

    def point_run(self, pod: PodInfo, point: str, status: str, seconds: float) -> None:
        """A point has been run for a pod that is followed."""

    def answered(self, pod: PodInfo, effect: Any, error: str, seconds: float) -> None:
        """What a point of a pod that is followed has waited for has come, such as an answer."""

    def queue_incoming(self, queue: str, event: str, queued: QueuedPod) -> None:
        """A pod has entered a queue because of an event."""

    def queue_left(self, queued: QueuedPod) -> None:
        """A pod has left the queues untried: it is gone or going, bound by somebody else, or no longer ours."""

    def waits_on_permit(self, waiting: WaitingPod) -> None:
        """Permit holds a pod, whose binding cycle waits: where it is to go, who holds it, and for how long."""

    def waited_on_permit(self, result: str, seconds: float) -> None:
        """A pod's wait for Permit is over."""

    def binding(self, pod: PodInfo) -> None:
        """A pod has passed Permit: PreBind and Bind begin."""

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """A pod was bound."""

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """A node was chosen for a pod, but binding failed: an error, or a plugin that rejected it after all.

        One that `is_gone` has been deleted, or is being deleted, and nobody tries it again.
        """

    def making_room(self, preemptor: PodInfo, victims_on: Mapping[str, Sequence[PodInfo]]) -> None:
        """Pods, here by node, are about to be evicted for another, or for a group: then `preemptor` is its first."""

    def victim_answered(self, victim: PodInfo, preemptor: PodInfo, node_name: str, refusal: str) -> None:
        """A victim goes, or `refusal` says why it may not be evicted."""

    def room_made(self, has_failed: bool, seconds: float) -> None:
        """The API server has answered for the last victim of a preemption that ran beside the cycles."""

    def api_called(self, call_type: str, *, has_failed: bool, seconds: float) -> None:
        """A request to the API server is over: a `pod_binding`, `pod_status_patch` or `other`."""

    def claim_created(self, *, has_failed: bool) -> None:
        """Creating a ResourceClaim for a pod's extended resources has succeeded or failed."""

    def extender_failed(self, pod: PodInfo, asked: ExtenderCallRecord) -> None:
        """A call to an extender about a pod has failed."""

    def shadowed(self, shadow: str, of: str, kind: str, plugins: Sequence[str]) -> None:
        """A shadow profile has decided beside another: see `berth.cycle.shadow` for `kind`; `plugins` are why."""

    def shadow_skipped(self, shadow: str, reason: str) -> None:
        """A shadow profile has not looked at a pod of its share: `busy`, `error` or `extenders`."""

    def observed(self, result: str, points: int) -> None:
        """What another scheduler has bound was judged (`berth.agreement`); `points` were lost to sampling."""

    def plugin_health(self, health: PluginHealth) -> None:
        """An optional plugin was taken out, is tried again, or is back."""

    def swept(self, expired: Expired) -> None:
        """The cache has looked for assumed pods that have expired; most often there are none."""

    def conflicted(self, pod: PodInfo, how: str) -> None:
        """Another scheduler was faster: see `berth.cycle.conflicts` for `how`."""

    def looked_for(self, pod: PodInfo, found: str, detail: str) -> None:
        """A bound pod that no watch confirmed was read: `bound`, `elsewhere`, `unbound`, `gone` or `unreadable`."""

    def pod_heard_of(self, change: str, pod: Pod) -> None:
        """A pod was `ADDED`, `MODIFIED` or `DELETED`, whichever scheduler is its."""

    def event_handled(self, event: str, seconds: float) -> None:
        """An event from the cluster has been taken in, under one of the names that upstream's metrics have for it."""

    def broke(self, pod: PodInfo, error: Exception) -> None:
        """A bug has ended an attempt; the pod is tried again after a backoff."""

    def plugin_observed(self, observation: Observation) -> None:
        """A plugin tells of something that only it sees."""

    def plugin_broke(self, plugin: str, method: str, bug: Exception) -> None:
        """A method of an out-of-tree plugin has raised, for the first time at this place in its code."""

    def promise_broken(self, broken: BrokenPromise) -> None:
        """A plugin answers by more than it promises; each fault is told once."""
