"""NodeUnschedulable: cordoned nodes take only pods that tolerate the unschedulable taint.

Upstream plugin `NodeUnschedulable`, v1.36. It looks at `spec.unschedulable` itself, whether or not the node controller
has added the taint that goes with it.
"""

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from berth.api.node import Node
from berth.api.taints import NO_SCHEDULE, UNSCHEDULABLE_KEY, Taint, tolerated
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    Rows,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import Status, unresolvable
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

REASON = "node(s) were unschedulable"

_REJECTED = unresolvable(REASON)
_TAINT = Taint(key=UNSCHEDULABLE_KEY, effect=NO_SCHEDULE)


@final
class NodeUnschedulable(FilterPlugin, ColumnFilterPlugin, SignaturePlugin, EventsPlugin):
    """Filter."""

    name: ClassVar[str] = "NodeUnschedulable"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        ignores=frozenset({LABELS, REQUESTS}),
        hints_by_shape=True,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._compare_numbers = handle.features.enabled("TaintTolerationComparisonOperators")

    def signature(self, pod: PodInfo) -> bool:
        """Return whether the pod tolerates cordoned nodes, which is all that is read of it."""
        return bool(pod.spec.tolerations) and self._tolerates(pod)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a cordoned node unless the pod tolerates that."""
        return _REJECTED if node.node.spec.unschedulable and not self._tolerates(pod) else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where the node is cordoned and the pod does not tolerate that."""
        codes = table.unschedulable[rows].astype(np.int32)
        if self._tolerates(pod):
            codes[:] = 0
        return FilterColumn(codes, describe)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nodes that come or change their taints, and tolerations that the pod gets."""
        return (
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_TAINT), self.after_node_change),
            ClusterEventWithHint(ClusterEvent("Pod", Action.UPDATE_POD_TOLERATION), self.after_pod_change),
        )

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where the node is open and was not before."""
        opened = new is not None and not new.spec.unschedulable and (old is None or old.spec.unschedulable)
        return QueueingHint.QUEUE if opened else QueueingHint.SKIP

    def after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """Queue where the pod itself tolerates cordoned nodes now."""
        helped = new is not None and new.uid == pod.uid and self._tolerates(new)
        return QueueingHint.QUEUE if helped else QueueingHint.SKIP

    def _tolerates(self, pod: PodInfo) -> bool:
        return tolerated(_TAINT, pod.spec.tolerations, self._compare_numbers)


def describe(_code: int) -> Status:
    """Say what a code of the filter means."""
    return _REJECTED
