"""What the resource scores of v1.20 are made from: what a node has of each resource, and what is asked of it.

CPU and memory are counted with defaults for containers that ask for none, on nodes and for the pod alike. Of a pod's
CPU overhead only whole cores, rounded up, were added, and as milli-units: an oversight that decided scores, and is
kept. All configured resources count, whether the pod asks for them or not. Called by the score plugins beside this.
Source: release-1.20, pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.pod_resources import CPU, MEMORY
from berth.api.quantity import milli_value, value
from berth.framework.cycle_state import CycleState
from berth.framework.interface import ColumnScorePlugin, Rows, ScorePlugin, Scores, SignaturePlugin
from berth.framework.promises import Dependency, Promises
from berth.plugins.resources.columns import row_count
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Int64 = NDArray[np.int64]


class Use(NamedTuple):
    """One resource of a node: what it has, what is asked of it with the pod there, and what it weighs."""

    allocatable: int
    requested: int
    weight: int


class LegacyUseColumn(NamedTuple):
    """The same for many rows: int64 (rows,)."""

    allocatable: Int64
    requested: Int64
    weight: int


def asked_of(pod: PodInfo, resource: str) -> int:
    """Return what a pod adds to a resource."""
    cpu_milli, memory_bytes = pod.scoring_requests
    if resource == MEMORY:
        return memory_bytes
    if resource != CPU:
        return pod.requests.get(resource, 0)
    overhead = pod.spec.overhead.get(CPU)
    return cpu_milli if overhead is None else cpu_milli - milli_value(overhead) + value(overhead)


class ResourceScore(ScorePlugin, ColumnScorePlugin, SignaturePlugin):
    """Base of the score plugins: reads pods and nodes; a subclass has the formula in both forms."""

    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}),
    )

    def __init__(self, resources: Iterable[tuple[str, int]]) -> None:
        self._resources = tuple(resources)
        self._key = object()

    def formula(self, uses: Sequence[Use]) -> int:
        """Return the score of a node."""
        raise NotImplementedError

    def formula_columns(self, uses: Sequence[LegacyUseColumn], size: int) -> Scores:
        """Return the scores of many nodes, int64 (size,)."""
        raise NotImplementedError

    def signature(self, pod: PodInfo) -> tuple[int, ...] | None:
        """Return what the pod adds to each resource, which is all that is read of it."""
        return self.added(pod)

    def added(self, pod: PodInfo) -> tuple[int, ...]:
        """Return what the pod adds to each resource."""
        found = pod.fragments.get(self._key)
        if found is None:
            found = pod.fragments[self._key] = tuple(asked_of(pod, resource) for resource, _ in self._resources)
        assert isinstance(found, tuple)
        return found

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score one node."""
        return self.formula(self.node_uses(pod, node))

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        return self.formula_columns(self.column_uses(pod, table, rows), row_count(table, rows))

    def node_uses(self, pod: PodInfo, node: NodeView) -> list[Use]:
        """Return how the node's resources would be used with the pod there."""
        with_defaults = dict(zip((CPU, MEMORY), node.scoring_requested, strict=True))
        return [
            Use(
                node.allocatable.get(resource, 0),
                with_defaults.get(resource, node.requested.get(resource, 0)) + amount,
                weight,
            )
            for (resource, weight), amount in zip(self._resources, self.added(pod), strict=True)
        ]

    def column_uses(self, pod: PodInfo, table: NodeTable, rows: Rows) -> list[LegacyUseColumn]:
        """Return the same for many rows."""
        uses = []
        for (resource, weight), amount in zip(self._resources, self.added(pod), strict=True):
            index = table.resource_index.get(resource)
            if index is None:
                nothing: Int64 = np.zeros(row_count(table, rows), dtype=np.int64)
                uses.append(LegacyUseColumn(nothing, nothing + amount, weight))
                continue
            asked = table.scoring_requested if resource in (CPU, MEMORY) else table.requested
            uses.append(LegacyUseColumn(table.allocatable[index][rows], asked[index][rows] + amount, weight))
        return uses
