"""Kueue's API objects (`kueue.x-k8s.io/v1beta2`), as far as its decisions read them, and a workload as it changes.

Specs are frozen structs, decoded from plain JSON. `KueueWorkload` is the one object that changes here: its spec,
status and conditions; `WorkloadInfo` is what queues and caches keep of it, a view taken at one moment, which stays as
it is when the workload changes later. Source: `apis/kueue/v1beta2`, `pkg/workload/workload.go` (Info, requests, the
hash of equivalent workloads), `pkg/workload/resources.go`, `pkg/util/pod` (SpecShape).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from berth.api.codec import ObjectError, object_name, without_nulls
from berth.api.meta import LabelSelector, ObjectMeta, Struct
from berth.api.pod import Pod, PodSpec
from berth.api.pod_resources import pod_requests
from berth.api.quantity import Quantity, canonical, parse
from berth.api.read_only import EMPTY
from berth.api.taints import Taint, Toleration
from berth.api.untrusted import UNREADABLE, problem_of
from berth_kueue.amounts import amount_of, in_order
from berth_kueue.topology.placing import DomainUsage, read_assignment

PENDING, RESERVED, ADMITTED, FINISHED = range(4)
QUOTA_RESERVED, EVICTED, PREEMPTED, REQUEUED = "QuotaReserved", "Evicted", "Preempted", "Requeued"
_FINISHED, _ADMITTED = "Finished", "Admitted"
GATES = {
    "FairSharingPreemptWithinNominal": True,
    "FairSharingPrioritizeNonBorrowing": True,
    "FlavorFungibility": True,
    "FlavorFungibilityPreserveScanProgress": True,
    "PartialAdmission": True,
    "PrioritizePreemptorWorkloads": False,
    "PrioritySortingWithinCohort": True,
    "ReclaimablePods": True,
    "RecomputeAssignmentUponPreemptionTargetsOverlap": True,
    "SchedulingEquivalenceHashing": True,
    "TASFailedNodeReplacementFailFast": True,
    "TASRecomputeAssignmentWithinSchedulingCycle": True,
    "TopologyAwareScheduling": True,
}
"""The feature gates that are read here, with Kueue's defaults; those of topology are in `berth_kueue.topology`."""


class ResourceQuota(Struct, frozen=True):
    """One resource of a flavor in a ClusterQueue or Cohort."""

    name: str
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct, frozen=True):
    """One flavor of a resource group."""

    name: str
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Struct, frozen=True):
    """Resources that get their flavor together, and the flavors in the order in which they are tried."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class FairSharing(Struct, frozen=True):
    """spec.fairSharing of a ClusterQueue or Cohort."""

    weight: Quantity | None = None


class BorrowWithinCohort(Struct, frozen=True):
    """spec.preemption.borrowWithinCohort."""

    policy: str = "Never"
    max_priority_threshold: int | None = None


class QueuePreemption(Struct, frozen=True):
    """spec.preemption of a ClusterQueue."""

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_within_cohort: BorrowWithinCohort = BorrowWithinCohort()


class Fungibility(Struct, frozen=True):
    """spec.flavorFungibility of a ClusterQueue."""

    when_can_borrow: str = "MayStopSearch"
    when_can_preempt: str = "TryNextFlavor"
    preference: str | None = None


class ClusterQueueSpec(Struct, frozen=True):
    """spec of a ClusterQueue."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: LabelSelector | None = None
    flavor_fungibility: Fungibility = Fungibility()
    preemption: QueuePreemption = QueuePreemption()
    stop_policy: str = "None"
    fair_sharing: FairSharing = FairSharing()


class CohortSpec(Struct, frozen=True):
    """spec of a Cohort."""

    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing = FairSharing()


class LocalQueueSpec(Struct, frozen=True):
    """spec of a LocalQueue."""

    cluster_queue: str
    stop_policy: str = "None"


class FlavorSpec(Struct, frozen=True):
    """spec of a ResourceFlavor."""

    node_labels: Mapping[str, str] = EMPTY
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str | None = None


class TopologyLevel(Struct, frozen=True):
    """spec.levels[] of a Topology."""

    node_label: str


class TopologySpec(Struct, frozen=True):
    """spec of a Topology, from the widest level to the narrowest."""

    levels: tuple[TopologyLevel, ...]


