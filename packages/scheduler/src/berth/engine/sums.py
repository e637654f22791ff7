"""Combines cached columns: which rows pass them all, and their weighted sum.

For each set of entries that is asked for again and again (by the replicas of one workload), the result is cached too,
and only the rows that have changed since are recomputed. That is right as long as every entry was only repaired, which
changes only rows that the logs name. An entry that was computed as a whole has a new epoch, so the sums it is part of
are computed as a whole too.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.engine.memo import FEW_ROWS, MemoKey, Memos
from berth.engine.memo_entry import MemoEntry
from berth.framework.interface import OverDomains

Mask = NDArray[np.bool_]
Int64 = NDArray[np.int64]
BestRows = NDArray[np.intp] | Sequence[int]

MAX_SUMS = 192
"""How many sets are kept; each costs up to 8 bytes a node."""

UNRANKED = -(2**62)
"""Stands for a row that is not feasible in a ranking."""


class Ranking:
    """The totals of all rows, `UNRANKED` if a row is not feasible, and which rows have the highest.

    Among thousands of nodes many are often equally good, so the best are kept in an ascending list. The invariant: the
    list is either absent or holds exactly the rows whose total is `_highest`, and no row has more.
    """

    __slots__ = ("_best", "_has_changed", "_highest", "_rows", "totals")

    def __init__(self, totals: Int64, rows: NDArray[np.intp] | None = None) -> None:
        """`rows` are the rows that the totals belong to, ascending, unless these are all rows."""
        self.totals = totals
        self._rows = rows
        self._highest = 0
        self._best: list[int] | None = None
        self._has_changed = rows is not None

    def put(self, row: int, total: int) -> None:
        """Set the total of a row; if the totals cover only some rows, by its index among these."""
        before, highest, best = self.totals.item(row), self._highest, self._best
        self.totals[row] = total
        row = row if self._rows is None else self._rows.item(row)
        self._has_changed = True
        # Without a list there is nothing to maintain: `best_rows` will search all totals.
        if best is None or before == total:
            return
        if total > highest:
            self._highest, self._best = total, [row]
        elif total == highest:
            insort(best, row)
        # A row that was among the best has dropped. The list stays right without it; only once it is empty is the
        # highest total unknown, and all totals have to be searched again.
        elif before == highest:
            del best[bisect_left(best, row)]
            self._best = best or None

    def highest(self) -> int:
        """Return the highest total."""
        if self._best is None:
            self.best_rows()
        return self._highest

    def best_rows(self) -> BestRows:
        """Return the rows with the highest total, ascending; not to be written to, and valid until the next `put`."""
        if self._best is not None:
            return self._best
        totals = self.totals
        self._highest = highest = totals.item(totals.argmax())
        best: NDArray[np.intp] = (totals == highest).nonzero()[0]
        best = best if self._rows is None else self._rows[best]
        if self._has_changed:  # repairs come row by row, so keeping the list will pay
            self._best = best.tolist()
        return best


class MaskSource(NamedTuple):
    """Which cached mask, minus which domains, the feasible rows are."""

    key: MemoKey
    mask: Mask
    domains: OverDomains | None
    """The codes by domain: rows of domains whose code is not 0 are not feasible. None where all domains are."""


class MergedRows(Sequence[int]):
    """Several ascending lists of rows read as one, without building it: out of thousands of equals only one is
    drawn.
    """

    __slots__ = ("_length", "_lists")

    def __init__(self, lists: Sequence["BestRows"]) -> None:
        self._lists = lists
        self._length = sum(map(len, lists))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return merge(*self._lists)

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> list[int]: ...

    def __getitem__(self, place: int | slice) -> int | list[int]:
        """Return the row at an index, or the rows of a slice."""
        if isinstance(place, slice):
            return list(islice(self, *place.indices(self._length)))
        if not 0 <= place < self._length:
            raise IndexError(place)
        # The first row such that more than `place` rows are no greater than it.
        low, high = min(rows[0] for rows in self._lists), max(rows[-1] for rows in self._lists)
        while low < high:
            middle = (low + high) // 2
            if sum([bisect_right(rows, middle) for rows in self._lists]) > place:
                high = middle
            else:
                low = middle + 1
        return low


class Blocks:
    """The totals of all rows, `UNRANKED` where a row is not feasible, ranked within each topology domain.

    The invariant: `ranking[domain]` ranks the rows `members[domain]`, in their order, and `counts[domain]` is how many
    of these are not `UNRANKED`. It holds while the domains of rows stay as they are (`ids`).
    """

    __slots__ = ("_place", "counts", "ids", "members", "ranking", "totals")

    def __init__(self, totals: Int64, over: OverDomains) -> None:
        self.totals = totals
        self.ids = over.ids
        domains = len(over.values) - 1
        self.members = [np.flatnonzero(self.ids == domain) for domain in range(domains)]
        self.ranking = [Ranking(totals[rows], rows) for rows in self.members]
        self.counts = [int(np.count_nonzero(ranking.totals != UNRANKED)) for ranking in self.ranking]
        self._place = np.zeros(len(totals), dtype=np.intp)
        for rows in self.members:
            self._place[rows] = np.arange(len(rows))

    def put(self, row: int, total: int) -> None:
        """Set the total of a row."""
        domain, before = self.ids.item(row), self.totals.item(row)
        if before == total:
            return
        self.totals[row] = total
        self.ranking[domain].put(self._place.item(row), total)
        self.counts[domain] += (total != UNRANKED) - (before != UNRANKED)

    def best_of(self, domains: Sequence[int]) -> BestRows:
        """Return the best rows of some domains together, ascending."""
        lists = [self.ranking[domain].best_rows() for domain in domains]
        return lists[0] if len(lists) == 1 else MergedRows(lists)


class InDomains:
    """The best rows of some domains, if each domain adds a share of its own to the totals."""

    __slots__ = ("_blocks", "_domains", "_shares")

    def __init__(self, blocks: Blocks, domains: Sequence[int], shares: Sequence[int]) -> None:
        """`shares` belong to the `domains`, in this order; each domain has a feasible row."""
        self._blocks = blocks
        self._domains = domains
        self._shares = shares

    def best_rows(self) -> BestRows:
        """Return the rows with the highest total, ascending; valid until the next change."""
        ranking = self._blocks.ranking
        totals = [ranking[domain].highest() + share for domain, share in zip(self._domains, self._shares, strict=True)]
        highest = max(totals)
        return self._blocks.best_of([d for d, total in zip(self._domains, totals, strict=True) if total == highest])

    @property
    def totals(self) -> Int64:
        """The totals of all rows, `UNRANKED` where a row is not feasible or in none of the domains."""
        shares = np.zeros(len(self._blocks.members) + 1, dtype=np.int64)
        left = np.zeros(len(shares), dtype=np.bool_)
        shares[self._domains], left[self._domains] = self._shares, True
        ids, totals = self._blocks.ids, self._blocks.totals
        feasible = left.take(ids, mode="wrap") & (totals != UNRANKED)
        return np.where(feasible, totals + shares.take(ids, mode="wrap"), UNRANKED)


class Derived:
    """Something derived from entries as they were at these positions of the change logs."""

    __slots__ = ("checked", "node_position", "pod_position", "sources")

    def __init__(self) -> None:
        self.sources: list[int] = []
        """The epochs of the entries that it was computed from."""
        self.checked = -1
        """`Memos.epochs` when these were last compared: while that has not grown, no entry was computed as a whole."""
        self.node_position = self.pod_position = -1

    def stale_rows(self, memos: Memos, entries: Sequence[MemoEntry], length: int) -> list[int] | None:
        """Return which rows, out of so many, are out of date; None for all.

        The positions move at once, so the caller must bring all these rows up to date before it returns.
        """
        table, epoch, rows = memos.table, memos.epochs, None
        # As long as no entry was computed as a whole, they differ from what this was made from only in rows that the
        # logs name. Some may depend on the pods of a node, so both logs count for all of them.
        if length == table.capacity and (self.checked == epoch or self.sources == _epochs(entries)):
            rows = memos.changed_rows(self.node_position, self.pod_position, with_pods=True)
        if self.checked != epoch:
            self.checked, self.sources = epoch, _epochs(entries)
        # Now, not once the rows are up to date: the caller takes care of that before it returns.
        self.node_position, self.pod_position = table.node_log.position, table.pod_log.position
        return rows


class _Sum(Derived):
    __slots__ = ("column", "mask", "ranking")

    ranking: Ranking | Blocks

    def __init__(self) -> None:
        super().__init__()
        self.column: NDArray[np.bool_] | NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.mask: Mask | None = None
        """The mask that a ranking was computed with."""


class Sums:
    """Masks and totals over sets of entries. Results must not be written to.

    A key names a set of entries that are all cached; without one, everything is computed afresh.
    """

    def __init__(self, memos: Memos) -> None:
        self._memos = memos
        self._table = memos.table
        self._sums: Recent[MemoKey, _Sum] = Recent(MAX_SUMS)

    def passing(
        self, key: MemoKey | None, entries: Sequence[MemoEntry], deciding: Sequence[MemoEntry] | None = None
    ) -> Mask:
        """Return the mask of valid rows whose code is 0 in every entry.

        If `deciding` is given, all other entries are known to hold nothing but zeros.
        """
        deciding = entries if deciding is None else deciding
        found, rows = self._stale_rows(key, entries)
        if rows is None:
            mask = self._table.valid.copy()
            for entry in deciding:
                # Most filters reject nothing; the entry remembers that, which saves comparing all rows.
                if entry.has_nonzero():
                    mask &= entry.column == 0
            found.column = mask
        elif len(rows) > FEW_ROWS:
            # In place, although the verdicts of the last cycle hold this array: a mask is read only within its cycle,
            # and whatever outlives the cycle uses snapshots.
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
            found.column = summed(entries, weights)
        for row in rows or ():
            found.column[row] = sum([e.column.item(row) * w for e, w in zip(entries, weights, strict=True)])
        return found.column  # type: ignore[return-value]

    def ranked(self, key: MemoKey, mask: Mask, entries: Sequence[MemoEntry], weights: Sequence[int]) -> Ranking:
        """Return the weighted sum where a kept mask (`passing`) passes, and `UNRANKED` elsewhere; `key` names both."""
        found, rows = self._stale_rows(key, entries)
        # A cached mask is repaired in place, so while it is the same array, the logs name every row in which it has
        # changed. A different array was computed as a whole and may differ anywhere.
        if rows is None or found.mask is not mask:
            found.ranking, found.mask, rows = Ranking(np.where(mask, summed(entries, weights), UNRANKED)), mask, None
            found.column = found.ranking.totals
        _put_all(found.ranking, rows or (), mask, entries, weights)
        return found.ranking  # type: ignore[return-value]

    def blocks(
        self,
        key: MemoKey,
        mask: Mask,
        entries: Sequence[MemoEntry],
        weights: Sequence[int],
        over: OverDomains,
    ) -> Blocks:
        """Return the same, ranked within each domain of a topology, which `key` names as well."""
        found, rows = self._stale_rows(key, entries)
        # The result depends on the domains of rows, and if one of them changes, the array of ids is a new one.
        if rows is None or found.mask is not mask or found.ranking.ids is not over.ids:  # type: ignore[union-attr]
            found.ranking, found.mask = Blocks(np.where(mask, summed(entries, weights), UNRANKED), over), mask
            found.column, rows = found.ranking.totals, None
        _put_all(found.ranking, rows or (), mask, entries, weights)
        return found.ranking  # type: ignore[return-value]

    def _stale_rows(self, key: MemoKey | None, entries: Sequence[MemoEntry]) -> tuple[_Sum, list[int] | None]:
        """Return the cached sum and its rows that are out of date, which the caller must bring up to date; None for
        all.
        """
        if key is None or not self._memos.enabled:
            return _Sum(), None
        found = self._sums.get(key)
        if found is None:
            found = _Sum()
            self._sums.put(key, found, key.size)
        return found, found.stale_rows(self._memos, entries, len(found.column))


def _put_all(
    ranking: Ranking | Blocks, rows: Sequence[int], mask: Mask, entries: Sequence[MemoEntry], weights: Sequence[int]
) -> None:
    """Bring the totals of some rows up to date."""
    for row in rows:
        total = UNRANKED
        if mask.item(row):
            total = sum([e.column.item(row) * w for e, w in zip(entries, weights, strict=True)])
        ranking.put(row, total)


def summed(entries: Sequence[MemoEntry], weights: Sequence[int]) -> Int64:
    """Return the weighted sum of the entries' columns, a new array."""
    # The product is a new array, so the additions below do not write to a cached column.
    total: Int64 = entries[0].column * weights[0]
    for entry, weight in zip(entries[1:], weights[1:], strict=True):
        total += entry.column if weight == 1 else entry.column * weight
    return total


def _epochs(entries: Sequence[MemoEntry]) -> list[int]:
    return [entry.epoch for entry in entries]
