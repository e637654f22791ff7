"""One cached column, what it is valid for, and its earlier states.

Columns are repaired in place, and each repair first writes what it overwrites to the column's journal. Code that must
read a column later (the trace of decisions) takes a `ColumnSnapshot`, which undoes later repairs on a copy; taking one
costs nothing. `memo.py` stores entries and brings them up to date.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import OverDomains

Column = NDArray[Any]

JOURNAL_AT_MOST = 64
"""After so many repairs, or as many rows as there are, the entry goes on with a copy of the column and an empty
journal; the old ones stay as they are for the snapshots that hold them. So a snapshot has at most this many repairs to
undo, and a journal is never much larger than its column."""

NOTHING = np.zeros(0)

Journal = list[tuple[NDArray[np.intp] | int, Any]]
"""The rows of each repair, or its one row, and the values that were there before."""


class ColumnSnapshot(NamedTuple):
    """A column as it was at one moment, however often it has been repaired since.

    Column and journal are the entry's own, and the journal is only ever appended to: undoing what was appended after
    the first `repairs` entries, latest first, gives the column of that moment.
    """

    column: Column
    journal: Journal
    repairs: int

    def values(self) -> Column:
        """Return the column as it was; do not write to it."""
        if len(self.journal) == self.repairs:
            return self.column
        column = self.column.copy()
        # Latest first: if a row was repaired more than once, its oldest value is written last and stays.
        for rows, before in reversed(self.journal[self.repairs :]):
            column[rows] = before
        return column


class DomainSnapshot(NamedTuple):
    """A column by domain; it is expanded to rows when read."""

    over: OverDomains

    def values(self) -> Column:
        """Return the column."""
        # "wrap" also takes -1 for the last element, and is twice as fast as checking every index.
        return self.over.values.take(self.over.ids, mode="wrap")


class MemoEntry:
    """One column and what it is valid for. `epoch` changes whenever the whole column is computed."""

    __slots__ = (
        "_has_nonzero",
        "_journal",
        "_journaled",
        "_snapshot",
        "column",
        "epoch",
        "extra",
        "is_kept",
        "made",
        "node_position",
        "object_changes",
        "pod_position",
        "used",
        "versions",
    )

    def __init__(self) -> None:
        self.is_kept = False
        self.used = 0
        """When it was last asked for, in refreshes of `Memos`."""
        self.versions: tuple[int, ...] = ()
        self.object_changes = -1
        """The count of object changes when `versions` were last found to be current; -1 if they were not checked."""
        self.node_position = self.pod_position = -1
        self.epoch = 0
        self.column: Column = NOTHING
        self.extra: Any = None
        self._journal: Journal = []
        self._journaled = 0
        """How many rows the journal holds."""
        self._snapshot: ColumnSnapshot | None = None
        self._has_nonzero: bool | None = None
        self.made: Any = None
        """What the plugin's runner has derived from the column; None once the column has changed."""

    def drop(self) -> None:
        """Let go of the column, so that plans which still hold the entry do not keep its memory."""
        self.is_kept = False
        self.epoch = 0
        self.set(NOTHING, None)

    def set(self, column: Column, extra: Any) -> None:
        """Set a column that was computed as a whole; snapshots keep the old one and its journal."""
        self.column, self.extra = column, extra
        self._journal, self._journaled = [], 0
        self._changed()

    def snapshot(self) -> ColumnSnapshot:
        """Return the column as it is now."""
        if self._snapshot is None:
            self._snapshot = ColumnSnapshot(self.column, self._journal, len(self._journal))
        return self._snapshot

    def has_nonzero(self) -> bool:
        """Say whether any row has a value other than 0."""
        if self._has_nonzero is None:
            self._has_nonzero = bool(self.column.any())
        return self._has_nonzero

    def repair(self, rows: NDArray[np.intp], values: Column, extra: Any) -> None:
        """Write new values to some rows, remembering the old ones."""
        self._journaled += len(rows)
        if len(self._journal) >= JOURNAL_AT_MOST or self._journaled > len(self.column):
            self.column, self._journal, self._journaled = self.column.copy(), [], len(rows)
        # The old values go to the journal before they are overwritten; snapshots rely on it, as they hold this column.
        self._journal.append((rows, self.column[rows]))
        self.column[rows] = values
        self.extra = extra
        self._changed()

    def repair_row(self, row: int, value: int) -> None:
        """Write a new value to one row, remembering the old one."""
        self._journaled += 1
        # `_journaled` need not be looked at here: single rows add no more than `JOURNAL_AT_MOST` to it.
        if len(self._journal) >= JOURNAL_AT_MOST:
            self.column, self._journal, self._journaled = self.column.copy(), [], 1
        self._journal.append((row, self.column[row]))
        self.column[row] = value
        self._snapshot = self.made = None  # as `_changed` has it, without its frame
        if value:
            self._has_nonzero = True
        elif self._has_nonzero:  # it may have been the last one
            self._has_nonzero = None

    def _changed(self) -> None:
        # Each write discards what was derived from the column, so `made` is always current.
        self._snapshot = self.made = self._has_nonzero = None


class DomainEntry(MemoEntry):
    """The column of a filter that answered by domain for one pod; never cached."""

    __slots__ = ("_spread", "over")

    def __init__(self, over: OverDomains, extra: Any) -> None:
        self._spread: Column = NOTHING
        super().__init__()
        self.over = over
        self.extra = extra

    @property
    def column(self) -> Column:
        """The values by row, computed on demand."""
        if self._spread is NOTHING:
            self._spread = DomainSnapshot(self.over).values()
        return self._spread

    @column.setter
    def column(self, column: Column) -> None:
        self._spread = column

    def snapshot(self) -> Any:
        """Return the column as it is."""
        return DomainSnapshot(self.over)

    def has_nonzero(self) -> bool:
        """Say whether any domain, even one without nodes, has a value other than 0."""
        codes = self.over.values[:-1]
        return bool(np.count_nonzero(codes))

    def fits(self) -> NDArray[np.bool_]:
        """Return by row, bool of shape (rows of the table,), whether its domain has the value 0."""
        found: NDArray[np.bool_] = (self.over.values == 0).take(self.over.ids, mode="wrap")
        return found
