"""SelectorSpread of v1.20: spread the pods of a service or controller over nodes, and twice as much over zones.

A node's raw score is the number of pods there that belong with the incoming one. Pods with spread constraints of their
own are left to PodTopologySpread.
"""

from typing import ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from berth.api.selectors import Selector
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import (
    MAX_NODE_SCORE,
    ColumnScorePlugin,
    FeasibleNodes,
    NormalizeScorePlugin,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import Status
from berth.plugins.legacy.pods_of_owners import MatchingSelectors
from berth.plugins.resources.columns import row_count
from berth.state.node_tree import zone_of
from berth.state.node_view import NodeView
from berth.state.pod_index import SelectorGroup
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

ZONE_WEIGHT = 2.0 / 3.0

NO_ZONE = ("", "")


class _Prepared(NamedTuple):
    selector: Selector | None
    zones: NDArray[np.intp]
    """By feasible row, the number of its zone; -1 for none."""


def spread_scores(counts: Scores, zones: NDArray[np.intp]) -> Scores:
    """Turn pod counts, int64 (n,), and zone numbers, (n,), into scores from 0 to 100."""
    most = int(counts.max(initial=0))
    scores = np.full(len(counts), float(MAX_NODE_SCORE))
    if most > 0:
        scores = float(MAX_NODE_SCORE) * ((most - counts) / float(most))
    zoned = zones >= 0
    if not zoned.any():
        return scores.astype(np.int64)
    by_zone = np.bincount(zones[zoned], weights=counts[zoned]).astype(np.int64)
    most_in_zone = int(by_zone.max())
    zone_scores = np.full(len(by_zone), float(MAX_NODE_SCORE))
    if most_in_zone > 0:
        zone_scores = float(MAX_NODE_SCORE) * ((most_in_zone - by_zone) / float(most_in_zone))
    scores[zoned] = scores[zoned] * (1.0 - ZONE_WEIGHT) + ZONE_WEIGHT * zone_scores[zones[zoned]]
    return scores.astype(np.int64)


@final
class SelectorSpread(PreScorePlugin, ScorePlugin, ColumnScorePlugin, NormalizeScorePlugin):
    """PreScore, Score, NormalizeScore."""

    name: ClassVar[str] = "SelectorSpread"
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset({Dependency.FEASIBLE_SET}),
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._index = handle.cache.index
        self._selectors = MatchingSelectors(handle.objects)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Find what belongs with the pod, and the zones of the nodes."""
        if pod.spec.topology_spread_constraints:
            return None
        state.write(self.name, _Prepared(self._selectors.selector_of(pod), _zone_numbers(nodes)))
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Count the pods that belong with this one; those being deleted do not count."""
        prepared: _Prepared | None = state.get(self.name)
        if prepared is None or prepared.selector is None:
            return 0
        return sum(
            other.namespace == pod.namespace and not other.is_terminating and prepared.selector.matches(other.labels)
            for other in node.pods.values()
        )

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return int64 of shape (len(rows),): the number of pods that belong with this one."""
        prepared: _Prepared | None = state.get(self.name)
        if prepared is None or prepared.selector is None:
            return np.zeros(row_count(table, rows), dtype=np.int64)
        group = SelectorGroup(frozenset((pod.namespace,)), (prepared.selector,), terminating=False)
        return self._index.group(group).counts[rows]

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Give most to nodes and zones with the fewest such pods."""
        prepared: _Prepared | None = state.get(self.name)
        return scores.copy() if prepared is None else spread_scores(scores, prepared.zones)


def _zone_numbers(nodes: FeasibleNodes) -> NDArray[np.intp]:
    numbers: dict[tuple[str, str], int] = {NO_ZONE: -1}
    found = []
    for row in nodes.row_array().tolist():
        node = nodes.table.nodes[row]
        zone = NO_ZONE if node is None else zone_of(node.metadata.labels)
        found.append(numbers.setdefault(zone, len(numbers) - 1))
    return np.array(found, dtype=np.intp)