class PodSetSpec(Struct, frozen=True):
    """spec.podSets[] of a Workload; template and topologyRequest stay as they are in JSON."""

    template: dict[str, Any]
    name: str = "main"
    count: int = 1
    min_count: int | None = None
    topology_request: dict[str, Any] | None = None


class KueueSpec(Struct, frozen=True):
    """spec of a Workload."""

    pod_sets: tuple[PodSetSpec, ...] = ()
    queue_name: str = ""
    active: bool = True
    priority: int = 0
    priority_class_ref: dict[str, Any] | None = None


class PodSetAdmission(Struct, frozen=True):
    """status.admission.podSetAssignments[]: the flavors and amounts of all pods of a set, and their domains if any."""

    name: str
    flavors: dict[str, str] = {}
    resource_usage: dict[str, Quantity] = {}
    count: int | None = None
    topology_assignment: Any = None


class QuotaAdmission(Struct, frozen=True):
    """status.admission."""

    cluster_queue: str
    pod_set_assignments: tuple[PodSetAdmission, ...] = ()


class _Condition(Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Counted(Struct, frozen=True):
    name: str
    count: int = 0


class _Status(Struct, frozen=True):
    admission: QuotaAdmission | None = None
    conditions: tuple[_Condition, ...] = ()
    reclaimable_pods: tuple[_Counted, ...] = ()
    unhealthy_nodes: tuple[_Counted, ...] = ()


class _Object(Struct, frozen=True):
    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def read(document: Mapping[str, Any], spec: type[Struct] | None = None) -> tuple[ObjectMeta, Any, dict[str, Any]]:
    """Return metadata, spec (as the struct that is named) and status of an object; raises `ObjectError`."""
    kind = str(document.get("kind", "object"))
    try:
        found = msgspec.convert(without_nulls(document), _Object)
        return found.metadata, msgspec.convert(found.spec, spec) if spec else None, found.status
    except UNREADABLE as error:
        raise ObjectError(kind, object_name(document), problem_of(error)) from error


def seconds_of(timestamp: str | None) -> float:
    """Return a timestamp of the API as seconds since 1970, 0 for none."""
    if not timestamp:
        return 0
    moment = datetime.fromisoformat(timestamp)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class StatusCondition(NamedTuple):
    """One of a workload's conditions, by its type."""

    is_true: bool
    reason: str
    message: str
    since: float


class TemplateNeeds(NamedTuple):
    """What one pod of a template asks for, and which templates count as the same."""

    spec: PodSpec
    requests: dict[str, int]
    shape: str


_SHAPED = ("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority", "topologySpreadConstraints")


def needs_of(template: Mapping[str, Any]) -> TemplateNeeds:
    """Return what a pod of the template asks for, where limits stand in for missing requests."""
    return _needs_of(msgspec.json.encode(template.get("spec") or {}, order="sorted"))


@lru_cache(maxsize=4096)
def _needs_of(encoded: bytes) -> TemplateNeeds:
    spec = without_nulls(msgspec.json.decode(encoded))
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ()), spec):
        _requests_from_limits(container.get("resources"))
    pod = msgspec.convert({"metadata": {}, "spec": spec}, Pod)
    shape: dict[str, Any] = {field: spec.get(field) or None for field in (*_SHAPED, "resourceClaims")}
    shape["overhead"] = _canonical_list(spec.get("overhead"))
    shape["resources"] = _canonical_list((spec.get("resources") or {}).get("requests"))
    for group in ("initContainers", "containers"):
        shape[group] = [
            (_canonical_list((made.get("resources") or {}).get("requests")), made.get("ports") or None)
            for made in spec.get(group, ())
        ]
    encoded_shape = msgspec.json.encode(shape, order="sorted").decode()
    return TemplateNeeds(pod.spec, in_order(pod_requests(pod)), encoded_shape)


def _requests_from_limits(resources: dict[str, Any] | None) -> None:
    if resources and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _canonical_list(quantities: Mapping[str, Quantity] | None) -> dict[str, str] | None:
    if not quantities:
        return None
    return {
        name: canonical(parse(given), is_binary=str(given).endswith("i"), is_exponential="e" in str(given).lower())
        for name, given in quantities.items()
    }


