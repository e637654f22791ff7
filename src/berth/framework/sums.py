"""Several kept columns taken together: which rows pass them all, and what they sum up to.

For each set of entries that is asked for again and again (the replicas of one workload), the result is kept too, and
only the rows that changed since are put together again.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.framework.memo import MemoEntry, Memos

Mask = NDArray[np.bool_]
Int64 = NDArray[np.int64]

MAX_SUMS = 192
"""How many sets are kept; each costs up to 8 bytes a node."""


UNRANKED = -(2**62)
"""Stands for a row that is not feasible in a ranking."""


class _Sum:
    __slots__ = ("column", "node_position", "pod_position", "sources")

    def __init__(self) -> None:
        self.column: NDArray[np.bool_] | NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.sources: tuple[object, ...] = ()
        """What it was put together from: epochs of entries, or the kept columns themselves."""
        self.node_position = self.pod_position = -1


class Sums:
    """Masks and totals over sets of entries. What is returned must not be written to."""

    def __init__(self, memos: Memos) -> None:
        self._memos = memos
        self._table = memos.table
        self._sums: OrderedDict[Hashable, _Sum] = OrderedDict()

    def passing(self, key: Hashable, entries: Sequence[MemoEntry]) -> Mask:
        """Return the mask of valid rows whose code is 0 in every entry."""
        found, rows = self._stale_rows(("passing", key), _epochs(entries))
        if rows is None:
            mask = self._table.valid.copy()
            for entry in entries:
                if entry.column.any():
                    mask &= entry.column == 0
            found.column = mask
        for row in () if rows is None else rows.tolist():
            found.column[row] = self._table.valid[row] and not any(entry.column[row] for entry in entries)
        return found.column  # type: ignore[return-value]

    def total(self, key: Hashable, entries: Sequence[MemoEntry], weights: Sequence[int]) -> Int64:
        """Return the weighted sum of the entries' columns."""
        found, rows = self._stale_rows(("total", key), _epochs(entries))
        if rows is None:
            total = np.zeros(self._table.capacity, dtype=np.int64)
            for entry, weight in zip(entries, weights, strict=True):
                total += entry.column if weight == 1 else entry.column * weight
            found.column = total
        for row in () if rows is None else rows.tolist():
            found.column[row] = sum(e.column[row] * w for e, w in zip(entries, weights, strict=True))
        return found.column  # type: ignore[return-value]

    def ranked(self, key: tuple[Hashable, Hashable], mask: Mask, total: Int64) -> Int64:
        """Return a kept total where a kept mask passes, and `UNRANKED` elsewhere; `key` names both."""
        found, rows = self._stale_rows(("ranked", *key), (mask, total))
        if rows is None:
            found.column = np.where(mask, total, UNRANKED)
        for row in () if rows is None else rows.tolist():
            found.column[row] = total[row] if mask[row] else UNRANKED
        return found.column  # type: ignore[return-value]

    def _stale_rows(self, key: Hashable, sources: tuple[object, ...]) -> tuple[_Sum, NDArray[np.intp] | None]:
        """Return the kept sum and the rows of it that are out of date; None for all."""
        table = self._table
        found = self._kept(key)
        rows = None
        if len(found.column) == table.capacity and _same(found.sources, sources):
            rows = self._memos.changed_rows(found.node_position, found.pod_position, with_pods=True)
        found.sources = sources
        found.node_position, found.pod_position = table.node_log.position, table.pod_log.position
        return found, rows

    def _kept(self, key: Hashable) -> _Sum:
        if not self._memos.enabled:
            return _Sum()
        found = self._sums.get(key)
        if found is not None:
            self._sums.move_to_end(key)
            return found
        found = self._sums[key] = _Sum()
        if len(self._sums) > MAX_SUMS:
            self._sums.popitem(last=False)
        return found


def _epochs(entries: Sequence[MemoEntry]) -> tuple[object, ...]:
    return tuple([entry.epoch for entry in entries])


def _same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    return len(a) == len(b) and all(x is y or (isinstance(x, int) and x == y) for x, y in zip(a, b, strict=True))
