"""NodeName: a pod that already names its node fits only there.

Upstream plugin `NodeName`, v1.36. Such pods hardly ever reach a scheduler; PreFilter, which upstream does not have
here, skips the plugin for all others.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    Codes,
    ColumnFilterPlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    PreFilterPlugin,
    Rows,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import SKIP, Status, unresolvable
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

REASON = "node(s) didn't match the requested node name"


class NodeName(PreFilterPlugin, FilterPlugin, ColumnFilterPlugin, SignaturePlugin, EventsPlugin):
    """Filter."""

    name: ClassVar[str] = "NodeName"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=True,
        hints_by_shape=True,
    )

    rejected: ClassVar[Status] = unresolvable(REASON)
    """The status of every node but the named one."""

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> str:
        """Return the wanted name, which is all that is read of the pod."""
        return pod.spec.node_name

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods that name no node."""
        return None if pod.spec.node_name else SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject every node but the named one."""
        return None if pod.spec.node_name in ("", node.name) else self.rejected

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where the node is another than the named one."""
        wanted = pod.spec.node_name
        codes: Codes = np.full(table.capacity, 1 if wanted else 0, dtype=np.int32)
        if wanted in table.row_of:
            codes[table.row_of[wanted]] = 0
        return FilterColumn(codes[rows], lambda _code: self.rejected)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nodes that come: one may be the named one."""
        return (ClusterEventWithHint(ClusterEvent("Node", Action.ADD)),)
