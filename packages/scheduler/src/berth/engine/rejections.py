"""Which status counts for each node that rejects pods of one shape, and how many nodes have it: a view of columns.

A crowd of pods that fit nowhere is tried again and again, and between two attempts a row or two have changed. So for
each set of columns, the number of the status that counts is kept for each row, with how many rows have it. `Verdicts`
uses it where it applies: every plugin that rejects anything has a column, and nothing else decides. Everywhere else
`berth.engine.verdicts.rejected_rows` is asked; the two must agree.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.columns import PluginColumn
from berth.framework.diagnosis import CountedRejections
from berth.framework.status import Status
from berth.state.table import NodeTable
from berth.state.views import FEW_ROWS, ChangedRows, Memory, View

MAX_NUMBERS = 256
"""Once this many codes have a number that no row has any more, all rows are looked at again."""


class Rejections(View):
    """The status that counts for each row, as a number; 0 if nothing rejects it.

    A number stands for a code of the plugin at one place in the profile. `_counts` says how often each number occurs in
    `_numbers`, and `_made` was made from both as they are, or is None.
    """

    __slots__ = ("_columns", "_counts", "_made", "_number_of", "_numbers", "_wordings")

    def __init__(self, columns: Sequence[PluginColumn]) -> None:
        """The columns are those of the plugins that may reject a row, in the order of the profile."""
        self._columns = columns
        self._begin_anew(0)
        super().__init__(columns)

    def _begin_anew(self, capacity: int) -> None:
        self._numbers: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self._number_of: dict[tuple[int, int], int] = {}
        """By the plugin's index and its code."""
        self._counts = [capacity]
        self._wordings: list[int] = []
        """How often each column's words had been replaced when `_made` was made."""
        self._made: CountedRejections | None = None

    def compute_all(self, memory: Memory, asking: Any) -> None:
        """Look at all rows."""
        self._begin_anew(memory.table.capacity)
        self._put_all(np.arange(memory.table.capacity), memory.table)

    def compute_rows(self, memory: Memory, asking: Any, rows: ChangedRows) -> bool:
        """Look at some rows; not if most numbers stand for codes no longer in use. A plugin may have a code for each
        node, all in use.
        """
        if len(self._counts) > MAX_NUMBERS and self._counts.count(0) > MAX_NUMBERS:
            return False
        if len(rows.rows) > FEW_ROWS:
            self._put_all(rows.array(), memory.table)
        else:
            for row in rows.rows:
                self._put(row, self._at(memory.table, row))
        return True

    def release(self) -> None:
        """Let go of the numbers."""
        self._begin_anew(0)

    def nbytes(self) -> int:
        """Return the size of the numbers, and of the copy that decisions hold."""
        return 2 * self._numbers.nbytes

    def _number(self, place: int, code: int) -> int:
        """Return the number that stands for a plugin's code."""
        found = self._number_of.get((place, code))
        if found is None:
            found = self._number_of[place, code] = len(self._counts)
            self._counts.append(0)
        return found

    def _at(self, table: NodeTable, row: int) -> int:
        """Return the number that counts for one row."""
        if table.valid.item(row):
            for place, column in enumerate(self._columns):
                code = column.column.item(row)
                if code:
                    return self._number(place, code)
        return 0

    def _over(self, table: NodeTable, rows: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the numbers that count for some rows."""
        numbers = np.zeros(len(rows), dtype=np.int32)
        left = table.valid[rows]
        for place, column in enumerate(self._columns):
            codes = column.column[rows]
            failing = left & (codes != 0)
            if failing.any():
                found, which = np.unique(codes[failing], return_inverse=True)
                numbers[failing] = np.array([self._number(place, code) for code in found.tolist()], np.int32)[which]
                left &= ~failing
        return numbers

    def _put(self, row: int, number: int) -> None:
        before = self._numbers.item(row)
        if before != number:
            self._numbers[row] = number
            self._counts[before] -= 1
            self._counts[number] += 1
            self._made = None

    def _put_all(self, rows: NDArray[np.intp], table: NodeTable) -> None:
        before, numbers = self._numbers[rows], self._over(table, rows)
        # Nothing has changed for the pods of this shape, so the messages made for the last of them still hold.
        if np.array_equal(before, numbers):
            return
        self._numbers[rows] = numbers
        many = len(self._counts)
        change = np.bincount(numbers, minlength=many) - np.bincount(before, minlength=many)
        self._counts = [count + more for count, more in zip(self._counts, change.tolist(), strict=True)]
        self._made = None

    def counted(self) -> CountedRejections:
        """Return what the first plugin that rejects a node says of it, for each node: the same object until any of that
        changes.
        """
        # A plugin describes its codes again whenever a column is repaired as an array, usually in the same words.
        made, wordings = self._made, [column.wordings for column in self._columns]
        if made is None or wordings != self._wordings:
            self._wordings = wordings
            statuses = self._statuses()
            if made is None or made.statuses != tuple(statuses.values()):
                # Copies: decisions hold on to this value, while both arrays are still being repaired.
                self._made = made = CountedRejections(statuses, self._counts[:], self._numbers.copy())
        return made

    def _statuses(self) -> dict[int, Status]:
        """Return the statuses behind the numbers in use, in the order in which `rejected_rows` yields them."""
        # By plugin and then by ascending code, as `verdicts._by_first` yields them: the order of the message depends on
        # it.
        used = sorted((*at, number) for at, number in self._number_of.items() if self._counts[number])
        by_number: dict[int, Status] = {}
        for place, code, number in used:
            column = self._columns[place]
            by_number[number] = column.extra(code).by(column.runner.name)
        return by_number
