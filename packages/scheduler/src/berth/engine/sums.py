"""What columns are combined to: the rows that pass them all, their weighted sum, and the rows ranked by it.

Each of these is a view (`berth.state.views`) of columns, or of the views below. What one row comes to is said once in
each, for arrays of rows (`_over`) and for a single row (`_at`).

Pods that follow one another ask for the same views again, and nearly always only the pods of one row have changed. So
what goes by pods stands apart: masks and totals are made of the columns that move with pods, on top of one mask, or one
total, of all the others. That is left alone until a node or an object changes, and other workloads share it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from berth.engine.columns import NOTHING, PluginColumn
from berth.framework.interface import OverDomains, Rows
from berth.state.table import NodeTable
from berth.state.views import FEW_ROWS, ChangedRows, Memory, View

Mask = NDArray[np.bool_]
Int64 = NDArray[np.int64]
BestRows = NDArray[np.intp] | Sequence[int]

UNRANKED = -(2**62)
"""Stands for a row that is not feasible in a ranking."""

NO_ROWS = NOTHING.astype(np.bool_)


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


class Passing(View):
    """Which rows hold a node and have the code 0 in every column, bool of shape (rows of the table,).

    It is repaired in place, although the verdicts of the last cycle hold the array: a mask is read only within its
    cycle, and whatever outlives that uses snapshots of columns.
    """

    __slots__ = ("_base", "_columns", "mask")

    def __init__(self, columns: Sequence[PluginColumn], base: "Passing | None" = None) -> None:
        """`base` is another such mask, to which the columns are added."""
        self._columns = columns
        self._base = base
        self.mask: Mask = NO_ROWS
        super().__init__([*columns, base] if base is not None else columns)

    def _over(self, table: NodeTable, rows: Rows) -> Mask:
        mask: Mask = np.array((table.valid if self._base is None else self._base.mask)[rows])
        for column in self._columns:
            mask &= column.column[rows] == 0
        return mask

    def _at(self, table: NodeTable, row: int) -> bool:
        passes = (table.valid if self._base is None else self._base.mask).item(row)
        return passes and not any([column.column.item(row) for column in self._columns])  # noqa: C419 (a list is faster)

    def compute_all(self, memory: Memory, asking: Any) -> None:
        """Look at all rows."""
        self.mask = self._over(memory.table, slice(None))

    def compute_rows(self, memory: Memory, asking: Any, rows: ChangedRows) -> bool:
        """Look at some rows."""
        table, mask = memory.table, self.mask
        if len(rows.rows) > FEW_ROWS:
            mask[rows.array()] = self._over(table, rows.array())
            return True
        for row in rows.rows:
            mask[row] = self._at(table, row)
        return True

    def release(self) -> None:
        """Let go of the mask."""
        self.mask = NO_ROWS

    def nbytes(self) -> int:
        """Return the size of the mask."""
        return self.mask.nbytes


class Total(View):
    """The weighted sum of columns, int64 of shape (rows of the table,)."""

    __slots__ = ("_base", "_columns", "_weights", "total")

    def __init__(self, weighted: Sequence[tuple[PluginColumn, int]], base: "Total | None" = None) -> None:
        """Take columns with their weights; `base` is another total, to which they are added."""
        self._columns = columns = [column for column, _ in weighted]
        self._weights = [weight for _, weight in weighted]
        self._base = base
        self.total: Int64 = NOTHING
        super().__init__([*columns, base] if base is not None else columns)

    def _over(self, rows: Rows) -> Int64:
        columns, weights = self._columns, self._weights
        # The product is a new array, so the additions below do not write to a column.
        total: Int64 = columns[0].column[rows] * weights[0]
        for column, weight in zip(columns[1:], weights[1:], strict=True):
            total += column.column[rows] if weight == 1 else column.column[rows] * weight
        if self._base is not None:
            total += self._base.total[rows]
        return total

    def _at(self, row: int) -> int:
        total = 0 if self._base is None else self._base.total.item(row)
        for column, weight in zip(self._columns, self._weights, strict=True):
            total += column.column.item(row) * weight
        return total

    def compute_all(self, memory: Memory, asking: Any) -> None:
        """Add up all rows."""
        self.total = self._over(slice(None))

    def compute_rows(self, memory: Memory, asking: Any, rows: ChangedRows) -> bool:
        """Add up some rows."""
        if len(rows.rows) > FEW_ROWS:
            self.total[rows.array()] = self._over(rows.array())
            return True
        for row in rows.rows:
            self.total[row] = self._at(row)
        return True

    def release(self) -> None:
        """Let go of the total."""
        self.total = NOTHING

    def nbytes(self) -> int:
        """Return the size of the total."""
        return self.total.nbytes


class Ranked(View):
    """A total, ranked over the rows of a mask."""

    __slots__ = ("_passing", "_total", "ranking")

    ranking: Any

    def __init__(self, passing: Passing, total: Total) -> None:
        self._passing = passing
        self._total = total
        self.ranking = None
        super().__init__((passing, total))

    def compute_all(self, memory: Memory, asking: Any) -> None:
        """Rank all rows anew."""
        self.ranking = Ranking(np.where(self._passing.mask, self._total.total, UNRANKED))

    def compute_rows(self, memory: Memory, asking: Any, rows: ChangedRows) -> bool:
        """Move some rows to their new places."""
        ranking, mask, total = self.ranking, self._passing.mask, self._total.total
        for row in rows.rows:
            ranking.put(row, total.item(row) if mask.item(row) else UNRANKED)
        return True

    def release(self) -> None:
        """Let go of the ranking; who holds it keeps it as it is."""
        self.ranking = None

    def nbytes(self) -> int:
        """Return the size of the ranked totals."""
        return 0 if self.ranking is None else self.ranking.totals.nbytes


class RankedByDomain(Ranked):
    """The same, ranked within each domain of a topology."""

    __slots__ = ("over",)

    def __init__(self, passing: Passing, total: Total, over: OverDomains) -> None:
        self.over = over
        """Any values over the domains as they are, to be set before the view is brought up to date."""
        super().__init__(passing, total)

    def counters(self, memory: Memory) -> tuple[int]:
        """The domains of rows: all is ranked anew when one of them has changed."""
        return (self.over.version,)

    def compute_all(self, memory: Memory, asking: Any) -> None:
        """Rank all rows anew."""
        self.ranking = Blocks(np.where(self._passing.mask, self._total.total, UNRANKED), self.over)

    def nbytes(self) -> int:
        """Return the size of the ranked totals, of those of each domain, and of what rows each has."""
        return 4 * super().nbytes()


class MaskSource(NamedTuple):
    """Which view's mask, minus which domains, the feasible rows are."""

    passing: Passing
    domains: OverDomains | None
    """The codes by domain: rows of domains whose code is not 0 are not feasible. None where all domains are."""


