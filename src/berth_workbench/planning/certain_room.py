"""Which pods certainly find another place, however the others that have to leave with them are placed.

For questions about many sets of nodes, each of which would take a simulation to answer in full. The proof is by
columns. A pod stays out of a node only if the others take at least so much of one resource there that it no longer
fits; call that, as a share of all that the others request of this resource, the price of blocking the node. The others
have 1 to spend for each resource, so where the prices of all nodes come to more than there are resources, some node
remains free for the pod, whatever the order and the scores. As nobody then preempts, and no other pod moves, it is
exact: everybody gets a place. Where it does not come to so much, nothing is said.

It holds for pods whose filters ask of other pods only what they take, and for no others
(`berth_workbench.planning.capacity.is_countable`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.core.core import Core
from berth.core.questions import profile_of
from berth.engine.profile import Profile, searched_rows
from berth.engine.what_if import WhatIf
from berth.framework.cycle_state import CycleState
from berth.framework.promises import Dependency
from berth.state.pod_info import PodInfo, PodShape
from berth_workbench.planning.capacity import is_countable
from berth_workbench.simulation.cluster import pending_again

Rows = NDArray[np.intp]
Amounts = NDArray[np.float64]

PODS = "pods"
BEYOND_ITS_NODE = frozenset({Dependency.ALL_NODES, Dependency.FEASIBLE_SET, Dependency.UNKNOWN})
ASKED_AT_MOST = 2_000_000
"""So often it is asked at most whether one pod affects another; from then on it counts as if it did."""


class LeavingPods(NamedTuple):
    """Pods that lose their nodes at the same moment."""

    rows: Rows
    """The rows of these nodes."""
    pods: Mapping[PodShape, int]
    """How many pods of each shape are on them that come back as pending pods."""


class CertainRoom:
    """Proves for pods of a core that they find another place. No cycle of the core may be open, and nothing change."""

    __slots__ = ("_asked", "_beside", "_candidates", "_core", "_examples")

    def __init__(
        self, core: Core, examples: Mapping[PodShape, PodInfo], *, beside: Mapping[PodShape, int] | None = None
    ) -> None:
        """`examples` has a pod of each shape; `beside` are pods that may come by places in the middle of it all."""
        self._beside = dict(beside or {})
        self._core = core
        self._examples = {shape: core.intake.info(pending_again(info.pod)) for shape, info in examples.items()}
        self._candidates: dict[PodShape, _Blocking | None] = {}
        self._asked = 0

    def unproven(self, leaving: LeavingPods) -> list[PodShape]:
        """Return the shapes of which it is not proven that all their pods find another place."""
        demand = self._demand([leaving.pods, self._beside])
        return [
            shape
            for shape in leaving.pods
            if not self._is_free_of(shape, (*leaving.pods, *self._beside))
            or not self._is_certain(shape, demand, leaving.rows)
        ]

    def unproven_of_any(self, each: Sequence[LeavingPods], count: int) -> set[PodShape]:
        """Return the shapes of which it is not proven for all sets of `count` of these that leave at once."""
        shapes = {shape for leaving in each for shape in leaving.pods}
        resources = sorted({name for shape in shapes for name in self._requests(shape)})
        demands = [self._demand([leaving.pods]) for leaving in each]
        beside = self._demand([self._beside])
        # No set of them requests more of a resource than those that request most of it, whichever these are.
        most = {
            name: beside.get(name, 0.0) + sum(sorted((each.get(name, 0.0) for each in demands), reverse=True)[:count])
            for name in (*resources, PODS)
        }
        widest = max((len(leaving.rows) for leaving in each), default=0) * count
        return {
            shape
            for shape in shapes
            if not self._is_free_of(shape, (*shapes, *self._beside)) or not self._is_certain(shape, most, None, widest)
        }

    def _requests(self, shape: PodShape) -> Mapping[str, int]:
        return self._examples[shape].requests

    def _demand(self, given: Iterable[Mapping[PodShape, int]]) -> dict[str, float]:
        found: Counter[str] = Counter()
        for shape, count in (each for pods in given for each in pods.items()):
            found[PODS] += count
            for name, amount in self._requests(shape).items():
                found[name] += amount * count
        return {name: float(amount) for name, amount in found.items()}

    def _is_free_of(self, shape: PodShape, others: Iterable[PodShape]) -> bool:
        """Whether none of these pods changes more for a pod of the shape than the load."""
        blocking = self._blocking(shape)
        if blocking is None:
            return False
        if not blocking.what_if.looks_at_single_pods:
            return True
        for other in others:
            is_affected = blocking.affected.get(other)
            if is_affected is None:
                self._asked += 1
                is_affected = self._asked > ASKED_AT_MOST or blocking.what_if.is_affected_by(self._examples[other])
                blocking.affected[other] = is_affected
            if is_affected:
                return False
        return True

    def _is_certain(self, shape: PodShape, demand: Mapping[str, float], gone: Rows | None, widest: int = 0) -> bool:
        """Whether the prices come to enough without the rows that are gone, or without the `widest` dearest ones."""
        blocking = self._blocking(shape)
        if blocking is None:
            return False
        own = self._requests(shape)
        spendable = [
            (costs, total)
            for name, costs in blocking.costs.items()
            # A pod of the shape is not in its own way.
            if (total := demand.get(name, 0.0) - (1 if name == PODS else own.get(name, 0))) > 0
        ]
        rows = blocking.rows if gone is None else blocking.rows[~np.isin(blocking.rows, gone)]
        if not spendable:
            return len(rows) > widest
        kept = slice(None) if gone is None else ~np.isin(blocking.rows, gone)
        prices = np.minimum.reduce([costs[kept] / total for costs, total in spendable])
        # Nothing costs more than all there is: a node cannot count for more than one that cannot be blocked at all.
        prices = np.minimum(prices, len(spendable) + 1.0)
        if widest:
            prices = np.sort(prices)[: max(len(prices) - widest, 0)]
        return bool(prices.sum() > len(spendable) * (1 + 1e-9))

    def _blocking(self, shape: PodShape) -> "_Blocking | None":
        if shape not in self._candidates:
            self._candidates[shape] = _blocking_of(self._core, self._examples[shape])
        return self._candidates[shape]


class _Blocking:
    """The nodes that pods of a shape fit on, and what it takes to block each of them for the next one."""

    __slots__ = ("affected", "costs", "rows", "what_if")

    def __init__(self, what_if: WhatIf, rows: Rows, costs: dict[str, Amounts]) -> None:
        self.what_if = what_if
        self.rows = rows
        self.costs = costs
        """By resource; the number of pods is one of them."""
        self.affected: dict[PodShape, bool] = {}


def _looks_at_nodes(profile: Profile, state: CycleState) -> bool:
    """Whether what a filter says of a node may change because another node is gone."""
    asked = (runner.plugin for runner in profile.filters if runner.name not in state.skip_filter)
    return any(plugin.promises.filter_depends_on & BEYOND_ITS_NODE for plugin in asked)


def _blocking_of(core: Core, pod: PodInfo) -> _Blocking | None:
    profile = profile_of(core, pod)
    state = CycleState()
    pre = profile.run_pre_filter(state, pod)
    what_if = profile.what_if(state, pod)
    if pre.status is not None or not is_countable(profile, state, pod, what_if) or _looks_at_nodes(profile, state):
        return None
    rows = np.flatnonzero(searched_rows(core.cache.table, pre.node_names))
    load = what_if.load(rows)
    free = what_if.on(rows).passing(load)
    limits = what_if.limits(rows[free])
    rows = rows[free]
    costs: dict[str, Amounts] = {}
    for limit in limits:
        taken = {PODS: (limit.pods, load.pods[free])}
        taken |= {name: (most, load.requested[name][free]) for name, most in limit.requested.items()}
        for name, (most, now) in taken.items():
            cost = (most - now).astype(np.float64) + 1.0
            costs[name] = np.minimum(costs[name], cost) if name in costs else cost
    return _Blocking(what_if, rows, costs)
