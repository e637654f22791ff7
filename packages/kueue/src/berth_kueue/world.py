"""ClusterQueues in their cohort trees: quotas, what is used of them at each node, and the workloads that use it.

A node's rows are lists over flavor-resources, which the world numbers. What a node lends climbs to its parent:
`subtree` is its own quota and what its children lend it, `local` the part that it keeps to itself, and usage reaches
the parent only beyond that part. So a cohort's usage is a function of its ClusterQueues' usage alone: the sum over its
children of what each uses beyond `local`. Adding and removing amounts keep that true, and a changed quota or parent
makes a tree stale, which the next look at usage rebuilds.

Sources: `pkg/cache/scheduler` (resource_node.go for the arithmetic, clusterqueue.go and cache.go for readiness and
workloads, fair_sharing.go for shares) and `pkg/cache/hierarchy` (cohorts that exist because somebody names them).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from berth.api.selectors import NOTHING, Selector, compile_selector
from berth_kueue.amounts import quota_of, weight_of
from berth_kueue.model import (
    ClusterQueueSpec,
    CohortSpec,
    FlavorSpec,
    KueueWorkload,
    ResourceGroup,
    WorkloadInfo,
)
from berth_kueue.topology.forest import TopologyForest


class Quota(NamedTuple):
    """What a node has of a flavor-resource; None where there is no limit to what it borrows or lends."""

    nominal: float
    borrowing: float | None
    lending: float | None


class Share(NamedTuple):
    """A node's dominant resource share: the largest of what it borrows of a resource to what its parent can lend."""

    value: float
    """The share by weight, in thousandths; infinite where something is borrowed at weight 0."""
    rank: tuple[bool, float]
    """What shares are compared by: with weight 0 and something borrowed, among each other, without weights."""
    borrowed: tuple[int, ...] = ()
    """The flavor-resources of which something is borrowed."""


NO_SHARE = Share(0.0, (False, 0.0))


