"""Which flavors a workload gets: tried in order for each pod set and resource group, until one is good enough.

A flavor *fits*, would fit once others are *preempted* (or lower: nobody may be), or does *not fit*; and it is better,
the lower in the cohort tree it borrows. `flavorFungibility` says when the search stops, and which of the two counts for
more. Whether preemption could help is tried out for one resource at a time, by the same search that looks for targets;
the targets themselves are sought later, for all resources together. Where the search ends is kept (`LastTried`), and
the next look at the workload goes on behind it.

Source: `pkg/scheduler/flavorassigner` (flavorassigner.go, flavor_assigner_attempts.go, podset_reducer.go,
tas_flavorassigner.go); `berth_kueue.topology` places pod sets in topologies.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from berth.api.pod import PodSpec
from berth.api.selectors import Requirement, SelectorError
from berth.api.taints import untolerated_taint
from berth_kueue.amounts import PODS, in_order, written
from berth_kueue.model import FlavorSpec, Fungibility, LastTried, PodSetRequests, PodSetSpec, WorkloadInfo
from berth_kueue.snapshot import CycleSnapshot
from berth_kueue.topology.placing import (
    DomainUsage,
    PlacedWorkload,
    PodSetPlacements,
    PodSetPlacing,
    TopologyAssignment,
)
from berth_kueue.world import FlavorGroup, QueueNode

NO_FIT, PREEMPT, DEFERRED_FIT, FIT = range(4)
MODES = ("NoFit", "Preempt", "DeferredFit", "Fit")
# How preemption would do, from worst to best; what is in between is a mode of PREEMPT.
_CANNOT, _NO_CANDIDATES, _IN_QUEUE, _RECLAIM, _FITS = range(5)
NO_CANDIDATES, IN_QUEUE, RECLAIM = _NO_CANDIDATES, _IN_QUEUE, _RECLAIM
_MODE_OF = (NO_FIT, PREEMPT, PREEMPT, PREEMPT, FIT)
_POSSIBILITIES = ("", "NoCandidates", "Preempt", "Reclaim", "")
_SEVERITY = {"TopologyPlacementFailed": 1, "WaitingForQuota": 2, "ExceedsMaxQuota": 3, "NoMatchingFlavor": 4}
_TOPOLOGY_WISHES = (
    "unconstrained",
    "required",
    "preferred",
    "podSetSliceRequiredTopology",
    "podSetSliceSize",
    "podsetSliceRequiredTopologyConstraints",
)
Oracle = Callable[[WorkloadInfo, int, float], tuple[int, int]]
"""Asked with a workload, a flavor-resource and an amount: how preemption would do, and how high it then borrows."""


def worse_reason(one: str, other: str) -> str:
    """Return the more severe of two reasons."""
    return one if _SEVERITY.get(one, 0) >= _SEVERITY.get(other, 0) else other


class FlavorChoice:
    """The flavor of a resource in a pod set."""

    __slots__ = ("borrow", "mode", "name", "tried")

    def __init__(self, name: str, mode: int, borrow: int = 0) -> None:
        self.name = name
        self.mode = mode
        self.borrow = borrow
        self.tried = 0


class FlavorAttempt(NamedTuple):
    """What came of looking at a flavor."""

    flavor: str
    mode: int
    borrow: int = 0
    possibility: int | None = None
    reasons: tuple[str, ...] = ()
    no_fit_reason: str = ""


class PodSetFlavors:
    """The flavors of a pod set, and why they are not better."""

    __slots__ = ("attempts", "count", "error", "flavors", "name", "reasons", "requests", "topology")

    def __init__(self, name: str, requests: dict[str, int], count: int) -> None:
        self.name = name
        self.requests = requests
        self.count = count
        self.flavors: dict[str, FlavorChoice] = {}
        self.reasons: list[str] = []
        self.error = ""
        self.topology: TopologyAssignment | None = None
        self.attempts: list[FlavorAttempt] = []

    @property
    def mode(self) -> int:
        """The worst mode among its flavors."""
        if not self.error and not self.reasons:
            return FIT
        if self.error or not self.flavors:
            return NO_FIT
        return min(choice.mode for choice in self.flavors.values())

    def set_mode(self, mode: int) -> None:
        """Set the mode of all flavors."""
        for choice in self.flavors.values():
            choice.mode = mode

    def used(self) -> dict[str, int]:
        """Return what all its pods use, of the resources that have a flavor."""
        return {resource: self.requests.get(resource, 0) for resource in self.flavors}


class FlavorAssignment:
    """The flavors of a whole workload."""

    __slots__ = ("_mode", "amounts", "borrowing", "last_tried", "no_fit_reason", "placed", "pod_sets")

    def __init__(self) -> None:
        self.pod_sets: list[PodSetFlavors] = []
        self.borrowing = 0
        self.amounts: dict[int, int] = {}
        self.placed: dict[str, list[DomainUsage]] = {}
        self.last_tried: LastTried | None = None
        self.no_fit_reason = ""
        self._mode: int | None = None

    @property
    def mode(self) -> int:
        """The worst mode among its pod sets, as it was when it was first asked for, or set since."""
        if not self.pod_sets:
            return NO_FIT
        if self._mode is None:
            self._mode = min(pod_set.mode for pod_set in self.pod_sets)
        return self._mode

    def set_mode(self, mode: int) -> None:
        """Set the mode of all pod sets."""
        self._mode = mode
        for pod_set in self.pod_sets:
            pod_set.set_mode(mode)

    def set_mode_of(self, name: str, mode: int) -> None:
        """Set the mode of a pod set; the assignment has it then, too."""
        self[name].set_mode(mode)
        self._mode = mode

    def fail(self, pod_set: PodSetFlavors, error: str) -> None:
        """Note an error of a pod set."""
        pod_set.error = error
        self._mode = None

    def __getitem__(self, name: str) -> PodSetFlavors:
        return next(pod_set for pod_set in self.pod_sets if pod_set.name == name)

    @property
    def message(self) -> str:
        """Say why it does not fit; empty where it does."""
        parts = []
        for pod_set in self.pod_sets:
            if pod_set.error:
                return f"failed to assign flavors to pod set {pod_set.name}: {pod_set.error}"
            if pod_set.reasons:
                pod_set.reasons.sort()
                parts.append(f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(pod_set.reasons)}")
        return "; ".join(parts)

    @property
    def considered(self) -> str:
        """Say what came of the flavors that were looked at, where it was not all well."""
        parts = []
        for pod_set in self.pod_sets:
            told = [_told(attempt) for attempt in pod_set.attempts if attempt.mode != FIT or attempt.borrow]
            if told:
                parts.append(f"{pod_set.name}: {', '.join(told)}")
        return " | ".join(parts)

    def resolve_reason(self, queue: QueueNode) -> None:
        """Work out the reason of the condition where nothing fits.

        In each resource group the flavor that came closest counts, of groups and pod sets the worst.
        """
        if self.mode != NO_FIT:
            return
        overall = ""
        for pod_set in self.pod_sets:
            if pod_set.mode != NO_FIT:
                continue
            if not pod_set.attempts:
                overall = worse_reason(overall, "NoMatchingFlavor")
                continue
            closest: dict[int, str] = {}
            for number, attempt in enumerate(pod_set.attempts):
                if attempt.mode != NO_FIT:
                    continue
                own = [index for index, group in enumerate(queue.groups) if attempt.flavor in group.flavors]
                for index in own or [-1 - number]:
                    before = closest.get(index)
                    if before is None or _SEVERITY.get(attempt.no_fit_reason, 0) < _SEVERITY.get(before, 0):
                        closest[index] = attempt.no_fit_reason
            for reason in closest.values():
                overall = worse_reason(overall, reason)
        self.no_fit_reason = overall


def _told(attempt: FlavorAttempt) -> str:
    mode = MODES[attempt.mode]
    if attempt.possibility is not None:
        mode = f"preemptionMode={_POSSIBILITIES[attempt.possibility]}"
    borrow = [f"borrow={attempt.borrow}"] if attempt.borrow else []
    return f"{attempt.flavor}({';'.join([mode, *borrow, *attempt.reasons])})"


class _Granular(NamedTuple):
    preemption: int
    borrow: int


def _is_preferred(one: _Granular, other: _Granular, fungibility: Fungibility) -> bool:
    if one.preemption == _CANNOT:
        return False
    if other.preemption == _CANNOT:
        return True
    if (one.preemption == _NO_CANDIDATES) != (other.preemption == _NO_CANDIDATES):
        return other.preemption == _NO_CANDIDATES
    if fungibility.preference == "PreemptionOverBorrowing":
        return (one.borrow, -one.preemption) < (other.borrow, -other.preemption)
    return (-one.preemption, one.borrow) < (-other.preemption, other.borrow)


def _tries_next(mode: _Granular, fungibility: Fungibility) -> bool:
    if mode.preemption in (_CANNOT, _NO_CANDIDATES):
        return True
    if mode.preemption in (_IN_QUEUE, _RECLAIM) and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return bool(mode.borrow) and fungibility.when_can_borrow == "TryNextFlavor"


class _Outcome(NamedTuple):
    """What came of looking for the flavor of a resource."""

    flavors: dict[str, FlavorChoice]
    reasons: list[str]
    attempts: list[FlavorAttempt]


class _Counted(NamedTuple):
    """A pod set that is to get flavors: its number, what it requests, and what it gets."""

    number: int
    requests: dict[str, int]
    found: PodSetFlavors


class FlavorAssigner:
    """Assigns flavors to one workload in one ClusterQueue."""

    def __init__(
        self, snapshot: CycleSnapshot, info: WorkloadInfo, oracle: Oracle, nomination: Mapping[str, Mapping[str, str]]
    ) -> None:
        """`nomination` pins flavors by pod set and resource, where an assignment is computed anew; else it is empty."""
        self.snapshot = snapshot
        self.info = info
        self.queue = snapshot.queue_of(info)
        self.oracle = oracle
        gates = snapshot.gates
        pins = gates["RecomputeAssignmentUponPreemptionTargetsOverlap"] or (
            gates["TopologyAwareScheduling"] and gates["TASRecomputeAssignmentWithinSchedulingCycle"]
        )
        self.nomination = nomination if pins else {}

    def assign(self, counts: Sequence[int] = ()) -> FlavorAssignment:
        """Return the best flavors, with fewer pods where `counts` says so."""
        assignment = FlavorAssignment()
        tried: list[dict[str, int]] = []
        groups = self._grouped(counts)
        for members in groups.values():
            has_failed = self._assign_group(assignment, members)
            for member in members:
                found = member.found
                for resource, choice in found.flavors.items():
                    assignment.borrowing = max(assignment.borrowing, choice.borrow)
                    fr = self.snapshot.world.fr(choice.name, resource)
                    assignment.amounts[fr] = assignment.amounts.get(fr, 0) + member.requests.get(resource, 0)
                assignment.pod_sets.append(found)
                tried.append({resource: choice.tried for resource, choice in found.flavors.items()})
            if has_failed:
                break
        assignment.last_tried = LastTried(tuple(tried), self.queue.generation, self.snapshot.cycle, self.info.shape)
        if not has_failed and assignment.mode != NO_FIT and self.snapshot.gates["TopologyAwareScheduling"]:
            self._place(assignment)
        assignment.resolve_reason(self.queue)
        return assignment

    def _grouped(self, counts: Sequence[int]) -> dict[str, list[_Counted]]:
        """Return the pod sets in their groups, which get their flavors together; most are groups of their own."""
        groups: dict[str, list[_Counted]] = {}
        for index, pod_set in enumerate(self.info.pod_sets):
            counted = pod_set.scaled_to(counts[index]) if counts else pod_set
            requests = counted.requests
            if PODS in self.queue.group_of:
                requests = in_order({**requests, PODS: counted.pods})
            found = PodSetFlavors(counted.name, requests, counted.pods)
            found.flavors = {resource: FlavorChoice(name, FIT) for resource, name in counted.flavors.items()}
            found.topology = counted.topology
            request = self.info.spec.pod_sets[index].topology_request
            group = (request or {}).get("podSetGroupName")
            groups.setdefault(str(index) if group is None else group, []).append(_Counted(index, requests, found))
        return groups

    def _assign_group(self, assignment: FlavorAssignment, members: list[_Counted]) -> bool:
        """Give the pod sets of a group their flavors; say whether one of them got none."""
        total: dict[str, int] = {}
        flavors: dict[str, FlavorChoice] = {}
        for member in members:
            for resource, amount in member.requests.items():
                total[resource] = total.get(resource, 0) + amount
            flavors.update(member.found.flavors)
        if len(members) > 1:
            total = in_order(total)
        attempts: dict[str, FlavorAttempt] = {}
        reasons: list[str] = []
        indexes = [member.number for member in members]
        for resource, amount in total.items():
            group = self.queue.group_of.get(resource)
            if (group is None and not amount) or resource in flavors:
                continue
            if group is None:
                flavors, reasons = {}, [f"resource {resource} unavailable in ClusterQueue"]
                break
            outcome = self._find(indexes, total, resource, group, assignment.amounts)
            _merge_attempts(attempts, outcome.attempts, resource, group)
            if not outcome.flavors:
                flavors, reasons = {}, outcome.reasons
                break
            flavors.update(outcome.flavors)
            reasons += outcome.reasons
        merged = sorted(attempts.values())
        has_failed = False
        for member in members:
            found = member.found
            if member.requests:
                found.flavors = {name: flavors[name] for name in member.requests if name in flavors}
                has_failed = has_failed or not found.flavors
            else:
                topologies = self.queue.topology_flavors if self._has_group(member.number) else {}
                found.flavors = {name: choice for name, choice in flavors.items() if choice.name in topologies}
            found.reasons = reasons[:]
            found.attempts = merged  # Shared by the group, as is what topologies say of a flavor.
        return has_failed

    def _has_group(self, index: int) -> bool:
        request = self.info.spec.pod_sets[index].topology_request
        return request is not None and request.get("podSetGroupName") is not None

    def _find(
        self,
        indexes: list[int],
        total: Mapping[str, int],
        resource: str,
        group: FlavorGroup,
        assumed: Mapping[int, int],
    ) -> _Outcome:
        """Look for the flavor of all resources of a group, beginning behind the last look's end."""
        fungibility = self.queue.spec.flavor_fungibility
        goes_on = self.snapshot.gates["FlavorFungibility"]
        wanted = [(name, amount) for name, amount in total.items() if name in group.covered]
        reasons: list[str] = []
        attempts: list[FlavorAttempt] = []
        best: dict[str, FlavorChoice] = {}
        best_mode = _Granular(_CANNOT, sys.maxsize)
        last = -1
        for index in range(self._first(indexes[0], resource) if goes_on else 0, len(group.flavors)):
            last, name = index, group.flavors[index]
            if self.nomination and not any(
                self.nomination[self.info.spec.pod_sets[number].name].get(resource) == name for number in indexes
            ):
                reasons.append(
                    f"skipping flavor {name} as it is not found in the nomination mapping for resource {resource}"
                )
                continue
            mismatch = self._mismatch(name, indexes, group)
            if mismatch:
                reasons.append(mismatch)
                attempts.append(FlavorAttempt(name, NO_FIT, reasons=(mismatch,), no_fit_reason="NoMatchingFlavor"))
                continue
            choices, mode, attempt = self._look_at(name, wanted, assumed, fungibility)
            reasons += attempt.reasons
            attempts.append(attempt)
            if goes_on:
                if not _tries_next(mode, fungibility):
                    best, best_mode = choices, mode
                    break
                if _is_preferred(mode, best_mode, fungibility):
                    best, best_mode = choices, mode
            elif mode.preemption > best_mode.preemption:
                best, best_mode = choices, mode
                if mode.preemption == _FITS:
                    return _Outcome(best, [], attempts)
        if goes_on:
            for choice in best.values():
                choice.tried = -1 if last == len(group.flavors) - 1 else last
            if best_mode.preemption == _FITS:
                reasons = []
        return _Outcome(best, reasons, attempts)

    def _first(self, pod_set: int, resource: str) -> int:
        last = self.info.last_tried
        if last is None or pod_set >= len(last.indexes):
            return 0
        return last.indexes[pod_set].get(resource, -1) + 1

    def _look_at(
        self, flavor: str, wanted: list[tuple[str, int]], assumed: Mapping[int, int], fungibility: Fungibility
    ) -> tuple[dict[str, FlavorChoice], _Granular, FlavorAttempt]:
        """Look at one flavor, for all resources of its group; the worst of them decides."""
        choices: dict[str, FlavorChoice] = {}
        mode, highest, no_fit_reason = _Granular(_FITS, 0), 0, ""
        reasons: list[str] = []
        for resource, amount in wanted:
            preemption, borrow, words, reason = self._fits_quota(flavor, resource, amount, assumed)
            if words:
                reasons.append(words)
                no_fit_reason = worse_reason(no_fit_reason, reason)
            highest = max(highest, borrow)
            found = _Granular(preemption, borrow)
            if _is_preferred(mode, found, fungibility):
                mode = found
            if mode.preemption != _CANNOT:
                choices[resource] = FlavorChoice(flavor, _MODE_OF[preemption], borrow)
        possibility = mode.preemption if mode.preemption not in (_CANNOT, _FITS) else None
        attempt = FlavorAttempt(
            flavor, _MODE_OF[mode.preemption], highest, possibility, tuple(sorted(reasons)), no_fit_reason
        )
        return choices, mode, attempt

    def _fits_quota(
        self, flavor: str, resource: str, amount: int, assumed: Mapping[int, int]
    ) -> tuple[int, int, str, str]:
        """Return how an amount fits a flavor's quota: preemption, height of borrowing, words, reason."""
        queue, fr = self.queue, self.snapshot.world.fr(flavor, resource)
        before = assumed.get(fr, 0)
        needed = before + amount
        most = queue.potential[fr]
        if needed > most:
            words = (
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({written(resource, before)}) + current podset request ({written(resource, amount)}) > "
                f"maximum capacity ({written(resource, most)})"
            )
            return _CANNOT, 0, words, "ExceedsMaxQuota"
        borrow, may_reclaim = queue.height_that_fits(fr, needed)
        available = max(0, queue.available(fr))
        if needed <= available:
            return _FITS, borrow, "", ""
        words = (
            f"insufficient unused quota for {resource} in flavor {flavor}, "
            f"{written(resource, needed - available)} more needed"
        )
        if queue.subtree[fr] >= needed or may_reclaim or self._may_preempt_while_borrowing():
            possibility, height = self.oracle(self.info, fr, needed)
            return possibility, height, words, ""
        return _CANNOT, borrow, words, "WaitingForQuota"

    def _may_preempt_while_borrowing(self) -> bool:
        preemption = self.queue.spec.preemption
        if preemption.borrow_within_cohort.policy != "Never":
            return True
        return self.snapshot.is_fair and preemption.reclaim_within_cohort != "Never"

    # Whether a flavor is for these pods at all.

    def _mismatch(self, name: str, indexes: list[int], group: FlavorGroup) -> str:
        flavor = self.snapshot.world.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        for index in indexes:
            pod_set, needs = self.info.spec.pod_sets[index], self.info.workload.needs[index]
            if self.snapshot.gates["TopologyAwareScheduling"]:
                words = self._topology_mismatch(name, flavor, pod_set, needs.requests, group)
                if words:
                    return words
            tolerations = (*needs.spec.tolerations, *flavor.tolerations)
            taint = untolerated_taint(flavor.node_taints, tolerations, ("NoSchedule", "NoExecute"), True)
            if taint is not None:
                return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {name}"
            if not _matches_affinity(needs.spec, flavor.node_labels):
                return f"flavor {name} doesn't match node affinity"
        return ""

    def _topology_mismatch(
        self, name: str, flavor: FlavorSpec, pod_set: PodSetSpec, requests: Iterable[str], group: FlavorGroup
    ) -> str:
        if not wishes_topology(pod_set):
            if self.queue.is_topology_only or flavor.topology_name is None:
                return ""
            return f'Flavor "{name}" supports only TopologyAwareScheduling'
        if flavor.topology_name is None:
            if group.covered.isdisjoint(requests):
                return ""
            return f'Flavor "{name}" does not support TopologyAwareScheduling'
        if not self.snapshot.topologies.knows(name):
            return f'Flavor "{name}" information missing in TAS cache'
        if not self.snapshot.topologies.has_level(name, pod_set.topology_request):
            return f'Flavor "{name}" does not contain the requested level'
        return ""

    # Places in topologies.

    def _place(self, assignment: FlavorAssignment) -> None:
        """Look for places in topologies: now, and where there are none, on nodes that are all free."""
        wanted = topology_requests(self.snapshot, assignment, self.info)
        if assignment.mode == FIT:
            found = find_places(self.snapshot, wanted, self.info)
            if found.failure is not None:
                assignment[found.failure.pod_set].reasons.append(found.failure.words)
                assignment.set_mode_of(found.failure.pod_set, PREEMPT)
            else:
                take_places(assignment, self.queue, self.info, found)
        if assignment.mode == PREEMPT and not self.info.workload.unhealthy:
            found = find_places(self.snapshot, wanted, self.info, as_if_free=True)
            failure = found.failure
            if failure is not None:
                attempts = assignment[failure.pod_set].attempts
                for number, attempt in enumerate(attempts):
                    if attempt.flavor == failure.flavor:
                        attempts[number] = attempt._replace(mode=NO_FIT, no_fit_reason="TopologyPlacementFailed")
                assignment.set_mode_of(failure.pod_set, NO_FIT)
            else:
                for placings in wanted.values():
                    for placing in placings:
                        assignment.set_mode_of(placing.name, PREEMPT)


