"""Why a pod fits nowhere: what each node was rejected for, and the message made of it.

Made by the search for nodes from the groups that `berth.engine.verdicts.rejected_rows` yields; read by PostFilter, by
the queue, which asks the plugins named here whether an event may help, and by people. Nodes rejected for the same
reason form one group of rows, so that 5,000 of them cost as little as one until reasons by node are asked for. Source
of the message: pkg/scheduler/framework/types.go, FitError. That lists every distinct reason, and so grows with the
nodes if reasons name them; ours goes into a condition, an event and the log at each attempt, and is bounded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.status import Code, Status
from berth.state.lazy import lazy

NODES_NAMED = 16
"""If more nodes than this are rejected for reasons that name them, the reasons are given without the names."""
MAX_CHARS = 2048
"""If all reasons together are longer than this, those that hold for most nodes are given, and the others counted."""


class RejectedNodes(NamedTuple):
    """Nodes that were rejected with the same status."""

    status: Status
    """The status that counts, with the name of the plugin that gave it; an extender's name or none if no plugin did."""
    rows: NDArray[np.intp]
    """Their rows in the node table, ascending, at least one."""


def overruled(groups: Iterable[RejectedNodes], last_word: Sequence[RejectedNodes]) -> list[RejectedNodes]:
    """Return the groups, with those of `last_word` taking precedence wherever both hold the same row.

    Extenders have the last word. They are asked about nodes that pass all plugins, but may name others as well.
    """
    if not last_word:
        return list(groups)
    taken = np.concatenate([rows for _, rows in last_word])
    left = [RejectedNodes(status, kept) for status, rows in groups if len(kept := np.setdiff1d(rows, taken))]
    return [*left, *last_word]


class CountedRejections:
    """Why all nodes are rejected, until any of it changes; pods that are alike share one, with its message.

    What is computed from it is kept with it, and it is never changed.
    """

    def __init__(self, statuses: Mapping[int, Status], counts: Sequence[int], numbers: NDArray[np.int32]) -> None:
        """`numbers` says which status counts for each row of the table, `counts` how many rows have each number.

        Each status has at least one row. Rows that hold no node have a number without a status.
        """
        self._by_number = statuses
        self._counts = counts
        self._numbers = numbers

    @lazy
    def statuses(self) -> tuple[Status, ...]:
        """The statuses of the nodes, in the order of the plugins."""
        return tuple(self._by_number.values())

    @lazy
    def groups(self) -> tuple[RejectedNodes, ...]:
        """The nodes by status; each node is in one group."""
        return tuple([self._group(number) for number in self._by_number])

    @lazy
    def errors(self) -> tuple[RejectedNodes, ...]:
        """The nodes on which a plugin failed."""
        return tuple([self._group(n) for n, status in self._by_number.items() if status.code is Code.ERROR])

    @lazy
    def words(self) -> str:
        """The reasons, each with its number of nodes, as a message shows them."""
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
        """The plugins that rejected nodes, except those in `waited_for`."""
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
        """`counted`, if known, is what was said about every node that was looked at."""
        self.node_count = node_count
        self.counted = counted
        """The rejections as a value shared with other attempts, as long as nothing was added."""
        self.absent_status: Status | None = None
        """The status of all other nodes: those that PreFilter left out."""
        self.pre_filter_status: Status | None = None
        """Set if PreFilter rejected the pod outright, so that its message is shown without a count of nodes."""
        self.unschedulable_plugins: set[str] = set() if counted is None else set(counted.rejectors)
        """The plugins whose events may help: each one named by a group, by PreFilter, or by extenders."""
        self.pending_plugins: set[str] = set() if counted is None else set(counted.waited_for)
        """Those that rejected with Pending: the pod waits for something that they themselves have started."""
        self.post_filter_message = ""
        self._name_of = name_of

    @lazy
    def groups(self) -> list[RejectedNodes]:
        """The statuses of the nodes that were looked at, in groups."""
        return [] if self.counted is None else list(self.counted.groups)

    @property
    def node_statuses(self) -> Mapping[str, Status]:
        """The status of each node that was looked at, by name. Built anew at each call."""
        return {self._name_of(row): group.status for group in self.groups for row in group.rows.tolist()}

    def again(self) -> "Diagnosis":
        """Return the same for another pod, of which PostFilter has said nothing yet."""
        found = Diagnosis(self.node_count, self._name_of, self.counted)
        found.absent_status, found.pre_filter_status = self.absent_status, self.pre_filter_status
        found.unschedulable_plugins |= self.unschedulable_plugins
        found.pending_plugins |= self.pending_plugins
        if self.counted is None:
            found.groups.extend(self.groups)
        return found

    def add(self, status: Status, rows: NDArray[np.intp]) -> None:
        """Note why nodes were rejected, and by which plugins."""
        self.groups.append(RejectedNodes(status, rows))
        self.counted = None
        self.note_plugin(status)

    def overrule(self, last_word: Sequence[RejectedNodes]) -> None:
        """Replace what was said about the same nodes by these groups; the plugins behind it stay noted."""
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
        """Yield each status with its number of nodes, those left out by PreFilter included."""
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
    """Return each reason with its number of nodes."""
    counts = without_many_names(counts)
    parts = histogram((reason, count) for status, count in counts for reason in status.reasons)
    return f" {', '.join(parts)}." if parts else ""


def without_many_names(counts: Iterable[tuple[Status, int]]) -> Sequence[tuple[Status, int]]:
    """Return statuses with their numbers of nodes, in general terms if they would name many nodes."""
    counts = list(counts)
    if sum(count for status, count in counts if status.in_general) <= NODES_NAMED:
        return counts
    return [(status.without_names, count) for status, count in counts]


def histogram(reasons: Iterable[tuple[str, int]]) -> list[str]:
    """Return `count reason` texts, sorted as texts; if they would be too long, the last one counts what is left out."""
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
