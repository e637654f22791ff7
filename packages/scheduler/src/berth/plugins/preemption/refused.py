"""Which rows cannot be freed for pods of a shape, and why: kept from one search to the next, and repaired row by row.

A crowd of pods that fit nowhere, and cannot make room either, would search all nodes at each attempt. Whether a row can
be freed for a pod depends on the row (its node, the pods there), on the pods nominated to it, and on what the filters
look at besides rows (`ColumnWhatIf.basis`). Budgets do not matter: they say which pods are spared first, not whether
the pod fits once all have left. So a row that could not be freed cannot be freed now either unless one of these has
changed, and only such rows are tried again. As soon as one can be freed, the cache is ignored and the search starts
over. Errors are not kept.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.framework.readers import NominationReader
from berth.framework.status import Code, Status
from berth.plugins.preemption.eligibility import RowArray
from berth.state.follower import RowFollower
from berth.state.table import Int64, NodeTable

NOBODY = 2**31
"""Stands for the lowest priority on a row where no pod runs: higher than any that a pod can have."""

MAX_STATUSES = 100
"""When rows have been refused for more reasons than this, the search begins anew."""
MAX_ANSWERS = 64
"""How many answers are kept, by how many rows were refused for which reasons."""

Refusals = Iterable[tuple[Status, RowArray]]
Answer = TypeVar("Answer")


class LowestPriorities:
    """The lowest priority of the pods of each row: if that is not below a pod's own, there is nothing to evict."""

    __slots__ = ("_follower", "_lowest", "_table")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._follower = RowFollower(table, nodes=True, pods=True)
        self._lowest: Int64 = np.zeros(0, dtype=np.int64)

    def are_below(self, priority: int, rows: RowArray) -> NDArray[np.bool_]:
        """Return, bool of shape (rows,), where a pod of lower priority runs."""
        # Where all pods have the same priority, as they have in most clusters, no row needs to be looked at.
        if not any(known < priority for known in self._table.pods_by_priority):
            return np.zeros(len(rows), dtype=np.bool_)
        changed = self._follower.rows_to_look_at()
        if len(self._lowest) != self._table.capacity:
            self._lowest = np.full(self._table.capacity, NOBODY, dtype=np.int64)
        for row in changed:
            self._lowest[row] = min((pod.priority for pod in self._table.pods[row].values()), default=NOBODY)
        below: NDArray[np.bool_] = self._lowest[rows] < priority
        return below


class RefusedRows:
    """Why each row of the last search could not be freed.

    The invariant: only on `_rows` is `_numbers` not 0; where it is not, the row was refused with that status, and
    nothing that this depends on has changed before the positions of `_follower` and `_nominations`, `_basis` being what
    it was. Where `_counts` is known, it says how often each number is there, and none of `_rows` has 0.
    """

    __slots__ = (
        "_answers", "_basis", "_counts", "_follower", "_nominations", "_nominator", "_numbers", "_rows", "_statuses",
        "_table", "steps",
    )  # fmt: skip

    def __init__(self, table: NodeTable, nominator: NominationReader) -> None:
        self._table = table
        self._nominator = nominator
        self._follower = RowFollower(table, nodes=True, pods=True)
        self._nominations = -1
        self._basis: Hashable = None
        self._rows: RowArray | None = None
        self._numbers: NDArray[np.int16] = np.zeros(0, dtype=np.int16)
        self._statuses: list[Status] = []
        self._counts: Hashable = None
        self._answers: dict[Hashable, Any] = {}
        self.steps = 0
        """What the search took of the budget of work."""

    def forget(self) -> None:
        """Forget all rows."""
        self._rows = self._counts = None

    def learn(self, basis: Hashable, rows: RowArray, refusals: Refusals, steps: int) -> bool:
        """Note why none of these rows can be freed; say whether that was noted: errors are not."""
        self._changed_rows()
        self._basis, self._rows, self._counts, self.steps = basis, rows, None, steps
        self._statuses, self._answers = [], {}
        self._numbers = np.zeros(self._table.capacity, dtype=np.int16)
        return self._write(refusals)

    def still_hold(self, basis: Hashable, rows: RowArray, try_out: Callable[[RowArray], Refusals | None]) -> bool:
        """Say whether none of these rows can be freed; also False if that is unknown.

        `try_out` is asked about rows that have changed, or were not among those of the last search. It returns why they
        cannot be freed, or None where one of them can.
        """
        changed = self._changed_rows()
        if self._rows is None:
            return False
        if changed is None or basis != self._basis:
            self.forget()
            return False
        if rows is not self._rows:
            self._look_at(rows)
        if self._counts is None:
            self._numbers[np.array(changed, dtype=np.intp)] = 0
            left = rows[self._numbers[rows] == 0]
        elif changed:
            left = np.array([row for row in changed if self._numbers.item(row)], dtype=np.intp)
        else:
            return True
        return not len(left) or self._try_again(left, try_out)

    def answer(self, make: Callable[[Sequence[tuple[Status, RowArray]]], Answer]) -> Answer:
        """Return what `make` returns for the refusals, once it is known that no row can be freed.

        It may depend on how many nodes there are, and on how many of the rows have which status.
        """
        if self._counts is None:
            self._counts = np.bincount(self._numbers[self._rows]).tobytes()
        key = len(self._table), self._counts
        found: Answer | None = self._answers.get(key)
        if found is None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            found = self._answers[key] = make(self._refusals())
        return found

    def _refusals(self) -> Sequence[tuple[Status, RowArray]]:
        """Return the rows by why they cannot be freed."""
        by_status = ((s, (self._numbers == number).nonzero()[0]) for number, s in enumerate(self._statuses, start=1))
        return [(status, rows) for status, rows in by_status if len(rows)]

    def _look_at(self, rows: RowArray) -> None:
        """Switch to other rows; what is known about rows that are not among them is forgotten."""
        before, self._numbers = self._numbers, np.zeros_like(self._numbers)
        self._numbers[rows] = before[rows]
        self._rows, self._counts = rows, None

    def _try_again(self, left: RowArray, try_out: Callable[[RowArray], Refusals | None]) -> bool:
        """Try out some of the rows; say whether all are refused."""
        # If a plugin raises meanwhile, nothing is known about these rows.
        counts, before = self._counts, self._numbers[left]
        self._numbers[left], self._counts = 0, None
        refusals = try_out(left)
        if refusals is None:
            self.forget()
            return False
        if not self._write(refusals):
            return False
        if np.array_equal(self._numbers[left], before):
            self._counts = counts
        return True

    def _changed_rows(self) -> Sequence[int] | None:
        """Return the rows that have changed, or have other nominated pods, since this was last asked; None for all."""
        names = self._nominator.changes.since(self._nominations)
        rows = self._follower.changed_rows()
        self._nominations = self._nominator.changes.position
        if rows is None or names is None:
            return None
        if not names:
            return rows
        row_of = self._table.row_of
        return sorted({*rows, *(row_of[name] for name in names if name in row_of)})

    def _write(self, refusals: Refusals) -> bool:
        """Note why rows cannot be freed; if that may not be kept, forget everything and return False."""
        for status, rows in refusals:
            if status not in self._statuses:
                self._statuses.append(status)
            if status.code is Code.ERROR or len(self._statuses) > MAX_STATUSES:
                self.forget()
                return False
            self._numbers[rows] = self._statuses.index(status) + 1
        return True
