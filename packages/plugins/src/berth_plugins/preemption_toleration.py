"""PreemptionToleration: preemption that spares pods whose PriorityClass says that they tolerate it for a while.

Upstream plugin `PreemptionToleration`. Two annotations of a victim's PriorityClass exempt it from preemption by pods
below a priority: for some seconds from when it was scheduled, or for ever. All else is as in DefaultPreemption, which
it is enabled in place of, but that any pod of lower priority that leaves the nominated node is waited for.

Deviations: when a pod was scheduled is read from the pods that this plugin follows by itself, as Berth keeps no times
of conditions. Where that has not come yet, the pod counts as one without the condition, and is spared. A pod that found
nobody to preempt is tried again when the first toleration ends; with upstream's, it may wait for five minutes.

As upstream, no event says that a PriorityClass says something else: PostFilter is not among those that rejected the
pod.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar, NamedTuple, final

import msgspec

from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CustomResource,
    CycleState,
    Diagnosis,
    EventsPlugin,
    ExplainingPlugin,
    Handle,
    NodeView,
    ObjectMeta,
    PodInfo,
    PostFilterAnswer,
    PostFilterPlugin,
    Promises,
    QueueingHint,
    Status,
    Steps,
    VictimRules,
    error,
    invalid,
    unresolvable,
)

NAMED = 5
"""So many of the pods that are spared are named in an explanation."""
PREFIX = "preemption-toleration.scheduling.x-k8s.io"
MINIMUM_PREEMPTABLE_PRIORITY = f"{PREFIX}/minimum-preemptable-priority"
TOLERATION_SECONDS = f"{PREFIX}/toleration-seconds"

NO_VICTIMS = "No victims found on node {node} for preemptor pod {pod}"
NO_VICTIMS_ANYWHERE = "No victims found for preemptor pod {pod}"
NO_CLASS = 'priorityclass.scheduling.k8s.io "{}" not found'


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of a pod, with its time."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class Conditions(msgspec.Struct, frozen=True):
    """The status of a pod, as far as this plugin reads it."""

    conditions: tuple[Condition, ...] = ()


class ScheduledPod(msgspec.Struct, frozen=True):
    """A pod, as far as this plugin reads it."""

    metadata: ObjectMeta
    status: Conditions = Conditions()


class ToleratingClass(msgspec.Struct, frozen=True):
    """A PriorityClass, as far as this plugin reads it."""

    metadata: ObjectMeta
    value: int = 0


PODS = CustomResource("", "v1", "pods", "Pod", struct=ScheduledPod)
CLASSES = CustomResource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", struct=ToleratingClass)


class PreemptionTolerationArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The args of DefaultPreemption: on how many nodes preemption is tried out."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: str) -> Iterable[str]:
        """Refuse numbers out of range, and two zeros."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
        if not 0 <= percentage <= 100:
            yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == 0 and absolute == 0:
            yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
            yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


class Policy(NamedTuple):
    """What a PriorityClass says of preemption."""

    minimum_preemptable_priority: int
    """Pods of this priority and above preempt at once."""
    toleration_s: int
    """How long others must wait, from when the victim was scheduled; negative: for ever."""


def policy_of(value: int, annotations: Mapping[str, str]) -> Policy | None:
    """Return the policy of a PriorityClass, given its value; None where an annotation is no number: no toleration."""
    try:
        minimum = _number(annotations.get(MINIMUM_PREEMPTABLE_PRIORITY, str(value + 1)), 32)
        return Policy(minimum, _number(annotations.get(TOLERATION_SECONDS, "0"), 64))
    except ValueError:
        return None


