"""The pods of each row in order of importance, as arrays: what the columnar dry run works on.

`RankedPods` holds all rows and outlives the cycles; `PotentialVictims` is the part of it that one dry run looks at.
Arrays are int64 or float64 of shape (places, rows of the table): place 0 holds the most important pod of each row, and
places after the last pod have a priority above all others, so that no pod ever finds a victim there.

A row is ranked again only when it is asked for and its version in the table has changed. That is enough, since whatever
comes to a node or leaves it, or changes there, raises the version.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

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
"""The priority of an empty place: higher than any that a pod can have."""
MIN_PLACES = 4
CELLS_PER_STEP = 256
"""Of an array of pods, places by rows, how many elements are worked on in a step of the budget of work."""
UNRANKED = -1
"""The version of a row of which nothing is known."""

MAX_RESOURCES = 32
"""When requests of more resources than this are known, they are looked up anew as they are asked for."""


class RankedPods:
    """The pods of all rows, most important first; `pods[row]` lists those of a row by place."""

    __slots__ = (
        "_capacity", "_counts", "_free_kinds", "_keys", "_kind_of", "_kinds_in", "_requests", "_table", "_versions",
        "kinds", "kinds_of", "pods", "priorities", "started",
    )  # fmt: skip

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._capacity = 0
        self.priorities: Int64 = np.zeros((MIN_PLACES, 0), dtype=np.int64)
        self.started: NDArray[np.float64] = np.zeros((MIN_PLACES, 0))
        self.kinds_of: Ids = np.zeros((MIN_PLACES, 0), dtype=np.intp)
        self.pods: list[list[PodInfo]] = []
        self.kinds: list[PodInfo | None] = []
        """One pod of each kind (`_kind`), by the kind's number; None where no pod that is ranked has that number."""
        self._kind_of: dict[Hashable, int] = {}
        self._kinds_in: dict[str, set[int]] = {}
        """The kinds of ranked pods by namespace."""
        self._keys: list[Hashable] = []
        self._counts: list[int] = []
        """How many ranked pods are of a kind, by its number."""
        self._free_kinds: list[int] = []
        self._requests: dict[str, Int64] = {}
        self._versions: Int64 = np.zeros(0, dtype=np.int64)

    @property
    def places(self) -> int:
        """How many pods each row has room for in the arrays."""
        return len(self.priorities)

    def update(self, rows: RowArray) -> None:
        """Rank those of these rows again that have changed."""
        if self._capacity != self._table.capacity:
            self._clear(self.places)
        if len(self._requests) > MAX_RESOURCES:
            self._requests = {}
        # Even if the row is not asked about: it may hold pods that are gone.
        for row in np.flatnonzero((self._versions != self._table.version) & (self._versions != UNRANKED)).tolist():
            self._forget(row)
        for row in rows[self._versions[rows] != self._table.version[rows]].tolist():
            self._rank(row)

    def requests(self, resource: str) -> Int64:
        """Return what each pod requests of a resource, int64 (places, rows). Call `update` with the rows first."""
        found = self._requests.get(resource)
        if found is None:
            found = self._requests[resource] = np.zeros_like(self.priorities)
            for row in np.flatnonzero(self._versions >= 0).tolist():
                for place, pod in enumerate(self.pods[row]):
                    found[place, row] = pod.requests.get(resource, 0)
        return found

    def selected_by(self, budgets: Iterable[Budget]) -> Iterator[tuple[Budget, list[int]]]:
        """Yield those of some budgets that select any ranked pod, with the kinds of pods that they select."""
        for budget in budgets:
            kinds = [kind for kind in self._kinds_in.get(budget.namespace, ()) if budget.selects(self.pod_of(kind))]
            if kinds:
                yield budget, kinds

    def count(self, kinds: Sequence[int], rows: RowArray, below: int) -> Int64:
        """Return how many pods of some kinds, and of a priority below this, are on some rows that are up to date."""
        counted: Mask = np.zeros(len(self.kinds), dtype=np.bool_)
        counted[kinds] = True
        # Also false in empty places, whose priority is above all others.
        there = counted[self.kinds_of[:, rows]] & (self.priorities[:, rows] < below)
        found: Int64 = np.count_nonzero(there, axis=0)
        return found

    def _rank(self, row: int) -> None:
        """Rank the pods of a row about which nothing is known."""
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

    def _forget(self, row: int) -> None:
        """Forget the pods of a row, and the kinds of which they were the last."""
        for kind in self.kinds_of[: len(self.pods[row]), row].tolist():
            self._counts[kind] -= 1
            if not self._counts[kind]:
                namespace = self.pod_of(kind).namespace
                self._kinds_in[namespace].discard(kind)
                if not self._kinds_in[namespace]:
                    del self._kinds_in[namespace]
                del self._kind_of[self._keys[kind]]
                self.kinds[kind] = self._keys[kind] = None
                self._free_kinds.append(kind)
        self.pods[row] = []
        self.priorities[:, row] = EMPTY_PRIORITY
        for column in self._requests.values():
            column[:, row] = 0
        self._versions[row] = UNRANKED

    def _kind(self, pod: PodInfo) -> int:
        """Count the pod under its kind, and return the kind's number.

        Budgets and filters are asked about one pod of a kind instead of all. That is right because a kind is made of
        everything they look at: namespace and labels, host ports, and the whole shape where affinity, volumes or
        claims come in. What only the resources are about is in `requests`, pod by pod.
        """
        stands_alone = pod.has_pod_affinity or pod.spec.volumes or pod.spec.resource_claims
        key = (pod.label_key, id(pod.shape) if stands_alone else None, pod.host_ports)
        found = self._kind_of.get(key)
        if found is None:
            found = self._kind_of[key] = self._new_kind()
            self.kinds[found], self._keys[found] = pod, key
            self._kinds_in.setdefault(pod.namespace, set()).add(found)
        self._counts[found] += 1
        return found

    def _new_kind(self) -> int:
        if self._free_kinds:
            return self._free_kinds.pop()
        self.kinds.append(None)
        self._keys.append(None)
        self._counts.append(0)
        return len(self.kinds) - 1

    def pod_of(self, kind: int) -> PodInfo:
        """Return some ranked pod of a kind."""
        pod = self.kinds[kind]
        assert pod is not None, f"no pod is of kind {kind}"
        return pod

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
        self.kinds, self._kind_of, self._kinds_in, self._requests = [], {}, {}, {}
        self._keys, self._counts, self._free_kinds = [], [], []
        self._versions = np.full(capacity, UNRANKED, dtype=np.int64)


