"""Preemption by rules of a plugin's own: what it says about victims, and what it is given in return.

A plugin that preempts otherwise than DefaultPreemption says who may preempt and whom; the search over nodes, disruption
budgets, reprieves, extenders and the choice among candidates stay those of DefaultPreemption. It asks for them with
`Handle.preemption` when it is made, and hands on its `post_filter` to what it gets.
"""

from collections.abc import Iterable
from typing import Protocol

from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Steps
from berth.framework.interface import PostFilterAnswer
from berth.framework.status import Status
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo


class VictimRules(Protocol):
    """Who may preempt whom."""

    __slots__ = ()

    def ineligibility(self, pod: PodInfo, nominated: NodeView | None) -> str | None:
        """Say why a pod may not preempt others at all; None where it may.

        `nominated` is the node that was promised to it, unless filters have said since that nothing helps there.
        """

    def potential_victims(self, state: CycleState, pod: PodInfo, node: NodeView) -> Iterable[PodInfo] | Status:
        """Return the pods of a node that the pod may preempt, or why the node cannot be freed."""

    def refusal(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say, beside what the filters say, why the pod does not fit on a node without the pods that are taken off it.

        `state` has followed (`add_pod`, `remove_pod`) which pods these are.
        """


class Preemption(Protocol):
    """Preemption by rules."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none: what PostFilter answers."""
