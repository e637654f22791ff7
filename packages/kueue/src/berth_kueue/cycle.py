"""One scheduling cycle: what becomes of each head, decided on a snapshot and without changing the world.

Every head is *nominated* on the snapshot as it is at first: its flavors, and whom it would preempt. Then the heads are
processed in an order (who borrows least, then priority, then time; or fair sharing's tournament), and each takes what
it uses from the snapshot, so that a later one may find its room gone, or its targets taken; in the latter case, and
where places in topologies are gone, it is assigned anew. One that waits for room for which nobody can be preempted
takes its quota, too, unless its ClusterQueue can always reclaim it.

Source: `pkg/scheduler/scheduler.go` (nominate, processEntry, updateAssignmentIfNeeded, requeueAndUpdate).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from berth_kueue.flavors import (
    DEFERRED_FIT,
    FIT,
    NO_FIT,
    PREEMPT,
    FlavorAssigner,
    FlavorAssignment,
    find_places,
    placed_beyond,
    smaller_counts,
    take_places,
    topology_requests,
    wishes_topology,
)
from berth_kueue.model import QUOTA_RESERVED, LastTried, WorkloadInfo
from berth_kueue.preemption import PreemptionTarget, find_targets, try_preemption
from berth_kueue.queues import is_on_failed_node, needs_second_pass
from berth_kueue.snapshot import FITS, NO_TOPOLOGY, CycleSnapshot, TrialUsage
from berth_kueue.world import CohortNode, QueueNode, Share

FITS_LATER = (
    "Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete"
)


class CycleEntry:
    """A head in a cycle, and what becomes of it."""

    __slots__ = (
        "assignment",
        "first",
        "info",
        "is_preemptor",
        "message",
        "queue",
        "reason",
        "requeue_reason",
        "result",
        "targets",
    )

    def __init__(self, info: WorkloadInfo, *, is_preemptor: bool) -> None:
        self.info = info
        self.queue = info.cluster_queue
        self.is_preemptor = is_preemptor
        self.assignment = FlavorAssignment()
        self.targets: list[PreemptionTarget] = []
        self.message = ""
        self.reason = ""
        """The reason of the QuotaReserved condition."""
        self.requeue_reason = ""
        self.result = "nominated"
        """One of the results of a record: admitted, noFit, noCandidates, preempting, deferredFit, skipped, …"""
        self.first: tuple[FlavorAssignment, list[PreemptionTarget], str] | None = None
        """Assignment, targets and message of the nomination, where the assignment was computed anew."""

    def record(self, assignment: FlavorAssignment, targets: list[PreemptionTarget]) -> None:
        """Take over an assignment."""
        self.assignment, self.targets = assignment, targets
        self.message = assignment.message
        self.info.last_tried = assignment.last_tried

    @property
    def last_tried(self) -> LastTried | None:
        """Where the next look at the workload goes on."""
        return self.info.last_tried

    @property
    def holds_quota(self) -> bool:
        """Say whether it holds quota already: then this is its second pass."""
        return self.info.workload.has(QUOTA_RESERVED)


def run_cycle(
    snapshot: CycleSnapshot,
    heads: Iterable[tuple[WorkloadInfo, bool]],
    namespaces: Mapping[str, Mapping[str, str]],
) -> tuple[list[CycleEntry], list[CycleEntry]]:
    """Decide about heads (each with whether it is its queue's waiting preemptor).

    Returns the entries in the order in which they were processed, then those that were not.
    """
    entries, aside = [], []
    for info, is_preemptor in heads:
        if not needs_second_pass(info.workload) and info.key in snapshot.queue_of(info).workloads:
            continue
        entry = CycleEntry(info, is_preemptor=is_preemptor)
        words, reason, requeue = _obstacle(snapshot, info, namespaces)
        if words:
            entry.message, entry.reason, entry.requeue_reason, entry.result = words, reason, requeue, "inadmissible"
            aside.append(entry)
        else:
            entry.record(*_assign(snapshot, info, {}))
            entries.append(entry)
    preempted: dict[str, WorkloadInfo] = {}
    processed = []
    for entry in _fair_order(snapshot, entries) if snapshot.is_fair else _classical_order(snapshot, entries):
        _process(snapshot, entry, preempted)
        processed.append(entry)
    aside += (entry for entry in entries if entry not in processed)
    for entry in (*processed, *aside):
        if entry.result not in ("admitted", "evicted", "inadmissible") and not entry.requeue_reason:
            entry.requeue_reason = "FailedAfterNomination" if entry.result == "skipped" else ""
    return processed, aside


def _obstacle(
    snapshot: CycleSnapshot, info: WorkloadInfo, namespaces: Mapping[str, Mapping[str, str]]
) -> tuple[str, str, str]:
    """Return why a workload is not even nominated: message, reason, and reason to go back with."""
    if snapshot.queue_of(info).is_out:
        return f"ClusterQueue {info.cluster_queue} is inactive", "Suspended", ""
    words = admissibility_problem(snapshot.queue_of(info), info.workload.namespace, namespaces)
    return words, "Misconfigured", "NamespaceMismatch" if words == NAMESPACE_MISMATCH else ""


NAMESPACE_MISMATCH = "workload namespace doesn't match ClusterQueue selector"


def admissibility_problem(queue: QueueNode, namespace: str, namespaces: Mapping[str, Mapping[str, str]]) -> str:
    """Return why a workload cannot be admitted in a ClusterQueue whatever its quota; empty if it can."""
    labels = namespaces.get(namespace)
    if labels is None:
        return f'workload namespace "{namespace}" does not exist: Namespace "{namespace}" not found'
    return "" if queue.selector.matches(labels) else NAMESPACE_MISMATCH


def _assign(
    snapshot: CycleSnapshot, info: WorkloadInfo, nomination: Mapping[str, Mapping[str, str]]
) -> tuple[FlavorAssignment, list[PreemptionTarget]]:
    """Return a workload's flavors with those it preempts for them, with fewer pods where that helps and is allowed."""
    queue = snapshot.queue_of(info)
    last = info.last_tried
    if last is not None and _is_outdated(snapshot, last, queue, info):
        info.last_tried = None
    assignment, targets = _best(snapshot, info, nomination)
    if (
        assignment.mode == PREEMPT
        and snapshot.gates["TopologyAwareScheduling"]
        and (queue.is_topology_only or any(map(wishes_topology, info.spec.pod_sets)))
        and not is_on_failed_node(info.workload)
    ):
        # Where it is to go once others are gone, or all are: nobody after it shall take that room.
        wanted = topology_requests(snapshot, assignment, info)
        with snapshot.without(target.info for target in targets):
            found = find_places(snapshot, wanted, info, as_if_free=not targets)
        take_places(assignment, queue, info, found)
    return assignment, targets


def _is_outdated(snapshot: CycleSnapshot, last: LastTried, queue: QueueNode, info: WorkloadInfo) -> bool:
    if snapshot.gates["FlavorFungibilityPreserveScanProgress"]:
        if not last.is_of_shape(info.shape):
            return True
        if snapshot.cycle - last.cycle <= 1:
            return False
    return queue.generation > last.generation


def _best(
    snapshot: CycleSnapshot, info: WorkloadInfo, nomination: Mapping[str, Mapping[str, str]]
) -> tuple[FlavorAssignment, list[PreemptionTarget]]:
    def oracle(asking: WorkloadInfo, fr: int, amount: float) -> tuple[int, int]:
        return try_preemption(snapshot, asking, fr, amount)

    def targets_of(assignment: FlavorAssignment) -> list[PreemptionTarget]:
        return find_targets(snapshot, info, assignment) if assignment.mode == PREEMPT else []

    assigner = FlavorAssigner(snapshot, info, oracle, nomination)
    full = assigner.assign()
    if full.mode == FIT:
        return full, []
    targets = targets_of(full)
    if targets:
        return full, targets
    pod_sets = info.spec.pod_sets
    if snapshot.gates["PartialAdmission"] and any(
        given.min_count is not None and given.count > given.min_count for given in pod_sets
    ):
        found: list[tuple[FlavorAssignment, list[PreemptionTarget]]] = []

        def fits(counts: Sequence[int]) -> bool:
            assignment = assigner.assign(counts)
            some = targets_of(assignment)
            if assignment.mode == FIT or some:
                found[:] = [(assignment, some)]
                return True
            return False

        if smaller_counts(pod_sets, fits):
            return found[0]
    return full, []


def _usage(snapshot: CycleSnapshot, entry: CycleEntry, amounts: Mapping[int, int]) -> TrialUsage:
    """Return what an entry would use beyond what it holds already."""
    info, admission = entry.info, entry.info.workload.admission
    held = {
        given.name: given.topology_assignment
        for given in (admission.pod_set_assignments if admission is not None else ())
        if given.topology_assignment is not None
    }
    placed = placed_beyond(entry.assignment, snapshot.queue_of(info), info, held)
    return TrialUsage({} if entry.holds_quota else amounts, placed)


def _fits(snapshot: CycleSnapshot, entry: CycleEntry, usage: TrialUsage, preempted: Mapping[str, WorkloadInfo]) -> int:
    gone = {**preempted, **{target.info.key: target.info for target in entry.targets}}
    with snapshot.without(gone.values()):
        return snapshot.fits(snapshot.queue_of(entry.info), usage)


def _overlaps(entry: CycleEntry, preempted: Mapping[str, WorkloadInfo]) -> bool:
    return any(target.info.key in preempted for target in entry.targets)


def _bring_up_to_date(
    snapshot: CycleSnapshot, entry: CycleEntry, preempted: Mapping[str, WorkloadInfo]
) -> tuple[TrialUsage, bool]:
    """Assign anew where targets or places are taken; return what the entry uses and whether that fits."""
    usage = _usage(snapshot, entry, entry.assignment.amounts)
    fits = _fits(snapshot, entry, usage, preempted)
    gates = snapshot.gates
    overlaps = gates["RecomputeAssignmentUponPreemptionTargetsOverlap"] and _overlaps(entry, preempted)
    if not overlaps and not (fits == NO_TOPOLOGY and gates["TASRecomputeAssignmentWithinSchedulingCycle"]):
        return usage, fits == FITS
    entry.first = entry.assignment, entry.targets, entry.message
    entry.info.last_tried = None
    nomination = {
        pod_set.name: {resource: choice.name for resource, choice in pod_set.flavors.items()}
        for pod_set in entry.assignment.pod_sets
    }
    with snapshot.gone(preempted.values() if overlaps else ()):
        entry.record(*_assign(snapshot, entry.info, nomination))
    if overlaps and entry.assignment.mode == FIT:
        entry.assignment.set_mode(DEFERRED_FIT)
    usage = _usage(snapshot, entry, entry.assignment.amounts)
    return usage, _fits(snapshot, entry, usage, preempted) == FITS


def _process(snapshot: CycleSnapshot, entry: CycleEntry, preempted: dict[str, WorkloadInfo]) -> None:
    """Decide about one entry, and take what it uses from the snapshot."""
    info = entry.info
    queue = snapshot.queue_of(info)
    usage, fits = _bring_up_to_date(snapshot, entry, preempted)
    mode = entry.assignment.mode
    if snapshot.gates["TASFailedNodeReplacementFailFast"] and mode != FIT and is_on_failed_node(info.workload):
        entry.result = "evicted"
    elif mode == NO_FIT:
        entry.result, entry.requeue_reason, entry.reason = "noFit", "NoFit", entry.assignment.no_fit_reason
    elif mode == PREEMPT and not entry.targets:
        entry.result, entry.requeue_reason, entry.reason = "noCandidates", "PreemptionNoCandidates", "WaitingForQuota"
        always_reclaims = queue.spec.preemption.reclaim_within_cohort == "Any"
        if not always_reclaims or (snapshot.gates["PrioritizePreemptorWorkloads"] and entry.is_preemptor):
            snapshot.add_usage(queue, _usage(snapshot, entry, _reserved(entry, queue)))
    elif mode == DEFERRED_FIT:
        entry.result, entry.requeue_reason, entry.message = "deferredFit", "PendingPreemption", FITS_LATER
        entry.reason = "WaitingForPreemptedWorkloads"
        info.last_tried = None
        snapshot.add_usage(queue, usage)
    elif _overlaps(entry, preempted):
        _skip(snapshot, entry, "Workload has overlapping preemption targets with another workload")
    elif not fits:
        _skip(snapshot, entry, "Workload no longer fits after processing another workload")
    else:
        preempted.update((target.info.key, target.info) for target in entry.targets)
        snapshot.add_usage(queue, usage)
        if mode == PREEMPT:
            entry.result, entry.requeue_reason = "preempting", "PendingPreemption"
            entry.reason = "WaitingForPreemptedWorkloads"
            entry.message += f". Pending the preemption of {len(entry.targets)} workload(s)"
            info.last_tried = None
        else:
            entry.result = "admitted"


def _skip(snapshot: CycleSnapshot, entry: CycleEntry, message: str) -> None:
    entry.result, entry.message, entry.reason = "skipped", message, "WaitingForQuota"
    if not snapshot.gates["FlavorFungibilityPreserveScanProgress"]:
        entry.info.last_tried = None


def _reserved(entry: CycleEntry, queue: QueueNode) -> dict[int, int]:
    """Return what a workload keeps from others while it waits, as nobody can be preempted for it."""
    amounts = {}
    for fr, amount in entry.assignment.amounts.items():
        quota = queue.quotas.get(fr)
        left = (quota.nominal if quota is not None else 0) - queue.usage[fr]
        if not entry.assignment.borrowing:
            amount = int(max(0, min(amount, left)))
        elif quota is not None and quota.borrowing is not None:
            amount = int(min(amount, left + quota.borrowing))
        amounts[fr] = amount
    return amounts


# The order in which entries are processed.


def _classical_order(snapshot: CycleSnapshot, entries: list[CycleEntry]) -> list[CycleEntry]:
    gates = snapshot.gates

    def key(entry: CycleEntry) -> tuple[bool, bool, int, int, float]:
        return (
            not entry.holds_quota,
            gates["PrioritizePreemptorWorkloads"] and not entry.is_preemptor,
            entry.assignment.borrowing,
            -entry.info.priority if gates["PrioritySortingWithinCohort"] else 0,
            entry.info.queue_time,
        )

    return sorted(entries, key=key)


def _fair_order(snapshot: CycleSnapshot, entries: list[CycleEntry]) -> Iterator[CycleEntry]:
    """Yield the winner of one tournament after the other, tree by tree; each is processed before the next is sought."""
    left = {entry.queue: entry for entry in entries}
    while left:
        queue = snapshot.world.queues[next(iter(left))]
        winner = left[queue.name]
        root = queue.root
        if root is not None:
            tournament = _Tournament(snapshot, root, left)
            found = tournament.winner(root)
            assert found is not None, "the tree has an entry at least"
            winner = found
        del left[winner.info.cluster_queue]
        yield winner


class _Tournament:
    """Shares with each entry counted in, level by level, and who wins by them."""

    def __init__(self, snapshot: CycleSnapshot, root: CohortNode, left: Mapping[str, CycleEntry]) -> None:
        self._gates = snapshot.gates
        self._left = left
        self._shares: dict[tuple[str, str], Share] = {}
        self._asked: dict[str, Mapping[int, int]] = {}
        for queue in root.subtree_queues():
            entry = left.get(queue.name)
            if entry is None:
                continue
            usage = _usage(snapshot, entry, entry.assignment.amounts)
            self._asked[entry.info.key] = usage.amounts
            snapshot.add_usage(queue, usage)
            share = queue.share()
            for cohort in queue.path():
                self._shares[cohort.name, entry.info.key] = share
                share = cohort.share()
            snapshot.remove_usage(queue, usage)

    def winner(self, cohort: CohortNode) -> CycleEntry | None:
        """Return who wins below a cohort."""
        candidates = [self.winner(child) for child in cohort.cohorts.values()]
        candidates += [self._left.get(name) for name in cohort.queues]
        found = [entry for entry in candidates if entry is not None]
        return min(found, key=self._key(cohort.name), default=None)

    def _key(self, cohort: str) -> Callable[[CycleEntry], tuple[bool, bool, tuple[bool, float], int, float]]:
        gates = self._gates

        def key(entry: CycleEntry) -> tuple[bool, bool, tuple[bool, float], int, float]:
            share, asked = self._shares[cohort, entry.info.key], self._asked[entry.info.key]
            return (
                gates["PrioritizePreemptorWorkloads"] and not entry.is_preemptor,
                gates["FairSharingPrioritizeNonBorrowing"] and any(asked.get(fr, 0) > 0 for fr in share.borrowed),
                share.rank,
                -entry.info.priority if gates["PrioritySortingWithinCohort"] else 0,
                entry.info.queue_time,
            )

        return key
