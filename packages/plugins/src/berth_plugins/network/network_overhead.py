"""NetworkOverhead: places pods near to those that they depend on, by what the network costs between regions and zones.

Upstream plugin `NetworkOverhead`, with AppGroup and NetworkTopology. Of the pods that a pod's workload depends on,
each one that is bound is near enough to a node, or it is not; a node is ruled out where more of them are too far away
than near enough. Scores are the sums of the costs, the least best.

A pod on the same node costs nothing, in the same zone 1. Where no cost is listed that is 100, and neither near enough
nor too far.

Deviations: a pod whose AppGroup does not exist, or that needs a NetworkTopology which does not exist, is rejected until
it does; upstream's scheduler crashes. Pods that have finished are not depended on any more. In a what-if, such as that
of preemption, a pod that goes is not depended on either; upstream's plugin goes on counting it.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import ClassVar, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    MAX_NODE_SCORE,
    SKIP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    ColumnFilterPlugin,
    ColumnScorePlugin,
    CycleState,
    Dependency,
    EventsPlugin,
    ExplainingPlugin,
    FilterColumn,
    FilterPlugin,
    Handle,
    Node,
    NodeTable,
    NodeView,
    NormalizeScorePlugin,
    Objects,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    Promises,
    QueueingHint,
    Remedy,
    RemedyPlugin,
    RowArray,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    Status,
    error,
    queue_if,
    unresolvable,
    unschedulable,
)
from berth_plugins.network.app_groups import (
    APP_GROUPS,
    AppGroup,
    WorkloadDependency,
    dependencies_of,
    found_in,
    group_named_by,
    with_costs,
    workload_of,
)
from berth_plugins.network.network_topology import (
    NETWORK_TOPOLOGIES,
    REGION,
    ZONE,
    NetworkCosts,
    NetworkTopology,
    Place,
)
from berth_plugins.network.places import HostRows, Hosts, Int64, Places

NO_GROUP = "AppGroup {name} was not found in {namespaces}"
NO_TOPOLOGY = "NetworkTopology {name} was not found in {namespaces}"
NO_HOST = 'pod hostname not found: nodeinfo not found for node name "{}"'
TOO_FAR = (
    "Node {node} does not meet several network requirements from Workload dependencies: "
    "Satisfied: {satisfied} Violated: {violated}"
)

TOO_FAR_IN_GENERAL = "node(s) did not meet several network requirements from Workload dependencies"

REMEDIES = 4
"""So many ways to let a pod be farther away from its dependencies are told, each for other nodes."""
NODES_TRIED = 50
"""On so many nodes is looked how far away a dependency would have to be allowed to be."""
NAMED = 5
"""So many of the dependencies that are too far away are named in an explanation."""


class NetworkOverheadArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where the objects are, and which costs count."""

    namespaces: tuple[str, ...] = ()
    weights_name: str = "UserDefined"
    network_topology_name: str = "nt-default"

    def defaulted(self) -> "NetworkOverheadArgs":
        """Fill in upstream's default: the namespace `default`."""
        return msgspec.structs.replace(self, namespaces=self.namespaces or ("default",))


class Toll:
    """What the network says of each row: whether too many dependencies are too far away, and the sum of the costs."""

    __slots__ = ("_by_place", "_corrections", "_of_row", "cost", "is_too_far")

    def __init__(
        self, by_place: Int64, of_row: NDArray[np.intp], corrections: Sequence[tuple[RowArray, Int64]]
    ) -> None:
        """`by_place` is (3, places): how many are near enough, how many too far away, and the sum of the costs.

        `corrections` say of some rows, each once, what differs there, int64 (3, rows).
        """
        self._by_place, self._of_row, self._corrections = by_place, of_row, corrections
        excess = (by_place[1] - by_place[0])[of_row]
        self.cost: Int64 = by_place[2][of_row]
        for rows, amounts in corrections:
            excess[rows] += amounts[1] - amounts[0]
            self.cost[rows] += amounts[2]
        self.is_too_far: NDArray[np.bool_] = excess > 0

    def counts(self, row: int) -> tuple[int, int]:
        """Return how many dependencies are near enough to a row, and how many too far away."""
        near, far = self._by_place[:2, self._of_row[row]].tolist()
        for rows, amounts in self._corrections:
            for position in np.flatnonzero(rows == row).tolist():
                near, far = near + int(amounts[0, position]), far + int(amounts[1, position])
        return near, far


