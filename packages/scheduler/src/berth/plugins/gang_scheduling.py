"""GangScheduling: of a group with a gang policy, at least `minCount` pods get a node together, or none does.

Upstream plugin `GangScheduling`, v1.36 (KEP-4671); in the default profile while the gate GangScheduling is on.
PreEnqueue holds members back until their PodGroup exists and has enough pods; Permit says Wait until enough pods have
a place, so that in the group's cycle none is bound before. Members that run already count.

Deviations: a pod that is deleted while it waits is not counted; the departure of a member that waits may help the
others (upstream has only arrivals), and so may any change of the policy.
"""

from collections.abc import Sequence
from typing import ClassVar, final

from berth.api.scheduling import GangSchedulingPolicy, PodGroup
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.handle import Handle
from berth.framework.interface import EventsPlugin, PermitPlugin, PreEnqueuePlugin
from berth.framework.promises import Promises
from berth.framework.status import Code, Status, error, unresolvable
from berth.state.pod_groups import POD_GROUP, GroupKey, group_of
from berth.state.pod_info import PodInfo

NO_GROUP = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
TOO_FEW_PODS = "waiting for minCount pods from a gang to appear in scheduling queue"
TOO_FEW_PLACED = "waiting for minCount pods from a gang to be scheduled"
GROUP_GONE = "failed to get podGroup {}"

PERMIT_TIMEOUT_S = 5 * 60.0


@final
class GangScheduling(PreEnqueuePlugin, PermitPlugin, EventsPlugin):
    """PreEnqueue, Permit."""

    name: ClassVar[str] = "GangScheduling"
    promises: ClassVar[Promises] = Promises(
        permits_groups=True,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.objects
        self._groups = handle.pod_groups
        self._is_enabled = handle.features.enabled("GangScheduling")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold a member back while its group is not complete."""
        key = group_of(pod)
        if key is None or not self._is_enabled:
            return None
        group = self._find(key)
        if group is None:
            return unresolvable(NO_GROUP.format(key.name))
        gang = group.spec.scheduling_policy.gang
        if gang is not None and self._groups.count(key) < gang.min_count:
            return unresolvable(TOO_FEW_PODS)
        return None

    def permit(self, _state: CycleState, pod: PodInfo, _node_name: str) -> tuple[Status | None, float]:
        """Hold a member back while too few have a place; the pod itself counts, its node being assumed."""
        key = group_of(pod)
        if key is None or not self._is_enabled:
            return None, 0.0
        group = self._find(key)
        if group is None:
            return error(GROUP_GONE.format(key)), 0.0
        gang = group.spec.scheduling_policy.gang
        if gang is not None and self._groups.placed_count(key) < gang.min_count:
            return Status(Code.WAIT, (TOO_FEW_PLACED,)), PERMIT_TIMEOUT_S
        return None, 0.0

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register members that come or go, with or without a node, and the group itself."""
        unscheduled = ClusterEvent("UnscheduledPod", Action.ADD | Action.DELETE)
        return (
            ClusterEventWithHint(ClusterEvent("Pod", Action.ADD), self.after_member),
            ClusterEventWithHint(unscheduled, self.after_member),
            ClusterEventWithHint(ClusterEvent(POD_GROUP, Action.ADD | Action.UPDATE), self.after_group_change),
        )

    def after_member(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue the pod where a member of its own group came or went, and the group is complete now."""
        other = new if new is not None else old
        key = group_of(pod)
        is_ours = other is not None and key is not None and group_of(other) == key
        return queue_if(is_ours and self.pre_enqueue(pod) is None)

    def after_group_change(self, pod: PodInfo, old: PodGroup | None, new: PodGroup | None) -> QueueingHint:
        """Queue the pods of a group that has come, or that asks for less than before."""
        key = group_of(pod)
        if new is None or key != (new.metadata.namespace, new.metadata.name):
            return QueueingHint.SKIP
        return queue_if(old is None or _asks_for_less(old, new))

    def _find(self, key: GroupKey) -> PodGroup | None:
        found: PodGroup | None = self._objects.get(POD_GROUP, key.name, key.namespace)
        return found


def _asks_for_less(old: PodGroup, new: PodGroup) -> bool:
    """Say whether a change of the policy may let a group through; that of the status alone never does."""
    before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
    return before is not None and (after is None or _is_less(after, before))


def _is_less(after: GangSchedulingPolicy, before: GangSchedulingPolicy) -> bool:
    return after.min_count < before.min_count