class KueueWorkload:
    """A Workload object as it stands now."""

    __slots__ = (
        "admission",
        "conditions",
        "created",
        "generation",
        "job_uid",
        "key",
        "name",
        "namespace",
        "needs",
        "reclaimable",
        "spec",
        "told_requests",
        "uid",
        "unhealthy",
    )

    def __init__(self, document: Mapping[str, Any]) -> None:
        """Read the object; raises `ObjectError`."""
        meta, spec, status_document = read(document, KueueSpec)
        self.namespace, self.name, self.uid = meta.namespace, meta.name, meta.uid
        self.key = f"{meta.namespace}/{meta.name}"
        self.created = seconds_of(meta.creation_timestamp)
        self.generation = meta.generation or 1
        self.job_uid = meta.labels.get("kueue.x-k8s.io/job-uid", "")
        self.set_spec(spec)
        try:
            status = msgspec.convert(status_document, _Status)
        except UNREADABLE as error:
            raise ObjectError("Workload", self.key, f"status: {problem_of(error)}") from error
        self.told_requests: list[tuple[str, dict[str, int]]] = []  # status.resourceRequests
        try:
            self.admission = _with_domains(status.admission)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"status.admission: a topologyAssignment cannot be read ({error!r})"
            raise ObjectError("Workload", self.key, problem) from error
        self.reclaimable = {counted.name: counted.count for counted in status.reclaimable_pods}
        self.unhealthy = tuple(node.name for node in status.unhealthy_nodes)
        self.conditions = {
            given.type: StatusCondition(
                given.status == "True", given.reason, given.message, seconds_of(given.last_transition_time)
            )
            for given in status.conditions
        }

    def copy(self) -> "KueueWorkload":
        """Return the same workload, to be changed on its own."""
        made = KueueWorkload.__new__(KueueWorkload)
        for slot in KueueWorkload.__slots__:
            setattr(made, slot, getattr(self, slot))
        made.conditions = dict(self.conditions)
        return made

    def set_spec(self, spec: KueueSpec) -> None:
        """Take over a spec; raises `ObjectError` where a template cannot be read."""
        try:
            self.needs = tuple(needs_of(pod_set.template) for pod_set in spec.pod_sets)
        except UNREADABLE as error:
            raise ObjectError("Workload", self.key, f"spec.podSets[].template.spec: {problem_of(error)}") from error
        self.spec = spec

    def has(self, condition: str) -> bool:
        """Say whether a condition is true."""
        found = self.conditions.get(condition)
        return found is not None and found.is_true

    @property
    def phase(self) -> int:
        """PENDING, RESERVED, ADMITTED or FINISHED."""
        if self.has(_FINISHED):
            return FINISHED
        if self.has(_ADMITTED):
            return ADMITTED
        return RESERVED if self.has(QUOTA_RESERVED) else PENDING

    @property
    def is_admissible(self) -> bool:
        """Say whether it may wait in a queue."""
        return self.spec.active and not self.has(QUOTA_RESERVED) and not self.has(_FINISHED)

    @property
    def holds_quota(self) -> bool:
        """Say whether its quota counts as used: reserved, not finished and not deactivated."""
        return self.has(QUOTA_RESERVED) and self.spec.active and not self.has(_FINISHED)

    def set(self, condition: str, is_true: bool, reason: str, message: str, now: float) -> bool:
        """Set a condition and say whether anything changed; its time is kept while its status is the same."""
        old = self.conditions.get(condition)
        since = old.since if old is not None and old.is_true == is_true else now
        new = StatusCondition(is_true, reason, message, since)
        self.conditions[condition] = new
        return new != old

    def sync_admitted(self, now: float) -> bool:
        """Bring the Admitted condition in line with QuotaReserved, as no admission checks are known here."""
        if QUOTA_RESERVED not in self.conditions and _ADMITTED not in self.conditions:
            return False
        if self.has(QUOTA_RESERVED):
            return self.set(_ADMITTED, True, "Admitted", "The workload is admitted", now)
        return self.set(_ADMITTED, False, "NoReservation", "The workload has no reservation", now)

    def unreserve(self, reason: str, message: str, now: float) -> bool:
        """Say that it has no quota, and why; whatever it held is given back."""
        changed = self.set(QUOTA_RESERVED, False, reason, message, now)
        if self.admission is not None:
            self.admission, changed = None, True
        return self.sync_admitted(now) or changed

    def reserve(self, admission: QuotaAdmission, now: float) -> None:
        """Give it quota, and admit it."""
        self.admission = admission
        self.set(QUOTA_RESERVED, True, QUOTA_RESERVED, f"Quota reserved in ClusterQueue {admission.cluster_queue}", now)
        for condition in (EVICTED, PREEMPTED):
            if self.has(condition):
                before = self.conditions[condition].message
                self.set(condition, False, QUOTA_RESERVED, f"Previously: {before}", now)
        self.sync_admitted(now)

    def queue_time(self, *, sorts_by_priority: bool) -> float:
        """Return the time by which it waits in line: when it was created, with few exceptions."""
        evicted = self.conditions.get(EVICTED)
        if evicted is not None and evicted.is_true and evicted.reason in ("PodsReadyTimeout", "AdmissionCheck"):
            return evicted.since
        if not sorts_by_priority:
            preempted = self.conditions.get(PREEMPTED)
            if preempted is not None and preempted.is_true and preempted.reason == "InCohortReclaimWhileBorrowing":
                return preempted.since + 0.001
        return self.created