def _merge_attempts(
    merged: dict[str, FlavorAttempt], attempts: list[FlavorAttempt], resource: str, group: FlavorGroup
) -> None:
    """Add what came of the flavors for one resource; a flavor that was not looked at for it does not provide it."""
    for attempt in attempts:
        before = merged.get(attempt.flavor)
        if before is not None:
            known = [held for held in (attempt.possibility, before.possibility) if held is not None]
            attempt = FlavorAttempt(
                attempt.flavor,
                min(attempt.mode, before.mode),
                max(attempt.borrow, before.borrow),
                min(known) if known else None,
                before.reasons + attempt.reasons,
                worse_reason(before.no_fit_reason, attempt.no_fit_reason),
            )
        merged[attempt.flavor] = attempt._replace(reasons=tuple(sorted(set(attempt.reasons))))
    seen = {attempt.flavor for attempt in attempts}
    for flavor, attempt in merged.items() if attempts else ():
        if flavor in group.flavors and flavor not in seen:
            reasons = {*attempt.reasons, f"flavor {flavor} does not provide resource {resource}"}
            merged[flavor] = attempt._replace(
                mode=NO_FIT, reasons=tuple(sorted(reasons)), no_fit_reason="NoMatchingFlavor"
            )


def _matches_affinity(spec: PodSpec, labels: Mapping[str, str]) -> bool:
    """Say whether a flavor's labels satisfy node selector and required affinity, as far as they name its keys.

    A term that names none of them is satisfied, and so is the whole affinity then, as terms are alternatives.
    """
    if any(labels[key] != wanted for key, wanted in spec.node_selector.items() if key in labels):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    if required is None:
        return True
    terms = [
        [Requirement(e.key, e.operator, e.values) for e in term.match_expressions if e.key in labels]
        for term in required.node_selector_terms
    ]
    if not all(terms) or not terms:
        return True
    try:
        for term in terms:
            for requirement in term:
                requirement.check()
    except SelectorError:
        return False
    return any(all(requirement.accepts(labels.get(requirement.key)) for requirement in term) for term in terms)


