"""All topologies of a cluster with what is used of them, and the copy of it that a scheduling cycle works on.

A `TopologyForest` follows nodes, pods, topologies, flavors and admitted workloads. A `TopologySnapshot` answers for one
cycle: whether usage fits, and where the pod sets of a workload go. Flavors whose lowest level is the hostname may
select the same nodes: usage of one then counts for all of them (gate TASHandleOverlappingFlavors).
Source: kubernetes-sigs/kueue, pkg/cache/scheduler (tas_cache.go, tas_flavor.go, snapshot.go, clusterqueue_snapshot.go).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from berth.api.codec import decode
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_resources import pod_requests
from berth.api.taints import Toleration
from berth_kueue.topology.placing import (
    Amounts,
    DomainUsage,
    PlacedWorkload,
    PlacingFailure,
    PodSetPlacements,
    PodSetPlacing,
    TopologyAssignment,
    wish_of,
)
from berth_kueue.topology.replacement import replacement_of
from berth_kueue.topology.rooms import DomainRoom, Exclusions, PodNeeds, fill_leaf, matching_leaves
from berth_kueue.topology.search import NoRoomError, PlacementSearch, TopologyGates, assignment_of, task_of
from berth_kueue.topology.tree import (
    HOSTNAME,
    LeafUsage,
    TopologyDomain,
    TopologyTree,
    add_amounts,
    count_in,
    matches_flavor,
    with_one_pod,
)

_OWN_PODS = (
    *(
        f"kueue.x-k8s.io/podset-{what}-topology"
        for what in ("required", "preferred", "unconstrained", "slice-required")
    ),
    "kueue.x-k8s.io/podset-slice-required-topology-constraints",
)
"""Annotations of pods whose usage is that of their workload."""


class TopologyFlavor(msgspec.Struct, frozen=True):
    """What a ResourceFlavor says of nodes."""

    name: str
    topology: str
    node_labels: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


class TopologyForest:
    """The topologies of a cluster, kept up to date."""

    __slots__ = ("_by_workload", "_flavors", "_nodes", "_pods", "_topologies", "_trees", "_used", "gates")

    def __init__(self, gates: Mapping[str, bool] | None = None) -> None:
        """`gates` are those that are away from Kueue's defaults; those of other rooms are passed over."""
        own = {name: gate for name, gate in (gates or {}).items() if name in TopologyGates._fields}
        self.gates = TopologyGates(**own)
        self._topologies: dict[str, tuple[str, ...]] = {}
        self._flavors: dict[str, TopologyFlavor] = {}
        self._nodes: dict[str, Node] = {}
        self._pods: dict[tuple[str, str], tuple[str, Amounts]] = {}
        self._used: dict[str, dict[str, dict[str, int]]] = {}
        self._by_workload: dict[str, dict[str, tuple[DomainUsage, ...]]] = {}
        self._trees: dict[str, TopologyTree] = {}

    def copy(self) -> "TopologyForest":
        """A forest of its own in which everything is as it is here; trees, which never change, are shared."""
        made = TopologyForest()
        made.gates = self.gates
        for name in ("_topologies", "_flavors", "_nodes", "_pods", "_by_workload", "_trees"):
            setattr(made, name, dict(getattr(self, name)))
        made._used = {
            flavor: {id_: dict(amounts) for id_, amounts in used.items()} for flavor, used in self._used.items()
        }
        return made

    # -- following a cluster ------------------------------------------------------------------------------------------

    def set_topology(self, topology: Mapping[str, Any]) -> None:
        """Take a Topology in."""
        levels = topology["spec"].get("levels") or ()
        self._topologies[topology["metadata"]["name"]] = tuple(level["nodeLabel"] for level in levels)
        self._trees.clear()

    def set_flavor(self, flavor: Mapping[str, Any]) -> None:
        """Take a ResourceFlavor in; one without a topology is passed over."""
        spec, name = flavor.get("spec") or {}, flavor["metadata"]["name"]
        if not spec.get("topologyName"):
            return
        tolerations = msgspec.convert(spec.get("tolerations") or [], tuple[Toleration, ...])
        self._flavors[name] = TopologyFlavor(name, spec["topologyName"], spec.get("nodeLabels") or {}, tolerations)
        self._trees.pop(name, None)

    def set_node(self, node: Mapping[str, Any]) -> None:
        """Take a Node in; one that is cordoned or not ready has no capacity."""
        read: Node = decode("Node", node)
        is_ready = any(each.type == "Ready" and each.status == "True" for each in read.status.conditions)
        if read.spec.unschedulable or not is_ready:
            self.delete_node(read.metadata.name)
        elif self._nodes.get(read.metadata.name) != read:
            self._nodes[read.metadata.name] = read
            self._trees.clear()

    def delete_node(self, name: str) -> None:
        """Take a Node away."""
        if self._nodes.pop(name, None) is not None:
            self._trees.clear()

    def set_pod(self, pod: Mapping[str, Any]) -> None:
        """Take a Pod in. It counts where it runs on a node and is of no workload that a topology is kept of."""
        read: Pod = decode("Pod", pod)
        key = read.metadata.namespace, read.metadata.name
        is_over = read.status.phase in ("Succeeded", "Failed")
        is_own = any(name in read.metadata.annotations for name in _OWN_PODS)
        if is_over or is_own or not read.spec.node_name:
            self.delete_pod(*key)
        else:
            self._pods[key] = read.spec.node_name, with_one_pod(pod_requests(read, use_status=False))
            self._trees.clear()

    def delete_pod(self, namespace: str, name: str) -> None:
        """Take a Pod away."""
        if self._pods.pop((namespace, name), None) is not None:
            self._trees.clear()

    def knows(self, flavor: str) -> bool:
        """Say whether a flavor has a topology that exists."""
        return flavor in self._flavors and self._flavors[flavor].topology in self._topologies

    def levels(self, flavor: str) -> tuple[str, ...]:
        """The levels of a flavor's topology."""
        return self._topologies[self._flavors[flavor].topology]

    def add_usage(self, workload: str, usage: Mapping[str, Sequence[DomainUsage]]) -> None:
        """Count what an admitted workload uses, by flavor; what it used before is given back."""
        self.remove_usage(workload)
        known = {flavor: tuple(domains) for flavor, domains in usage.items() if self.knows(flavor)}
        self._by_workload[workload] = known
        self._count(known, 1)

    def remove_usage(self, workload: str) -> None:
        """Give back what a workload uses; nothing if it uses none."""
        self._count(self._by_workload.pop(workload, {}), -1)

    def _count(self, usage: Mapping[str, Sequence[DomainUsage]], sign: int) -> None:
        for flavor, domains in usage.items():
            used = self._used.setdefault(flavor, {})
            for domain in domains:
                add_amounts(used.setdefault(",".join(domain.values), {}), domain.total(), sign)

    def snapshot(self) -> "TopologySnapshot":
        """The topologies as they are now, for one cycle."""
        known = [flavor for flavor in self._flavors if self.knows(flavor)]
        shared: dict[str, dict[str, int]] = {}
        sharing: set[str] = set()
        if self.gates.TASHandleOverlappingFlavors:
            sharing = {flavor for flavor in known if self.levels(flavor)[-1:] == (HOSTNAME,)}
            for flavor in sharing:
                for id_, used in self._used.get(flavor, {}).items():
                    add_amounts(shared.setdefault(id_, {}), used)
        trees = {
            flavor: LeafUsage(self._tree(flavor), shared if flavor in sharing else self._used.get(flavor, {}))
            for flavor in known
        }
        return TopologySnapshot(self.gates, self._flavors, trees)

    def _tree(self, flavor: str) -> TopologyTree:
        tree = self._trees.get(flavor)
        if tree is None:
            wanted, levels = self._flavors[flavor], self.levels(flavor)
            nodes = [node for node in self._nodes.values() if matches_flavor(node, wanted.node_labels, levels)]
            taken: dict[str, dict[str, int]] = {}
            for node, requests in self._pods.values():
                add_amounts(taken.setdefault(node, {}), requests)
            tree = self._trees[flavor] = TopologyTree(wanted.topology, levels, nodes, taken)
        return tree


