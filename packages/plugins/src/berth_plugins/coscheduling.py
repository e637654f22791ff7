"""Coscheduling: binds the pods of a group when enough of them have a place, and none of them before.

Upstream plugin `Coscheduling`, with the PodGroup of scheduling.x-k8s.io. A pod names its group by a label. PreFilter
turns a pod away whose group has too few members, or asks for more than there is; Permit has members wait until
`minMember` of them have a place; where one fits nowhere, or gives its place back, those that wait are thrown out. The
queue takes groups by priority, then by age, where a group that has failed is as young as its failure.

Deviations: pods without a group are as old as their creation. The numbers in a resource gap are exact, their print may
not be that of Go. Siblings are not activated within a second of a failure. Members are woken by what may make room for
them, not by any pod that comes. Pods that have finished are no siblings any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple, final

import msgspec

from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    CustomResource,
    CycleState,
    Diagnosis,
    EventsPlugin,
    ExplainingPlugin,
    Handle,
    NodeTable,
    ObjectMeta,
    PermitPlugin,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    PostFilterAnswer,
    PostFilterPlugin,
    PreFilterPlugin,
    Promises,
    Quantity,
    QueuedPod,
    QueueingHint,
    QueueSortPlugin,
    Remedy,
    RemedyPlugin,
    ReservePlugin,
    SortKeyPlugin,
    Status,
    WaitingPod,
    invalid,
    milli_value,
    queue_if,
    unresolvable,
    unschedulable,
    value,
)

LABEL = "scheduling.x-k8s.io/pod-group"
DEFAULT_WAIT_S = 60.0
UNDISTURBED_S = 1.0
"""How long after a failure of the group a member's place activates no siblings: as long as a pod backs off at least.

Two members for which there is room for one would otherwise throw each other out without end, each activated by the
other's place.
"""
SHORTEST_MEMORY_S = 3.0
"""How long a group is not asked for its resources again at least, once there was room for them."""

NO_GROUP = "can not find pod group"
NOT_FOUND = "PodGroup not found"
REJECTED_IN_POST_FILTER = "optimistic rejection in PostFilter"
REJECTED_IN_UNRESERVE = "rejection in Unreserve"


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """How many members, and which resources, a group needs, and how long its members wait for one another."""

    min_member: int = 0
    min_resources: dict[str, Quantity] | None = None
    schedule_timeout_seconds: int | None = None


class PodGroup(msgspec.Struct, frozen=True):
    """A PodGroup of scheduling.x-k8s.io."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()


GROUPS = CustomResource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", struct=PodGroup)


class CoschedulingArgs(msgspec.Struct, frozen=True, rename="camel"):
    """How long members wait, how long a group rests that failed, and which gap does not fail it yet."""

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10

    def validate(self, path: str) -> Iterable[str]:
        """Refuse what is out of range."""
        wait, backoff = self.permit_waiting_time_seconds, self.pod_group_backoff_seconds
        if wait < 0:
            yield invalid(f"{path}.permitWaitingTimeSeconds", wait, "must be greater than 0")
        if backoff < 0:
            yield invalid(f"{path}.podGroupBackoffSeconds", backoff, "must be greater than 0")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            said = "must be between 0 and 100"
            yield invalid(f"{path}.podGroupRejectPercentage", self.pod_group_reject_percentage, said)


class GroupName(NamedTuple):
    """Which group."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def group_named_by(pod: PodInfo) -> GroupName | None:
    """Return the group that a pod names, whether or not there is one."""
    name = pod.labels.get(LABEL)
    return GroupName(pod.namespace, name) if name else None


class Gap(NamedTuple):
    """What is lacking of a resource, as Go keeps a quantity: `amount` times ten to the `scale`."""

    amount: int
    scale: int
    form: str

    def __str__(self) -> str:
        return f"{{{{{self.amount} {self.scale}}} {{<nil>}}  {self.form}}}"


def resource_gap(minimum: Mapping[str, Quantity], members: int, table: NodeTable, group: GroupName) -> dict[str, Gap]:
    """Return what a group lacks of its minimum, once all that is left on one node after the other is taken from it.

    What the group's own pods take counts as left. A resource of which there is enough on the first nodes is done with.
    """
    lacking = {name: (milli_value if name == "cpu" else value)(amount) for name, amount in minimum.items()}
    lacking["pods"] = members
    for row in table.tree.order():
        left = _left_on(table, row, group)
        for name in list(lacking):
            lacking[name] -= left.get(name, 0)
            if lacking[name] <= 0:
                del lacking[name]
        if not lacking:
            return {}
    return {name: _gap(name, amount, minimum.get(name, 0)) for name, amount in sorted(lacking.items())}


def _left_on(table: NodeTable, row: int, group: GroupName) -> dict[str, int]:
    """Return what is left on a node without the group's own pods."""
    node = table.view(row)
    own = [pod for pod in node.pods.values() if group_named_by(pod) == group]
    left = {name: amount - node.requested.get(name, 0) for name, amount in node.allocatable.items()}
    for pod in own:
        for name, amount in pod.requests.items():
            if name in left:
                left[name] += amount
    left["pods"] = node.allowed_pods - (len(node.pods) - len(own))
    return left


