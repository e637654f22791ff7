"""NodeLabel of v1.20: nodes must have or lack certain labels, or are preferred if they do, whatever the values.

The policy arguments labelsPresence (Filter) and labelPreference (Score) configure it. Upstream divides by zero where
it scores without any preference; here every node then gets 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.config.errors import invalid
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    MAX_NODE_SCORE,
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    Rows,
    ScorePlugin,
    Scores,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Promises
from berth.framework.status import Status, unresolvable
from berth.plugins.resources.columns import row_count
from berth.state.label_index import ABSENT, Mask
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

REASON = "node(s) didn't have the requested labels"

_REJECTED = unresolvable(REASON)


class NodeLabelArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Label keys: required to be present or absent, and preferred to be present or absent."""

    present_labels: tuple[str, ...] = ()
    absent_labels: tuple[str, ...] = ()
    present_labels_preference: tuple[str, ...] = ()
    absent_labels_preference: tuple[str, ...] = ()

    def validate(self, path: str) -> Iterator[str]:
        """Name labels that are wanted and unwanted at once."""
        pairs = (
            ("presentLabels", self.present_labels, self.absent_labels),
            ("presentLabelsPreference", self.present_labels_preference, self.absent_labels_preference),
        )
        for name, present, absent in pairs:
            for label in sorted(set(present) & set(absent)):
                yield invalid(f"{path}.{name}", label, "the label is asked to be absent too; name it once")


def meets(labels: Mapping[str, str], args: NodeLabelArgs) -> bool:
    """Say whether a node of these labels has all that it must have and nothing that it must not have."""
    return all(key in labels for key in args.present_labels) and not any(key in labels for key in args.absent_labels)


def preference_score(labels: Mapping[str, str], args: NodeLabelArgs) -> int:
    """Return which share of the preferences a node of these labels meets, in percent."""
    met = sum(key in labels for key in args.present_labels_preference)
    met += sum(key not in labels for key in args.absent_labels_preference)
    return met * MAX_NODE_SCORE // max(_preferences(args), 1)


def _preferences(args: NodeLabelArgs) -> int:
    return len(args.present_labels_preference) + len(args.absent_labels_preference)


@final
class NodeLabel(FilterPlugin, ColumnFilterPlugin, ScorePlugin, ColumnScorePlugin, SignaturePlugin, EventsPlugin):
    """Filter, Score."""

    name: ClassVar[str] = "NodeLabel"
    args_type: ClassVar[type[msgspec.Struct]] = NodeLabelArgs
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.NODE}),
        score_depends_on=frozenset({Dependency.NODE}),
    )

    def __init__(self, args: NodeLabelArgs, handle: Handle) -> None:
        self._args = args

    def signature(self, pod: PodInfo) -> tuple[()]:
        """Return the same for all pods: nothing of the pod is read."""
        return ()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node without the labels."""
        return None if meets(node.labels, self._args) else _REJECTED

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where a label is missing or one too many."""
        codes = np.zeros(row_count(table, rows), dtype=np.int32)
        for has in _has(table, rows, self._args.present_labels):
            codes[~has] = 1
        for has in _has(table, rows, self._args.absent_labels):
            codes[has] = 1
        return FilterColumn(codes, lambda _code: _REJECTED)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score the preferences that a node meets."""
        return preference_score(node.labels, self._args)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Return int64 of shape (len(rows),): the percentage of preferences met."""
        met: Scores = np.zeros(row_count(table, rows), dtype=np.int64)
        for has in _has(table, rows, self._args.present_labels_preference):
            met += has
        for has in _has(table, rows, self._args.absent_labels_preference):
            met += ~has
        return met * MAX_NODE_SCORE // max(_preferences(self._args), 1)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register nodes that come or change their labels."""
        return (ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL)),)


def _has(table: NodeTable, rows: Rows, keys: Iterable[str]) -> Iterator[Mask]:
    return (table.label(key).ids[rows] != ABSENT for key in keys)
