"""Why a pod fits nowhere: what each node was rejected for, and the message made of it.

Made by the search for nodes of the groups that `berth.engine.verdicts.rejected_rows` yields; read by PostFilter, by the
queue, which asks the plugins named here whether an event may help, and by people. Nodes rejected for the same reason
are one group of rows, so that 5,000 of them cost as little as one until node by node reasons are asked for.
Source of the message: pkg/scheduler/framework/types.go, FitError. That has every distinct reason, and so grows with the
nodes where a reason names one; ours goes into a condition, an event and the log at each attempt, and is bounded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.status import Code, Status
from berth.state.lazy import lazy

NODES_NAMED = 16
"""Where more nodes than this are rejected for reasons that name them, the reasons are told without the names."""
MAX_CHARS = 2048
"""When all reasons together are longer than this, those are told that hold for most nodes, and the others counted."""


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


class CountedRejections:
    """Why all nodes are rejected, for as long as none of it changes: pods that are alike share one, and its words.

    What is computed from it is kept with it, and nothing of it is ever changed.
    """

    def __init__(self, statuses: Mapping[int, Status], counts: Sequence[int], numbers: NDArray[np.int32]) -> None:
        """`numbers` says which status counts for each row of the table, `counts` how many rows have each number.

        Each status has one row at least. Rows that hold no node have a number without a status.
        """
        self._by_number = statuses
        self._counts = counts
        self._numbers = numbers

    @lazy
    def statuses(self) -> tuple[Status, ...]:
        """What is said of the nodes, by the plugins in their order."""
        return tuple(self._by_number.values())

    @lazy
    def groups(self) -> tuple[RejectedNodes, ...]:
        """The nodes by status; each node is in one group."""
        return tuple([self._group(number) for number in self._by_number])

    @lazy
    def errors(self) -> tuple[RejectedNodes, ...]:
        """The nodes on which a plugin broke."""
        return tuple([self._group(n) for n, status in self._by_number.items() if status.code is Code.ERROR])

    @lazy
    def words(self) -> str:
        """The reasons with how many nodes they hold for, as a message shows them."""
        return _in_words((status, self._counts[number]) for number, status in self._by_number.items())

    @lazy
    def curable_rows(self) -> NDArray[np.intp]:
        """The rows, ascending, of nodes that were rejected with Unschedulable: removing pods may help there."""
        is_curable = np.zeros(len(self._counts), dtype=np.bool_)
        is_curable[[n for n, status in self._by_number.items() if status.code is Code.UNSCHEDULABLE]] = True
        return is_curable[self._numbers].nonzero()[0]

    def _group(self, number: int) -> RejectedNodes:
        return RejectedNodes(self._by_number[number], (self._numbers == number).nonzero()[0])

    @lazy
    def rejectors(self) -> frozenset[str]:
        """The plugins that rejected nodes, but for those that are waited for."""
        named = (status for status in self.statuses if status.plugin and status.code is not Code.PENDING)
        return frozenset(status.plugin for status in named if status.code.is_rejection)

    @lazy
    def waited_for(self) -> frozenset[str]:
        """The plugins that rejected nodes with Pending."""
        return frozenset(status.plugin for status in self.statuses if status.plugin and status.code is Code.PENDING)


class Diagnosis:
    """The outcome of a search that found nothing."""

    def __init__(
        self, node_count: int, name_of: Callable[[int], str], counted: CountedRejections | None = None
    ) -> None:
        """`counted`, where it is known, is what was said of every node that was looked at."""
        self.node_count = node_count
        self.counted = counted
        """What was said as one value that is shared with other attempts, as long as nothing was added to it."""
        self.absent_status: Status | None = None
        """The status of all other nodes: those that PreFilter left out."""
        self.pre_filter_status: Status | None = None
        """Set where PreFilter rejected the pod outright, so that its message is shown without a count of nodes."""
        self.unschedulable_plugins: set[str] = set() if counted is None else set(counted.rejectors)
        """The plugins whose events may help: each one that is named by a group, by PreFilter, or by extenders."""
        self.pending_plugins: set[str] = set() if counted is None else set(counted.waited_for)
        """Those that rejected with Pending: the pod waits for what they themselves have set in motion."""
        self.post_filter_message = ""
        self._name_of = name_of

    @lazy
    def groups(self) -> list[RejectedNodes]:
        """What was said of the nodes that were looked at."""
        return [] if self.counted is None else list(self.counted.groups)

    @property
    def node_statuses(self) -> Mapping[str, Status]:
        """The status of each node that was looked at, by name. Built anew at each call."""
        return {self._name_of(row): group.status for group in self.groups for row in group.rows.tolist()}

    def add(self, status: Status, rows: NDArray[np.intp]) -> None:
        """Note why nodes were rejected, and by whom."""
        self.groups.append(RejectedNodes(status, rows))
        self.counted = None
        self.note_plugin(status)

    def overrule(self, last_word: Sequence[RejectedNodes]) -> None:
        """Put these groups in the place of what was said of the same nodes before; who said that stays noted."""
        self.groups[:] = overruled(self.groups, last_word)
        self.counted = None

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
        if self.counted is not None and self.absent_status is None:
            return self.counted.words
        return _in_words(self.status_counts())


def _in_words(counts: Iterable[tuple[Status, int]]) -> str:
    """Return each reason with how many nodes it holds for."""
    counts = without_many_names(counts)
    parts = histogram((reason, count) for status, count in counts for reason in status.reasons)
    return f" {', '.join(parts)}." if parts else ""


def without_many_names(counts: Iterable[tuple[Status, int]]) -> Sequence[tuple[Status, int]]:
    """Return statuses and how many nodes have each, in general words where theirs would name many nodes."""
    counts = list(counts)
    if sum(count for status, count in counts if status.in_general) <= NODES_NAMED:
        return counts
    return [(status.without_names, count) for status, count in counts]


def histogram(reasons: Iterable[tuple[str, int]]) -> list[str]:
    """Return `count reason` texts, sorted as texts; where they would be too long, the last counts what is left out."""
    counts: Counter[str] = Counter()
    for reason, count in reasons:
        counts[reason] += count
    if sum(map(len, counts)) <= MAX_CHARS:
        return sorted(f"{count} {reason}" for reason, count in counts.items())
    told: list[str] = []
    left, room = sum(counts.values()), MAX_CHARS
    for reason, count in sorted(counts.items(), key=lambda said: (-said[1], said[0])):
        shown = reason if len(reason) <= MAX_CHARS // 2 else f"{reason[: MAX_CHARS // 2]}…"
        if len(shown) > room:
            break
        told.append(f"{count} {shown}")
        left, room = left - count, room - len(shown)
    rest = [f"{left} others for {len(counts) - len(told)} reasons"] if left else []
    return sorted(told) + rest
