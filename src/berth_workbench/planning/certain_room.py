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
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from itertools import chain
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

    __slots__ = ("_asked", "_beside", "_candidates", "_core", "_examples", "_fits")

    def __init__(
        self, core: Core, examples: Mapping[PodShape, PodInfo], *, beside: Mapping[PodShape, int] | None = None
    ) -> None:
        """`examples` has a pod of each shape; `beside` are pods that may come by places in the middle of it all."""
        self._beside = dict(beside or {})
        self._core = core
        self._examples = {shape: core.intake.info(pending_again(info.pod)) for shape, info in examples.items()}
        self._candidates: dict[PodShape, _Candidate | None] = {}
        self._fits: dict[Hashable, _Fit] = {}
        """By what the filters read of a pod: a cluster has ten times as many shapes."""
        self._asked = 0

    def unproven(self, leaving: LeavingPods, among: Set[PodShape] | None = None) -> list[PodShape]:
        """Return the shapes of which it is not proven that all their pods find another place.

        Only those of `among` are asked about, where the caller has a proof for all others.
        """
        asked = [shape for shape in leaving.pods if among is None or shape in among]
        if not asked:
            return []
        sure = _Certainty(self._demand([leaving.pods, self._beside]), leaving.rows)
        return [shape for shape in asked if not self._has_room(shape, leaving.pods, sure)]

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
        sure = _Certainty(most, None, max((len(leaving.rows) for leaving in each), default=0) * count)
        return {shape for shape in shapes if not self._has_room(shape, shapes, sure)}

    def _has_room(self, shape: PodShape, leaving: Iterable[PodShape], sure: "_Certainty") -> bool:
        candidate = self._candidate(shape)
        if candidate is None or not sure.of(candidate.fit):
            return False
        return not candidate.what_if.looks_at_single_pods or self._is_free_of(candidate, chain(leaving, self._beside))

    def _requests(self, shape: PodShape) -> Mapping[str, int]:
        return self._examples[shape].requests

    def _demand(self, given: Iterable[Mapping[PodShape, int]]) -> dict[str, float]:
        found: Counter[str] = Counter()
        for shape, count in (each for pods in given for each in pods.items()):
            found[PODS] += count
            for name, amount in self._requests(shape).items():
                found[name] += amount * count
        return {name: float(amount) for name, amount in found.items()}

    def _is_free_of(self, candidate: "_Candidate", others: Iterable[PodShape]) -> bool:
        """Whether none of these pods changes more for the candidate than the load."""
        for other in others:
            is_affected = candidate.affected.get(other)
            if is_affected is None:
                self._asked += 1
                is_affected = self._asked > ASKED_AT_MOST or candidate.what_if.is_affected_by(self._examples[other])
                candidate.affected[other] = is_affected
            if is_affected:
                return False
        return True

    def _candidate(self, shape: PodShape) -> "_Candidate | None":
        if shape not in self._candidates:
            self._candidates[shape] = self._found(self._examples[shape])
        return self._candidates[shape]

    def _found(self, pod: PodInfo) -> "_Candidate | None":
        profile = profile_of(self._core, pod)
        state = CycleState()
        pre = profile.run_pre_filter(state, pod)
        what_if = profile.what_if(state, pod)
        if pre.status is not None or not is_countable(profile, state, pod, what_if) or _looks_at_nodes(profile, state):
            return None
        key = what_if.answers_key
        if key is not None:
            key = key, pre.node_names, frozenset(pod.requests.items())
        fit = None if key is None else self._fits.get(key)
        if fit is None:
            fit = _fit(what_if, np.flatnonzero(searched_rows(self._core.cache.table, pre.node_names)), pod)
            if key is not None:
                self._fits[key] = fit
        return _Candidate(what_if, fit)


class _Fit(NamedTuple):
    """The nodes that some pods fit on, and what it takes to block each of them for the next one."""

    rows: Rows
    costs: dict[str, Amounts]
    """By resource; the number of pods is one of them."""
    own: dict[str, int]
    """What the pod itself takes of each of these."""


class _Candidate:
    """Pods of one shape that have to find room."""

    __slots__ = ("affected", "fit", "what_if")

    def __init__(self, what_if: WhatIf, fit: _Fit) -> None:
        self.what_if = what_if
        self.fit = fit
        self.affected: dict[PodShape, bool] = {}


class _Certainty:
    """Whether prices come to enough where some pods leave together; worked out once for each `_Fit`."""

    __slots__ = ("_demand", "_gone", "_known", "_widest")

    def __init__(self, demand: Mapping[str, float], gone: Rows | None, widest: int = 0) -> None:
        """`gone` are the rows that are lost; where these may be any, `widest` is how many they are."""
        self._demand = demand
        self._gone = gone
        self._widest = widest
        self._known: dict[int, bool] = {}

    def of(self, fit: _Fit) -> bool:
        """Say whether a pod is sure of a place among these nodes."""
        found = self._known.get(id(fit))
        if found is None:
            found = self._known[id(fit)] = self._worked_out(fit)
        return found

    def _worked_out(self, fit: _Fit) -> bool:
        spendable = [
            (costs, total)
            for name, costs in fit.costs.items()
            # A pod is not in its own way.
            if (total := self._demand.get(name, 0.0) - fit.own[name]) > 0
        ]
        kept = np.ones(len(fit.rows), dtype=np.bool_) if self._gone is None else ~np.isin(fit.rows, self._gone)
        if not spendable:
            return int(np.count_nonzero(kept)) > self._widest
        prices = np.minimum.reduce([costs[kept] / total for costs, total in spendable])
        # Nothing costs more than all there is: a node cannot count for more than one that cannot be blocked at all.
        prices = np.minimum(prices, len(spendable) + 1.0)
        if self._widest:
            prices = np.sort(prices)[: max(len(prices) - self._widest, 0)]
        return bool(prices.sum() > len(spendable) * (1 + 1e-9))


def _looks_at_nodes(profile: Profile, state: CycleState) -> bool:
    """Whether what a filter says of a node may change because another node is gone."""
    asked = (runner.plugin for runner in profile.filters if runner.name not in state.skip_filter)
    return any(plugin.promises.filter_depends_on & BEYOND_ITS_NODE for plugin in asked)


def _fit(what_if: WhatIf, rows: Rows, pod: PodInfo) -> _Fit:
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
    return _Fit(rows, costs, {name: 1 if name == PODS else pod.requests.get(name, 0) for name in costs})
