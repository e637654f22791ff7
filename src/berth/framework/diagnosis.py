"""Why a pod fits nowhere: what each node was rejected for, and the message made of it.

Made by the search for nodes of the groups that `berth.engine.verdicts.rejected_rows` yields; read by PostFilter, by the
queue, which asks the plugins named here whether an event may help, and by people. Nodes rejected for the same reason
are one group of rows, so that 5,000 of them cost as little as one until node by node reasons are asked for.
Source of the message: pkg/scheduler/framework/types.go, FitError.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.status import Code, Status


class RejectedNodes(NamedTuple):
    """Nodes that were rejected with the same status."""

    status: Status
    """The status that counts, with the name of the plugin that gave it; an extender's or no name where none did."""
    rows: NDArray[np.intp]
    """Their rows in the node table, ascending, at least one."""


def overruled(groups: Iterable[RejectedNodes], last_word: Sequence[RejectedNodes]) -> list[RejectedNodes]:
    """Return the groups with those of `last_word` in their place wherever both hold the same row.

    Extenders have the last word. They are asked about nodes that pass all plugins, but may name others as well.
    """
    if not last_word:
        return list(groups)
    taken = np.concatenate([rows for _, rows in last_word])
    left = [RejectedNodes(status, kept) for status, rows in groups if len(kept := np.setdiff1d(rows, taken))]
    return [*left, *last_word]


class Diagnosis:
    """The outcome of a search that found nothing."""

    def __init__(self, node_count: int, name_of: Callable[[int], str]) -> None:
        self.node_count = node_count
        self.groups: list[RejectedNodes] = []
        """What was said of the nodes that were looked at."""
        self.absent_status: Status | None = None
        """The status of all other nodes: those that PreFilter left out."""
        self.pre_filter_status: Status | None = None
        """Set where PreFilter rejected the pod outright, so that its message is shown without a count of nodes."""
        self.unschedulable_plugins: set[str] = set()
        """The plugins whose events may help: each one that is named by a group, by PreFilter, or by extenders."""
        self.pending_plugins: set[str] = set()
        """Those that rejected with Pending: the pod waits for what they themselves have set in motion."""
        self.post_filter_message = ""
        self._name_of = name_of

    @property
    def node_statuses(self) -> Mapping[str, Status]:
        """The status of each node that was looked at, by name. Built anew at each call."""
        return {self._name_of(row): group.status for group in self.groups for row in group.rows.tolist()}

    def add(self, status: Status, rows: NDArray[np.intp]) -> None:
        """Note why nodes were rejected, and by whom."""
        self.groups.append(RejectedNodes(status, rows))
        self.note_plugin(status)

    def note_plugin(self, status: Status) -> None:
        """Note which plugin to ask about events that may help."""
        if not status.plugin:
            return
        if status.code is Code.PENDING:
            self.pending_plugins.add(status.plugin)
        elif status.code.is_rejection:
            self.unschedulable_plugins.add(status.plugin)

    def status_counts(self) -> Iterator[tuple[Status, int]]:
        """Yield each status with how many nodes it holds for, those left out by PreFilter included."""
        looked_at = 0
        for group in self.groups:
            looked_at += len(group.rows)
            yield group.status, len(group.rows)
        if self.absent_status is not None and self.node_count > looked_at:
            yield self.absent_status, self.node_count - looked_at

    def message(self) -> str:
        """Return the text that the pod's condition and its event show."""
        after = f" {self.post_filter_message}" if self.post_filter_message else ""
        return f"0/{self.node_count} nodes are available:{self._why()}{after}"

    def _why(self) -> str:
        if self.pre_filter_status is not None:
            return f" {self.pre_filter_status.message}."
        parts = histogram((reason, count) for status, count in self.status_counts() for reason in status.reasons)
        return f" {', '.join(parts)}." if parts else ""


def histogram(reasons: Iterable[tuple[str, int]]) -> list[str]:
    """Return `count reason` texts, sorted as texts."""
    counts: Counter[str] = Counter()
    for reason, count in reasons:
        counts[reason] += count
    return sorted(f"{count} {reason}" for reason, count in counts.items())