class QuotaNode:
    """A ClusterQueue or a cohort in its tree."""

    __slots__ = (
        "known_share",
        "lendable_amounts",
        "limits",
        "local",
        "name",
        "parent",
        "potential",
        "quotas",
        "resources",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(self, name: str, resources: Sequence[str], width: int) -> None:
        """Make a node without quota; `resources` says of each flavor-resource which resource it is of."""
        self.name = name
        self.resources = resources
        self.parent: CohortNode | None = None
        self.quotas: dict[int, Quota] = {}
        self.limits: dict[int, float] = {}  # What may be used of the parent's at most, where borrowing is limited.
        self.subtree: list[float] = [0] * width
        self.local: list[float] = [0] * width
        self.potential: list[float] = [0] * width
        self.usage: list[int] = [0] * width
        self.weight = 1.0
        self.lendable_amounts: dict[str, float] | None = None
        self.known_share: Share | None = None  # Until usage, quota or weight change.

    @property
    def quota_keys(self) -> Iterable[int]:
        """The flavor-resources of which the node, or one below it that lends, has a quota."""
        return self.quotas

    @property
    def root(self) -> "CohortNode | None":
        """The root of the node's tree; None for a ClusterQueue alone, and in a cycle of cohorts, which has no root."""
        root = self if isinstance(self, CohortNode) else self.parent
        seen = set()
        while root is not None and root.parent is not None:
            if root in seen:
                return None
            seen.add(root)
            root = root.parent
        return root

    @property
    def is_in_cycle(self) -> bool:
        """Say whether the node, or a cohort above it, is its own ancestor."""
        return self.parent is not None and self.root is None

    def path(self) -> Iterator["CohortNode"]:
        """Walk from the node's parent to the root; it never ends in a cycle of cohorts."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def local_available(self, fr: int) -> float:
        """Return what is left of the part that the node keeps to itself."""
        return max(0, self.local[fr] - self.usage[fr])

    def available(self, fr: int) -> float:
        """Return how much more the node may use now, below 0 where too much is used already."""
        used, parent = self.usage[fr], self.parent
        if parent is None:
            return self.subtree[fr] - used
        kept, above = self.local[fr], parent.available(fr)
        limit = self.limits.get(fr)
        if limit is not None:
            above = min(above, limit - used + kept if used > kept else limit)
        return above + kept - used if kept > used else above

    def add_usage(self, fr: int, amount: int) -> None:
        """Use an amount; what the node does not keep to itself is used of its parent's."""
        used, kept = self.usage[fr], self.local[fr]
        self.usage[fr] = used + amount
        self.known_share = None
        if self.parent is not None:
            if used >= kept:
                if amount > 0:
                    self.parent.add_usage(fr, amount)
            elif amount > kept - used:
                self.parent.add_usage(fr, amount - int(kept - used))

    def remove_usage(self, fr: int, amount: int) -> None:
        """Give an amount back, first what is used of the parent's."""
        beyond = self.usage[fr] - self.local[fr]
        self.usage[fr] -= amount
        self.known_share = None
        if beyond > 0 and self.parent is not None:
            self.parent.remove_usage(fr, int(min(amount, beyond)))

    def borrows_with(self, fr: int, amount: float) -> bool:
        """Say whether the node uses more than its subtree's quota once it uses this much more."""
        return self.subtree[fr] < self.usage[fr] + amount

    def is_within_nominal(self, frs: Iterable[int]) -> bool:
        """Say whether the node borrows none of these flavor-resources."""
        subtree, usage = self.subtree, self.usage
        return all(subtree[fr] >= usage[fr] for fr in frs)

    def share(self) -> Share:
        """Return the node's dominant resource share as it is now; a root borrows from nobody."""
        if self.known_share is None:
            parent = self.parent
            self.known_share = NO_SHARE if parent is None or self.is_in_cycle else self._share(parent)
        return self.known_share

    def _share(self, parent: "CohortNode") -> Share:
        subtree, usage = self.subtree, self.usage
        borrowed = tuple([fr for fr in self.quota_keys if usage[fr] > subtree[fr]])
        if not borrowed:
            return NO_SHARE
        amounts: dict[str, float] = {}
        for fr in borrowed:
            resource = self.resources[fr]
            amounts[resource] = amounts.get(resource, 0) + usage[fr] - subtree[fr]
        lendable = parent.lendable()
        ratio = 0.0
        for resource, amount in amounts.items():
            if lendable.get(resource, 0) > 0:
                ratio = max(ratio, amount * 1000.0 / lendable[resource])
        if not ratio:
            return Share(0.0, (False, 0.0), borrowed)
        if not self.weight:
            return Share(math.inf, (True, ratio), borrowed)
        return Share(ratio / self.weight, (False, ratio / self.weight), borrowed)

    def copy_rows(self, other: "QuotaNode") -> None:
        """Take over quotas and usage of another node; rows that are only replaced are shared."""
        self.quotas, self.limits, self.weight = other.quotas, other.limits, other.weight
        self.subtree, self.local, self.potential = other.subtree, other.local, other.potential
        self.usage, self.lendable_amounts = other.usage[:], other.lendable_amounts

    def _set_kept(self) -> None:
        """Work out what is kept to itself, from the subtree's quota and the lending limits."""
        self.local = [0] * len(self.subtree)
        self.limits = {}
        for fr, quota in self.quotas.items():
            if quota.lending is not None and self.subtree[fr] != quota.lending:
                self.local[fr] = max(0, self.subtree[fr] - quota.lending)
            if quota.borrowing is not None:
                lent = self.subtree[fr] - self.local[fr] if self.subtree[fr] != self.local[fr] else 0
                self.limits[fr] = lent + quota.borrowing

    def set_potential(self) -> None:
        """Work out what could be used at most, from the parent's; to be called from the root down."""
        parent = self.parent
        self.lendable_amounts = self.known_share = None
        if parent is None:
            self.potential = self.subtree[:]
            return
        self.potential = [kept + above for kept, above in zip(self.local, parent.potential, strict=True)]
        for fr, quota in self.quotas.items():
            if quota.borrowing is not None:
                self.potential[fr] = min(self.potential[fr], self.subtree[fr] + quota.borrowing)


class CohortNode(QuotaNode):
    """A cohort; it exists while an object says so, or somebody names it as parent."""

    __slots__ = ("cohorts", "height", "is_explicit", "keys", "queues")

    def __init__(self, name: str, resources: Sequence[str], width: int) -> None:
        super().__init__(name, resources, width)
        self.cohorts: dict[str, CohortNode] = {}
        self.queues: dict[str, QueueNode] = {}
        self.is_explicit = False
        self.height = 0
        self.keys: set[int] = set()

    @property
    def quota_keys(self) -> Iterable[int]:
        return self.keys

    def lendable(self) -> dict[str, float]:
        """Return how much of each resource the cohort could give to a child, over all flavors."""
        if self.lendable_amounts is None:
            self.lendable_amounts = {}
            for fr in self.root.quota_keys if self.root is not None else ():
                resource = self.resources[fr]
                self.lendable_amounts[resource] = self.lendable_amounts.get(resource, 0) + self.potential[fr]
        return self.lendable_amounts

    def subtree_queues(self) -> Iterator["QueueNode"]:
        """Walk over the ClusterQueues of the cohort and of those below it."""
        yield from self.queues.values()
        for cohort in self.cohorts.values():
            yield from cohort.subtree_queues()

    def nodes(self) -> Iterator[QuotaNode]:
        """Walk over the cohort, what is below it, and its ClusterQueues, parents first."""
        yield self
        yield from self.queues.values()
        for cohort in self.cohorts.values():
            yield from cohort.nodes()

    def rebuild(self) -> None:
        """Work out quotas and usage of the whole tree anew; to be called on a root."""
        self.gather()
        for node in self.nodes():
            node.set_potential()

    def set_height(self) -> int:
        """Work out the heights of the cohort and those below it, over ClusterQueues that take part in the cycle."""
        below = [cohort.set_height() + 1 for cohort in self.cohorts.values()]
        has_queue = any(not queue.is_out for queue in self.queues.values())
        self.height = max(below, default=int(has_queue))
        return self.height

    def gather(self) -> None:
        width = len(self.usage)
        self.subtree, self.usage = [0] * width, [0] * width
        self.keys = set(self.quotas)
        for fr, quota in self.quotas.items():
            self.subtree[fr] = quota.nominal
        for cohort in self.cohorts.values():
            cohort.gather()
        for queue in self.queues.values():
            queue.set_quota_rows()
        for child in (*self.cohorts.values(), *self.queues.values()):
            self.keys.update(child.quota_keys)
            for fr in range(width):
                kept = child.local[fr]
                if child.subtree[fr] != kept:
                    self.subtree[fr] += child.subtree[fr] - kept
                if child.usage[fr] > kept:
                    self.usage[fr] += child.usage[fr] - int(kept)
        self._set_kept()


class FlavorGroup(NamedTuple):
    """A resource group of a ClusterQueue: what it covers, and its flavors in order."""

    covered: frozenset[str]
    flavors: tuple[str, ...]


class RankedWorkloads:
    """The workloads of a ClusterQueue in the order in which they would be preempted: evicted ones, then by priority."""

    __slots__ = ("_evicted", "_priorities", "infos")

    def __init__(self, infos: Iterable[WorkloadInfo]) -> None:
        self.infos = sorted(infos, key=lambda info: info.rank)
        self._evicted = sum(info.is_evicted for info in self.infos)
        self._priorities = [info.priority for info in self.infos]

    def below(self, priority: int, newer_than: float) -> list[WorkloadInfo]:
        """Return those of lower priority, and those of the same that are newer than a time."""
        found: list[WorkloadInfo] = []
        for low, high in ((0, self._evicted), (self._evicted, len(self.infos))):
            end = bisect_left(self._priorities, priority, low, high)
            found += self.infos[low:end]
            if newer_than < math.inf:
                same = bisect_right(self._priorities, priority, end, high)
                found += [info for info in self.infos[end:same] if newer_than < info.queue_time]
        return found


class QueueNode(QuotaNode):
    """A ClusterQueue with the workloads that hold quota in it."""

    __slots__ = (
        "admitted",
        "generation",
        "group_of",
        "groups",
        "is_out",
        "is_topology_only",
        "is_topology_synced",
        "missing_flavors",
        "ranked",
        "selector",
        "spec",
        "topology_flavors",
        "workloads",
    )

    def __init__(self, name: str, resources: Sequence[str], width: int) -> None:
        super().__init__(name, resources, width)
        self.spec = ClusterQueueSpec()
        self.groups: tuple[FlavorGroup, ...] = ()
        self.group_of: dict[str, FlavorGroup] = {}
        self.selector: Selector = NOTHING
        self.generation = 0
        self.workloads: dict[str, WorkloadInfo] = {}
        self.admitted = 0
        self.missing_flavors: list[str] = []
        self.topology_flavors: dict[str, str] = {}
        self.is_topology_synced = False
        self.is_topology_only = True  # Whether all its flavors place pods by topology.
        self.is_out = False  # Whether it takes no part in the present cycle.
        self.ranked: RankedWorkloads | None = None  # Until workloads come or go.

    def set_quota_rows(self) -> None:
        """Take the rows from the quotas. Usage stays as it is."""
        self.subtree = [0] * len(self.usage)
        for fr, quota in self.quotas.items():
            self.subtree[fr] = quota.nominal
        self._set_kept()

    def set_alone(self) -> None:
        """Work out the rows of a ClusterQueue outside any cohort."""
        self.set_quota_rows()
        self.set_potential()

    def preemptible(self, policy: str, priority: int, queue_time: float) -> list[WorkloadInfo]:
        """Return whom a workload may preempt here by a policy, in the order in which they would go."""
        if self.ranked is None:
            self.ranked = RankedWorkloads(self.workloads.values())
        if policy == "Any":
            return self.ranked.infos
        infos = self.ranked.below(priority, queue_time if policy == "LowerOrNewerEqualPriority" else math.inf)
        return infos if policy.startswith("Lower") else []

    def height_that_fits(self, fr: int, amount: float) -> tuple[int, bool]:
        """Return the height of the lowest subtree whose quota has room for an amount, and whether it can be reclaimed.

        0 is the ClusterQueue itself. Reclaiming makes sense below the root only, where others may hold what is ours.
        """
        if not self.borrows_with(fr, amount) or self.parent is None:
            return 0, self.parent is not None
        remaining = amount - self.local_available(fr)
        for node in self.path():
            if not node.borrows_with(fr, remaining):
                return node.height, node.parent is not None
            remaining -= node.local_available(fr)
            height = node.height
        return height, False


class KueueWorld:
    """All ClusterQueues, cohorts and flavors, and the usage of all that hold quota."""

    def __init__(self, gates: Mapping[str, bool]) -> None:
        self.gates = gates
        self.frs: dict[tuple[str, str], int] = {}
        self.fr_names: list[tuple[str, str]] = []
        self.fr_resources: list[str] = []
        self.width = 16
        self.queues: dict[str, QueueNode] = {}
        self.cohorts: dict[str, CohortNode] = {}
        self.flavors: dict[str, FlavorSpec] = {}
        self.assigned: dict[str, str] = {}
        self.forest = TopologyForest(gates)
        self._stale: dict[str, CohortNode] = {}

    def copy(self, workloads: Mapping[str, KueueWorkload]) -> "KueueWorld":
        """Return the same world, to be changed on its own; `workloads` are the copies of those in it."""
        self.refresh()
        made = KueueWorld(self.gates)
        made.frs, made.fr_names, made.width = dict(self.frs), list(self.fr_names), self.width
        made.fr_resources = list(self.fr_resources)
        made.flavors, made.assigned, made.forest = dict(self.flavors), dict(self.assigned), self.forest.copy()
        for name, old in self.cohorts.items():
            cohort = made.cohorts[name] = CohortNode(name, made.fr_resources, self.width)
            cohort.copy_rows(old)
            cohort.is_explicit, cohort.height, cohort.keys = old.is_explicit, old.height, old.keys
        for name, source in self.queues.items():
            queue = made.queues[name] = QueueNode(name, made.fr_resources, self.width)
            for slot in QueueNode.__slots__:
                setattr(queue, slot, getattr(source, slot))
            queue.copy_rows(source)
            queue.ranked = None
            queue.workloads = {key: info.copy() for key, info in source.workloads.items()}
            for key, info in queue.workloads.items():
                info.workload = workloads.get(key, info.workload)
            made.attach(queue, source.parent.name if source.parent else "")
        for name, old in self.cohorts.items():
            made.attach(made.cohorts[name], old.parent.name if old.parent else "")
        return made

    def fr(self, flavor: str, resource: str) -> int:
        """Return the number of a flavor-resource, giving it one at first sight."""
        number = self.frs.get((flavor, resource))
        if number is None:
            number = self.frs[flavor, resource] = len(self.fr_names)
            self.fr_names.append((flavor, resource))
            self.fr_resources.append(resource)
            if number >= self.width:
                self._widen()
        return number

    def _widen(self) -> None:
        more = self.width
        self.width *= 2
        for node in (*self.queues.values(), *self.cohorts.values()):
            node.subtree = node.subtree + [0] * more
            node.local = node.local + [0] * more
            node.potential = node.potential + [0] * more
            node.usage = node.usage + [0] * more

    def refresh(self) -> None:
        """Rebuild the trees whose quotas or members have changed; whoever reads usage calls it first."""
        for cohort in self._stale.values():
            if self.cohorts.get(cohort.name) is cohort and (root := cohort.root) is not None:
                root.rebuild()
        self._stale.clear()

    # Cohorts and ClusterQueues.

    def set_cohort(self, name: str, spec: CohortSpec) -> None:
        """Add or update a Cohort."""
        cohort = self._cohort(name)
        cohort.is_explicit = True
        old_parent = cohort.parent
        self.attach(cohort, spec.parent_name)
        cohort.weight = weight_of(spec.fair_sharing.weight)
        cohort.quotas = self._quotas(spec.resource_groups)
        if old_parent is not None and old_parent is not cohort.parent:
            self._touch(old_parent)
        self._touch(cohort)

    def delete_cohort(self, name: str) -> None:
        """Delete a Cohort; while it has children, it stays as a cohort without quota."""
        cohort = self.cohorts.get(name)
        if cohort is None:
            return
        parent = cohort.parent
        cohort.is_explicit, cohort.quotas, cohort.weight = False, {}, 1.0
        self.attach(cohort, "")
        self._forget_if_unused(cohort)
        self._touch(cohort)
        if parent is not None:
            self._touch(parent)

    def set_queue(self, name: str, spec: ClusterQueueSpec) -> None:
        """Add or update a ClusterQueue."""
        queue = self.queues.get(name)
        is_new = queue is None
        if queue is None:
            queue = self.queues[name] = QueueNode(name, self.fr_resources, self.width)
        old_parent, old_quotas, old_groups = queue.parent, queue.quotas, queue.groups
        self.attach(queue, spec.cohort_name)
        queue.spec, queue.weight, queue.known_share = spec, weight_of(spec.fair_sharing.weight), None
        queue.quotas = self._quotas(spec.resource_groups)
        queue.groups = tuple(
            FlavorGroup(frozenset(group.covered_resources), tuple(flavor.name for flavor in group.flavors))
            for group in spec.resource_groups
        )
        queue.group_of = {resource: group for group in reversed(queue.groups) for resource in group.covered}
        queue.selector = compile_selector(spec.namespace_selector)
        parent = queue.parent
        if is_new or queue.quotas != old_quotas or queue.groups != old_groups or parent is not old_parent:
            if old_parent is not None and old_parent is not parent:
                self._touch(old_parent)
            if parent is not None:
                self._touch(parent)
            else:
                queue.generation += 1
                queue.set_alone()
        self._set_flavors(queue)

    def delete_queue(self, name: str) -> None:
        """Delete a ClusterQueue with the workloads in it."""
        queue = self.queues.pop(name, None)
        if queue is None:
            return
        parent = queue.parent
        self.attach(queue, "")
        if parent is not None:
            self._touch(parent)

    def _quotas(self, groups: Iterable[ResourceGroup]) -> dict[int, Quota]:
        return {
            self.fr(flavor.name, given.name): Quota(
                quota_of(given.name, given.nominal_quota),
                None if given.borrowing_limit is None else quota_of(given.name, given.borrowing_limit),
                None if given.lending_limit is None else quota_of(given.name, given.lending_limit),
            )
            for group in groups
            for flavor in group.flavors
            for given in flavor.resources
        }

    def _cohort(self, name: str) -> CohortNode:
        if name not in self.cohorts:
            self.cohorts[name] = CohortNode(name, self.fr_resources, self.width)
        return self.cohorts[name]

    def attach(self, node: QueueNode | CohortNode, parent_name: str) -> None:
        old = node.parent
        if old is not None:
            (old.queues if isinstance(node, QueueNode) else old.cohorts).pop(node.name)
            self._forget_if_unused(old)
        node.parent = parent = self._cohort(parent_name) if parent_name else None
        if isinstance(node, QueueNode):
            if parent is not None:
                parent.queues[node.name] = node
        elif parent is not None:
            parent.cohorts[node.name] = node

    def _forget_if_unused(self, cohort: CohortNode) -> None:
        if not (cohort.is_explicit or cohort.cohorts or cohort.queues):
            self.cohorts.pop(cohort.name, None)

    def _touch(self, cohort: CohortNode) -> None:
        """Note that a cohort's tree is to be rebuilt, and let its ClusterQueues' searches for flavors begin anew."""
        root = cohort.root
        if root is None:
            return
        for queue in root.subtree_queues():
            queue.generation += 1
        self._stale[root.name] = root

    # Flavors, and which ClusterQueues can work.

    def set_flavor(self, name: str, spec: FlavorSpec | None) -> set[str]:
        """Add, update or (None) delete a ResourceFlavor; return the ClusterQueues that became active."""
        if spec is None:
            self.flavors.pop(name, None)
        else:
            self.flavors[name] = spec
        return self.update_readiness()

    def update_readiness(self) -> set[str]:
        """Look again at which flavors and topologies there are; return the ClusterQueues that became active."""
        became = set()
        for queue in self.queues.values():
            was_active = self.is_active(queue.name)
            self._set_flavors(queue)
            if not was_active and self.is_active(queue.name):
                became.add(queue.name)
        return became

    def _set_flavors(self, queue: QueueNode) -> None:
        before = queue.topology_flavors
        queue.missing_flavors, queue.topology_flavors = [], {}
        for group in queue.groups:
            for name in group.flavors:
                flavor = self.flavors.get(name)
                if flavor is None:
                    queue.missing_flavors.append(name)
                elif flavor.topology_name is not None:
                    queue.topology_flavors[name] = flavor.topology_name
                    if name not in before:
                        queue.is_topology_synced = False
        queue.is_topology_only = all(
            flavor in queue.topology_flavors for group in queue.groups for flavor in group.flavors
        )
        if not queue.topology_flavors or not all(map(self.forest.knows, queue.topology_flavors)):
            queue.is_topology_synced = False
        elif not queue.is_topology_synced:
            for info in list(queue.workloads.values()):
                self._put(queue, info)
            queue.is_topology_synced = True

    def queues_using(self, flavor: str) -> set[str]:
        """Return the ClusterQueues that name a flavor."""
        return {queue.name for queue in self.queues.values() if any(flavor in group.flavors for group in queue.groups)}

    def problems(self, name: str) -> list[tuple[str, str]]:
        """Return why a ClusterQueue cannot admit anything: reasons of its Active condition, with words."""
        queue = self.queues[name]
        found = []
        if queue.spec.stop_policy != "None":
            found.append(("Stopped", "is stopped"))
        if queue.missing_flavors:
            missing = ",".join(queue.missing_flavors)
            found.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {missing}"))
        for flavor, topology in queue.topology_flavors.items():
            if not self.forest.knows(flavor):
                found.append(("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{flavor}"'))
        return found

    def is_active(self, name: str) -> bool:
        """Say whether a ClusterQueue can admit anything."""
        queue = self.queues.get(name)
        return (
            queue is not None
            and queue.spec.stop_policy == "None"
            and not queue.missing_flavors
            and all(map(self.forest.knows, queue.topology_flavors))
        )

    def begin_cycle(self) -> None:
        """Leave out the ClusterQueues that take no part: inactive, or in a cycle of cohorts.

        Nobody can be preempted there, and they do not count for heights; their usage and quota count as ever.
        """
        self.refresh()
        for queue in self.queues.values():
            queue.is_out = not self.is_active(queue.name) or queue.is_in_cycle
        for cohort in self.cohorts.values():
            if cohort.parent is None:
                cohort.set_height()

    # Workloads that hold quota.

    def set_workload(self, workload: KueueWorkload) -> bool:
        """Count what a workload holds, or forget it where it holds nothing; say whether it is counted."""
        name = self.assigned.get(workload.key)
        if not workload.holds_quota:
            self.delete_workload(workload.key)
            return False
        assert workload.admission is not None, "what holds quota has an admission"
        queue = self.queues.get(workload.admission.cluster_queue)
        if queue is None:
            return False
        if name is not None and name != queue.name:
            self.delete_workload(workload.key)
        self.assigned[workload.key] = queue.name
        self._put(queue, WorkloadInfo(workload, self.gates))
        return True

    def _put(self, queue: QueueNode, info: WorkloadInfo) -> None:
        self.refresh()
        if info.key in queue.workloads:
            self._remove(queue, info.key)
        used: dict[int, int] = {}
        for pod_set in info.pod_sets:
            for resource, amount in pod_set.requests.items():
                flavor = pod_set.flavors.get(resource)
                if flavor:
                    fr = self.fr(flavor, resource)
                    used[fr] = used.get(fr, 0) + amount
            for resource, flavor in pod_set.flavors.items():
                used.setdefault(self.fr(flavor, resource), 0)
        info.amounts = used
        queue.workloads[info.key] = info
        queue.ranked = None
        self._use(queue, used, 1)
        placed = info.placed_usage()
        if placed:
            self.forest.add_usage(info.key, placed)
        queue.admitted += info.is_admitted

    def _remove(self, queue: QueueNode, key: str) -> None:
        info = queue.workloads.pop(key)
        queue.ranked = None
        self._use(queue, info.amounts, -1)
        self.forest.remove_usage(key)
        queue.admitted -= info.is_admitted
        queue.generation += 1

    def _use(self, queue: QueueNode, amounts: Mapping[int, int], sign: int) -> None:
        """Count amounts; in a cycle of cohorts they stay with the ClusterQueue, until the tree is one again."""
        is_alone = queue.is_in_cycle
        for fr, amount in amounts.items():
            if is_alone:
                queue.usage[fr] += sign * amount
            elif sign > 0:
                queue.add_usage(fr, amount)
            else:
                queue.remove_usage(fr, amount)

    def delete_workload(self, key: str) -> None:
        """Give back what a workload holds."""
        name = self.assigned.pop(key, None)
        queue = self.queues.get(name) if name is not None else None
        if queue is not None and key in queue.workloads:
            self.refresh()
            self._remove(queue, key)
