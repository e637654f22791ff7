"""The pods of each row in order of importance, as arrays: what the columnar dry run works on.

Rows are looked at again only when they are asked for and have changed. Arrays are int64 or float64 of shape
(places, rows of the table): place 0 holds the most important pod of each row.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import RowLoad
from berth.plugins.preemption.budgets import Budget
from berth.plugins.preemption.choice import by_importance, start_time_s
from berth.state.pod_info import PodInfo
from berth.state.table import Int64, NodeTable

RowArray = NDArray[np.intp]
Mask = NDArray[np.bool_]
Ids = NDArray[np.intp]

EMPTY_PRIORITY = 2**31
"""Above every priority there is: what an empty place has."""
MIN_PLACES = 4
MAX_KINDS = 20_000
"""After so many kinds of pods the roster is made anew: most of them will be gone."""


class Roster:
    """Who runs where; `pods[row]` lists the pods of a row as its places have them."""

    __slots__ = ("_capacity", "_kind_of", "_requests", "_table", "_versions", "kinds", "kinds_of", "pods", "priorities",
                 "started")  # fmt: skip

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._capacity = 0
        self.priorities: Int64 = np.zeros((MIN_PLACES, 0), dtype=np.int64)
        self.started: NDArray[np.float64] = np.zeros((MIN_PLACES, 0))
        self.kinds_of: Ids = np.zeros((MIN_PLACES, 0), dtype=np.intp)
        self.pods: list[list[PodInfo]] = []
        self.kinds: list[PodInfo] = []
        """One pod of each kind, by number."""
        self._kind_of: dict[Hashable, int] = {}
        self._requests: dict[str, Int64] = {}
        self._versions: Int64 = np.zeros(0, dtype=np.int64)

    @property
    def places(self) -> int:
        """How many pods of a row there is room for."""
        return len(self.priorities)

    def update(self, rows: RowArray) -> None:
        """Look again at those of these rows that have changed."""
        if self._capacity != self._table.capacity or len(self.kinds) > MAX_KINDS:
            self._clear(self.places)
        for row in rows[self._versions[rows] != self._table.version[rows]].tolist():
            self._seat(row)

    def requests(self, resource: str) -> Int64:
        """Return what each pod requests of a resource; call `update` first, for these rows."""
        found = self._requests.get(resource)
        if found is None:
            found = self._requests[resource] = np.zeros_like(self.priorities)
            for row in np.flatnonzero(self._versions >= 0).tolist():
                for place, pod in enumerate(self.pods[row]):
                    found[place, row] = pod.requests.get(resource, 0)
        return found

    def _seat(self, row: int) -> None:
        pods = self.pods[row] = by_importance(self._table.pods[row].values())
        if len(pods) > self.places:
            self._widen(max(len(pods), 2 * self.places))
        count = len(pods)
        self.priorities[:count, row] = [pod.priority for pod in pods]
        self.priorities[count:, row] = EMPTY_PRIORITY
        self.started[:count, row] = [start_time_s(pod) for pod in pods]
        self.kinds_of[:count, row] = [self._kind(pod) for pod in pods]
        for resource, column in self._requests.items():
            column[:count, row] = [pod.requests.get(resource, 0) for pod in pods]
            column[count:, row] = 0
        self._versions[row] = self._table.version[row]

    def _kind(self, pod: PodInfo) -> int:
        """Return the number of the pod's kind: pods of one kind are alike to budgets and to filters that mind pods."""
        stands_alone = pod.has_pod_affinity or pod.spec.volumes or pod.spec.resource_claims
        key = (pod.label_key, id(pod.shape) if stands_alone else None, pod.host_ports)
        found = self._kind_of.get(key)
        if found is None:
            found = self._kind_of[key] = len(self.kinds)
            self.kinds.append(pod)
        return found

    def _widen(self, places: int) -> None:
        more = ((0, places - self.places), (0, 0))
        self.priorities = np.pad(self.priorities, more, constant_values=EMPTY_PRIORITY)
        self.started, self.kinds_of = np.pad(self.started, more), np.pad(self.kinds_of, more)
        self._requests = {resource: np.pad(column, more) for resource, column in self._requests.items()}

    def _clear(self, places: int) -> None:
        capacity = self._capacity = self._table.capacity
        self.priorities = np.full((places, capacity), EMPTY_PRIORITY, dtype=np.int64)
        self.started = np.zeros((places, capacity))
        self.kinds_of = np.zeros((places, capacity), dtype=np.intp)
        self.pods = [[] for _ in range(capacity)]
        self.kinds, self._kind_of, self._requests = [], {}, {}
        self._versions = np.full(capacity, -1, dtype=np.int64)


class Seats:
    """Some rows of the roster, as far as pods of lower priority sit there; arrays of shape (places, rows)."""

    __slots__ = ("_kinds_of", "_requests", "_roster", "lower", "priorities", "rows", "started")

    def __init__(self, roster: Roster, rows: RowArray, below: int) -> None:
        roster.update(rows)
        lower: Mask = roster.priorities.take(rows, axis=1) < below
        taken = np.flatnonzero(lower.any(axis=1))
        places = int(taken[-1]) + 1 if len(taken) else 1
        self._roster = roster
        self._requests: dict[str, Int64] = {}
        self.rows = rows
        self.lower: Mask = lower[:places]
        """Who is of lower priority; empty places are not."""
        self.priorities: Int64 = roster.priorities[:places, rows]
        self.started = roster.started[:places, rows]
        self._kinds_of: Ids = roster.kinds_of[:places, rows]

    def requests(self, resource: str) -> Int64:
        """Return what each pod requests of a resource."""
        found = self._requests.get(resource)
        if found is None:
            found = self._requests[resource] = self._roster.requests(resource)[: len(self.lower), self.rows]
        return found

    def loaded(self, load: RowLoad, place: int, where: Mask) -> RowLoad:
        """Return the load with the pods of one place added, on some rows."""
        requested = {
            resource: amounts + self.requests(resource)[place] * where for resource, amounts in load.requested.items()
        }
        return RowLoad(load.pods + where, requested)

    def holding(self, concerns: Callable[[PodInfo], bool]) -> Mask:
        """Return, (rows,), where any pod of lower priority is of a concern."""
        held: Mask = np.logical_or.reduce(self._of_kinds(concerns), axis=0)
        return held

    def violating(self, budgets: Sequence[Budget]) -> Mask:
        """Return the pods of lower priority whose eviction breaks a budget if all before them were evicted too."""
        broken: Mask = np.zeros_like(self.lower)
        for budget in budgets:
            covered = self._of_kinds(budget.selects)
            for place, position in np.argwhere(covered).tolist() if budget.disrupted else ():
                covered[place, position] = budget.covers(self._roster.pods[self.rows[position]][place])
            broken |= covered & (np.cumsum(covered, axis=0) > budget.allowed)
        return broken

    def _of_kinds(self, chosen: Callable[[PodInfo], bool]) -> Mask:
        found: Mask = np.zeros(len(self._roster.kinds), dtype=np.bool_)
        for kind in np.unique(self._kinds_of[self.lower]).tolist():
            found[kind] = chosen(self._roster.kinds[kind])
        return np.logical_and(found[self._kinds_of], self.lower) if len(found) else np.zeros_like(self.lower)