def _number(text: str, bits: int) -> int:
    """Return a number as Go reads it: digits with a sign, within so many bits. Raises ValueError."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(text)
    number = int(text)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(text)
    return number


@final
class PreemptionToleration(PostFilterPlugin, EventsPlugin, ExplainingPlugin, VictimRules):
    """PostFilter."""

    name: ClassVar[str] = "PreemptionToleration"
    args_type: ClassVar[type[msgspec.Struct]] = PreemptionTolerationArgs
    promises: ClassVar[Promises] = Promises(hints_by_shape=True)

    def __init__(self, args: PreemptionTolerationArgs, handle: Handle) -> None:
        self._classes = handle.follow(CLASSES)
        self._pods = handle.follow(PODS)
        self._table = handle.cache.table
        self._wall_clock, self._wake_after = handle.wall_clock, handle.wake_after
        self._preemption = handle.preemption(
            self, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute,
            basis=self.basis, refusal_basis=lambda _state, _pod: (),
        )  # fmt: skip
        self._now_s = 0.0
        """When the search under way began, since 1970: all victims are judged by the same time."""
        self._first_end_s = float("inf")
        """When the first toleration ends by which the search has spared anybody."""

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none."""
        self._now_s, self._first_end_s = self._wall_clock(), float("inf")
        answer = self._preemption.post_filter(state, pod, diagnosis)
        result, status = answer if isinstance(answer, tuple) else (yield from answer)
        if status is not None and self._first_end_s < float("inf"):
            self._wake_after(pod.uid, self._first_end_s - self._now_s)
        return result, status

    def potential_victims(self, state: CycleState, pod: PodInfo, node: NodeView) -> Sequence[PodInfo] | Status:
        """Return the pods of lower priority that are not exempt; an error where one's PriorityClass is gone."""
        found = []
        for other in node.pods.values():
            if other.priority < pod.priority:
                exempt = self._is_exempt(other, pod)
                if isinstance(exempt, Status):
                    return exempt
                if not exempt:
                    found.append(other)
        if found:
            return found
        words = NO_VICTIMS.format(node=node.name, pod=pod.name)
        return unresolvable(words, in_general=(NO_VICTIMS_ANYWHERE.format(pod=pod.name),))

    def basis(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return what potential victims depend on where no class spares anybody from this pod for some time only."""
        for each in self._classes.list():
            policy = policy_of(each.value, each.metadata.annotations)
            if policy and pod.priority < policy.minimum_preemptable_priority and policy.toleration_s >= 0:
                return None
        return pod.priority, self._classes.version

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]:
        """Return which pods of lower priority are spared, until when, and how many are not."""
        self._now_s = self._wall_clock()
        spared: list[tuple[float, str]] = []
        others = 0
        for row in self._table.rows().tolist():
            node = self._table.view(row)
            for other in node.pods.values():
                if other.priority < pod.priority:
                    if self._is_exempt(other, pod) is True:
                        until_s = self._spared_until_s(other)
                        spared.append((until_s, f"{other.key} on {node.name} is spared {_until(until_s)}"))
                    else:
                        others += 1
        if not spared:
            return ()
        more = [f"so are {len(spared) - NAMED} more"] if len(spared) > NAMED else []
        named = [said for _, said in sorted(spared)[:NAMED]]
        return [*named, *more, f"{others} other pod(s) of lower priority might be preempted"]

    def _spared_until_s(self, victim: PodInfo) -> float:
        """Return until when a pod that is exempt stays so, since 1970; infinite where no time ends that."""
        found = self._classes.get(victim.spec.priority_class_name)
        policy = None if found is None else policy_of(found.value, found.metadata.annotations)
        scheduled_s = self._scheduled_s(victim)
        if policy is None or policy.toleration_s < 0 or scheduled_s is None:
            return float("inf")
        return scheduled_s + policy.toleration_s

    def _is_exempt(self, victim: PodInfo, preemptor: PodInfo) -> bool | Status:
        """Say whether a pod is spared by the preemptor, or that its PriorityClass is gone."""
        name = victim.spec.priority_class_name
        if not name:
            return False
        found: ToleratingClass | None = self._classes.get(name)
        if found is None:
            return error(NO_CLASS.format(name))
        policy = policy_of(found.value, found.metadata.annotations)
        if policy is None or preemptor.priority >= policy.minimum_preemptable_priority:
            return False
        if policy.toleration_s < 0:
            return True
        scheduled_s = self._scheduled_s(victim)
        if scheduled_s is None:
            return True
        end_s = scheduled_s + policy.toleration_s
        if end_s > self._now_s:
            self._first_end_s = min(end_s, self._first_end_s)
        return end_s > self._now_s

    def _scheduled_s(self, pod: PodInfo) -> float | None:
        """Return when a pod was scheduled, since 1970; None where its condition does not say that it was."""
        known: ScheduledPod | None = self._pods.get(pod.name, pod.namespace)
        if known is None or known.metadata.uid != pod.uid:
            return None
        scheduled = next((each for each in known.status.conditions if each.type == "PodScheduled"), None)
        if scheduled is None or scheduled.status != "True":
            return None
        text = scheduled.last_transition_time
        return datetime.fromisoformat(text).timestamp() if text else float("-inf")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register the deletion of a pod; the plugins that rejected a pod decide whether it helps."""
        return [ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), _after_deletion)]


def _after_deletion(_pod: PodInfo, _old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
    return QueueingHint.SKIP


def _until(at_s: float) -> str:
    """Return a time since 1970 in words."""
    if at_s == float("inf"):
        return "as long as it is there"
    return f"until {datetime.fromtimestamp(at_s, UTC).isoformat(timespec='seconds').replace('+00:00', 'Z')}"
