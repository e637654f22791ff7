"""Caches, for pods of one shape, which status counts for each node that rejects them, and updates that row by row.

A crowd of pods that fit nowhere is tried again and again, and between two attempts a row or two have changed. So for
each set of kept columns, the number of the status that counts is kept for each row, with how many rows have it.
`Verdicts` uses it where it applies: every column is kept, and nothing else decides. Everywhere else, and with memos
off, `berth.engine.verdicts.rejected_rows` is asked; the two must agree.
"""

from collections.abc import Sequence
from operator import is_not

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.engine.memo import FEW_ROWS, MemoKey, Memos
from berth.engine.memo_entry import MemoEntry
from berth.engine.sums import MAX_SUMS, Derived
from berth.framework.diagnosis import CountedRejections
from berth.framework.status import Status
from berth.state.table import NodeTable

MAX_NUMBERS = 256
"""Once this many codes have a number that no row has any more, all rows are looked at again."""


class _RejectionNumbers(Derived):
    """The status that counts for each row, as a number; 0 if nothing rejects it.

    A number stands for a code of the plugin at one place in the profile. The invariant between two calls: `numbers`
    follows from the codes of all entries, `counts` says how often each number occurs in it, and `made` was made from
    both as they are, or is None.
    """

    __slots__ = ("counts", "extras", "made", "number_of", "numbers")

    def __init__(self) -> None:
        super().__init__()
        self.clear(0)

    def clear(self, capacity: int) -> None:
        """Start over: nothing is known to be rejected."""
        self.numbers: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.number_of: dict[tuple[int, int], int] = {}
        """By the plugin's index and its code."""
        self.counts = [capacity]
        self.extras: list[object] = []
        """The `describe` of each entry when `made` was made."""
        self.made: CountedRejections | None = None

    def number(self, place: int, code: int) -> int:
        """Return the number that stands for a plugin's code."""
        found = self.number_of.get((place, code))
        if found is None:
            found = self.number_of[place, code] = len(self.counts)
            self.counts.append(0)
        return found

    def put(self, row: int, number: int) -> None:
        """Set what counts for a row."""
        before = self.numbers.item(row)
        if before != number:
            self.numbers[row] = number
            self.counts[before] -= 1
            self.counts[number] += 1
            self.made = None

    @property
    def is_worn(self) -> bool:
        """Whether most numbers may stand for codes no longer in use. A plugin may have a code for each node, all in
        use.
        """
        return len(self.counts) > MAX_NUMBERS and self.counts.count(0) > MAX_NUMBERS

    def put_all(self, rows: NDArray[np.intp], numbers: NDArray[np.int32]) -> None:
        """Set what counts for many rows."""
        before = self.numbers[rows]
        # Nothing has changed for the pods of this shape, so the messages made for the last of them still hold.
        if np.array_equal(before, numbers):
            return
        self.numbers[rows] = numbers
        many = len(self.counts)
        change = np.bincount(numbers, minlength=many) - np.bincount(before, minlength=many)
        self.counts = [count + more for count, more in zip(self.counts, change.tolist(), strict=True)]
        self.made = None


class Rejections:
    """The rejections by all sets of kept columns that were asked for lately."""

    def __init__(self, memos: Memos) -> None:
        self._memos = memos
        self._kept: Recent[MemoKey, _RejectionNumbers] = Recent(MAX_SUMS)

    def by_first(self, key: MemoKey, plugins: Sequence[str], entries: Sequence[MemoEntry]) -> CountedRejections:
        """Return what the first plugin that rejects a node says of it, for each node: the same object until any of that
        changes.

        `key` names the entries, which are all kept and up to date, in the order of the plugins.
        """
        table, kept = self._memos.table, self._kept.get(key)
        if kept is None:
            kept = _RejectionNumbers()
            self._kept.put(key, kept, key.size)
        stale = kept.stale_rows(self._memos, entries, len(kept.numbers))
        rows: Sequence[int] = stale or ()
        if stale is None or kept.is_worn:
            kept.clear(table.capacity)
            rows = range(table.capacity)
        if len(rows) > FEW_ROWS:
            changed = np.array(rows, dtype=np.intp)
            kept.put_all(changed, _numbers_of(kept, table, entries, changed))
        else:
            for row in rows:
                kept.put(row, _number_of(kept, table, entries, row))
        # A plugin describes its codes again whenever it repairs a column as an array, usually in the same words.
        extras, known = [entry.extra for entry in entries], kept.made
        if known is None or any(map(is_not, extras, kept.extras)):
            kept.extras = extras
            statuses = _statuses(kept, plugins, entries)
            if known is None or known.statuses != tuple(statuses.values()):
                # Copies: decisions hold on to this value, while both arrays are still being repaired.
                kept.made = known = CountedRejections(statuses, kept.counts[:], kept.numbers.copy())
        return known


def _numbers_of(
    kept: _RejectionNumbers, table: NodeTable, entries: Sequence[MemoEntry], rows: NDArray[np.intp]
) -> NDArray[np.int32]:
    """Return the numbers that count for some rows."""
    numbers = np.zeros(len(rows), dtype=np.int32)
    left = table.valid[rows]
    for place, entry in enumerate(entries):
        if not entry.has_nonzero():
            continue
        codes = entry.column[rows]
        failing = left & (codes != 0)
        found, which = np.unique(codes[failing], return_inverse=True)
        numbers[failing] = np.array([kept.number(place, code) for code in found.tolist()], dtype=np.int32)[which]
        left &= ~failing
    return numbers


def _number_of(kept: _RejectionNumbers, table: NodeTable, entries: Sequence[MemoEntry], row: int) -> int:
    """Return the number that counts for one row."""
    if table.valid.item(row):
        for place, entry in enumerate(entries):
            code = entry.column.item(row)
            if code:
                return kept.number(place, code)
    return 0


def _statuses(kept: _RejectionNumbers, plugins: Sequence[str], entries: Sequence[MemoEntry]) -> dict[int, Status]:
    """Return the statuses behind the numbers in use, in the order in which `rejected_rows` yields them."""
    # By plugin and then by ascending code, as `verdicts._by_first` yields them: the order of the message depends on it.
    found = sorted((place, code, number) for (place, code), number in kept.number_of.items() if kept.counts[number])
    return {number: entries[place].extra(code).by(plugins[place]) for place, code, number in found}
