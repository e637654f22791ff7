"""Whom a workload preempts: candidates in order, taken until it fits, then given back where it still does.

Without fair sharing, candidates come from the workload's own ClusterQueue, and from those in its cohort tree that
borrow what it needs: where a part of the tree around it has quota for it, its *hierarchy* lets it reclaim from the
others, and otherwise only priority does. Those already being evicted come first, then lower priorities.
It is tried with and without borrowing, in an order that depends on who the candidates are.

With fair sharing, `berth_kueue.fair` says from whom the next candidate is taken. Sources: `pkg/scheduler/preemption`
(preemption.go, preemption_oracle.go), its packages `classical` and `common`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from berth_kueue.fair import FairOrder, candidate_order, is_hopeless, is_less_than_final, is_less_than_initial
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
from berth_kueue.model import QueuePreemption, WorkloadInfo
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


class _Candidate(NamedTuple):
    info: WorkloadInfo
    common: CohortNode | None
    """The lowest cohort that it shares with the preemptor."""
    reason: str
    borrows: bool
    """Whether it may be taken while the preemptor borrows."""


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

    def _may_preempt(self, info: WorkloadInfo, policy: str) -> bool:
        """Say whether a policy lets the workload preempt another one, which uses what it needs."""
        if self.frs.isdisjoint(info.frs):
            return False
        own, other = self.info.priority, info.priority
        if policy == "LowerPriority":
            return own > other
        if policy == "LowerOrNewerEqualPriority":
            return own > other or (own == other and self.info.queue_time < info.queue_time)
        return policy == "Any"

    def _order(self, info: WorkloadInfo) -> tuple[bool, bool, int, float, str]:
        return candidate_order(info, self.queue.name, self.snapshot.now)

    def _own(self) -> list[WorkloadInfo]:
        policy = self.queue.spec.preemption.within_cluster_queue
        if policy == "Never":
            return []
        return [info for info in self.queue.workloads.values() if self._may_preempt(info, policy)]

    # Without fair sharing.

    def _classical(self) -> list[PreemptionTarget]:
        own = [_Candidate(info, None, IN_CLUSTER_QUEUE, True) for info in self._own()]
        by_hierarchy, by_priority = self._reclaimable()
        candidates: list[_Candidate] = []
        sources = [sorted(some, key=lambda c: self._order(c.info)) for some in (by_hierarchy, by_priority, own)]
        for is_evicted in (True, False):
            for source in sources:
                candidates += (candidate for candidate in source if candidate.info.is_evicted == is_evicted)
        if not candidates:
            return []
        forbids_borrowing = self.queue.spec.preemption.borrow_within_cohort.policy == "Never"
        if not (by_hierarchy or by_priority) or (forbids_borrowing and not self._is_under_nominal()):
            attempts: tuple[bool, ...] = (True,)
        elif forbids_borrowing and not by_hierarchy:
            attempts = (False, True)
        else:
            attempts = (True, False)
        for may_borrow in attempts:
            taken: list[PreemptionTarget] = []
            for candidate in candidates:
                if not self._is_valid(candidate, may_borrow=may_borrow):
                    continue
                self.snapshot.take_out(candidate.info)
                taken.append(PreemptionTarget(candidate.info, candidate.reason))
                if self._fits(may_borrow=may_borrow):
                    return self._without_needless(taken, may_borrow=may_borrow)
            for target in taken:
                self.snapshot.put_in(target.info)
        return []

    def _is_under_nominal(self) -> bool:
        return all(self.queue.subtree[fr] > self.queue.usage[fr] for fr in self.frs)

    def _is_valid(self, candidate: _Candidate, *, may_borrow: bool) -> bool:
        if candidate.common is None:
            return True
        if may_borrow and not candidate.borrows:
            return False
        queue = self.snapshot.queue_of(candidate.info)
        if queue.is_within_nominal(self.frs):
            return False
        for node in queue.path():
            if node is candidate.common:
                break
            if node.is_within_nominal(self.frs):
                return False
        return True

    def _reclaimable(self) -> tuple[list[_Candidate], list[_Candidate]]:
        """Return the candidates of other ClusterQueues: those by hierarchy, and those by priority."""
        by_hierarchy: list[_Candidate] = []
        by_priority: list[_Candidate] = []
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
            found = by_hierarchy if has_advantage else by_priority
            found += self._candidates_below(cohort, cohort, skipped, has_advantage=has_advantage)
            node = skipped = cohort
        return by_hierarchy, by_priority

    def _candidates_below(
        self, cohort: CohortNode, common: CohortNode, skipped: CohortNode | None, *, has_advantage: bool
    ) -> Iterator[_Candidate]:
        for child in cohort.cohorts.values():
            if child is not skipped and not child.is_within_nominal(self.frs):
                yield from self._candidates_below(child, common, skipped, has_advantage=has_advantage)
        preemption = self.queue.spec.preemption
        for queue in cohort.queues.values():
            if queue is self.queue or queue.is_out or queue.is_within_nominal(self.frs):
                continue
            for info in queue.workloads.values():
                if self._may_preempt(info, preemption.reclaim_within_cohort):
                    yield self._candidate(info, common, preemption, has_advantage=has_advantage)

    def _candidate(
        self, info: WorkloadInfo, common: CohortNode, preemption: QueuePreemption, *, has_advantage: bool
    ) -> _Candidate:
        if has_advantage:
            return _Candidate(info, common, IN_COHORT_RECLAMATION, True)
        borrowing = preemption.borrow_within_cohort
        bound = borrowing.max_priority_threshold
        if (
            borrowing.policy == "Never"
            or info.priority >= self.info.priority
            or (bound is not None and info.priority > bound)
        ):
            return _Candidate(info, common, IN_COHORT_RECLAMATION, False)
        return _Candidate(info, common, IN_COHORT_WHILE_BORROWING, True)

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
        candidates = self._own()
        policy = self.queue.spec.preemption.reclaim_within_cohort
        if self.queue.parent is not None and policy != "Never":
            for queue in self.queue.parent.root.subtree_queues():
                if queue is not self.queue and not queue.is_out and not queue.is_within_nominal(self.frs):
                    candidates += (info for info in queue.workloads.values() if self._may_preempt(info, policy))
        if not candidates:
            return []
        candidates.sort(key=self._order)
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
        order = FairOrder(self.queue, candidates, self.snapshot.now)
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
        order = FairOrder(self.queue, candidates, self.snapshot.now)
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
