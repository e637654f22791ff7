"""How many pods of a pod set each domain has room for, from the leaves up, and why nodes are left out.

Room is counted in pods and in slices, each without and with the leader of a group in the domain. A `DomainRoom` belongs
to one search: its numbers first say what fits, and are then lowered to what is placed.
Source: kubernetes-sigs/kueue, pkg/cache/scheduler (fillInCounts in tas_flavor_snapshot.go, and
scheduling_simulator_default.go for which nodes match).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from berth.api.node import Node
from berth.api.pod import PodSpec
from berth.api.taints import NO_EXECUTE, NO_SCHEDULE, Taint, Toleration, untolerated_taint
from berth_kueue.topology.placing import Amounts
from berth_kueue.topology.tree import LeafUsage, TopologyDomain, count_in, less


class DomainRoom:
    """A domain in one search."""

    __slots__ = ("affinity", "children", "domain", "leaders", "pods", "pods_beside", "slices", "slices_beside")

    def __init__(self, domain: TopologyDomain, children: "list[DomainRoom]") -> None:
        self.domain = domain
        self.children = children
        self.pods = self.slices = 0
        self.pods_beside = self.slices_beside = 0
        """The same as `pods` and `slices`, with a leader in the domain."""
        self.leaders = 0
        """How many leaders have room: one at most."""
        self.affinity = 0
        """The weights of preferred node affinity, summed over its nodes."""

    def clear(self) -> None:
        """Leave no room, here and below."""
        self.pods = self.slices = self.pods_beside = self.slices_beside = self.leaders = 0
        for child in self.children:
            child.clear()

    def copy(self) -> "DomainRoom":
        """The room with all below it, to be tried on."""
        made = DomainRoom(self.domain, [child.copy() for child in self.children])
        made.pods, made.pods_beside, made.slices, made.slices_beside, made.leaders, made.affinity = (
            self.pods, self.pods_beside, self.slices, self.slices_beside, self.leaders, self.affinity
        )  # fmt: skip
        return made

    def lead_nowhere(self) -> None:
        """Leave room for workers only, here and below."""
        self.pods_beside = self.slices_beside = self.leaders = 0
        for child in self.children:
            child.lead_nowhere()


class Exclusions:
    """How many nodes are left out for which reason, as a failure tells it."""

    __slots__ = ("affinity", "node_selector", "resources", "taints", "topology_domain", "total")

    def __init__(self) -> None:
        self.total = self.node_selector = self.affinity = self.topology_domain = 0
        self.taints: Counter[str] = Counter()
        self.resources: Counter[str] = Counter()

    def words(self) -> str:
        """Ends the sentence of a failure; empty where no node was left out."""
        named = {"nodeSelector": self.node_selector, "affinity": self.affinity, "topologyDomain": self.topology_domain}
        reasons = [f"{name}: {count}" for name, count in named.items() if count]
        reasons += [f'taint "{taint}": {count}' for taint, count in self.taints.items()]
        reasons += [f'resource "{name}": {count}' for name, count in self.resources.items()]
        return f". Total nodes: {self.total}; excluded: {', '.join(sorted(reasons))}" if reasons else ""

    def copy_matching(self, other: "Exclusions") -> None:
        """Take over what another search of the same pod set has counted of nodes that do not match."""
        self.total, self.node_selector, self.affinity = other.total, other.node_selector, other.affinity
        self.taints = Counter(other.taints)


class PodNeeds(NamedTuple):
    """What a search looks for in a leaf."""

    requests: Amounts
    """Of a worker, with its place among the node's pods."""
    leader: Amounts | None
    assumed: Mapping[str, Amounts]
    """By domain, what pod sets of the same workload take that were placed before."""
    within: str
    """The domain in which a failed node's pods have to stay; empty for anywhere."""
    is_empty: bool
    """Whether all workloads are taken to be gone."""