def _gap(name: str, amount: int, asked: Quantity) -> Gap:
    is_binary = isinstance(asked, str) and asked.endswith("i")
    scale = -3 if name == "cpu" else 0
    if scale and amount % 1000 == 0 and value(asked) * 1000 == amount and not str(asked).endswith("m"):
        amount, scale = amount // 1000, 0  # nothing was taken from it
    return Gap(amount, scale, "BinarySI" if is_binary else "DecimalSI")


@final
class Coscheduling(
    QueueSortPlugin,
    SortKeyPlugin,
    PreFilterPlugin,
    PostFilterPlugin,
    ReservePlugin,
    PermitPlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    EventsPlugin,
    ExplainingPlugin,
    RemedyPlugin,
):
    """QueueSort, PreFilter, PostFilter, Reserve (to give back) and Permit."""

    name: ClassVar[str] = "Coscheduling"
    args_type: ClassVar[type[msgspec.Struct]] = CoschedulingArgs
    promises: ClassVar[Promises] = Promises(hints_by_shape=True)

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        self._handle = handle
        self._groups = handle.follow(GROUPS)
        self._wait_s = float(args.permit_waiting_time_seconds)
        self._backoff_s = float(args.pod_group_backoff_seconds)
        self._tolerated_gap = args.pod_group_reject_percentage / 100
        self._siblings: dict[GroupName, dict[str, PodInfo]] = {}
        """The pods that name each group, by uid."""
        self._assigned: dict[GroupName, set[str]] = {}
        """The names of those that have a place: on a node, or from Permit on until they are unreserved."""
        self._has_room_until: dict[GroupName, float] = {}
        """Groups for whose resources there was room, which are not asked for again until then."""
        self._rests_until: dict[GroupName, float] = {}
        self._failed_at: dict[GroupName, float] = {}
        """When a group failed last, since 1970."""
        self._undisturbed_until: dict[GroupName, float] = {}
        """The same on the core's clock, plus `UNDISTURBED_S`."""

    # -- which pods there are --

    def pod_added(self, pod: PodInfo) -> None:
        """Note a member; one that is on a node has its place. The last that was lacking activates the others."""
        group = group_named_by(pod)
        if group is None:
            return
        siblings = self._siblings.setdefault(group, {})
        is_new = pod.uid not in siblings
        siblings[pod.uid] = pod
        if pod.node_name:
            self._assigned.setdefault(group, set()).add(pod.name)
        found = self._find(group)
        if is_new and found is not None and len(siblings) == found.spec.min_member:
            self._activate_siblings(group, pod)

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Note what has become of a member, which may have changed its group."""
        if group_named_by(old) != group_named_by(new):
            self.pod_removed(old)
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Forget a member that is gone."""
        group = group_named_by(pod)
        if group is None:
            return
        siblings = self._siblings.get(group, {})
        siblings.pop(pod.uid, None)
        if pod.node_name:
            self._give_back(group, pod)
        if not siblings:
            for kept in (self._siblings, self._has_room_until, self._failed_at, self._undisturbed_until):
                kept.pop(group, None)

    # -- the queue --

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Say whether a pod comes before another."""
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float, str]:
        """Return the key: priority, the highest first; the age of the group, or of the pod; the name."""
        return -queued.pod.priority, self._created_at(queued.pod), queued.pod.key

    def _created_at(self, pod: PodInfo) -> float:
        group = group_named_by(pod)
        if group is not None:
            failed_at = self._failed_at.get(group)
            if failed_at is not None:
                return failed_at
            found = self._find(group)
            if found is not None:
                return _seconds(found.metadata.creation_timestamp)
        return _seconds(pod.metadata.creation_timestamp)

    # -- the cycle --

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Turn a pod away whose group cannot come about now."""
        group = group_named_by(pod)
        found = None if group is None else self._find(group)
        if group is None or found is None:
            return None
        rest_s = self._rests_until.get(group, 0.0) - self._handle.now()
        if rest_s > 0:
            self._handle.wake_after(pod.uid, rest_s)
            return unresolvable(f"podGroup {group} failed recently")
        siblings, least = self._siblings.get(group, {}), found.spec.min_member
        if len(siblings) < least:
            return unresolvable(
                f"pre-filter pod {pod.name} cannot find enough sibling pods, "
                f"current pods number: {len(siblings)}, minMember of group: {least}"
            )
        if self._gated(group) > len(siblings) - least:
            return unresolvable(f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup")
        return self._lack_of_resources(group, found)

    def _lack_of_resources(self, group: GroupName, found: PodGroup) -> Status | None:
        minimum, now = found.spec.min_resources, self._handle.now()
        if minimum is None or self._has_room_until.get(group, 0.0) > now:
            return None
        gap = resource_gap(minimum, found.spec.min_member, self._handle.cache.table, group)
        if gap:
            return unresolvable(f"resource gap: map[{' '.join(f'{name}:{lack}' for name, lack in gap.items())}]")
        self._has_room_until[group] = now + (self._wait_s or SHORTEST_MEMORY_S)
        return None

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterAnswer:
        """Throw out the members that wait, since this one has no place; unless only few are lacking."""
        group = group_named_by(pod)
        found = None if group is None else self._find(group)
        if group is None or found is None:
            return None, unschedulable(NO_GROUP)
        least, assigned = found.spec.min_member, len(self._assigned.get(group, ()))
        if assigned >= least or (least - assigned) / least <= self._tolerated_gap:
            return None, unschedulable()
        self._throw_out(group, REJECTED_IN_POST_FILTER)
        if self._backoff_s and len(self._siblings.get(group, ())) >= least:
            now = self._handle.now()
            if self._rests_until.get(group, 0.0) <= now:
                self._rests_until[group] = now + self._backoff_s
        self._note_failure(group)
        return None, unschedulable(
            f"PodGroup {group} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        )

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """There is nothing to take; Permit notes the place."""
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Take the place back, and with it those of the members that wait."""
        group = group_named_by(pod)
        if group is None:
            return
        self._give_back(group, pod)
        if self._find(group) is None:
            return
        self._throw_out(group, REJECTED_IN_UNRESERVE)
        self._note_failure(group)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float] | None:
        """Have members wait until enough have a place; the last of these lets them go."""
        group = group_named_by(pod)
        if group is None:
            return None
        found = self._find(group)
        if found is None:
            return unschedulable(NOT_FOUND), 0.0
        assigned = self._assigned.setdefault(group, set())
        assigned.add(pod.name)
        if len(assigned) >= found.spec.min_member:
            self._failed_at.pop(group, None)
            for waiting in self._waiting(group):
                waiting.allow(self.name)
            return None
        if len(assigned) == 1 and self._undisturbed_until.get(group, 0.0) <= self._handle.now():
            self._activate_siblings(group, pod)
        return Status(Code.WAIT), self._patience_s(found)

    def _patience_s(self, found: PodGroup) -> float:
        said = found.spec.schedule_timeout_seconds
        return float(said) if said else self._wait_s or (0.0 if said == 0 else DEFAULT_WAIT_S)

    # -- what is known of groups --

    def _find(self, group: GroupName) -> PodGroup | None:
        found: PodGroup | None = self._groups.get(group.name, group.namespace)
        return found

    def _activate_siblings(self, group: GroupName, pod: PodInfo) -> None:
        for uid in self._siblings.get(group, {}):
            if uid != pod.uid:
                self._handle.activate(uid)

    def _waiting(self, group: GroupName) -> list[WaitingPod]:
        return [waiting for waiting in self._handle.waiting if group_named_by(waiting.pod) == group]

    def _throw_out(self, group: GroupName, reason: str) -> None:
        for waiting in self._waiting(group):
            waiting.reject(self.name, reason)

    def _give_back(self, group: GroupName, pod: PodInfo) -> None:
        assigned = self._assigned.get(group, set())
        assigned.discard(pod.name)
        if not assigned:
            self._assigned.pop(group, None)

    def _note_failure(self, group: GroupName) -> None:
        """From now on the group is as young as this, and is asked for its resources again."""
        self._has_room_until.pop(group, None)
        self._failed_at[group] = self._handle.wall_clock()
        self._undisturbed_until[group] = self._handle.now() + UNDISTURBED_S

    # -- what is told of it --

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]:
        """Return how many members are there, have a place and are needed, and since when and how long they wait."""
        group = group_named_by(pod)
        found = None if group is None else self._find(group)
        if group is None or found is None:
            return ()
        siblings, assigned = self._siblings.get(group, {}), self._assigned.get(group, set())
        least, gated = found.spec.min_member, self._gated(group)
        said = f"{len(siblings)} members are there, {len(assigned)} have a place, {least} are needed (minMember)"
        told = [f"PodGroup {group}: {said}"]
        if gated:
            told.append(f"{gated} members are gated")
        if (missing := least - len(siblings) + gated) > 0:
            told.append(f"{missing} more are needed")
        now = self._handle.now()
        waiting = self._waiting(group)
        if waiting:
            since = now - min(each.waiting_since for each in waiting)
            until = min((each.deadlines.get(self.name, now) for each in waiting), default=now)
            told.append(
                f"{len(waiting)} have waited with their place for {since:.0f} s, and will for {until - now:.0f} s more"
            )
        failed_at = self._failed_at.get(group)
        if failed_at is not None:
            told.append(f"the group failed last at {_rfc3339(failed_at)}")
        rest = self._rests_until.get(group, 0.0) - now
        if rest > 0:
            told.append(f"it rests for {rest:.0f} s more")
        return told

    def remedies(self, pod: PodInfo) -> Sequence[Remedy]:
        """Return how the group could ask for no more members than there are, and for no resources that are lacking."""
        group = group_named_by(pod)
        found = None if group is None else self._find(group)
        if group is None or found is None:
            return ()
        spec, there = found.spec, len(self._siblings.get(group, {})) - self._gated(group)
        patch: dict[str, Any] = {}
        words = []
        if 0 < there < spec.min_member:
            patch["minMember"] = there
            words.append(f"lower minMember from {spec.min_member} to {there}")
        members = patch.get("minMember", spec.min_member)
        if spec.min_resources and resource_gap(spec.min_resources, members, self._handle.cache.table, group):
            patch["minResources"] = None
            words.append("leave out minResources")
        return [Remedy(GROUPS, group.namespace, group.name, {"spec": patch}, " and ".join(words))] if patch else []

    def _gated(self, group: GroupName) -> int:
        return sum(bool(other.spec.scheduling_gates) for other in self._siblings.get(group, {}).values())

    # -- events and hints --

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return what may help: members that come, a group that comes or changes, and room for all of them."""
        room = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return [
            ClusterEventWithHint(ClusterEvent("Pod", Action.ADD), self._after_member),
            ClusterEventWithHint(
                ClusterEvent("Pod", Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED), self._after_member
            ),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self._after_room),
            ClusterEventWithHint(ClusterEvent("Node", room), self._after_room),
            ClusterEventWithHint(ClusterEvent(GROUPS.name, Action.ADD | Action.UPDATE), self._after_group),
        ]

    def _after_member(self, pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """A member that comes, or is no longer gated, helps its siblings."""
        return queue_if(new is not None and group_named_by(new) == group_named_by(pod))

    def _after_room(self, pod: PodInfo, _old: object, _new: object) -> QueueingHint:
        """Room helps where there are members enough to use it."""
        group = group_named_by(pod)
        found = None if group is None else self._find(group)
        return queue_if(found is None or len(self._siblings.get(group, ())) >= found.spec.min_member)  # type: ignore[arg-type]

    def _after_group(self, pod: PodInfo, _old: PodGroup | None, new: PodGroup | None) -> QueueingHint:
        """A group's coming, and its changes, help its own members."""
        group = group_named_by(pod)
        return queue_if(new is not None and (new.metadata.namespace, new.metadata.name) == group)


def _seconds(timestamp: str | None) -> float:
    return 0.0 if timestamp is None else datetime.fromisoformat(timestamp).timestamp()


def _rfc3339(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
