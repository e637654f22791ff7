"""FairShares: the queue shared fairly among tenants, by dominant resource fairness, so that none can block another.

A tenant is a namespace. Its share is what its pods have of the resource of which they have most, as a part of what all
nodes have, divided by the tenant's weight. The tenant with the smallest share is next; its pods go by priority, then by
time. So tenants that ask for different resources come to equal dominant shares, and what one does not use goes to the
others (Ghodsi et al., "Dominant Resource Fairness", NSDI 2011).

A tenant whose pod finds no node passes its turn: every other tenant with pods in the queue has one before the next of
this tenant's is tried. When a pod has gone meanwhile, it has one more before them, so that what becomes free goes to
the smallest share. So pods that fit nowhere, however many, hold up their own tenant and nobody else, and a tenant that
has one pod is tried at least once while each of the others is tried in vain three times. Pods of a priority above that
of users' pods (`system-cluster-critical`) are first whoever they belong to.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NamedTuple, final

import msgspec

from berth.plugin import (
    CycleState,
    ExplainingPlugin,
    Figure,
    FiguresPlugin,
    Handle,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    Promises,
    QueuedPod,
    QueueSortPlugin,
    ReservePlugin,
    SortKeyPlugin,
    Status,
    TenantSortPlugin,
    invalid,
)

HIGHEST_USER_PRIORITY = 1_000_000_000
"""The highest priority that a PriorityClass of users may have."""
MOST_REMEMBERED = 1000
"""How many tenants are remembered at least, whether or not they have pods in the queue."""
NAMED = 5
"""So many tenants that come before another are named."""
CRITICAL = ""
"""Stands for the pods that are first whoever they belong to; no namespace has this name."""


class FairSharesArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Who weighs how much, and what counts."""

    weights: Mapping[str, int] = MappingProxyType({})
    """By namespace; a tenant of weight 2 is owed twice the share of one of weight 1."""
    default_weight: int = 1
    resources: tuple[str, ...] = ()
    """The resources that count; without any all that nodes have."""
    first_above_priority: int = HIGHEST_USER_PRIORITY
    """Pods of higher priority are first, whoever they belong to."""

    def validate(self, path: str) -> Iterable[str]:
        """Refuse weights below 1."""
        named = {f"{path}.defaultWeight": self.default_weight}
        named |= {f"{path}.weights[{name}]": weight for name, weight in self.weights.items()}
        for place, weight in named.items():
            if weight < 1:
                yield invalid(place, weight, "must be at least 1")


class Holding(NamedTuple):
    """What a pod has: whose it is, and how much."""

    tenant: str
    requests: Mapping[str, int]
    is_bound: bool


