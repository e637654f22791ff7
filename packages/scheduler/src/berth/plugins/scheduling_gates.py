"""SchedulingGates: pods with scheduling gates stay out of the active queue until all gates are removed.

Upstream plugin `SchedulingGates`, v1.36.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, final

from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import EventsPlugin, PreEnqueuePlugin
from berth.framework.status import Status, unresolvable
from berth.state.pod_info import PodInfo


@final
class SchedulingGates(PreEnqueuePlugin, EventsPlugin):
    """PreEnqueue."""

    name: ClassVar[str] = "SchedulingGates"

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold back a pod that has gates."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register the removal of the pod's last gate; nothing else helps."""
        event = ClusterEvent("Pod", Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (ClusterEventWithHint(event, after_gates_eliminated),)


def after_gates_eliminated(pod: PodInfo, _old: Any, new: PodInfo | None) -> QueueingHint:
    """Queue the pod whose gates are gone."""
    is_own = new is not None and new.uid == pod.uid and not new.spec.scheduling_gates
    return QueueingHint.QUEUE if is_own else QueueingHint.SKIP