def _with_domains(admission: QuotaAdmission | None) -> QuotaAdmission | None:
    """Return an admission as an API server has it with the domains of its topology assignments read."""
    if admission is None or all(given.topology_assignment is None for given in admission.pod_set_assignments):
        return admission
    assignments = tuple(
        msgspec.structs.replace(given, topology_assignment=read_assignment(given.topology_assignment))
        if given.topology_assignment is not None
        else given
        for given in admission.pod_set_assignments
    )
    return msgspec.structs.replace(admission, pod_set_assignments=assignments)


class PodSetRequests(NamedTuple):
    """A pod set as it is counted: all its pods together, with the flavors that it has been given, if any."""

    name: str
    pods: int
    requests: dict[str, int]
    flavors: Mapping[str, str]
    topology: Any = None

    def scaled_to(self, count: int) -> "PodSetRequests":
        """Return the same pod set with another number of pods; one that is placed already is kept as it is."""
        if self.topology is not None or not self.pods or self.pods == count:
            return self
        requests = {name: amount // self.pods * count for name, amount in self.requests.items()}
        return PodSetRequests(self.name, count, requests, self.flavors)


class LastTried(NamedTuple):
    """Where the search for flavors ended, a map of resource to index for each pod set; -1 is the last flavor."""

    indexes: tuple[dict[str, int], ...]
    generation: int
    cycle: int
    shape: str | None

    @property
    def has_pending_flavors(self) -> bool:
        """Say whether flavors are left that the search did not reach."""
        return any(index != -1 for tried in self.indexes for index in tried.values())

    def is_of_shape(self, shape: str | None) -> bool:
        """Say whether it describes a workload of this shape; an unknown one is any."""
        return self.shape is None or shape is None or self.shape == shape


class WorkloadInfo:
    """What queues and caches keep of a workload: its requests, its place in line, and what it was when it was taken."""

    __slots__ = (
        "amounts",
        "cluster_queue",
        "evaluated_generation",
        "evicted",
        "generation",
        "is_admitted",
        "is_evicted",
        "is_placed",
        "key",
        "last_tried",
        "line",
        "pass_iteration",
        "pod_sets",
        "priority",
        "queue_time",
        "rank",
        "reclaimable",
        "requeued",
        "shape",
        "spec",
        "workload",
    )

    def __init__(self, workload: KueueWorkload, gates: Mapping[str, bool]) -> None:
        self.workload = workload
        self.key = workload.key
        self.last_tried: LastTried | None = None
        self.evaluated_generation = 0
        self.pass_iteration = 0
        self.amounts: dict[int, int] = {}
        """What it holds, by flavor-resource; the world fills it in."""
        self.refresh(gates)

    def copy(self) -> "WorkloadInfo":
        """Return the same, to be changed on its own; the workload is the same object."""
        made = WorkloadInfo.__new__(WorkloadInfo)
        for slot in WorkloadInfo.__slots__:
            setattr(made, slot, getattr(self, slot))
        return made

    def refresh(self, gates: Mapping[str, bool]) -> None:
        """Take the workload's state as it is now; where the last search ended is kept."""
        workload = self.workload
        conditions = workload.conditions
        self.spec, self.reclaimable, self.generation = workload.spec, workload.reclaimable, workload.generation
        self.evicted, self.requeued = conditions.get(EVICTED), conditions.get(REQUEUED)
        self.is_evicted = self.evicted is not None and self.evicted.is_true
        self.is_admitted = workload.has(_ADMITTED)
        self.priority = workload.spec.priority
        self.queue_time = workload.queue_time(sorts_by_priority=gates["PrioritySortingWithinCohort"])
        reserved = conditions.get(QUOTA_RESERVED)
        since = reserved.since if reserved is not None and reserved.is_true else 0.0
        self.rank = (not self.is_evicted, self.priority, -since, workload.uid)
        """What those that hold quota are sorted by, the first to be preempted first."""
        self.cluster_queue = workload.admission.cluster_queue if workload.admission is not None else ""
        self.pod_sets = _pod_sets(workload, counts_reclaimable=gates["ReclaimablePods"])
        self.is_placed = any(pod_set.topology is not None for pod_set in self.pod_sets)
        self.shape = _shape(workload, self.pod_sets) if gates["SchedulingEquivalenceHashing"] else None
        self.line = (-self.priority, self.queue_time, workload.uid)

    def placed_usage(self) -> dict[str, list[DomainUsage]]:
        """Return what its pods use of topology domains, by flavor."""
        placed: dict[str, list[DomainUsage]] = {}
        if not self.is_placed:
            return placed
        for pod_set in self.pod_sets:
            if pod_set.topology is None:
                continue
            requests = self.one_pod(pod_set.name)
            for flavor in dict.fromkeys(pod_set.flavors.values()):
                placed.setdefault(flavor, []).extend(
                    DomainUsage(values, requests, count) for values, count in pod_set.topology.domains
                )
        return placed

    def one_pod(self, pod_set: str) -> dict[str, int]:
        """Return what one pod of a set requests."""
        named = zip(self.spec.pod_sets, self.workload.needs, strict=True)
        return next((needs.requests for spec, needs in named if spec.name == pod_set), {})


def _pod_sets(workload: KueueWorkload, *, counts_reclaimable: bool) -> tuple[PodSetRequests, ...]:
    spec, admission = workload.spec, workload.admission
    left = {pod_set.name: pod_set.count for pod_set in spec.pod_sets}
    if counts_reclaimable and workload.reclaimable:
        left = {name: count - min(workload.reclaimable.get(name, 0), count) for name, count in left.items()}
    if admission is not None:
        counts = {pod_set.name: pod_set.count for pod_set in spec.pod_sets}
        return tuple(_admitted(given, counts, left) for given in admission.pod_set_assignments)
    return tuple(
        PodSetRequests(
            pod_set.name,
            left[pod_set.name],
            {name: max(amount, 0) * left[pod_set.name] for name, amount in needs.requests.items()},
            EMPTY,
        )
        for pod_set, needs in zip(spec.pod_sets, workload.needs, strict=True)
    )


def _admitted(given: PodSetAdmission, counts: Mapping[str, int], left: Mapping[str, int]) -> PodSetRequests:
    count = given.count if given.count is not None else counts.get(given.name, 0)
    requests = in_order({name: amount_of(name, amount) for name, amount in given.resource_usage.items()})
    remaining = left.get(given.name, 0)
    if remaining < count:
        requests = {name: amount // count * remaining for name, amount in requests.items()}
        count = remaining
    return PodSetRequests(given.name, count, requests, given.flavors, given.topology_assignment)


def _shape(workload: KueueWorkload, pod_sets: Iterable[PodSetRequests]) -> str:
    parts = [str(workload.spec.priority)]
    for pod_set, needs, counted in zip(workload.spec.pod_sets, workload.needs, pod_sets, strict=False):
        request = pod_set.topology_request
        wish = msgspec.json.encode(request, order="sorted").decode() if request else ""
        parts += (pod_set.name, needs.shape, str(counted.pods), repr(counted.requests), str(pod_set.min_count), wish)
    return "\n".join(parts)
