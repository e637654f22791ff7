"""Keeps what rejects pods of a shape beside the pods nominated to nodes, and brings it up to date row by row.

Where hundreds of pods are nominated, each pod of their priority or below is asked about all of these nodes with the
nominated pods counted in (`Profile.run_filter`). What comes of it depends on the row (its node, the pods there), on the
pods nominated to it, and on what the filters look at beside rows (`Profile.basis`). Between two pods of a workload a
row or two have changed, so only these are asked about again. A pod that is nominated itself is not like the others of
its shape, since it need not leave room for itself: for it nothing is kept.
"""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.framework.diagnosis import RejectedNodes
from berth.framework.readers import NominationReader
from berth.framework.status import Code, Status
from berth.state.table import Int64, NodeTable

MAX_OVERLAYS = 64
"""For how many shapes of pods an overlay is kept; each costs 10 bytes a node."""
MAX_STATUSES = 32
"""When rows have been rejected for more reasons than this, all are asked about again."""
UNKNOWN = -1
"""The version of a row of which nothing is known; rows have versions from 0 on."""

RowArray = NDArray[np.intp]


class KeptOverlay:
    """What rejects pods of one shape on rows with nominated pods.

    The invariant after `catch_up`: where a row has the version that it has in the table, `_numbers` says which of
    `_statuses` a pod of the shape would meet there beside the nominated pods, 0 standing for none.
    """

    __slots__ = ("_basis", "_nominations", "_nominator", "_numbers", "_statuses", "_table", "_versions")

    def __init__(self, table: NodeTable, nominator: NominationReader) -> None:
        self._table = table
        self._nominator = nominator
        self._nominations = -1
        self._basis: Hashable = None
        self._begin_anew()

    def catch_up(self, basis: Hashable) -> None:
        """Forget what does not hold any more, but for rows whose version says so."""
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
        """Return those of these rows to ask about again."""
        return rows[np.not_equal(self._versions[rows], self._table.version[rows])]

    def learn(self, rows: RowArray, rejected: Iterable[RejectedNodes]) -> None:
        """Note what rejects the pod on some rows: nothing where no status is given. Errors are for once."""
        self._numbers[rows] = 0
        self._versions[rows] = self._table.version[rows]
        for status, failing in rejected:
            if status not in self._statuses:
                self._statuses.append(status)
            self._numbers[failing] = self._statuses.index(status) + 1
            if status.code is Code.ERROR:
                self._versions[failing] = UNKNOWN

    def rejected(self, rows: RowArray) -> Sequence[RejectedNodes]:
        """Return what rejects the pod on some rows, ascending, of which all is known but for errors."""
        numbers = self._numbers[rows]
        by_status = [(status, rows[numbers == number]) for number, status in enumerate(self._statuses, start=1)]
        return [RejectedNodes(status, failing) for status, failing in by_status if len(failing)]

    def _begin_anew(self) -> None:
        self._versions: Int64 = np.full(self._table.capacity, UNKNOWN, dtype=np.int64)
        self._numbers: NDArray[np.int16] = np.zeros(self._table.capacity, dtype=np.int16)
        self._statuses: list[Status] = []
