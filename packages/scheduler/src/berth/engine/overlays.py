"""Caches which rows reject pods of a shape once nominated pods are counted in, and brings that up to date row by row.

If hundreds of pods are nominated, each pod of their priority or below is filtered on all of these nodes with the
nominated pods counted in (`Profile.run_filter`). The result depends on the row (its node and the pods there), on the
pods nominated to it, and on what the filters look at besides rows (`Profile.basis`). Between two pods of a workload a
row or two change, so only these are filtered again. A pod that is nominated itself differs from the others of its
shape, since it need not leave room for itself: nothing is cached for it.
"""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.framework.diagnosis import RejectedNodes
from berth.framework.readers import NominationReader
from berth.framework.status import Code, Status
from berth.state.table import Int64, NodeTable

MAX_OVERLAYS = 64
"""For how many pod shapes an overlay is kept; each costs 10 bytes per node."""
MAX_STATUSES = 32
"""Once rows have been rejected for more reasons than this, all are asked about again."""
UNKNOWN = -1
"""The version of a row of which nothing is known; rows have versions from 0 on."""

RowArray = NDArray[np.intp]


class KeptOverlay:
    """Which statuses pods of one shape get on rows with nominated pods.

    The invariant after `catch_up`: if a row's version is that of the table, `_numbers` says which of `_statuses` a pod
    of the shape gets there with the nominated pods counted in; 0 is none.
    """

    __slots__ = ("_basis", "_nominations", "_nominator", "_numbers", "_statuses", "_table", "_versions")

    def __init__(self, table: NodeTable, nominator: NominationReader) -> None:
        self._table = table
        self._nominator = nominator
        self._nominations = -1
        self._basis: Hashable = None
        self._begin_anew()

    def catch_up(self, basis: Hashable) -> None:
        """Forget what no longer holds, except for rows, whose version tells."""
        named = self._nominator.changes.since(self._nominations)
        self._nominations = self._nominator.changes.position
        stays = basis == self._basis and len(self._versions) == self._table.capacity
        if named is None or not stays or len(self._statuses) > MAX_STATUSES:
            self._basis = basis
            self._begin_anew()
            return
        row_of = self._table.row_of
        for name in named:
            row = row_of.get(name)
            if row is not None:
                self._versions[row] = UNKNOWN

    def unknown(self, rows: RowArray) -> RowArray:
        """Return which of these rows have to be asked about again."""
        return rows[np.not_equal(self._versions[rows], self._table.version[rows])]

    def learn(self, rows: RowArray, rejected: Iterable[RejectedNodes]) -> None:
        """Note which rows reject the pod, and why; a row without a status lets it in. Errors are not cached."""
        self._numbers[rows] = 0
        self._versions[rows] = self._table.version[rows]
        for status, failing in rejected:
            if status not in self._statuses:
                self._statuses.append(status)
            self._numbers[failing] = self._statuses.index(status) + 1
            if status.code is Code.ERROR:
                self._versions[failing] = UNKNOWN

    def rejected(self, rows: RowArray) -> Sequence[RejectedNodes]:
        """Return what rejects the pod on some rows, ascending, all of which have been asked about."""
        numbers = self._numbers[rows]
        by_status = [(status, rows[numbers == number]) for number, status in enumerate(self._statuses, start=1)]
        return [RejectedNodes(status, failing) for status, failing in by_status if len(failing)]

    def _begin_anew(self) -> None:
        self._versions: Int64 = np.full(self._table.capacity, UNKNOWN, dtype=np.int64)
        self._numbers: NDArray[np.int16] = np.zeros(self._table.capacity, dtype=np.int16)
        self._statuses: list[Status] = []