class Requirements:
    """What a pod's attempt goes by: its dependencies that have bound pods, with the nodes of these."""

    __slots__ = ("_by_place", "_table", "_toll", "costs", "dependencies")

    def __init__(
        self, costs: NetworkCosts, dependencies: Sequence[tuple[WorkloadDependency, Hosts]], table: NodeTable
    ) -> None:
        self.costs = costs
        self.dependencies = dependencies
        self._table = table
        self._by_place: list[Counter[Place]] = []
        """For each dependency, how many of its pods are where, once the plain form has asked."""
        self._toll: Toll | None = None

    def on(self, node: NodeView) -> tuple[int, int, int]:
        """Return of one node how many dependencies are near enough, how many too far away, and the sum of the costs."""
        satisfied = violated = cost = 0
        here = _place_of(node.node)
        for (dependency, hosts), by_place in zip(self.dependencies, self._counted(), strict=True):
            own, limit = hosts.counts.get(node.name, 0), dependency.max_network_cost
            satisfied += own
            for place, count in by_place.items():
                there = count - own if place == here else count
                distance = self.costs.distance(here, place)
                satisfied += there * (distance.limited <= limit)
                violated += there * (distance.limited > limit)
                cost += there * distance.cost
        return satisfied, violated, cost

    def _counted(self) -> list[Counter[Place]]:
        if not self._by_place:
            for _, hosts in self.dependencies:
                found: Counter[Place] = Counter()
                for name, count in hosts.counts.items():
                    found[_place_of(self._table.node(self._table.row_of[name]))] += count
                self._by_place.append(found)
        return self._by_place

    def too_far(self, node: NodeView) -> list[str]:
        """Return some of the dependencies that are too far away from a node, in words."""
        here = _place_of(node.node)
        found: list[str] = []
        for dependency, hosts in self.dependencies:
            limit = dependency.max_network_cost
            for name in hosts.counts:
                distance = self.costs.distance(here, _place_of(self._table.node(self._table.row_of[name])))
                if name != node.name and distance.limited > limit and len(found) < NAMED:
                    to = f"to {dependency.workload.selector} on {name}"
                    found.append(f"from {node.name} {to}: cost {distance.cost}, at most {limit}")
        return found

    def costs_by_dependency(self, node: NodeView) -> list[str]:
        """Return what each dependency costs from a node, in words."""
        here, said = _place_of(node.node), []
        for (dependency, hosts), by_place in zip(self.dependencies, self._counted(), strict=True):
            own = hosts.counts.get(node.name, 0)
            costs = [
                (self.costs.distance(here, place).cost, count - own if place == here else count)
                for place, count in by_place.items()
            ]
            total, pods = sum(cost * count for cost, count in costs), sum(by_place.values())
            highest = max((cost for cost, count in costs if count), default=0)
            said.append(
                f"{pods} pod(s) of {dependency.workload.selector} cost {total}, {highest} each at most; "
                f"maxNetworkCost is {dependency.max_network_cost}"
            )
        return said

    def costs_to_allow(self, node: NodeView) -> dict[str, int]:
        """Return how far away each dependency would have to be allowed to be that is too far from a node."""
        here = _place_of(node.node)
        found: dict[str, int] = {}
        for dependency, hosts in self.dependencies:
            others = (name for name in hosts.counts if name != node.name)
            places = {_place_of(self._table.node(self._table.row_of[name])) for name in others}
            distances = (self.costs.distance(here, place) for place in places)
            too_far = [each.cost for each in distances if each.limited > dependency.max_network_cost]
            if too_far:
                found[dependency.workload.selector] = max(too_far)
        return found

    def toll(self, places: Places) -> Toll:
        """Return the same of every row, worked out once."""
        if self._toll is None:
            self._toll = self._of_rows(places)
        return self._toll

    def _of_rows(self, places: Places) -> Toll:
        """Work it out place by place, and put the rows right that have pods which are depended on."""
        by_place = np.zeros((3, len(places.names)), dtype=np.int64)
        corrections = []
        for dependency, hosts in self.dependencies:
            found, limit = hosts.rows(places), dependency.max_network_cost
            assert isinstance(found, HostRows), "PreFilter has turned away the pod else"
            numbers = np.flatnonzero(found.by_place)
            counts, to = found.by_place[numbers], places.distances(numbers)
            near, far = to.limited <= limit, to.limited > limit
            by_place[0] += near @ counts
            by_place[1] += far @ counts
            by_place[2] += to.costs @ counts
            # A host is in its own place: what its pods count there is taken back, and they count as on the same node.
            own = found.of_row, np.searchsorted(numbers, found.of_row).clip(max=len(numbers) - 1)
            change = np.stack([1 - near[own], -far[own].astype(np.int64), -to.costs[own]])
            corrections.append((found.rows, change * found.counts))
        return Toll(by_place, places.of_row, corrections)


