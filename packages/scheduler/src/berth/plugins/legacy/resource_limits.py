"""NodeResourceLimits of v1.17 to v1.19: a point for nodes that could hold all that a pod's containers may use.

Score is 1 where the node has at least the pod's limit of CPU or of memory, else 0. In no default profile.
Source: release-1.18, pkg/scheduler/framework/plugins/noderesources/resource_limits.go.
"""

from typing import ClassVar, final

import numpy as np

from berth.api.pod_resources import CPU, MEMORY
from berth.api.quantity import milli_value, value
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnScorePlugin,
    FeasibleNodes,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import Status
from berth.plugins.resources.columns import row_count
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Limits = tuple[tuple[str, int], ...]


def limits_of(pod: PodInfo) -> Limits:
    """Return the pod's limits of CPU in milli-units and memory in bytes: containers together, or one init container."""
    found = []
    for name, amount in ((CPU, milli_value), (MEMORY, value)):
        total = sum(amount(c.resources.limits[name]) for c in pod.spec.containers if name in c.resources.limits)
        first = (amount(c.resources.limits[name]) for c in pod.spec.init_containers if name in c.resources.limits)
        found.append((name, max([total, *first])))
    return tuple(found)


@final
class NodeResourceLimits(PreScorePlugin, ScorePlugin, ColumnScorePlugin, SignaturePlugin):
    """PreScore, Score."""

    name: ClassVar[str] = "NodeResourceLimits"
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.NODE}),
        pre_score_is_pure=True,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Limits:
        """Return the limits, which are all that is read of the pod."""
        found = pod.fragments.get(self.name)
        if found is None:
            found = pod.fragments[self.name] = limits_of(pod)
        assert isinstance(found, tuple)
        return found

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Compute the limits once for the pod."""
        self.signature(pod)
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Give 1 to a node that has enough of either resource."""
        return int(any(0 < limit <= node.allocatable.get(name, 0) for name, limit in self.signature(pod)))

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return int64 of shape (len(rows),): 1 where there is enough of either resource."""
        enough = np.zeros(row_count(table, rows), dtype=np.bool_)
        for name, limit in self.signature(pod):
            if limit:
                enough |= table.allocatable[table.resource_index[name]][rows] >= limit
        return enough.astype(np.int64)
