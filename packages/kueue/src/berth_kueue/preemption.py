"""Whom a workload preempts: candidates in order, taken until it fits, then given back where it still does.

Without fair sharing, candidates come from the workload's own ClusterQueue, and from those in its cohort tree that
borrow what it needs: where a part of the tree around it has quota for it, its *hierarchy* lets it reclaim from the
others, and otherwise only priority does. Those already being evicted come first, then lower priorities.
It is tried with and without borrowing, in an order that depends on who the candidates are.

With fair sharing, `berth_kueue.fair` says from whom the next candidate is taken. Sources: `pkg/scheduler/preemption`
(preemption.go, preemption_oracle.go), its packages `classical` and `common`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from berth_kueue.fair import FairOrder, is_hopeless, is_less_than_final, is_less_than_initial
from berth_kueue.flavors import (
    IN_QUEUE,
    NO_CANDIDATES,
    PREEMPT,
    RECLAIM,
    FlavorAssignment,
    find_places,
    scaled_requests,
    topology_requests,
)
from berth_kueue.model import WorkloadInfo
from berth_kueue.snapshot import CycleSnapshot, TrialUsage
from berth_kueue.topology.placing import PodSetPlacing
from berth_kueue.world import CohortNode, QueueNode

IN_CLUSTER_QUEUE = "InClusterQueue"
IN_COHORT_RECLAMATION = "InCohortReclamation"
IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
IN_COHORT_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"
WORDS = {
    IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    IN_COHORT_RECLAMATION: "reclamation within the cohort",
    IN_COHORT_FAIR_SHARING: "Fair Sharing within the cohort",
    IN_COHORT_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


class PreemptionTarget(NamedTuple):
    """A workload that is to be preempted, and why it may be."""

    info: WorkloadInfo
    reason: str


_rank = attrgetter("rank")


class PreemptionSearch:
    """The search for one workload: what it needs, and of which flavor-resources somebody must go."""

    def __init__(
        self,
        snapshot: CycleSnapshot,
        info: WorkloadInfo,
        frs: frozenset[int],
        usage: TrialUsage,
        placings: Mapping[str, Sequence[PodSetPlacing]],
    ) -> None:
        self.snapshot = snapshot
        self.info = info
        self.queue = snapshot.queue_of(info)
        self.frs = frs
        self.usage = usage
        self.placings = placings
        self._ancestors = set(self.queue.path())

    def targets(self) -> list[PreemptionTarget]:
        """Return who is to be preempted; nobody if it cannot be helped."""
        return self._fair() if self.snapshot.is_fair else self._classical()

    def _fits(self, *, may_borrow: bool = True) -> bool:
        queue = self.queue
        for fr, amount in self.usage.amounts.items():
            if not may_borrow and queue.borrows_with(fr, amount):
                return False
            if amount > max(0, queue.available(fr)):
                return False
        return not self.placings or find_places(self.snapshot, self.placings, self.info).failure is None

    # Who may be preempted at all.

    def _preemptible(self, queue: QueueNode, policy: str) -> list[WorkloadInfo]:
        """Return whom the policy lets the workload preempt in a ClusterQueue, of those that use what it needs."""
        found = queue.preemptible(policy, self.info.priority, self.info.queue_time)
        if len(self.frs) == 1:
            (fr,) = self.frs
            return [info for info in found if fr in info.amounts]
        return [info for info in found if not self.frs.isdisjoint(info.amounts)]

    def _helps_at_best(self, candidates: Iterable[WorkloadInfo]) -> bool:
        """Say whether the workload would have quota if all candidates went.

        Usage of a tree is a sum over its ClusterQueues, and less usage never makes less room: if this says no, the
        search that takes them one by one finds nobody.
        """
        short = [fr for fr, amount in self.usage.amounts.items() if amount > max(0, self.queue.available(fr))]
        freed: dict[tuple[str, int], int] = {}
        for info in candidates if short else ():
            for fr in short:
                amount = info.amounts.get(fr)
                if amount:
                    place = info.cluster_queue, fr
                    freed[place] = freed.get(place, 0) + amount
        queues = self.snapshot.world.queues
        for (name, fr), amount in freed.items():
            queues[name].remove_usage(fr, amount)
        helps = all(self.usage.amounts[fr] <= max(0, self.queue.available(fr)) for fr in short)
        for (name, fr), amount in freed.items():
            queues[name].add_usage(fr, amount)
        return helps

    # Without fair sharing.

    def _classical(self) -> list[PreemptionTarget]:
        own = self._preemptible(self.queue, self.queue.spec.preemption.within_cluster_queue)
        by_hierarchy, by_priority = self._reclaimable()
        if not self._helps_at_best([*by_hierarchy, *by_priority, *own]):
            return []
        sources = ((sorted(by_hierarchy, key=_rank), True), (sorted(by_priority, key=_rank), False), (own, True))
        candidates = [
            (info, has_advantage)
            for is_evicted in (True, False)
            for infos, has_advantage in sources
            for info in infos
            if info.is_evicted == is_evicted
        ]
        forbids_borrowing = self.queue.spec.preemption.borrow_within_cohort.policy == "Never"
        if not (by_hierarchy or by_priority) or (forbids_borrowing and not self._is_under_nominal()):
            attempts: tuple[bool, ...] = (True,)
        elif forbids_borrowing and not by_hierarchy:
            attempts = (False, True)
        else:
            attempts = (True, False)
        for may_borrow in attempts:
            taken: list[PreemptionTarget] = []
            for info, has_advantage in candidates:
                reason, may_go = self._reason(info, has_advantage=has_advantage)
                if (may_borrow and not may_go) or not self._still_borrows(info):
                    continue
                self.snapshot.take_out(info)
                taken.append(PreemptionTarget(info, reason))
                if self._fits(may_borrow=may_borrow):
                    return self._without_needless(taken, may_borrow=may_borrow)
            for target in taken:
                self.snapshot.put_in(target.info)
        return []

    def _is_under_nominal(self) -> bool:
        return all(self.queue.subtree[fr] > self.queue.usage[fr] for fr in self.frs)

    def _reason(self, info: WorkloadInfo, *, has_advantage: bool) -> tuple[str, bool]:
        """Return why a candidate may be preempted, and whether it may while the preemptor borrows."""
        if info.cluster_queue == self.queue.name:
            return IN_CLUSTER_QUEUE, True
        if has_advantage:
            return IN_COHORT_RECLAMATION, True
        borrowing = self.queue.spec.preemption.borrow_within_cohort
        bound = borrowing.max_priority_threshold
        is_above_bound = info.priority >= self.info.priority or (bound is not None and info.priority > bound)
        if borrowing.policy == "Never" or is_above_bound:
            return IN_COHORT_RECLAMATION, False
        return IN_COHORT_WHILE_BORROWING, True

    def _still_borrows(self, info: WorkloadInfo) -> bool:
        """Say whether each node from a candidate up to what it shares with the preemptor still borrows."""
        queue = self.snapshot.queue_of(info)
        if queue is self.queue:
            return True
        if queue.is_within_nominal(self.frs):
            return False
        return not any(
            node.is_within_nominal(self.frs)
            for node in takewhile(lambda cohort: cohort not in self._ancestors, queue.path())
        )

    def _reclaimable(self) -> tuple[list[WorkloadInfo], list[WorkloadInfo]]:
        """Return the candidates of other ClusterQueues: those by hierarchy, and those by priority."""
        by_hierarchy: list[WorkloadInfo] = []
        by_priority: list[WorkloadInfo] = []
        if self.queue.spec.preemption.reclaim_within_cohort == "Never":
            return by_hierarchy, by_priority
        remaining: Mapping[int, float] = self.usage.amounts
        node: QueueNode | CohortNode = self.queue
        has_advantage = False
        skipped: CohortNode | None = None
        for cohort in self.queue.path():
            has_advantage = has_advantage or all(
                node.subtree[fr] >= node.usage[fr] + amount for fr, amount in remaining.items()
            )
            remaining = {fr: max(0, amount - node.local_available(fr)) for fr, amount in remaining.items()}
            self._gather(cohort, skipped, by_hierarchy if has_advantage else by_priority)
            node = skipped = cohort
        return by_hierarchy, by_priority

    def _gather(self, cohort: CohortNode, skipped: CohortNode | None, found: list[WorkloadInfo]) -> None:
        """Collect the candidates below a cohort, but for a part of it."""
        for child in cohort.cohorts.values():
            if child is not skipped and not child.is_within_nominal(self.frs):
                self._gather(child, skipped, found)
        policy = self.queue.spec.preemption.reclaim_within_cohort
        for queue in cohort.queues.values():
            if queue is not self.queue and not queue.is_out and not queue.is_within_nominal(self.frs):
                found += self._preemptible(queue, policy)

    def _without_needless(self, taken: list[PreemptionTarget], *, may_borrow: bool) -> list[PreemptionTarget]:
        """Give back whom it fits without, the last but one first, and put everybody back in the end."""
        index = len(taken) - 2
        while index >= 0:
            self.snapshot.put_in(taken[index].info)
            if self._fits(may_borrow=may_borrow):
                taken[index] = taken[-1]
                taken.pop()
            else:
                self.snapshot.take_out(taken[index].info)
            index -= 1
        for target in taken:
            self.snapshot.put_in(target.info)
        return taken

    # With fair sharing.

    def _fair(self) -> list[PreemptionTarget]:
        candidates = self._preemptible(self.queue, self.queue.spec.preemption.within_cluster_queue)
        policy = self.queue.spec.preemption.reclaim_within_cohort
        root = self.queue.root
        if root is not None and policy != "Never":
            for queue in root.subtree_queues():
                if queue is not self.queue and not queue.is_out and not queue.is_within_nominal(self.frs):
                    candidates += self._preemptible(queue, policy)
        if not candidates or not self._helps_at_best(candidates):
            return []
        strategies = self.snapshot.strategies or (FINAL_SHARE, INITIAL_SHARE)
        self.snapshot.add_usage(self.queue, self.usage)
        taken: list[PreemptionTarget] = []
        passed_over: list[WorkloadInfo] = []
        fits = self._first_strategy(candidates, strategies[0], taken, passed_over)
        if not fits and len(strategies) > 1:
            fits = self._second_strategy(passed_over, taken)
        self.snapshot.remove_usage(self.queue, self.usage)
        if fits:
            return self._without_needless(taken, may_borrow=True)
        for target in taken:
            self.snapshot.put_in(target.info)
        return []

    def _take(self, info: WorkloadInfo, reason: str, taken: list[PreemptionTarget]) -> bool:
        """Take a workload out, and say whether the preemptor fits now; its own usage is counted meanwhile."""
        self.snapshot.take_out(info)
        taken.append(PreemptionTarget(info, reason))
        self.snapshot.remove_usage(self.queue, self.usage)
        fits = self._fits()
        self.snapshot.add_usage(self.queue, self.usage)
        return fits

    def _first_strategy(
        self,
        candidates: Iterable[WorkloadInfo],
        strategy: str,
        taken: list[PreemptionTarget],
        passed_over: list[WorkloadInfo],
    ) -> bool:
        order = FairOrder(self.queue, candidates)
        is_within_nominal = self.snapshot.gates["FairSharingPreemptWithinNominal"] and self.queue.is_within_nominal(
            self.frs
        )
        for queue in order:
            if queue is self.queue or is_within_nominal:
                reason = IN_CLUSTER_QUEUE if queue is self.queue else IN_COHORT_RECLAMATION
                if self._take(order.pop(queue), reason, taken):
                    return True
                continue
            own, other = order.shares(queue)
            if is_hopeless(own, other):
                while order.has_more(queue):
                    passed_over.append(order.pop(queue))
                continue
            while order.has_more(queue):
                info = order.pop(queue)
                if strategy == FINAL_SHARE:
                    self.snapshot.take_out(info)
                    passes = is_less_than_final(own, order.share(queue))
                    self.snapshot.put_in(info)
                else:
                    passes = is_less_than_initial(own, other)
                if not passes:
                    passed_over.append(info)
                    continue
                if self._take(info, IN_COHORT_FAIR_SHARING, taken):
                    return True
                break
        return False

    def _second_strategy(self, candidates: Iterable[WorkloadInfo], taken: list[PreemptionTarget]) -> bool:
        order = FairOrder(self.queue, candidates)
        for queue in order:
            own, other = order.shares(queue)
            info = order.pop(queue)
            if is_less_than_initial(own, other) and self._take(info, IN_COHORT_FAIR_SHARING, taken):
                return True
            order.drop(queue)
        return False


def find_targets(snapshot: CycleSnapshot, info: WorkloadInfo, assignment: FlavorAssignment) -> list[PreemptionTarget]:
    """Return whom a workload preempts to get the flavors of an assignment."""
    placings = topology_requests(snapshot, assignment, info) if snapshot.gates["TopologyAwareScheduling"] else {}
    world = snapshot.world
    frs = frozenset(
        world.fr(choice.name, resource)
        for pod_set in assignment.pod_sets
        for resource, choice in pod_set.flavors.items()
        if choice.mode == PREEMPT
    )
    usage = TrialUsage(scaled_requests(snapshot, assignment, info), info.placed_usage())
    return PreemptionSearch(snapshot, info, frs, usage, placings).targets()


def try_preemption(snapshot: CycleSnapshot, info: WorkloadInfo, fr: int, amount: float) -> tuple[int, int]:
    """Say how preemption for a single flavor-resource would do, and at which height the workload borrows then."""
    queue = snapshot.queue_of(info)
    usage = TrialUsage({fr: int(amount)})
    targets = PreemptionSearch(snapshot, info, frozenset((fr,)), usage, {}).targets()
    if not targets:
        return NO_CANDIDATES, queue.height_that_fits(fr, amount)[0]
    with snapshot.without(target.info for target in targets):
        height = queue.height_that_fits(fr, amount)[0]
    is_in_queue = any(target.info.cluster_queue == queue.name for target in targets)
    return (IN_QUEUE if is_in_queue else RECLAIM), height