def wishes_topology(pod_set: PodSetSpec) -> bool:
    """Say whether a pod set asks for a place in a topology."""
    request = pod_set.topology_request
    return request is not None and any(request.get(wish) is not None for wish in _TOPOLOGY_WISHES)


def topology_requests(
    snapshot: CycleSnapshot, assignment: FlavorAssignment, info: WorkloadInfo
) -> dict[str, list[PodSetPlacing]]:
    """Return the pod sets that are to be placed, by flavor; those that cannot be asked about are marked as failed."""
    wanted: dict[str, list[PodSetPlacing]] = {}
    queue = snapshot.queue_of(info)
    for pod_set, needs in zip(info.spec.pod_sets, info.workload.needs, strict=True):
        is_explicit = wishes_topology(pod_set)
        if not is_explicit and not queue.is_topology_only:
            continue
        found = assignment[pod_set.name]
        if found.error or not found.count:
            continue
        if found.topology is not None and not _stands_on(found.topology, info.workload.unhealthy):
            continue
        known = [name for name in queue.topology_flavors if snapshot.topologies.knows(name)]
        flavors = sorted({choice.name for choice in found.flavors.values() if choice.name in known})
        if not known:
            assignment.fail(found, "workload requires Topology, but there is no TAS cache information")
        elif not flavors:
            assignment.fail(found, "no TAS flavor assigned")
        elif len(flavors) > 1:
            assignment.fail(found, f"more than one TAS flavor assigned: {', '.join(flavors)}")
        else:
            request = pod_set.topology_request or {}
            placing = PodSetPlacing(
                pod_set.name, needs.spec, request, found.count, needs.requests, is_implied=not is_explicit
            )
            wanted.setdefault(flavors[0], []).append(placing)
    return wanted


