"""Preemption by a plugin's own rules: what it says about victims, and what it gets in return.

A plugin that preempts differently from DefaultPreemption says which pods may preempt which; the search over nodes,
disruption budgets, reprieves, extenders and the choice among candidates stay those of DefaultPreemption. It asks for
them with `Handle.preemption` when it is made, and delegates its `post_filter` to the result.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol

from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Steps
from berth.framework.interface import PostFilterAnswer
from berth.framework.status import Status
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo

NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING = "not eligible due to a terminating pod on the nominated node."


class VictimSets(NamedTuple):
    """Alternative sets of pods that the pod may preempt on a node: the first whose removal makes the pod fit counts.

    If whether a pod may go depends on which others go, there is no single set of all that may. The sets are tried one
    by one, so an iterator need not make those that are not needed; each costs a what-if.
    """

    sets: Iterable[Iterable[PodInfo]]


class VictimRules(Protocol):
    """Which pods may preempt which."""

    __slots__ = ()

    def ineligibility(self, pod: PodInfo, nominated: NodeView | None) -> str | None:
        """Say why a pod may not preempt others at all; None if it may.

        `nominated` is the node to which it is nominated, unless filters have since said that nothing helps there.
        Unless the rules say otherwise, a pod waits for all pods of lower priority that are leaving that node.
        """
        if pod.spec.preemption_policy == "Never":
            return NEVER_PREEMPTS
        running = () if nominated is None else nominated.pods.values()
        waits = any(other.is_terminating and other.priority < pod.priority for other in running)
        return VICTIMS_TERMINATING if waits else None

    def potential_victims(
        self, state: CycleState, pod: PodInfo, node: NodeView
    ) -> Iterable[PodInfo] | VictimSets | Status:
        """Return the pods of a node that the pod may preempt, or why the node cannot be freed."""

    def refusal(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say, in addition to the filters, why the pod does not fit on a node even without the pods taken off it.

        `state` has followed (`add_pod`, `remove_pod`) which pods these are. Asked whenever the filters pass the pod,
        and when a pod that cannot be reprieved is off the node again: then only an error counts, and ends the what-if.
        Unless the rules say otherwise, filters alone decide whether the pod fits.
        """
        return None


VictimCost = Callable[[CycleState, PodInfo, NodeView, Sequence[PodInfo]], float]
"""The cost of evicting pods from a node, given most important first, and having the pod there instead.

The node with the least cost is freed. Broken disruption budgets count first, and DefaultPreemption's criteria break
ties.
"""


VictimBasis = Callable[[CycleState, PodInfo], Hashable]
"""What `potential_victims` depends on besides the node and its pods. While it is equal and nothing changes on a node,
the answer for the node is the same whichever pod asks, except for names in the text of a status. None if that cannot be
said.

The basis of refusals says the same for what `refusal` and the cost depend on, the pod included, besides what the
filters say about it. While both bases are equal, the result for a node is kept until something changes there.
"""


class Preemption(Protocol):
    """Preemption by a plugin's rules."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none: what PostFilter answers."""