class PotentialVictims:
    """The pods of lower priority on some rows, most important first; arrays of shape (places, rows)."""

    __slots__ = ("_in_namespace", "_kinds_of", "_ranked_pods", "_requests", "lower", "priorities", "rows", "started")

    def __init__(self, ranked_pods: RankedPods, rows: RowArray, below: int) -> None:
        ranked_pods.update(rows)
        lower: Mask = ranked_pods.priorities.take(rows, axis=1) < below
        taken = np.flatnonzero(lower.any(axis=1))
        places = int(taken[-1]) + 1 if len(taken) else 1
        self._ranked_pods = ranked_pods
        self._requests: dict[str, Int64] = {}
        self._in_namespace: dict[str, list[int]] | None = None
        self.rows = rows
        self.lower: Mask = lower[:places]
        """Which places hold a pod of lower priority. Pods of a row are sorted, so these are its last ones."""
        self.priorities: Int64 = ranked_pods.priorities[:places, rows]
        self.started = ranked_pods.started[:places, rows]
        self._kinds_of: Ids = ranked_pods.kinds_of[:places, rows]

    def requests(self, resource: str) -> Int64:
        """Return what each pod requests of a resource, int64 of shape (places, rows)."""
        found = self._requests.get(resource)
        if found is None:
            found = self._requests[resource] = self._ranked_pods.requests(resource)[: len(self.lower), self.rows]
        return found

    def loaded(self, load: RowLoad, place: int, where: Mask) -> RowLoad:
        """Return the load with the pods of one place added on the rows where `where` is true."""
        requested = {
            resource: amounts + self.requests(resource)[place] * where for resource, amounts in load.requested.items()
        }
        return RowLoad(load.pods + where, requested)

    def holding(self, concerns: Callable[[PodInfo], bool]) -> Mask:
        """Return bool of shape (rows,): where `concerns` is true of any pod of lower priority."""
        held: Mask = np.logical_or.reduce(self._of_kinds(concerns), axis=0)
        return held

    def violating(self, budgets: Sequence[Budget]) -> Mask:
        """Return bool of shape (places, rows): pods whose eviction breaks a budget if all before them are evicted too.

        Source: pkg/scheduler/framework/plugins/defaultpreemption, filterPodsWithPDBViolation.
        """
        broken: Mask = np.zeros_like(self.lower)
        kinds_in = self._kinds_by_namespace()
        for budget in budgets:
            covered = self._of(budget.selects, kinds_in.get(budget.namespace, ()))
            if covered is None:
                continue
            for place, position in np.argwhere(covered).tolist() if budget.disrupted else ():
                covered[place, position] = budget.covers(self._ranked_pods.pods[self.rows[position]][place])
            broken |= covered & (np.cumsum(covered, axis=0) > budget.allowed)
        return broken

    def steps_to_violate(self, budgets: Sequence[Budget]) -> int:
        """Return the steps that `violating` costs in an attempt's work budget."""
        kinds_in, area = self._kinds_by_namespace(), self.lower.size
        asked = sum(len(kinds_in.get(budget.namespace, ())) for budget in budgets)
        return len(budgets) // 8 + asked // 2 + min(len(budgets), asked) * (area // CELLS_PER_STEP)

    def _kinds_by_namespace(self) -> Mapping[str, Sequence[int]]:
        """Return the kinds of the pods of lower priority: a budget concerns those of its namespace only."""
        if self._in_namespace is None:
            self._in_namespace = {}
            for kind in self._kinds():
                self._in_namespace.setdefault(self._ranked_pods.pod_of(kind).namespace, []).append(kind)
        return self._in_namespace

    def _kinds(self) -> list[int]:
        found: list[int] = np.unique(self._kinds_of[self.lower]).tolist()
        return found

    def _of_kinds(self, chosen: Callable[[PodInfo], bool]) -> Mask:
        found = self._of(chosen, self._kinds())
        return np.zeros_like(self.lower) if found is None else found

    def _of(self, chosen: Callable[[PodInfo], bool], kinds: Iterable[int]) -> Mask | None:
        """Return bool of shape (places, rows): pods of lower priority of those kinds that are chosen; None for none."""
        chosen_kinds = [kind for kind in kinds if chosen(self._ranked_pods.pod_of(kind))]
        if not chosen_kinds:
            return None
        found: Mask = np.zeros(len(self._ranked_pods.kinds), dtype=np.bool_)
        found[chosen_kinds] = True
        return np.logical_and(found[self._kinds_of], self.lower)
