"""Several kept columns taken together: which rows pass them all, and what they sum up to.

For each set of entries that is asked for again and again (the replicas of one workload), the result is kept too, and
only the rows that have changed since are computed again. That is right as long as every entry was only repaired, which
changes no row that the logs do not name. An entry that was computed as a whole has another epoch, so the sums that it
is part of are computed as a whole too.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.engine.memo import FEW_ROWS, MemoKey, Memos
from berth.engine.memo_entry import MemoEntry

Mask = NDArray[np.bool_]
Int64 = NDArray[np.int64]
BestRows = NDArray[np.intp] | list[int]

MAX_SUMS = 192
"""How many sets are kept; each costs up to 8 bytes a node."""

UNRANKED = -(2**62)
"""Stands for a row that is not feasible in a ranking."""


class Ranking:
    """The totals of all rows, `UNRANKED` where a row is not feasible, and which rows have the highest.

    Among thousands of nodes many are often equally good. The best are kept in an ascending list. The invariant: the
    list is either absent or holds exactly the rows whose total is `_highest`, and no row has more.
    """

    __slots__ = ("_best", "_has_changed", "_highest", "totals")

    def __init__(self, totals: Int64) -> None:
        self.totals = totals
        self._highest = 0
        self._best: list[int] | None = None
        self._has_changed = False

    def put(self, row: int, total: int) -> None:
        """Set the total of a row."""
        before, highest, best = self.totals.item(row), self._highest, self._best
        self.totals[row] = total
        self._has_changed = True
        # Without a list there is none to keep right: `best_rows` will search all totals.
        if best is None or before == total:
            return
        if total > highest:
            self._highest, self._best = total, [row]
        elif total == highest:
            insort(best, row)
        # A row that was among the best has fallen. The list stays right without it; only when it runs empty is the
        # highest total unknown, and all totals have to be searched again.
        elif before == highest:
            del best[bisect_left(best, row)]
            self._best = best or None

    def best_rows(self) -> BestRows:
        """Return the rows with the highest total, ascending; not to be written to, and good until the next `put`."""
        if self._best is not None:
            return self._best
        totals = self.totals
        self._highest = highest = totals.item(totals.argmax())
        best: NDArray[np.intp] = (totals == highest).nonzero()[0]
        if self._has_changed:  # repairs come row by row, so keeping the list will pay
            self._best = best.tolist()
        return best


class Derived:
    """What is kept was derived from some entries as they were at these positions of the change logs."""

    __slots__ = ("checked", "node_position", "pod_position", "sources")

    def __init__(self) -> None:
        self.sources: list[int] = []
        """The epochs of the entries that it was computed from."""
        self.checked = -1
        """`Memos.epochs` when these were last compared: while that has not grown, no entry was computed as a whole."""
        self.node_position = self.pod_position = -1

    def stale_rows(self, memos: Memos, entries: Sequence[MemoEntry], length: int) -> list[int] | None:
        """Return the rows that are out of date of something that has this many; None for all.

        The positions move at once, so the caller must bring all of these rows up to date before it returns.
        """
        table, epoch, rows = memos.table, memos.epochs, None
        # While none of the entries was computed as a whole, they differ from what this was made of only in rows that
        # the logs name. Some may look at the pods of a node, so both logs count for all of them.
        if length == table.capacity and (self.checked == epoch or self.sources == _epochs(entries)):
            rows = memos.changed_rows(self.node_position, self.pod_position, with_pods=True)
        if self.checked != epoch:
            self.checked, self.sources = epoch, _epochs(entries)
        # Now, and not when the rows are up to date: the caller sees to that before it returns.
        self.node_position, self.pod_position = table.node_log.position, table.pod_log.position
        return rows


class _Sum(Derived):
    __slots__ = ("column", "mask", "ranking")

    ranking: Ranking

    def __init__(self) -> None:
        super().__init__()
        self.column: NDArray[np.bool_] | NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.mask: Mask | None = None
        """The mask that a ranking was computed with."""


class Sums:
    """Masks and totals over sets of entries. What is returned must not be written to.

    A key names a set of entries that are all kept; without one, everything is computed afresh.
    """

    def __init__(self, memos: Memos) -> None:
        self._memos = memos
        self._table = memos.table
        self._sums: Recent[MemoKey, _Sum] = Recent(MAX_SUMS)

    def passing(
        self, key: MemoKey | None, entries: Sequence[MemoEntry], deciding: Sequence[MemoEntry] | None = None
    ) -> Mask:
        """Return the mask of valid rows whose code is 0 in every entry.

        Where `deciding` is given, all entries but these are known to hold nothing but zeros.
        """
        deciding = entries if deciding is None else deciding
        found, rows = self._stale_rows(key, entries)
        if rows is None:
            mask = self._table.valid.copy()
            for entry in deciding:
                # Most filters reject nothing; the entry remembers that, which saves a comparison of all rows.
                if entry.has_nonzero():
                    mask &= entry.column == 0
            found.column = mask
        elif len(rows) > FEW_ROWS:
            # In place, though the verdicts of the last cycle hold this array: a mask is read within its cycle only, and
            # what outlives the cycle is made of snapshots.
            found.column[rows] = self._pass(deciding, np.array(rows, dtype=np.intp))
            return found.column  # type: ignore[return-value]
        for row in rows or ():
            found.column[row] = self._table.valid.item(row) and not any(
                [e.column.item(row) for e in deciding]  # noqa: C419 (a list is faster)
            )
        return found.column  # type: ignore[return-value]

    def _pass(self, entries: Sequence[MemoEntry], rows: NDArray[np.intp]) -> Mask:
        """Return, bool of shape (rows,), whether a row holds a node and its code is 0 in every entry."""
        mask = self._table.valid[rows]
        for entry in entries:
            if entry.has_nonzero():
                mask &= entry.column[rows] == 0
        return mask

    def total(self, key: MemoKey | None, entries: Sequence[MemoEntry], weights: Sequence[int]) -> Int64:
        """Return the weighted sum of the entries' columns."""
        found, rows = self._stale_rows(key, entries)
        if rows is None:
            found.column = _summed(entries, weights)
        for row in rows or ():
            found.column[row] = sum([e.column.item(row) * w for e, w in zip(entries, weights, strict=True)])
        return found.column  # type: ignore[return-value]

    def ranked(self, key: MemoKey, mask: Mask, entries: Sequence[MemoEntry], weights: Sequence[int]) -> Ranking:
        """Return the weighted sum where a kept mask (`passing`) passes, and `UNRANKED` elsewhere; `key` names both."""
        found, rows = self._stale_rows(key, entries)
        # A kept mask is repaired in place, so while it is the same array the logs name every row where it has changed.
        # Another array was computed as a whole, and may differ anywhere.
        if rows is None or found.mask is not mask:
            found.ranking, found.mask, rows = Ranking(np.where(mask, _summed(entries, weights), UNRANKED)), mask, None
            found.column = found.ranking.totals
        for row in rows or ():
            total = UNRANKED
            if mask.item(row):
                total = sum([e.column.item(row) * w for e, w in zip(entries, weights, strict=True)])
            found.ranking.put(row, total)
        return found.ranking

    def _stale_rows(self, key: MemoKey | None, entries: Sequence[MemoEntry]) -> tuple[_Sum, list[int] | None]:
        """Return the kept sum and the rows of it that are out of date, all to be brought up to date; None for all."""
        if key is None or not self._memos.enabled:
            return _Sum(), None
        found = self._sums.get(key)
        if found is None:
            found = _Sum()
            self._sums.put(key, found, key.size)
        return found, found.stale_rows(self._memos, entries, len(found.column))


def _summed(entries: Sequence[MemoEntry], weights: Sequence[int]) -> Int64:
    # The product is a new array, so the additions below do not write to a kept column.
    total: Int64 = entries[0].column * weights[0]
    for entry, weight in zip(entries[1:], weights[1:], strict=True):
        total += entry.column if weight == 1 else entry.column * weight
    return total


def _epochs(entries: Sequence[MemoEntry]) -> list[int]:
    return [entry.epoch for entry in entries]