def passing(memory: Memory, columns: Sequence[PluginColumn]) -> Passing:
    """Return the view of the rows that pass all of these columns."""
    steady, moving = tuple([c for c in columns if not c.follows]), tuple([c for c in columns if c.follows])
    if not moving:
        return memory.view((Passing, steady), lambda: Passing(steady))
    base = passing(memory, steady) if steady else None
    return memory.view((Passing, moving, base), lambda: Passing(moving, base))


def total(memory: Memory, columns: Sequence[tuple[PluginColumn, int]]) -> Total:
    """Return the view of the weighted sum of these columns, of which there is one at least."""
    steady, moving = tuple([c for c in columns if not c[0].follows]), tuple([c for c in columns if c[0].follows])
    if not moving:
        return memory.view((Total, steady), lambda: Total(steady))
    base = total(memory, steady) if steady else None
    return memory.view((Total, moving, base), lambda: Total(moving, base))


def ranked(memory: Memory, mask: Passing, summed: Total) -> Ranked:
    """Return the view of a total ranked over a mask."""
    return memory.view((Ranked, mask, summed), lambda: Ranked(mask, summed))


def ranked_by_domain(memory: Memory, mask: Passing, summed: Total, over: OverDomains) -> RankedByDomain:
    """Return the view of a total ranked over a mask within each domain."""
    found = memory.view((RankedByDomain, mask, summed, over.token), lambda: RankedByDomain(mask, summed, over))
    found.over = over
    return found