def _place_of(node: Node) -> Place:
    labels = node.metadata.labels
    return Place(labels.get(REGION, ""), labels.get(ZONE, ""))


@final
class NetworkOverhead(
    PreFilterPlugin,
    PreFilterExtensions,
    FilterPlugin,
    ColumnFilterPlugin,
    ScorePlugin,
    ColumnScorePlugin,
    NormalizeScorePlugin,
    SignaturePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    EventsPlugin,
    ExplainingPlugin,
    ScoreExplainingPlugin,
    RemedyPlugin,
):
    """PreFilter, Filter and Score.

    A column depends on the labels of all nodes, on both kinds of objects, and on which pods of groups are bound where,
    which this plugin notes by itself: its own reservations, which count as changed whenever it hears of a pod.
    """

    name: ClassVar[str] = "NetworkOverhead"
    args_type: ClassVar[type[msgspec.Struct]] = NetworkOverheadArgs
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset(
            {Dependency.ALL_NODES, Dependency.OWN_RESERVATIONS, Objects((APP_GROUPS.name, NETWORK_TOPOLOGIES.name))}
        ),
        score_depends_on=frozenset(
            {Dependency.ALL_NODES, Dependency.OWN_RESERVATIONS, Objects((APP_GROUPS.name, NETWORK_TOPOLOGIES.name))}
        ),
        hints_by_shape=True,
    )

    def __init__(self, args: NetworkOverheadArgs, handle: Handle) -> None:
        self._namespaces = args.namespaces
        self._weights_name = args.weights_name
        self._topology_name = args.network_topology_name
        self._groups = handle.follow(APP_GROUPS)
        self._topologies = handle.follow(NETWORK_TOPOLOGIES)
        self._table = handle.cache.table
        self._places = Places(self._table)
        self._hosts: dict[tuple[str, str], Hosts] = {}
        """Where the bound pods of each group and workload are."""
        self._costs: NetworkCosts | None = None
        self._costs_of: NetworkTopology | None = None
        """The object that `_costs` was made of."""

    # -- which pods there are --

    def pod_added(self, pod: PodInfo) -> None:
        """Count a pod of a group that is bound."""
        self._count(pod, 1)

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Count a pod that is bound from now on, or whose labels have changed."""
        if _identity(old) != _identity(new):
            self._count(old, -1)
            self._count(new, 1)

    def pod_removed(self, pod: PodInfo) -> None:
        """Count a pod no more that is gone."""
        self._count(pod, -1)

    def _count(self, pod: PodInfo, by: int) -> None:
        group = group_named_by(pod)
        if not group or not pod.node_name:
            return
        key = group, workload_of(pod)
        hosts = self._hosts.setdefault(key, Hosts())
        hosts.change(pod.node_name, by, self._places)
        if not hosts.counts:
            del self._hosts[key]

    # -- the cycle --

    def signature(self, pod: PodInfo) -> Hashable:
        """A pod's columns follow from its group and its workload."""
        group = group_named_by(pod)
        return (group, workload_of(pod)) if group else ()

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Find out what the pod depends on."""
        found = self._requirements(pod)
        if isinstance(found, Status):
            return found
        if found is None:
            return SKIP
        state.write(self.name, found)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Count a pod in that comes in a what-if."""
        self._change(state, pod, added, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Leave a pod out that goes in a what-if."""
        self._change(state, pod, removed, node, -1)
        return None

    def _change(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeView, by: int) -> None:
        """Write requirements by which another pod counts that is depended on, or counts no more."""
        found: Requirements | None = state.get(self.name)
        name = group_named_by(pod)
        group = found_in(self._namespaces, self._groups, name)
        if found is None or group_named_by(other) != name or not isinstance(group, AppGroup):
            return
        known = {dependency.workload.selector: hosts for dependency, hosts in found.dependencies}
        wanted = [
            each for each in dependencies_of(group, workload_of(pod)) if each.workload.selector == workload_of(other)
        ]
        for dependency in wanted:
            selector = dependency.workload.selector
            known[selector] = Hosts.of(known[selector].counts if selector in known else {})
            known[selector].change(node.name, by, self._places)
        if wanted:
            all_of_it = [(each, known.get(each.workload.selector)) for each in dependencies_of(group, workload_of(pod))]
            left = [(each, hosts) for each, hosts in all_of_it if hosts is not None and hosts.counts]
            state.write(self.name, Requirements(found.costs, left, self._table))

    def _requirements(self, pod: PodInfo) -> Requirements | Status | None:
        """Return what a pod's nodes are measured by; None where nothing is, else why it cannot be said."""
        name = group_named_by(pod)
        if not name:
            return None
        group = found_in(self._namespaces, self._groups, name)
        if group is None:
            return unresolvable(NO_GROUP.format(name=name, namespaces=_listed(self._namespaces)))
        assert isinstance(group, AppGroup)
        dependencies = [
            (dependency, hosts)
            for dependency in dependencies_of(group, workload_of(pod))
            if (hosts := self._hosts.get((name, dependency.workload.selector))) is not None
        ]
        if not dependencies:
            return None
        costs = self._costs_in_force()
        if costs is None:
            return unresolvable(NO_TOPOLOGY.format(name=self._topology_name, namespaces=_listed(self._namespaces)))
        self._places.follow(costs)
        for _, hosts in dependencies:
            rows = hosts.rows(self._places)
            if isinstance(rows, str) and len(self._table):
                return error(NO_HOST.format(rows))
        return Requirements(costs, dependencies, self._table)

    def _costs_in_force(self) -> NetworkCosts | None:
        found = found_in(self._namespaces, self._topologies, self._topology_name)
        if found is None:
            return None
        assert isinstance(found, NetworkTopology)
        if self._costs is None or found is not self._costs_of:
            self._costs, self._costs_of = NetworkCosts(found, self._weights_name), found
        return self._costs

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Rule a node out where more dependencies are too far away than near enough."""
        found: Requirements = state.read(self.name)
        satisfied, violated, _ = found.on(node)
        return _too_far(node.name, satisfied, violated) if violated > satisfied else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Do the same for many rows. A code is the number of the row, counted from 1."""
        found: Requirements = state.read(self.name)
        toll = found.toll(self._places)

        def describe(code: int) -> Status:
            return _too_far(table.names[code - 1], *toll.counts(code - 1))

        codes = np.zeros(table.capacity, dtype=np.int32)
        rejected = np.flatnonzero(toll.is_too_far)
        codes[rejected] = rejected + 1
        return FilterColumn(codes[rows], describe)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the sum of the costs."""
        found: Requirements | None = state.get(self.name)
        return 0 if found is None else found.on(node)[2]

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Do the same for many rows."""
        found: Requirements | None = state.get(self.name)
        if found is None:
            return np.zeros(table.capacity, dtype=np.int64)[rows]
        return found.toll(self._places).cost[rows]

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Turn costs round, stretched over the nodes that are left; where all are 0 they stay so."""
        if not scores.any():
            return scores
        lowest = scores.min()
        span = max(int(scores.max() - lowest), 1)
        # In floats and cut, as upstream has it; that is several times faster than dividing int64, too.
        found: Scores = MAX_NODE_SCORE - ((scores - lowest) * float(MAX_NODE_SCORE) / span).astype(np.int64)
        return found

    # -- what is told of it --

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]:
        """Return how far the nearest nodes are, and on the nearest that is too far away, which costs are too high."""
        found = self._requirements(pod)
        if not isinstance(found, Requirements):
            return ()
        rows = self._table.rows()
        toll = found.toll(self._places)
        order = rows[np.lexsort((toll.cost[rows], toll.is_too_far[rows]))]
        said = [self._in_words("nearest is", row, toll) for row in order[:1].tolist() if not toll.is_too_far[row]]
        for row in order[toll.is_too_far[order]][:1].tolist():
            said.append(self._in_words("nearest of those too far away is", row, toll))
            said += found.too_far(self._table.view(row))
        return said

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return what each dependency costs from a node."""
        found = self._requirements(pod)
        if not isinstance(found, Requirements):
            return ()
        return [*found.costs_by_dependency(node), f"together {found.on(node)[2]}, and the least is best"]

    def remedies(self, pod: PodInfo) -> Sequence[Remedy]:
        """Return which maximums the AppGroup could raise so that a node is near enough, those of the nearest first."""
        found, name = self._requirements(pod), group_named_by(pod)
        group = found_in(self._namespaces, self._groups, name)
        if not isinstance(found, Requirements) or not isinstance(group, AppGroup):
            return ()
        toll, rows = found.toll(self._places), self._table.rows()
        far = rows[toll.is_too_far[rows]]
        before = {each.workload.selector: each.max_network_cost for each, _ in found.dependencies}
        told: dict[tuple[tuple[str, int], ...], Remedy] = {}
        # Nodes in one place differ little: one for each cost is looked at.
        _, first = np.unique(toll.cost[far], return_index=True)
        for row in far[first][:NODES_TRIED].tolist():
            costs = found.costs_to_allow(self._table.view(row))
            words = [f"from {before[each]} to {cost} for {each}" for each, cost in sorted(costs.items())]
            patch = {"spec": {"workloads": with_costs(group, workload_of(pod), costs)}}
            what = f"raise maxNetworkCost of {workload_of(pod)} {' and '.join(words)}"
            meta = group.metadata
            told.setdefault(tuple(sorted(costs.items())), Remedy(APP_GROUPS, meta.namespace, meta.name, patch, what))
        return list(told.values())[:REMEDIES]

    def _in_words(self, what: str, row: int, toll: Toll) -> str:
        near, far = toll.counts(row)
        return f"{what} {self._table.names[row]}: {near} near enough, {far} too far away, cost {toll.cost[row]}"

    # -- events and hints --

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return what may help: pods of the group, nodes that come or move, and the objects that say what is far."""
        label = Action.UPDATE_POD_LABEL
        return [
            ClusterEventWithHint(ClusterEvent("Pod", Action.ADD | Action.DELETE | label), self._after_pod),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), _after_node),
            ClusterEventWithHint(ClusterEvent(APP_GROUPS.name, Action.ADD | Action.UPDATE), self._after_group),
            ClusterEventWithHint(ClusterEvent(NETWORK_TOPOLOGIES.name, Action.ALL), self._after_topology),
        ]

    def _after_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """A pod of the group is nearer than those before, or it was too far away; or the pod itself has changed."""
        if new is not None and new.uid == pod.uid:
            return queue_if(old is None or _identity(old) != _identity(new))
        group = group_named_by(pod)
        return queue_if(any(each is not None and group_named_by(each) == group for each in (old, new)))

    def _after_group(self, pod: PodInfo, _old: AppGroup | None, new: AppGroup | None) -> QueueingHint:
        return queue_if(new is not None and new.metadata.name == group_named_by(pod))

    def _after_topology(self, _pod: PodInfo, _old: NetworkTopology | None, new: NetworkTopology | None) -> QueueingHint:
        """Where one goes that was first, another one of the name may count."""
        return queue_if(new is None or new.metadata.name == self._topology_name)


def _after_node(_pod: PodInfo, old: Node | None, new: Node | None) -> QueueingHint:
    return queue_if(old is None or new is None or _place_of(old) != _place_of(new))


def _identity(pod: PodInfo) -> tuple[str, str, str]:
    return group_named_by(pod), workload_of(pod), pod.node_name


def _too_far(node: str, satisfied: int, violated: int) -> Status:
    words = TOO_FAR.format(node=node, satisfied=satisfied, violated=violated)
    return unschedulable(words, in_general=(TOO_FAR_IN_GENERAL,))


def _listed(namespaces: Sequence[str]) -> str:
    return f"the namespace{'s' if len(namespaces) > 1 else ''} {', '.join(namespaces)}"