def _stands_on(topology: TopologyAssignment, nodes: Sequence[str]) -> bool:
    return bool(nodes) and any(values[-1] in nodes for values, _ in topology.domains)


def find_places(
    snapshot: CycleSnapshot,
    wanted: Mapping[str, Sequence[PodSetPlacing]],
    info: WorkloadInfo,
    *,
    as_if_free: bool = False,
) -> PodSetPlacements:
    """Look for the places of pod sets, in topologies as they are now or as if nothing ran there."""
    if not wanted:
        return PodSetPlacements({})
    admission = info.workload.admission
    assignments = {
        given.name: given.topology_assignment
        for given in (admission.pod_set_assignments if admission is not None else ())
        if given.topology_assignment is not None
    }
    workload = PlacedWorkload(info.workload.uid, info.workload.unhealthy, assignments)
    return snapshot.topologies.find(wanted, workload=workload, simulate_empty=as_if_free)


def take_places(assignment: FlavorAssignment, queue: QueueNode, info: WorkloadInfo, found: PodSetPlacements) -> None:
    """Write the places of pod sets into an assignment, as far as there are any."""
    for name, topology in found.placed.items():
        assignment[name].topology = topology
    assignment.placed = placed_beyond(assignment, queue, info, {})


def placed_beyond(
    assignment: FlavorAssignment, queue: QueueNode, info: WorkloadInfo, held: Mapping[str, TopologyAssignment]
) -> dict[str, list[DomainUsage]]:
    """Return the pods in domains, by flavor, beyond those that pod sets have there already."""
    placed: dict[str, list[DomainUsage]] = {}
    for pod_set in assignment.pod_sets:
        if pod_set.topology is None:
            continue
        flavors = {choice.name for choice in pod_set.flavors.values() if choice.name in queue.topology_flavors}
        if len(flavors) != 1:
            continue
        (flavor,) = flavors
        before = held.get(pod_set.name)
        counts = dict(before.domains) if before is not None else {}
        requests = info.one_pod(pod_set.name)
        for values, count in pod_set.topology.domains:
            more = count - counts.get(values, 0)
            if more > 0:
                placed.setdefault(flavor, []).append(DomainUsage(values, requests, more))
    return placed


