"""TaintToleration: a node's taints keep off pods that do not tolerate them, strictly or as a preference.

Upstream plugin `TaintToleration`, v1.36. NoSchedule and NoExecute taints filter; each PreferNoSchedule taint that the
pod does not tolerate makes a node less attractive. Nodes share few distinct sets of taints, so verdicts are computed
by set and gathered by row.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from berth.api.node import Node
from berth.api.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration, tolerated
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    FeasibleNodes,
    FilterColumn,
    FilterPlugin,
    NormalizeScorePlugin,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.normalize import default_normalize
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import Int64, NodeTable

REASON = "node(s) had untolerated taint(s)"

FILTERED_EFFECTS = (NO_SCHEDULE, NO_EXECUTE)

_REJECTED = unresolvable(REASON)

Taints = tuple[Taint, ...]
Tolerations = tuple[Toleration, ...]


def has_untolerated(taints: Taints, tolerations: Tolerations, compare_numbers: bool) -> bool:
    """Say whether any taint that filters is not tolerated."""
    return any(
        taint.effect in FILTERED_EFFECTS and not tolerated(taint, tolerations, compare_numbers) for taint in taints
    )


def count_unpreferred(taints: Taints, tolerations: Tolerations, compare_numbers: bool) -> int:
    """Count the PreferNoSchedule taints that are not tolerated."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerated(taint, tolerations, compare_numbers) for taint in taints
    )


def by_taint_set(table: NodeTable, rows: Rows, verdict: Callable[[Taints], int]) -> Int64:
    """Return by row, int64 of shape (len(rows),), what `verdict` says of the node's taints."""
    ids = table.taint_set_ids[rows]
    if len(ids) < len(table.taint_sets):
        return np.array([verdict(table.taint_sets[taint_set]) for taint_set in ids.tolist()], dtype=np.int64)
    verdicts = np.array([verdict(taints) for taints in table.taint_sets], dtype=np.int64)
    return verdicts[ids.astype(np.intp)] if verdicts.any() else np.zeros(len(ids), dtype=np.int64)


class TaintToleration(
    FilterPlugin,
    ColumnFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ColumnScorePlugin,
    NormalizeScorePlugin,
    SignaturePlugin,
    EventsPlugin,
):
    """Filter, PreScore, Score, NormalizeScore."""

    name: ClassVar[str] = "TaintToleration"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        score_depends_on=frozenset({Dependency.NODE}),
        ignores=frozenset({LABELS, REQUESTS}),
        pre_score_is_pure=True,
        hints_by_shape=True,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._compare_numbers = handle.features.enabled("TaintTolerationComparisonOperators")

    def signature(self, pod: PodInfo) -> Tolerations:
        """Return the tolerations, which are all that is read of the pod."""
        return pod.spec.tolerations

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node with a taint that the pod does not tolerate."""
        code = self._code(node.node.spec.taints, pod)
        return self._describe(code) if code else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 0 where all taints are tolerated."""
        codes = by_taint_set(table, rows, lambda taints: self._code(taints, pod))
        return FilterColumn(codes.astype(np.int32), self._describe)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Take part for every pod: nodes without such taints score too."""
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the number of untolerated PreferNoSchedule taints; the fewer the better."""
        return count_unpreferred(node.node.spec.taints, pod.spec.tolerations, self._compare_numbers)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return int64 of shape (len(rows),): the number of untolerated PreferNoSchedule taints."""
        tolerations = pod.spec.tolerations
        return by_taint_set(table, rows, lambda taints: count_unpreferred(taints, tolerations, self._compare_numbers))

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Give 100 to nodes without such taints, 0 to those with the most."""
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nodes that come or lose taints, and tolerations that the pod gets."""
        return (
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_TAINT), self.after_node_change),
            ClusterEventWithHint(ClusterEvent("Pod", Action.UPDATE_POD_TOLERATION), after_pod_change),
        )

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where the pod tolerates the node now and did not before."""
        if new is None or self._is_untolerated(new.spec.taints, pod):
            return QueueingHint.SKIP
        was_rejected = old is None or self._is_untolerated(old.spec.taints, pod)
        return QueueingHint.QUEUE if was_rejected else QueueingHint.SKIP

    def _code(self, taints: Taints, pod: PodInfo) -> int:
        """Return what is against a node with these taints, as a number for `_describe`; 0 for nothing."""
        return int(self._is_untolerated(taints, pod))

    def _describe(self, code: int) -> Status:
        return describe(code)

    def _is_untolerated(self, taints: Taints, pod: PodInfo) -> bool:
        return has_untolerated(taints, pod.spec.tolerations, self._compare_numbers)


def after_pod_change(pod: PodInfo, _old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
    """Queue where it is the pod itself whose tolerations changed."""
    return QueueingHint.QUEUE if new is not None and new.uid == pod.uid else QueueingHint.SKIP


def describe(_code: int) -> Status:
    """Say what a code of the filter means."""
    return _REJECTED
