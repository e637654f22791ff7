"""A topology as a tree: domains from nodes' labels, down to leaves with capacity, and how much of it is left.

A tree is made once for the nodes that a flavor selects and shared by all snapshots; what changes within a scheduling
cycle, the usage of workloads, is each snapshot's own (`LeafUsage`).
Source: kubernetes-sigs/kueue, pkg/cache/scheduler (tas_topology_tree.go, tas_nodes_cache.go, tas_non_tas_pod_cache.go).
"""

from collections.abc import Iterable, Mapping, Sequence

from berth.api.node import Node
from berth.api.quantity import milli_value, value
from berth_kueue.topology.placing import PODS, Amounts

HOSTNAME = "kubernetes.io/hostname"
MOST_PODS = 2**31 - 1
"""How often a request for nothing fits."""


class TopologyDomain:
    """A domain, with its values from the highest level down to its own; `leaf` is its place among the leaves, or -1."""

    __slots__ = ("children", "id", "leaf", "node", "parent", "values")

    def __init__(self, id: str, values: tuple[str, ...]) -> None:  # noqa: A002 - upstream's name for it
        self.id = id
        self.values = values
        self.parent: TopologyDomain | None = None
        self.children: list[TopologyDomain] = []
        self.leaf = -1
        self.node: Node | None = None
        """The node at a leaf, where the lowest level is the hostname."""

    def above(self, steps: int) -> "TopologyDomain":
        """The domain so many levels higher up."""
        domain = self
        for _ in range(steps):
            assert domain.parent is not None
            domain = domain.parent
        return domain


class TopologyTree:
    """The domains of a topology's levels that nodes are in, level by level, and what the leaves have free."""

    __slots__ = ("by_level", "free", "is_by_hostname", "leaves", "levels", "name")

    def __init__(self, name: str, levels: Sequence[str], nodes: Iterable[Node], taken: Mapping[str, Amounts]) -> None:
        """`taken` is what other pods use, by node."""
        self.name = name
        self.levels = tuple(levels)
        self.is_by_hostname = bool(levels) and levels[-1] == HOSTNAME
        self.by_level: list[dict[str, TopologyDomain]] = [{} for _ in levels]
        self.leaves: dict[str, TopologyDomain] = {}
        self.free: list[dict[str, int]] = []
        """By leaf, what its nodes have in all less what pods use that no topology is kept of."""
        for node in nodes:
            free = self.free[self._leaf_of(node).leaf]
            for name_, quantity in node.status.allocatable.items():
                free[name_] = free.get(name_, 0) + (milli_value(quantity) if name_ == "cpu" else value(quantity))
            for name_, amount in taken.get(node.metadata.name, {}).items():
                free[name_] = free.get(name_, 0) - amount

    def level_index(self, level: str) -> int:
        """The place of a level from the highest, -1 where the topology has none of this name."""
        return self.levels.index(level) if level in self.levels else -1

    def _leaf_of(self, node: Node) -> TopologyDomain:
        values = tuple(node.metadata.labels.get(level, "") for level in self.levels)
        id_ = values[-1] if self.is_by_hostname else ",".join(values)
        leaf = self.leaves.get(id_)
        if leaf is None:
            leaf = self.leaves[id_] = TopologyDomain(id_, values)
            leaf.leaf = len(self.free)
            leaf.node = node if self.is_by_hostname else None
            self.free.append({})
            self._hang(leaf)
        return leaf

    def _hang(self, domain: TopologyDomain) -> None:
        """Put a new domain under its parents, which are made where they are missing."""
        self.by_level[len(domain.values) - 1][domain.id] = domain
        if len(domain.values) == 1:
            return
        values = domain.values[:-1]
        id_ = ",".join(values)
        parent = self.by_level[len(values) - 1].get(id_)
        if parent is None:
            parent = TopologyDomain(id_, values)
            self._hang(parent)
        domain.parent = parent
        parent.children.append(domain)


def matches_flavor(node: Node, node_labels: Mapping[str, str], levels: Iterable[str]) -> bool:
    """Say whether a flavor selects a node: by its labels, and by each level being labelled."""
    labels = node.metadata.labels
    return all(labels.get(key, "") == wanted for key, wanted in node_labels.items()) and all(
        level in labels for level in levels
    )


class LeafUsage:
    """What admitted workloads use of the leaves of a tree, in one snapshot."""

    __slots__ = ("_left", "tree", "used")

    def __init__(self, tree: TopologyTree, used: Mapping[str, Amounts]) -> None:
        """`used` is by domain; domains that the tree has no leaf of are passed over: their nodes are gone."""
        self.tree = tree
        self.used: dict[str, dict[str, int]] = {id_: dict(used[id_]) for id_ in used if id_ in tree.leaves}
        self._left: dict[str, Amounts] = {}

    def add(self, id_: str, amounts: Amounts, sign: int = 1) -> None:
        """Count what workloads take of a domain, or give back."""
        if id_ in self.tree.leaves:
            add_amounts(self.used.setdefault(id_, {}), amounts, sign)
            self._left.pop(id_, None)

    def left(self, leaf: TopologyDomain, *, is_empty: bool = False) -> Amounts:
        """What a leaf has left, or would have if no workload of a topology were there."""
        free = self.tree.free[leaf.leaf]
        if is_empty:
            return free
        left = self._left.get(leaf.id)
        if left is None:
            used = self.used.get(leaf.id)
            left = self._left[leaf.id] = less(free, used) if used else free
        return left


def add_amounts(to: dict[str, int], amounts: Amounts, sign: int = 1) -> None:
    """Add amounts by resource."""
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + sign * amount


def less(of: Amounts, amounts: Amounts) -> dict[str, int]:
    """What remains of amounts, which may be below zero."""
    return {**of, **{name: of.get(name, 0) - amount for name, amount in amounts.items()}}


def with_one_pod(requests: Amounts) -> Amounts:
    """What a pod takes of a node, its own place among it."""
    return {**requests, PODS: requests.get(PODS, 0) + 1}


def count_in(requests: Amounts, capacity: Amounts) -> tuple[int, str]:
    """How often a request fits, and which resource limits that, the first by name. No request at all fits 0 times."""
    count, limiting = 0, ""
    for name in sorted(requests):
        amount = requests[name]
        fits = max(0, min(capacity.get(name, 0) // amount, MOST_PODS)) if amount else MOST_PODS
        if not limiting or fits < count:
            count, limiting = fits, name
    return count, limiting
