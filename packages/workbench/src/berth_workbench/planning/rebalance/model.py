"""Which pod goes where, as a model for CP-SAT.

The model knows no order of moves: it asks for the best placement that the moves could end in. It leaves out what it
cannot say exactly (required affinity, plugins that it does not know, the order itself), and never forbids a placement
that a valid plan could reach. So what it finds is a bound: if its placement can be reached by moves that the filters
allow, that is the best plan; if not, `forbid` excludes it and the search goes on (`optimizer`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from berth.core.questions import find
from berth.plugins.pod_topology_spread.constraints import Inclusions, SpreadConstraint, compile_constraints, group_of
from berth.state.pod_info import AffinityTerm, PodInfo, PodShape
from berth_workbench.planning.rebalance.board import Board, Mover
from berth_workbench.planning.rebalance.goals import EmptyNodes, PlaceNewcomers

Placement = dict[str, str]

FEWER_PODS_HELP = frozenset(
    {
        "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
        "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "NodeDeclaredFeatures",
    }
)  # fmt: skip
"""The filters that reject a node for good if they reject it while all pods in question are away."""
MOST_PAIRS = 20_000
"""At most so many pairs of pods that may not meet are told to the model; the others show when moves are ordered."""


class SpreadModel(NamedTuple):
    """One spread constraint of pods that are alike, over the nodes that count for it."""

    constraint: SpreadConstraint
    domain_of: Mapping[str, str]
    """The domain of each node of the cluster that counts."""
    shape: PodShape


class AssignmentModel:
    """The model of one board, which `optimizer` has solved."""

    def __init__(self, board: Board, goal: EmptyNodes | PlaceNewcomers, broken: frozenset[str]) -> None:
        """`broken` are the pods that break a rule at the start. Raises `StoppedError`, `ImportError`."""
        from ortools.sat.python import cp_model

        self.model: Any = cp_model.CpModel()
        self._board = board
        self._goal = goal
        self._broken = broken
        self._movers = sorted(board.movers.values(), key=lambda mover: mover.key)
        self._newcomers = list(board.newcomers.values())
        self._table = board.core.cache.table
        self._row_of = {name: self._table.row_of[name] for name in board.nodes}
        self._spreads: dict[int, list[tuple[SpreadModel, dict[str, Any]]]] = {}
        self.x: dict[tuple[str, str], cp_model.IntVar] = {}
        """For each pod and each node that it may be on, whether it is there."""
        with board.lifted(mover.key for mover in self._movers):
            for mover in self._movers:
                self._add_pod(mover)
            for newcomer in self._newcomers:
                self._add_pod(newcomer)
            self._add_resources()
        self._nodes_of: dict[str, list[str]] = {}
        for key, name in self.x:
            self._nodes_of.setdefault(key, []).append(name)
        self._add_limits()
        self._add_ports()
        self._add_anti_affinity()
        self._add_spread()
        self.moves: Any = sum(1 - self._at(mover.key, mover.origin) for mover in self._movers)
        self.cost: Any = self._cost()
        self.total: Any = self.cost * goal.scale + self.moves * goal.move_cost
        self.model.minimize(self.total)

    # -- for the search -----------------------------------------------------------------------------------------------

    def hint(self, placement: Mapping[str, str]) -> None:
        """Begin the search at a placement."""
        self.model.clear_hints()
        for (key, name), variable in self.x.items():
            self.model.add_hint(variable, int(placement.get(key, "") == name))

    def demand_less_than(self, total: int) -> None:
        """Ask for something better only."""
        self.model.add(self.total < total)

    def forbid(self, placement: Mapping[str, str], keys: Iterable[str]) -> None:
        """Rule out that all of these pods are where `placement` has them; a pod without a node is elsewhere anyhow."""
        literals = []
        for key in keys:
            if placement.get(key):
                literals.append(~self.x[key, placement[key]])
            else:
                literals += [self.x[key, name] for name in self._nodes_of.get(key, ())]
        self.model.add_bool_or(literals)

    def placement(self, values: Any) -> Placement:
        """Return where a solution has every pod; `values` tells the value of a variable."""
        return {key: name for (key, name), variable in self.x.items() if values(variable)}

    @property
    def keys(self) -> tuple[str, ...]:
        """The pods that the model decides about."""
        return tuple(each.key for each in (*self._movers, *self._newcomers))

    # -- where pods may be -------------------------------------------------------------------------------------------

    def _at(self, key: str, name: str) -> Any:
        return self.x.get((key, name), 0)

    def _add_pod(self, mover: Mover) -> None:
        """Add a pod with the nodes that no plugin rules out for good; all movers are away while this is asked."""
        refused = self._refused(mover.fresh)
        names = [
            name
            for name, row in self._row_of.items()
            if name == mover.origin or (not refused[row] and (mover.key, name) not in self._board.banned)
        ]
        variables = []
        for name in names:
            variable = self.x[mover.key, name] = self.model.new_bool_var(f"{mover.key} on {name}")
            variables.append(variable)
        if mover.origin:
            self.model.add_exactly_one(variables)
        elif variables:
            self.model.add_at_most_one(variables)

    def _refused(self, pod: PodInfo) -> "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]":
        self._board.pace.ask(len(self._table))
        attempt = find(self._board.core, pod)
        refused = np.zeros(self._table.capacity, dtype=np.bool_)
        pre, verdicts = attempt.found.pre_filtered, attempt.found.verdicts
        final = set(FEWER_PODS_HELP)
        if not pod.required_affinity_terms:
            final.add("InterPodAffinity")
        if pre is not None and pre.node_names is not None and final.issuperset(pre.narrowing_plugins):
            refused |= np.array([name not in pre.node_names for name in self._table.names], dtype=np.bool_)
        for verdict in () if verdicts is None else verdicts.by_plugin:
            if verdict.plugin in final:
                refused |= verdict.codes != 0
        return refused

    def _add_resources(self) -> None:
        """CPU, memory and the like, and the number of pods, for each node; asked while all movers are away.

        An overcommitted node may stay as it is: a plan need not repair that.
        """
        everybody = [*self._movers, *self._newcomers]
        resources = {name for each in everybody for name, amount in each.fresh.requests.items() if amount}
        for name, row in self._row_of.items():
            self._board.pace.spend()
            here = [(self.x[each.key, name], each) for each in everybody if (each.key, name) in self.x]
            at_start = [each for each in self._movers if each.origin == name]
            for resource in sorted(resources):
                index = self._table.resource_index.get(resource)
                has = (
                    0 if index is None else int(self._table.allocatable[index, row] - self._table.requested[index, row])
                )
                amounts = [each.fresh.requests.get(resource, 0) for _, each in here]
                room = max(has, sum(each.fresh.requests.get(resource, 0) for each in at_start))
                unit = gcd(room, *amounts) or 1
                terms = [amount // unit * x for (x, _), amount in zip(here, amounts, strict=True) if amount]
                if terms:
                    self.model.add(sum(terms) <= room // unit)
            places = int(self._table.allowed_pods[row] - self._table.pod_count[row])
            if here:
                self.model.add(sum(x for x, _ in here) <= max(places, len(at_start)))

    def _add_limits(self) -> None:
        request = self._board.request
        self.model.add(self._moved(self._movers) <= request.max_moves)
        self._limit([mover.workload for mover in self._movers], request.max_per_workload)
        self._limit([mover.namespace for mover in self._movers], request.max_per_namespace)

    def _limit(self, groups: Sequence[str], limit: int | None) -> None:
        """Let at most so many of each group move; `groups` has that of each mover."""
        for group in sorted(set(groups)) if limit is not None else ():
            members = [mover for mover, of in zip(self._movers, groups, strict=True) if of == group]
            self.model.add(self._moved(members) <= limit)

    def _moved(self, movers: Sequence[Mover]) -> Any:
        return sum(1 - self.x[mover.key, mover.origin] for mover in movers)

    def _add_ports(self) -> None:
        wanting = [each for each in (*self._movers, *self._newcomers) if each.fresh.host_ports]
        for one, other in combinations(wanting, 2):
            self._board.pace.spend()
            if not any(a.conflicts_with(b) for a in one.fresh.host_ports for b in other.fresh.host_ports):
                continue
            for name in self._row_of:
                if one.origin == other.origin == name:
                    continue
                if (one.key, name) in self.x and (other.key, name) in self.x:
                    self.model.add_at_most_one(self.x[one.key, name], self.x[other.key, name])

    # -- pods that keep apart ----------------------------------------------------------------------------------------

    def _add_anti_affinity(self) -> None:
        """Keep two pods, one of which repels the other, out of the same domain, unless they share it at the start."""
        everybody = [*self._movers, *self._newcomers]
        namespaces = self._board.core.cache.index.namespaces
        told = 0
        for one, other, term in self._apart(everybody, namespaces):
            together = self._domain(one.origin, term.topology_key)
            met = together is not None and together == self._domain(other.origin, term.topology_key)
            for domain, names in self._domains(term.topology_key).items():
                if met and domain == together:
                    continue
                told += 1
                if told > MOST_PAIRS:
                    return
                here = [self.x[key, name] for key in (one.key, other.key) for name in names if (key, name) in self.x]
                self.model.add_at_most_one(here)

    def _apart(
        self, everybody: Sequence[Mover], namespaces: Mapping[str, Mapping[str, str]]
    ) -> Iterator[tuple[Mover, Mover, AffinityTerm]]:
        having = [each for each in everybody if each.fresh.required_anti_affinity_terms]
        for one in having:
            self._board.pace.spend()
            for other in everybody:
                if other.key == one.key:
                    continue
                for term in one.fresh.required_anti_affinity_terms:
                    if term.matches(other.fresh, namespaces.get(other.namespace, {})):
                        yield one, other, term

    def _domain(self, name: str, key: str) -> str | None:
        node = self._table.nodes[self._table.row_of[name]] if name else None
        return None if node is None else node.metadata.labels.get(key)

    def _domains(self, key: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name in self._row_of:
            domain = self._domain(name, key)
            if domain is not None:
                found.setdefault(domain, []).append(name)
        return found

    # -- spread ------------------------------------------------------------------------------------------------------

    def _add_spread(self) -> None:
        """No pod that keeps its spread constraints at the start breaks them in the end."""
        shapes = {id(mover.fresh.shape): mover.fresh for mover in self._movers}
        for identity, pod in shapes.items():
            for spread in self._spreads_of(pod):
                self._spreads.setdefault(identity, []).append((spread, self._crowded(spread, pod)))
        for mover in self._movers:
            if mover.key not in self._broken:
                for x, crowded in self._in_crowds(mover):
                    self.model.add_implication(x, ~crowded)

    def _in_crowds(self, mover: Mover) -> Iterator[tuple[Any, Any]]:
        """Yield each place of a pod with whether its domain is too full for one of its constraints."""
        for spread, crowded in self._spreads.get(id(mover.fresh.shape), ()):
            for name in self._nodes_of[mover.key]:
                domain = spread.domain_of.get(name)
                if domain is not None:
                    yield self.x[mover.key, name], crowded[domain]

    def _spreads_of(self, pod: PodInfo) -> Iterator[SpreadModel]:
        own = pod.spec.topology_spread_constraints
        constraints = compile_constraints(own, "DoNotSchedule", pod.labels, match_label_keys=True)
        inclusions = Inclusions((each.topology_key for each in constraints), pod, compare_numbers=False)
        for constraint in constraints:
            included = inclusions.of(constraint)
            nodes = [self._table.node(row) for row in self._table.rows().tolist()]
            domain_of = {
                node.metadata.name: node.metadata.labels[constraint.topology_key]
                for node in nodes
                if included.includes(node)
            }
            if domain_of:
                yield SpreadModel(constraint, domain_of, pod.shape)

    def _crowded(self, spread: SpreadModel, pod: PodInfo) -> dict[str, Any]:
        """Return for each domain whether it has more pods than the emptiest one, by more than the constraint allows."""
        self._board.pace.ask(len(self._table))
        constraint = spread.constraint
        group = group_of(constraint, pod.namespace)
        namespaces = self._board.core.cache.index.namespaces
        counts: dict[str, Any] = dict.fromkeys(spread.domain_of.values(), 0)
        decided = {mover.key for mover in self._movers}
        for name, domain in spread.domain_of.items():
            for info in self._table.pods[self._table.row_of[name]].values():
                if info.key not in decided and not info.is_terminating and group.selects(info, namespaces):
                    counts[domain] += 1
        most = sum(counts.values()) + len(self._movers) + len(self._newcomers)
        for each in (*self._movers, *self._newcomers):
            if group.selects(each.fresh, namespaces):
                for name, domain in spread.domain_of.items():
                    if (each.key, name) in self.x:
                        counts[domain] += self.x[each.key, name]
        least: Any = 0
        if len(counts) >= constraint.min_domains:
            least = self.model.new_int_var(0, most, "least")
            self.model.add_min_equality(
                least, [self.model.new_constant(each) if isinstance(each, int) else each for each in counts.values()]
            )
        crowded = {}
        for domain, count in sorted(counts.items()):
            full = crowded[domain] = self.model.new_bool_var(f"{domain} crowded")
            self.model.add(count - least >= constraint.max_skew + 1).only_enforce_if(full)
            self.model.add(count - least <= constraint.max_skew).only_enforce_if(~full)
        return crowded

    # -- what it costs -----------------------------------------------------------------------------------------------

    def _cost(self) -> Any:
        goal = self._goal
        if isinstance(goal, EmptyNodes):
            return self._price_of_used(goal)
        return sum(1 - sum(self._at(key, name) for name in self._row_of) for key in sorted(goal.wanted))

    def _price_of_used(self, goal: EmptyNodes) -> Any:
        cost: Any = 0
        for name, price in goal.prices.items():
            if name in goal.kept:
                cost += price
                continue
            used = self.model.new_bool_var(f"{name} used")
            here = [self.x[mover.key, name] for mover in self._movers if (mover.key, name) in self.x]
            for x in here:
                self.model.add_implication(x, used)
            self.model.add_bool_or([~used, *here])
            cost += price * used
        return cost