def smaller_counts(pod_sets: Sequence[PodSetSpec], fits: Callable[[list[int]], bool]) -> bool:
    """Search for the least cut of all pod sets, in proportion to what each can spare, with which a workload fits.

    `fits` is asked with counts and remembers what it found; it is taken for granted that fewer pods fit better. Says
    whether the last counts with which it was true are the least cut.
    """
    full = [pod_set.count for pod_set in pod_sets]
    spare = [given.count - (given.min_count if given.min_count is not None else given.count) for given in pod_sets]
    total = sum(spare)
    if not total:
        return False
    low, high, good = 0, total + 1, 0
    while low < high:
        middle = (low + high) // 2
        if fits([count - own * middle // total for count, own in zip(full, spare, strict=True)]):
            high = good = middle
        else:
            low = middle + 1
    return low == good


def scaled_requests(snapshot: CycleSnapshot, assignment: FlavorAssignment, info: WorkloadInfo) -> dict[int, int]:
    """Return what a workload needs with the flavors and counts of an assignment; `pods` is not counted here."""
    amounts: dict[int, int] = {}
    for pod_set, found in zip(info.pod_sets, assignment.pod_sets, strict=False):
        scaled: PodSetRequests = pod_set.scaled_to(found.count)
        for resource, amount in scaled.requests.items():
            choice = found.flavors.get(resource)
            if amount and choice is not None:
                fr = snapshot.world.fr(choice.name, resource)
                amounts[fr] = amounts.get(fr, 0) + amount
    return amounts