def matching_leaves(
    leaves: Iterable[TopologyDomain],
    spec: PodSpec,
    tolerations: tuple[Toleration, ...],
    exclusions: Exclusions,
    *,
    prefers: bool,
) -> Iterator[tuple[TopologyDomain, int]]:
    """Yield the leaves whose node a pod may go to, with the weight of its preferences; the others are counted."""
    required = spec.affinity.node_affinity.required if spec.affinity and spec.affinity.node_affinity else None
    for leaf in leaves:
        exclusions.total += 1
        node = leaf.node
        assert node is not None
        labels = node.metadata.labels
        taint = untolerated_taint(node.spec.taints, tolerations, (NO_SCHEDULE, NO_EXECUTE), compare_numbers=True)
        if taint is not None:
            exclusions.taints[taint_words(taint)] += 1
        elif any(labels.get(key) != wanted for key, wanted in spec.node_selector.items()):
            exclusions.node_selector += 1
        elif required is not None and not required.matches(labels, node.metadata.name):
            exclusions.affinity += 1
        else:
            yield leaf, _preference(spec, node) if prefers else 0


def _preference(spec: PodSpec, node: Node) -> int:
    if not spec.affinity or not spec.affinity.node_affinity:
        return 0
    terms = spec.affinity.node_affinity.preferred
    return sum(each.weight for each in terms if each.preference.matches(node.metadata.labels, node.metadata.name))


def taint_words(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    named = f"{taint.key}={taint.value}" if taint.value else taint.key
    return f"{named}:{taint.effect}" if taint.effect else named


def fill_leaf(room: DomainRoom, usage: LeafUsage, needs: PodNeeds, exclusions: Exclusions) -> None:
    """Count how many pods fit into what a leaf has left."""
    leaf = room.domain
    path = ",".join(leaf.values)
    if needs.within and path != needs.within and not path.startswith(f"{needs.within},"):
        exclusions.topology_domain += 1
        return
    left = usage.left(leaf, is_empty=needs.is_empty)
    if leaf.id in needs.assumed:
        left = less(left, needs.assumed[leaf.id])
    room.pods, limiting = count_in(needs.requests, left)
    if not room.pods and limiting:
        exclusions.resources[limiting] += 1
    if needs.leader is not None and count_in(needs.leader, left)[0] > 0:
        room.leaders = 1
        left = less(left, needs.leader)
    room.pods_beside = count_in(needs.requests, left)[0]


class SliceLevels(NamedTuple):
    """Of which size slices are, and at which level: 0 is the highest."""

    size: int
    level: int
    inner: Mapping[int, int]
    """By level below that, the size of slices within slices."""


def sum_up(room: DomainRoom, slices: SliceLevels, level: int, *, with_leader: bool) -> None:
    """Fill in a domain's room from that of the domains in it.

    A leader takes the room of some pods away in whichever domain it stands: what is left beside it is counted for the
    domain in which it takes away the fewest.
    """
    if not room.children:
        if level == slices.level:
            room.slices, room.slices_beside = room.pods // slices.size, room.pods_beside // slices.size
        return
    inner = slices.inner.get(level + 1, 1)
    room.pods = room.slices = room.leaders = room.affinity = 0
    pods_lost, slices_lost = [], []
    for child in room.children:
        sum_up(child, slices, level + 1, with_leader=with_leader)
        pods, beside = child.pods // inner * inner, child.pods_beside // inner * inner
        room.pods += pods
        room.slices += child.slices
        room.leaders = max(room.leaders, child.leaders)
        room.affinity += child.affinity
        if child.leaders or not with_leader:
            pods_lost.append(pods - beside)
            slices_lost.append(child.slices - child.slices_beside)
    room.pods_beside = room.pods - min(pods_lost) if pods_lost else 0
    room.slices_beside = room.slices - min(slices_lost) if slices_lost else 0
    if level == slices.level:
        room.slices, room.slices_beside = room.pods // slices.size, room.pods_beside // slices.size