@final
class FairShares(
    QueueSortPlugin,
    SortKeyPlugin,
    TenantSortPlugin,
    ReservePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    FiguresPlugin,
    ExplainingPlugin,
):
    """QueueSort and Reserve. A turn costs a step for each tenant that has pods in the queue."""

    name: ClassVar[str] = "FairShares"
    args_type: ClassVar[type[msgspec.Struct]] = FairSharesArgs
    promises: ClassVar[Promises] = Promises()

    def __init__(self, args: FairSharesArgs, handle: Handle) -> None:
        self._args = args
        self._cache, self._table = handle.cache, handle.cache.table
        self._holdings: dict[str, Holding] = {}
        """What each pod has that has a node or is about to get one, by uid."""
        self._used: dict[str, dict[str, int]] = {}
        self._shares: dict[str, float] = {}
        """The shares that are known, as of `_position` in the log of nodes."""
        self._totals: dict[str, int] = {}
        self._position = -1
        self._turns = 0
        self._last_turn: dict[Hashable, int] = {}
        self._rejected_at: dict[Hashable, int] = {}
        """The turn in which a tenant's pod found no node, where that was the tenant's last."""
        self._room_at = 0
        """After which turn a pod has gone last."""
        self._again_at: dict[Hashable, int] = {}
        """The last turn that a tenant had because of that, before others had theirs."""
        self._tried = ("", "")
        """Tenant and uid of the pod whose turn it was last."""
        self._looked_up: set[str] = set()
        """The uids of pods that get a node, as far as Reserve has not told of them."""

    # -- the order ---------------------------------------------------------------------------------------------------

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Order the pods of a tenant: by priority, then by time."""
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Return the key of that order."""
        return -queued.pod.priority, queued.timestamp

    def tenant_of(self, queued: QueuedPod) -> str:
        """Return whose a pod is: its namespace's, unless it is first anyway."""
        return CRITICAL if queued.pod.priority > self._args.first_above_priority else queued.pod.namespace

    def next_tenant(self, heads: Mapping[Hashable, QueuedPod]) -> Hashable:
        """Return the tenant of the smallest share, of those that need not wait for others to have a turn."""
        if CRITICAL in heads:
            return CRITICAL
        self._settle()
        waits_longest = min(self._last_turn.get(tenant, 0) for tenant in heads)
        allowed = [tenant for tenant in heads if self._may_be_next(tenant, waits_longest)]
        chosen = min(allowed, key=lambda tenant: (self.share(str(tenant)), heads[tenant].timestamp, str(tenant)))
        self._turns += 1
        self._last_turn[chosen] = self._turns
        if self._rejected_at.pop(chosen, 0) > waits_longest:
            self._again_at[chosen] = self._turns
        self._tried = str(chosen), heads[chosen].pod.uid
        if len(self._last_turn) > 2 * len(heads) + MOST_REMEMBERED:
            # Those that have nothing in the queue any more count as newcomers when they come again.
            self._last_turn = {tenant: turn for tenant, turn in self._last_turn.items() if tenant in heads}
            self._rejected_at = {tenant: turn for tenant, turn in self._rejected_at.items() if tenant in heads}
            self._again_at = {tenant: turn for tenant, turn in self._again_at.items() if tenant in heads}
        return chosen

    def _may_be_next(self, tenant: Hashable, waits_longest: int) -> bool:
        """Say whether a tenant need not wait for the one whose last turn was before all others'.

        It need not unless it has been rejected since. Where a pod has gone after that it has one turn more: room is
        then shared by who has least, not by who happened to be rejected last.
        """
        rejected_at = self._rejected_at.get(tenant, 0)
        is_forgiven = rejected_at <= self._room_at and self._again_at.get(tenant, 0) <= waits_longest
        return rejected_at <= waits_longest or is_forgiven

    def _settle(self) -> None:
        """See what became of the pod that was tried last.

        Where there are several profiles, the queue asks the plugin of the first, and Reserve that of the pod's own. So
        what Reserve has not told of is looked up among the pods that the scheduler counts.
        """
        for other in [other for other in self._looked_up if self._cache.state_of(other) is None]:
            self._looked_up.discard(other)
            self._give_up(other)
        tenant, uid = self._tried
        if not uid:
            return
        self._tried = ("", "")
        counted = self._cache.state_of(uid)
        if counted is None:
            self._rejected_at[tenant] = self._turns
        elif uid not in self._holdings:
            self._put(counted.pod, is_bound=False)
            self._looked_up.add(uid)

    def share(self, tenant: str) -> float:
        """Return a tenant's dominant share, divided by its weight; 0 for one that has nothing."""
        self._follow_nodes()
        known = self._shares.get(tenant)
        if known is None:
            weight = self._args.weights.get(tenant, self._args.default_weight)
            # One division of whole numbers, so that equal shares are equal to the last bit.
            used = self._used.get(tenant, {}).items()
            parts = (amount / (self._totals[each] * weight) for each, amount in used if self._totals.get(each))
            known = self._shares[tenant] = max(parts, default=0.0)
        return known

    def _follow_nodes(self) -> None:
        """Add up what nodes have anew once any of them has changed."""
        table = self._table
        if self._position != table.node_log.position:
            self._position = table.node_log.position
            sums = table.allocatable.sum(axis=1).tolist()
            wanted = self._args.resources
            self._totals = {name: sums[at] for name, at in table.resource_index.items() if not wanted or name in wanted}
            self._shares.clear()

    # -- what tenants have -------------------------------------------------------------------------------------------

    def pod_added(self, pod: PodInfo) -> None:
        """Count what a pod has that has a node."""
        if pod.node_name:
            self._put(pod, is_bound=True)

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Count what a pod has now, which a resize may have changed."""
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Count a pod no more that is gone."""
        if pod.uid in self._holdings:
            self._room_at = self._turns
        self._take(pod.uid)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Count a pod that is about to get a node."""
        self._put(pod, is_bound=False)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count a pod no more that does not get its node after all."""
        self._give_up(pod.uid)

    def _give_up(self, uid: str) -> None:
        holding = self._holdings.get(uid)
        if holding is not None and not holding.is_bound:
            self._take(uid)

    def _put(self, pod: PodInfo, *, is_bound: bool) -> None:
        holding = Holding(pod.namespace, pod.requests, is_bound)
        if holding != self._holdings.get(pod.uid):
            self._take(pod.uid)
            self._holdings[pod.uid] = holding
            self._count(holding, 1)

    def _take(self, uid: str) -> None:
        holding = self._holdings.pop(uid, None)
        if holding is not None:
            self._count(holding, -1)

    def _count(self, holding: Holding, sign: int) -> None:
        used = self._used.setdefault(holding.tenant, {})
        for resource, amount in holding.requests.items():
            used[resource] = used.get(resource, 0) + sign * amount
            if not used[resource]:
                del used[resource]
        if not used:
            del self._used[holding.tenant]
        self._shares.pop(holding.tenant, None)

    # -- what is told of it ------------------------------------------------------------------------------------------

    def figures(self) -> Sequence[Figure]:
        """Return the share of each tenant that has anything, divided by its weight, as turns go by it."""
        return [Figure("weighted_share", {"tenant": tenant}, self.share(tenant)) for tenant in sorted(self._used)]

    def explain_rejection(self, pod: PodInfo) -> Sequence[str]:
        """Return what the pod's tenant has, and which tenants have less and so come before it."""
        if pod.priority > self._args.first_above_priority:
            return ()
        own = self.share(pod.namespace)
        found = [self._in_words(pod.namespace)]
        if self._rejected_at.get(pod.namespace):
            found.append(
                f"tenant {pod.namespace} has passed its turn: the others with pods in the queue have theirs first"
            )
        others = (str(tenant) for tenant in self._last_turn if tenant not in (pod.namespace, CRITICAL))
        before = sorted((self.share(tenant), tenant) for tenant in others)
        found += [self._in_words(tenant) for share, tenant in before[:NAMED] if share < own]
        return found

    def _in_words(self, tenant: str) -> str:
        share = self.share(tenant)
        weight = self._args.weights.get(tenant, self._args.default_weight)
        used = self._used.get(tenant, {})
        parts = {name: amount / self._totals[name] for name, amount in used.items() if self._totals.get(name)}
        most = max(parts, key=lambda name: (parts[name], name), default="")
        of = f"{parts[most]:.2%} of all {most}" if most else "nothing"
        return f"tenant {tenant} has {of}, at weight {weight} a share of {share:.4g}"
