"""Preemption by rules of a plugin's own: what it says about victims, and what it is given in return.

A plugin that preempts otherwise than DefaultPreemption says who may preempt and whom; the search over nodes, disruption
budgets, reprieves, extenders and the choice among candidates stay those of DefaultPreemption. It asks for them with
`Handle.preemption` when it is made, and hands on its `post_filter` to what it gets.
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
    """Sets of pods that the pod may preempt on a node, each by itself: the first without which the pod fits counts.

    Where which pods may go depends on which others do, no single set holds all that may. The sets are looked at one by
    one, so that an iterator need not make those that are not needed; each costs a what-if.
    """

    sets: Iterable[Iterable[PodInfo]]


class VictimRules(Protocol):
    """Who may preempt whom."""

    __slots__ = ()

    def ineligibility(self, pod: PodInfo, nominated: NodeView | None) -> str | None:
        """Say why a pod may not preempt others at all; None where it may.

        `nominated` is the node that was promised to it, unless filters have said since that nothing helps there. Unless
        the rules say otherwise, a pod waits for all pods of lower priority that leave that node.
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
        """Say, beside what the filters say, why the pod does not fit on a node without the pods that are taken off it.

        `state` has followed (`add_pod`, `remove_pod`) which pods these are. Asked whenever the filters let the pod in,
        and when a pod that they do not spare is off the node again: then only an error counts, and ends the what-if.
        Unless the rules say otherwise, filters alone say whether the pod fits.
        """
        return None


VictimCost = Callable[[CycleState, PodInfo, NodeView, Sequence[PodInfo]], float]
"""What it costs to evict pods of a node, the most important first, and to have the pod there instead.

The node where it costs least is freed. Broken disruption budgets count before that, and among equals
DefaultPreemption's criteria decide.
"""


VictimBasis = Callable[[CycleState, PodInfo], Hashable]
"""What `potential_victims` goes by beside the node and the pods there. As long as it is equal and nothing changes on a
node, the answer for the node is the same, whichever pod asks, but for names in the words of a status. None where that
cannot be said.

The basis of refusals is the same for what `refusal` and the cost go by, of the pod as well, beside what the filters say
of it. As long as both bases are equal, what was found on a node is kept until something changes there.
"""


class Preemption(Protocol):
    """Preemption by rules."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none: what PostFilter answers."""
