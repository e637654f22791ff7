"""What nominated pods would take of each row.

Pods of lower or equal priority must leave that room alone. Adding it up again for every pod and node would cost more
than all filters together once there are hundreds of nominations, as when one large workload preempts another.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.framework.readers import NominationReader
from berth.state.pod_info import PodInfo
from berth.state.table import Int64, NodeTable
from berth.state.views import NOMINATIONS, ChangedRows, Memory, View

MAX_PRIORITIES = 64
"""When this many priorities are known, those that no nominated pod has any more are forgotten."""


class RivalLoad:
    """What the nominated pods for which one pod must leave room would take of each row."""

    __slots__ = ("_claims", "_own", "_own_row", "_requested", "pods")

    def __init__(self, claims: "list[_Claims]", own: PodInfo | None, own_row: int, capacity: int) -> None:
        self._claims = claims
        self._own = own
        self._own_row = own_row
        self._requested: dict[str, Int64] = {}
        self.pods: Int64 = np.zeros(capacity, dtype=np.int64)
        """How many pods are nominated to each row."""
        for claim in claims:
            self.pods += claim.pods
        if own is not None:
            self.pods[own_row] -= 1  # a pod need not leave room for its own nomination

    def requested(self, resource: str) -> Int64:
        """Return what they request of a resource, int64 (rows of the table,); do not write to it."""
        total = self._requested.get(resource)
        if total is not None:
            return total
        total = self._requested[resource] = np.zeros_like(self.pods)
        for claim in self._claims:
            if resource in claim.requested:
                total += claim.requested[resource]
        if self._own is not None:
            total[self._own_row] -= self._own.requests.get(resource, 0)
        return total

    def rows(self) -> NDArray[np.intp]:
        """Return the rows to which such a pod is nominated."""
        return np.flatnonzero(self.pods)


class _Claims:
    """What the nominated pods of one priority request of each row."""

    __slots__ = ("pods", "requested")

    def __init__(self, capacity: int) -> None:
        self.pods: Int64 = np.zeros(capacity, dtype=np.int64)
        self.requested: dict[str, Int64] = {}

    def add(self, row: int, pod: PodInfo) -> None:
        self.pods[row] += 1
        for resource, amount in pod.requests.items():
            column = self.requested.get(resource)
            if column is None:
                column = self.requested[resource] = np.zeros_like(self.pods)
            column[row] += amount

    def clear(self, row: int) -> None:
        self.pods[row] = 0
        for column in self.requested.values():
            column[row] = 0


class NominatedLoad(View):
    """The claims of all nominated pods, by priority: a view of nodes and nominations.

    A row is recounted from the nominator, never adjusted, so it does not matter what has happened there. A nomination
    to a node that does not exist yet counts once the node appears.
    """

    __slots__ = ("_by_priority", "_nominator", "_table")

    def __init__(self, table: NodeTable, nominator: NominationReader) -> None:
        self._table = table
        self._nominator = nominator
        self._by_priority: dict[int, _Claims] = {}
        super().__init__(follows=NOMINATIONS)

    def compute_all(self, memory: Memory, asking: Any) -> None:
        """Count all nominations."""
        self._by_priority = {}
        row_of = self._table.row_of
        for row in {row_of[name] for name in self._nominator.nodes() if name in row_of}:
            self._count(row)

    def compute_rows(self, memory: Memory, asking: Any, rows: ChangedRows) -> bool:
        """Count the nominations to some rows again."""
        for row in rows.rows:
            for claims in self._by_priority.values():
                claims.clear(row)
            self._count(row)
        return True

    def release(self) -> None:
        """Let go of all claims."""
        self._by_priority = {}

    def nbytes(self) -> int:
        """Return about how much the claims take up."""
        return 4 * 8 * self._table.capacity * max(len(self._by_priority), 1)

    def against(self, pod: PodInfo) -> RivalLoad:
        """Return what nominated pods of the pod's own priority or above claim."""
        claims = [claim for priority, claim in self._by_priority.items() if priority >= pod.priority]
        own, own_row = self._own(pod)
        return RivalLoad(claims, own, own_row, self._table.capacity)

    def _own(self, pod: PodInfo) -> tuple[PodInfo | None, int]:
        """Return the pod's own nomination and its row, if it is among those that count."""
        name = self._nominator.node_of(pod.uid)
        row = self._table.row_of.get(name) if name is not None else None
        if name is None or row is None:
            return None, -1
        own = next((found for found in self._nominator.pods_on(name) if found.uid == pod.uid), None)
        # Claims are filed under the priority that a pod had when it was nominated, which may have changed since. Only
        # what is in the sum is subtracted again.
        return (own, row) if own is not None and own.priority >= pod.priority else (None, -1)

    def _count(self, row: int) -> None:
        name = self._table.names[row]
        for pod in self._nominator.pods_on(name) if name else ():
            self._claims_of(pod.priority).add(row, pod)

    def _claims_of(self, priority: int) -> _Claims:
        found = self._by_priority.get(priority)
        if found is None:
            if len(self._by_priority) >= MAX_PRIORITIES:
                self._by_priority = {known: claims for known, claims in self._by_priority.items() if claims.pods.any()}
            found = self._by_priority[priority] = _Claims(self._table.capacity)
        return found


def nominated_load(memory: Memory, nominator: NominationReader) -> NominatedLoad | None:
    """Return the claims of all nominated pods, up to date; None if no pod is nominated."""
    if not len(nominator):
        return None
    return memory.bring(memory.view(NominatedLoad, lambda: NominatedLoad(memory.table, nominator)))