class TopologySnapshot:
    """The topologies in one cycle, in which usage is added and taken away on trial."""

    __slots__ = ("_flavors", "_matching", "_trees", "gates")

    def __init__(
        self, gates: TopologyGates, flavors: Mapping[str, TopologyFlavor], trees: Mapping[str, LeafUsage]
    ) -> None:
        self.gates = gates
        self._flavors = dict(flavors)
        self._trees = trees
        self._matching: dict[tuple[str, str, str], tuple[list[TopologyDomain], Exclusions]] = {}

    def knows(self, flavor: str) -> bool:
        """Say whether a flavor has a topology."""
        return flavor in self._trees

    def has_level(self, flavor: str, request: Mapping[str, Any] | None) -> bool:
        """Say whether a flavor's topology has every level that a pod set names."""
        tree, wish = self._trees[flavor].tree, wish_of(request)
        level = wish.level(tree.levels[0], tree.levels[-1])
        named = [level, wish.slice_level(tree.levels[-1]), *(layer.level for layer in wish.layers)]
        return bool(level) and all(name in tree.levels for name in named)

    def add(self, flavor: str, usage: Iterable[DomainUsage], sign: int = 1) -> None:
        """Count usage, or give it back, in this flavor alone; nothing where the flavor is not known."""
        if flavor in self._trees:
            for domain in usage:
                self._trees[flavor].add(",".join(domain.values), domain.total(), sign)

    def fits(self, flavor: str, usage: Iterable[DomainUsage]) -> bool:
        """Say whether each of the domains has room for its pods."""
        leaves = self._trees[flavor]
        for domain in usage:
            leaf = leaves.tree.leaves.get(",".join(domain.values))
            if leaf is None or count_in(domain.requests, leaves.left(leaf))[0] < domain.count:
                return False
        return True

    def find(
        self,
        placings: Mapping[str, Sequence[PodSetPlacing]],
        workload: PlacedWorkload | None = None,
        *,
        simulate_empty: bool = False,
    ) -> PodSetPlacements:
        """Place a workload's pod sets, which are given by flavor; what one takes, the next does not have.

        `simulate_empty` takes all workloads to be gone. With unhealthy nodes, the pods of the first of these are placed
        anew. Kueue names any pod set of a group that fails; this is the first.
        """
        placed: dict[str, TopologyAssignment | None] = {}
        failure = None
        shared: dict[str, dict[str, int]] = {}
        for flavor in sorted(placings):
            shares = self.gates.TASHandleOverlappingFlavors and self._trees[flavor].tree.is_by_hostname
            assumed = shared if shares else {}
            for group in _groups(placings[flavor]):
                try:
                    found = self._place(flavor, group, workload or PlacedWorkload(), assumed, simulate_empty)
                except NoRoomError as error:
                    failure = failure or PlacingFailure(group[0].name, flavor, str(error))
                    break
                placed |= found
        return PodSetPlacements(placed, failure)

    def _place(
        self,
        flavor: str,
        group: Sequence[PodSetPlacing],
        workload: PlacedWorkload,
        assumed: dict[str, dict[str, int]],
        is_empty: bool,
    ) -> dict[str, TopologyAssignment | None]:
        placed: dict[str, TopologyAssignment | None] = {}
        if workload.unhealthy_nodes:
            for placing in group:
                before = workload.admission.get(placing.name)
                if before is not None:
                    placed[placing.name], added = replacement_of(
                        self._trees[flavor].tree,
                        placing,
                        before,
                        workload.unhealthy_nodes[0],
                        lambda pod_set, within: self._search(flavor, pod_set, None, workload, assumed, within, False),
                    )
                    _assume(assumed, placing, added)
            return placed
        leader, workers = _leader_and_workers(group)
        placed = self._search(flavor, workers, leader, workload, assumed, "", is_empty)
        for placing in group:
            assignment = placed.get(placing.name)
            if assignment is not None:
                _assume(assumed, placing, assignment)
        return placed

    def _search(
        self,
        flavor: str,
        workers: PodSetPlacing,
        leader: PodSetPlacing | None,
        workload: PlacedWorkload,
        assumed: Mapping[str, Amounts],
        within: str,
        is_empty: bool,
    ) -> dict[str, TopologyAssignment | None]:
        leaves = self._trees[flavor]
        tree, exclusions = leaves.tree, Exclusions()
        task = task_of(
            tree,
            self.gates,
            wish_of(workers.request),
            workers.count,
            has_leader=leader is not None,
            is_implied=workers.is_implied,
        )
        rooms: dict[int, DomainRoom] = {}
        roots = [_room_of(domain, rooms) for domain in (tree.by_level[0] if tree.by_level else {}).values()]
        needs = PodNeeds(
            with_one_pod(workers.requests),
            with_one_pod(leader.requests) if leader is not None else None,
            assumed,
            within,
            is_empty,
        )
        for leaf, affinity in self._matches(flavor, workers, workload.uid, exclusions):
            rooms[leaf.leaf].affinity = affinity
            fill_leaf(rooms[leaf.leaf], leaves, needs, exclusions)
        workers_in, leaders_in = PlacementSearch(task, roots, exclusions).place()
        placed: dict[str, TopologyAssignment | None] = {
            workers.name: assignment_of(tree, ((room, room.pods) for room in workers_in))
        }
        if leader is not None:
            placed[leader.name] = assignment_of(tree, ((room, room.leaders) for room in leaders_in))
        return placed

    def _matches(
        self, flavor: str, placing: PodSetPlacing, uid: str, exclusions: Exclusions
    ) -> Iterable[tuple[TopologyDomain, int]]:
        """The leaves that a pod set may be in, with the weight of its preferences.

        A second look in the same cycle sees no preferences: Kueue keeps the nodes of the first (gate
        TASCacheNodeMatchResults) and not their weights.
        """
        tree = self._trees[flavor].tree
        if not tree.is_by_hostname:
            exclusions.total = len(tree.leaves)
            return [(leaf, 0) for leaf in tree.leaves.values()]
        key = flavor, uid, placing.name
        if uid and key in self._matching:
            kept, before = self._matching[key]
            exclusions.copy_matching(before)
            return [(leaf, 0) for leaf in kept]
        tolerations = placing.spec.tolerations + self._flavors[flavor].tolerations
        prefers = self.gates.TASRespectNodeAffinityPreferred
        matching = list(matching_leaves(tree.leaves.values(), placing.spec, tolerations, exclusions, prefers=prefers))
        if uid:
            kept_exclusions = Exclusions()
            kept_exclusions.copy_matching(exclusions)
            self._matching[key] = [leaf for leaf, _ in matching], kept_exclusions
        return matching


def _room_of(domain: TopologyDomain, leaves: dict[int, DomainRoom]) -> DomainRoom:
    room = DomainRoom(domain, [_room_of(child, leaves) for child in domain.children])
    if domain.leaf >= 0:
        leaves[domain.leaf] = room
    return room


def _groups(placings: Sequence[PodSetPlacing]) -> list[list[PodSetPlacing]]:
    """Pod sets that go together, in the order of their first."""
    groups: dict[str | int, list[PodSetPlacing]] = {}
    for at, placing in enumerate(placings):
        groups.setdefault(wish_of(placing.request).group or at, []).append(placing)
    return list(groups.values())


def _leader_and_workers(group: Sequence[PodSetPlacing]) -> tuple[PodSetPlacing | None, PodSetPlacing]:
    if len(group) == 1:
        return None, group[0]
    first, second = group[:2]
    return (first, second) if second.count > first.count else (second, first)


def _assume(assumed: dict[str, dict[str, int]], placing: PodSetPlacing, assignment: TopologyAssignment) -> None:
    for values, count in assignment.domains:
        usage = DomainUsage(values, placing.requests, count)
        add_amounts(assumed.setdefault(",".join(values), {}), usage.total())
