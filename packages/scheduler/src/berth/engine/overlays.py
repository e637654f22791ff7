"""Which rows reject pods of one kind once nominated pods are counted in: a view that is filled in where it is read.

If hundreds of pods are nominated, each pod of their priority or below is filtered on all of these nodes with the
nominated pods counted in (`Profile.run_filter`). The result depends on the row (its node and the pods there), on the
pods nominated to it, and on what the filters look at besides rows. Between two pods of a workload a row or two change,
so only these are filtered again. A pod that is nominated itself differs from the others of its shape, since it need not
leave room for itself: nothing is kept for it.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.engine.columns import DependencySet
from berth.framework.diagnosis import RejectedNodes
from berth.framework.status import Code, Status
from berth.state.views import NOMINATIONS, ChangedRows, Memory, View

MAX_STATUSES = 32
"""Once rows have been rejected for more reasons than this, all are asked about again."""
UNKNOWN = -1
"""The number of a row of which nothing is known."""

RowArray = NDArray[np.intp]


class Overlay(View):
    """Which statuses pods get on rows with nominated pods: by row, a place among the statuses, or 0 for none.

    What has changed becomes unknown, and is asked about once it is read.
    """

    __slots__ = ("_beside_rows", "_numbers", "_statuses")

    def __init__(self, beside_rows: Sequence[DependencySet]) -> None:
        """Make the overlay of filters that depend on these things beside rows."""
        self._beside_rows = beside_rows
        self.release()
        super().__init__(follows=NOMINATIONS)

    def counters(self, memory: Memory) -> Iterable[Hashable]:
        """What the filters depend on beside rows."""
        return [needs.counters(memory) for needs in self._beside_rows]

    def compute_all(self, memory: Memory, asking: Any) -> None:
        """Forget all rows."""
        self._numbers: NDArray[np.int16] = np.full(memory.table.capacity, UNKNOWN, dtype=np.int16)
        self._statuses: list[Status] = []

    def compute_rows(self, memory: Memory, asking: Any, rows: ChangedRows) -> bool:
        """Forget some rows."""
        self._numbers[rows.array()] = UNKNOWN
        return len(self._statuses) <= MAX_STATUSES

    def release(self) -> None:
        """Let go of the rows."""
        self._numbers, self._statuses = np.zeros(0, dtype=np.int16), []

    def nbytes(self) -> int:
        """Return the size of the numbers."""
        return self._numbers.nbytes

    def rejected(self, rows: RowArray, ask: Callable[[RowArray], Iterable[RejectedNodes]]) -> Sequence[RejectedNodes]:
        """Return what rejects the pod on some rows, ascending; `ask` is asked about those that are not known."""
        numbers, statuses = self._numbers, self._statuses
        unknown = rows[numbers[rows] == UNKNOWN]
        if len(unknown):
            said = list(ask(unknown))
            numbers[unknown] = 0
            for status, failing in said:
                if status not in statuses:
                    statuses.append(status)
                numbers[failing] = statuses.index(status) + 1
        there = numbers[rows]
        by_status = [RejectedNodes(status, rows[there == number]) for number, status in enumerate(statuses, start=1)]
        for status, failing in by_status:
            if status.code is Code.ERROR:  # next time it may be none
                numbers[failing] = UNKNOWN
        return [each for each in by_status if len(each.rows)]
