"""Proves which pods find another place, however the others that have to leave with them are placed.

For questions about many sets of nodes, each of which would need a simulation for a full answer. The proof uses columns.
A pod stays out of a node only if the others take at least so much of one resource there that it no longer fits; call
that, as a share of all that the others request of this resource, the price of blocking the node. The others have 1 to
spend for each resource, so if the prices of all nodes add up to more than that, some node remains free for the pod,
whatever the order and the scores. As no pod then preempts, and no other pod moves, it is exact: all get a place. If the
prices do not add up to that, nothing is claimed.

It holds for pods whose filters look only at what other pods take (`berth_workbench.planning.capacity.is_countable`),
and for those that are spread strictly over the domains of one label: the emptiest domain takes any of them, so they are
sure of a place where each domain that may be the emptiest has a node that remains free.

Of the others, only those that may go to one of the pod's nodes spend. On the remaining nodes the load only grows until
all have a place, so a pod never goes to one that it does not fit on now.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from functools import partial
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
from berth.plugins.pod_topology_spread.plugin import PodTopologySpread
from berth.state.pod_info import PodInfo, PodShape
from berth_workbench.planning.capacity import is_countable
from berth_workbench.simulation.cluster import pending_again

Rows = NDArray[np.intp]
Amounts = NDArray[np.float64]

PODS = "pods"
ANYWHERE = -1
"""The place of pods of which it is not known where they may come to."""
BEYOND_ITS_NODE = frozenset({Dependency.ALL_NODES, Dependency.FEASIBLE_SET, Dependency.UNKNOWN})
ASKED_AT_MOST = 2_000_000
"""So often it is asked at most whether one pod affects another; from then on it counts as if it did."""
WEIGHTS_AT_MOST = 32
"""So many weights of the resources are tried for a proof; it takes 2 or 3 where room is not nearly too small."""
STEP = 0.3
"""How far weights move towards overdrawn resources; with thrice as much they swing, with a third they crawl."""


class LeavingPods(NamedTuple):
    """Pods that lose their nodes at the same moment."""

    rows: Rows
    """The rows of these nodes."""
    pods: Mapping[PodShape, int]
    """How many pods of each shape are on them that come back as pending pods."""


class CertainRoom:
    """Proves for pods of a core that they find another place. No cycle of the core may be open, and nothing may
    change.
    """

    __slots__ = ("_asked", "_beside", "_candidates", "_core", "_examples", "_fits", "_places")

    def __init__(
        self, core: Core, examples: Mapping[PodShape, PodInfo], *, beside: Mapping[PodShape, int] | None = None
    ) -> None:
        """`examples` has a pod of each shape; `beside` has pods that may get places meanwhile."""
        self._beside = dict(beside or {})
        self._core = core
        self._examples = {shape: core.intake.info(pending_again(info.pod)) for shape, info in examples.items()}
        self._candidates: dict[PodShape, _Candidate | None] = {}
        self._fits: dict[Hashable, _Fit] = {}
        """By what the filters read of a pod: a cluster has ten times as many shapes."""
        self._places = _Places()
        self._asked = 0

    def unproven(self, leaving: LeavingPods, among: Set[PodShape] | None = None) -> list[PodShape]:
        """Return the shapes for which it is not proven that all their pods find another place.

        Only those of `among` are checked, if the caller has a proof for all others.
        """
        asked = [shape for shape in leaving.pods if among is None or shape in among]
        if not asked:
            return []
        sure = _Certainty(self._demand([leaving.pods, self._beside]).on, leaving.rows)
        return [shape for shape in asked if not self.has_room(shape, leaving.pods, sure)]

    def any_of(self, each: Sequence[LeavingPods]) -> "AnyOf":
        """Return an object that answers for any so many of these sets leaving at once."""
        demands = [self._demand([leaving.pods]) for leaving in each]
        shapes = {shape for leaving in each for shape in leaving.pods}
        rows = max((len(leaving.rows) for leaving in each), default=0)
        return AnyOf(self, shapes, demands, self._demand([self._beside]), rows)

    def has_room(self, shape: PodShape, leaving: Iterable[PodShape], sure: "_Certainty") -> bool:
        """Say whether it is certain that all pods of a shape find a place if these leave together."""
        candidate = self._candidate(shape)
        if candidate is None or not sure.of(candidate.fit):
            return False
        return not candidate.what_if.looks_at_single_pods or self._is_free_of(candidate, chain(leaving, self._beside))

    def _demand(self, given: Iterable[Mapping[PodShape, int]]) -> "_Demand":
        found: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for shape, count in (each for pods in given for each in pods.items()):
            candidate = self._candidate(shape)
            # A pod that single other pods keep away from a node may go there once these leave.
            is_known = candidate is not None and not candidate.what_if.looks_at_single_pods
            spent = found[candidate.fit.place if is_known and candidate is not None else ANYWHERE]
            spent[PODS] += count
            for name, amount in self._examples[shape].requests.items():
                spent[name] += amount * count
        return _Demand(found, self._places)

    def _is_free_of(self, candidate: "_Candidate", others: Iterable[PodShape]) -> bool:
        """Whether these pods change nothing for the candidate except the load."""
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
        domains, spreading = _taking_domains(profile, state)
        what_if = profile.what_if(state, pod, without=spreading)
        if pre.status is not None or not is_countable(profile, state, pod, what_if):
            return None
        if _looks_at_nodes(profile, state.skip_filter | spreading):
            return None
        key = what_if.answers_key
        if key is not None:
            key = key, pre.node_names, frozenset(pod.requests.items()), None if domains is None else domains.tobytes()
        fit = None if key is None else self._fits.get(key)
        if fit is None:
            rows = np.flatnonzero(searched_rows(self._core.cache.table, pre.node_names))
            fit = _fit(what_if, rows, pod, domains, self._places)
            if key is not None:
                self._fits[key] = fit
        return _Candidate(what_if, fit)


class _Fit(NamedTuple):
    """The nodes that some pods fit on, and what it takes to block each of them for the next one."""

    rows: Rows
    place: int
    """The number of these rows among all places."""
    costs: dict[str, Amounts]
    """By resource; the number of pods is one of them."""
    own: dict[str, int]
    """What the pod itself takes of each of these."""
    domains: Rows | None
    """By row of the table, -1 for none: the domains over which the pods are spread, if they are."""


class _Candidate:
    """Pods of one shape that have to find room."""

    __slots__ = ("affected", "fit", "what_if")

    def __init__(self, what_if: WhatIf, fit: _Fit) -> None:
        self.what_if = what_if
        self.fit = fit
        self.affected: dict[PodShape, bool] = {}


class _Places:
    """The different sets of nodes to which pods may go, by number, and which of them have a node in common."""

    __slots__ = ("_masks", "_meeting", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._masks: list[int] = []
        self._meeting: dict[tuple[int, int], bool] = {}

    def number(self, rows: Rows) -> int:
        """Return the number of a set of rows."""
        bits = np.zeros(int(rows[-1]) + 1 if len(rows) else 0, dtype=np.bool_)
        bits[rows] = True
        packed = np.packbits(bits, bitorder="little").tobytes()
        if packed not in self._numbers:
            self._numbers[packed] = len(self._masks)
            self._masks.append(int.from_bytes(packed, "little"))
        return self._numbers[packed]

    def meet(self, one: int, other: int) -> bool:
        """Say whether two of them have a node in common; `ANYWHERE` does with all."""
        if ANYWHERE in (one, other):
            return True
        found = self._meeting.get((one, other))
        if found is None:
            found = self._meeting[one, other] = self._masks[one] & self._masks[other] != 0
        return found


class _Demand:
    """How much pods request of each resource, by the nodes to which they may go."""

    __slots__ = ("_by_place", "_places")

    def __init__(self, by_place: Mapping[int, Mapping[str, int]], places: _Places) -> None:
        self._by_place = by_place
        self._places = places

    def on(self, place: int) -> Counter[str]:
        """Return what the pods that may go to any node of a place request, `PODS` included."""
        found: Counter[str] = Counter()
        for other, amounts in self._by_place.items():
            if self._places.meet(place, other):
                found.update(amounts)
        return found


class AnyOf:
    """Answers for the loss of any so many of some sets of nodes at once, whichever they are."""

    __slots__ = ("_amounts", "_beside", "_demands", "_room", "_rows", "_shapes")

    def __init__(
        self, room: CertainRoom, shapes: Set[PodShape], demands: Sequence[_Demand], beside: _Demand, rows: int
    ) -> None:
        """`demands` are those of each set, which has at most so many `rows`."""
        self._room = room
        self._shapes = shapes
        self._demands = demands
        self._beside = beside
        self._rows = rows
        self._amounts: dict[int, dict[str, list[int]]] = {}
        """By place and resource, what each set requests there, the largest first."""

    def unproven(self, count: int) -> set[PodShape]:
        """Return the shapes for which it is not proven that all their pods find another place, whichever sets are
        lost.
        """
        sure = _Certainty(partial(self._most, count), None, self._rows * count)
        return {shape for shape in self._shapes if not self._room.has_room(shape, self._shapes, sure)}

    def _most(self, count: int, place: int) -> Counter[str]:
        """Return what the pods of any `count` sets request at most that may come to any node of a place."""
        if place not in self._amounts:
            amounts: defaultdict[str, list[int]] = defaultdict(list)
            for demand in self._demands:
                for name, amount in demand.on(place).items():
                    amounts[name].append(amount)
            self._amounts[place] = {name: sorted(some, reverse=True) for name, some in amounts.items()}
        found = self._beside.on(place)
        # No set of them requests more of a resource than those that request most of it, whichever these are.
        found.update({name: sum(some[:count]) for name, some in self._amounts[place].items()})
        return found


class _Certainty:
    """Whether prices add up to enough if some pods leave together; worked out once for each `_Fit`."""

    __slots__ = ("_demand", "_gone", "_known", "_spent", "_widest")

    def __init__(self, demand: Callable[[int], Counter[str]], gone: Rows | None, widest: int = 0) -> None:
        """`demand` says by place what the pods request that may come there, `gone` are the rows that are lost.

        If these may be any, `widest` is how many there are.
        """
        self._demand = demand
        self._gone = gone
        self._widest = widest
        self._known: dict[int, bool] = {}
        self._spent: dict[int, Counter[str]] = {}

    def of(self, fit: _Fit) -> bool:
        """Say whether a pod is sure of a place among these nodes."""
        found = self._known.get(id(fit))
        if found is None:
            found = self._known[id(fit)] = self._worked_out(fit)
        return found

    def _worked_out(self, fit: _Fit) -> bool:
        if fit.place not in self._spent:
            self._spent[fit.place] = self._demand(fit.place)
        demand = self._spent[fit.place]
        # A pod is not in its own way.
        spendable = [
            (costs, total) for name, costs in fit.costs.items() if (total := float(demand[name] - fit.own[name])) > 0
        ]
        prices = np.array([costs / total for costs, total in spendable]).reshape(len(spendable), len(fit.rows))
        kept = self._kept(fit.rows)
        if fit.domains is None:
            return self._is_enough(prices[:, kept])
        # Any domain that is left may be the emptiest, those included that the pod fits nowhere in.
        counted = np.flatnonzero(fit.domains >= 0)
        left = np.unique(fit.domains[counted[self._kept(counted)]]).tolist()
        domains = fit.domains[fit.rows]
        return bool(left) and all(self._is_enough(prices[:, kept & (domains == domain)]) for domain in left)

    def _kept(self, rows: Rows) -> NDArray[np.bool_]:
        return np.ones(len(rows), dtype=np.bool_) if self._gone is None else ~np.isin(rows, self._gone)

    def _is_enough(self, prices: Amounts) -> bool:
        """Say whether it is impossible to block all of these nodes, even if the most expensive ones are lost.

        `prices`, of shape (resources, nodes), have a column for each node: of each resource, the share of all that is
        requested of it that blocks the node. One of them is enough.
        """
        if prices.shape[1] <= self._widest or not len(prices):
            return int(prices.shape[1]) > self._widest
        if np.count_nonzero((prices > 1.0).all(axis=0)) > self._widest:
            return True  # one of these is left, and costs more than all there is
        return is_too_much(prices, self._widest)


def is_too_much(prices: Amounts, free: int) -> bool:
    """Say whether blocking all nodes, of which the `free` dearest cost nothing, takes more of a resource than there is.

    `prices`, of shape (resources, nodes), say which share of a resource blocks a node; True is certain, False is not.
    However the resources are weighted, it costs at least the cheapest way for each node, out of a budget of the sum of
    the weights: weights under which that is too much are the proof. What the cheapest ways take of each resource says
    how to find them: one that is overdrawn has to weigh more. If no resource is overdrawn by the average of what was
    tried, no weights are a proof (minimax).
    """
    weights = 1.0 / prices.sum(axis=1)
    taken = np.zeros(len(prices))
    for number in range(1, WEIGHTS_AT_MOST + 1):
        weights /= weights.sum()
        weighed = prices * weights[:, np.newaxis]
        way = weighed.argmin(axis=0)
        nodes = np.arange(prices.shape[1])
        if free:
            nodes = np.argpartition(weighed[way, nodes], -free)[:-free]
            way = way[nodes]
        takes = np.bincount(way, weights=prices[way, nodes], minlength=len(prices))
        if weights @ takes > 1 + 1e-9:
            return True
        taken += takes
        if taken.max() <= number:
            return False
        weights *= np.exp(np.clip(STEP / number**0.5 * (takes - weights @ takes), -1.0, 1.0))
    return False


def _taking_domains(profile: Profile, state: CycleState) -> tuple[Rows | None, frozenset[str]]:
    """Return the domains by row, the emptiest of which takes any pod, and the filter for which that is known."""
    for runner in profile.filters:
        plugin = runner.plugin.plugin
        if isinstance(plugin, PodTopologySpread) and runner.name not in state.skip_filter:
            domains = plugin.taking_domains(state)
            return domains, frozenset() if domains is None else frozenset((runner.name,))
    return None, frozenset()


def _looks_at_nodes(profile: Profile, without: Set[str]) -> bool:
    """Whether what a filter says of a node may change because another node is gone."""
    asked = (runner.plugin for runner in profile.filters if runner.name not in without)
    return any(plugin.promises.filter_depends_on & BEYOND_ITS_NODE for plugin in asked)


def _fit(what_if: WhatIf, rows: Rows, pod: PodInfo, domains: Rows | None, places: _Places) -> _Fit:
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
    own = {name: 1 if name == PODS else pod.requests.get(name, 0) for name in costs}
    return _Fit(rows, places.number(rows), costs, own, domains)
