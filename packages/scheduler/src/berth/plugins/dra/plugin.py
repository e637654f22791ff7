"""DynamicResources: devices for pods, by way of resource claims.

Upstream plugin `DynamicResources`, v1.36. PreFilter collects the pod's claims, Filter looks for devices on each node
(`allocator.py`), Score prefers early alternatives, Reserve takes what was found (`ledger.py`), PreBind writes it and
waits until devices are ready (`binding.py`), PostFilter gives back an allocation that keeps the pod from running.
Deviations: what Unreserve would undo at the API server is left to the pod's next attempt, which PostFilter serves;
claims are written as patches that a newer state of the claim refuses. Clocks are read for two things only: how long
the search on a node computes (a machine that is busy with something else must not change a decision), and how old an
allocation is whose devices are not ready.
"""

import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from math import ceil
from typing import Any, ClassVar, NamedTuple, final

import msgspec
import numpy as np

from berth.api.dra import DeviceClass, DeviceRequest, ResourceClaim
from berth.api.node import Node
from berth.api.pod import Container
from berth.config.durations import Duration
from berth.config.errors import forbidden, invalid
from berth.config.feature_gates import FeatureGates
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Steps
from berth.framework.events import ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    NormalizeScorePlugin,
    PostFilterAnswer,
    PostFilterPlugin,
    PreBindPlugin,
    PreBindPreFlightPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    Rows,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    VersionedPreFilterPlugin,
)
from berth.framework.promises import Promises
from berth.framework.status import SKIP, Status, error, unresolvable, unschedulable
from berth.framework.work_budget import STEPS_PER_NODE, STEPS_PER_SECOND, OutOfBudgetError, WorkBudget
from berth.plugins.dra.allocator import (
    AllocationGivenUpError,
    AllocationTimeoutError,
    Allocator,
    DeviceRoom,
    InvalidPoolsError,
)
from berth.plugins.dra.cel import Selectors
from berth.plugins.dra.claim_writes import ClaimBinder
from berth.plugins.dra.claims import ClaimsMissingError, claims_of, is_used_by_others
from berth.plugins.dra.devices import Inventory
from berth.plugins.dra.extended import (
    STALE_CLAIM,
    NodeClaim,
    ResourceClasses,
    claim_for,
    from_devices,
    is_in_memory,
    node_claim,
    unfit_reason,
)
from berth.plugins.dra.hints import ClaimHints
from berth.plugins.dra.ledger import Ledger
from berth.plugins.dra.outcomes import KeptOutcomes, NodeAllocation, NodeOutcome, Outcomes
from berth.plugins.dra.readiness import has_failed, has_timed_out, is_ready
from berth.plugins.dra.refusals import ClaimReport, Refusal, report_of
from berth.plugins.dra.requests import EXACT_COUNT, AllocationError, Ask, Gates, asks_of, claim_key
from berth.plugins.dra.results import allocation_of
from berth.plugins.dra.scores import allocation_score, has_alternatives
from berth.plugins.dra.state import StateData
from berth.plugins.normalize import default_normalize
from berth.plugins.resources.devices import KIND as DEVICE_CLASS
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, PodInfo
from berth.state.table import NodeTable

EVERY_ROW = slice(None)
SLICE = "ResourceSlice"
RULE = "DeviceTaintRule"

NO_CLAIMS = "no new claims to deallocate"
STILL_NOT_SCHEDULABLE = "still not schedulable"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
NOT_FOUND = "not found"
BEING_ALLOCATED = "resource claim {claim} is in the process of being allocated"
NO_CLASS = "request {request}: device class {name} does not exist"
NO_LISTS = "resource claim {claim}, request {request}: has subrequests, but the DRAPrioritizedList feature is disabled"
UNKNOWN_REQUEST = "resource claim {claim}, request {request}: unknown request type"
UNSUPPORTED_REQUEST = "request {request}: unsupported request type"
CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"
TIMED_OUT = "node {node}: timed out trying to allocate devices"
GIVEN_UP = "node {node}: gave up looking for devices, since there are too many ways to satisfy the claims in part"
NO_ALLOCATION = "claim allocation not found for node"

MIN_BINDING_TIMEOUT_S = 1.0
DEFAULT_FILTER_TIMEOUT, DEFAULT_BINDING_TIMEOUT = Duration(10), Duration(600)

FILTER_TIMEOUT_GATE = "DRASchedulerFilterTimeout"
BINDING_TIMEOUT_GATES = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")


def _binds_conditions(gates: FeatureGates) -> bool:
    return all(gates.enabled(gate) for gate in BINDING_TIMEOUT_GATES)


class DynamicResourcesArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long the search on one node may take (0: no limit), and how long devices may take to be bound.

    Each exists only while its feature gates are on, and is None while they are off.
    """

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None

    def gate_faults(self, path: str, gates: FeatureGates) -> Iterable[str]:
        """Refuse a timeout whose gates are off."""
        if self.filter_timeout is not None and not gates.enabled(FILTER_TIMEOUT_GATE):
            yield forbidden(f"{path}.filterTimeout", f"{FILTER_TIMEOUT_GATE} feature gate is disabled")
        if self.binding_timeout is not None and not _binds_conditions(gates):
            detail = f"{' or '.join(BINDING_TIMEOUT_GATES)} feature gate is disabled"
            yield forbidden(f"{path}.bindingTimeout", detail)

    def defaulted_by_gates(self, gates: FeatureGates) -> "DynamicResourcesArgs":
        """Fill in 10 and 600 seconds where the gates are on."""
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates.enabled(FILTER_TIMEOUT_GATE):
            filter_timeout = DEFAULT_FILTER_TIMEOUT
        if binding_timeout is None and _binds_conditions(gates):
            binding_timeout = DEFAULT_BINDING_TIMEOUT
        return DynamicResourcesArgs(filter_timeout, binding_timeout)

    def validate(self, path: str) -> Iterable[str]:
        """Refuse timeouts that make no sense."""
        if self.filter_timeout is not None and self.filter_timeout < 0:
            yield invalid(f"{path}.filterTimeout", str(self.filter_timeout), "must be zero or positive")
        if self.binding_timeout is not None and self.binding_timeout < MIN_BINDING_TIMEOUT_S:
            yield invalid(f"{path}.bindingTimeout", str(self.binding_timeout), "must be at least 1 second")


class DeviceShortage(NamedTuple):
    """A request of a claim that no node has enough devices for."""

    request: str
    """`namespace/claim/request`."""
    device_class: str
    selectors: tuple[str, ...]
    """What the request asks of devices beside the class."""
    needed: int
    node: str
    """The one of the nodes that has most."""
    room: DeviceRoom


@final
class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    VersionedPreFilterPlugin,
    FilterPlugin,
    ColumnFilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ColumnScorePlugin,
    NormalizeScorePlugin,
    ReservePlugin,
    PreBindPreFlightPlugin,
    PreBindPlugin,
    SignaturePlugin,
    EventsPlugin,
):
    """PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind."""

    name: ClassVar[str] = "DynamicResources"
    promises: ClassVar[Promises] = Promises(
        score_depends_on=frozenset(),
        idle_after_skip=True,
        ignores=frozenset({LABELS}),
        pre_filter_has_version=True,
    )
    args_type: ClassVar[type[msgspec.Struct]] = DynamicResourcesArgs

    def __init__(
        self,
        args: DynamicResourcesArgs,
        handle: Handle,
        *,
        wall_clock: Callable[[], float] | None = None,
    ) -> None:
        wall_clock = wall_clock or handle.wall_clock
        enabled = handle.features.enabled
        self._handle = handle
        args = args.defaulted_by_gates(handle.features)
        self._step_limit = ceil(float(args.filter_timeout or 0) * STEPS_PER_SECOND)
        self._binding_timeout_s = float(args.binding_timeout or 0)
        self._gates = Gates(
            admin_access=enabled("DRAAdminAccess"),
            prioritized_list=enabled("DRAPrioritizedList"),
            partitionable_devices=enabled("DRAPartitionableDevices"),
            device_taints=enabled("DRADeviceTaints"),
            binding_conditions=_binds_conditions(handle.features),
            consumable_capacity=enabled("DRAConsumableCapacity"),
        )
        self._classes = ResourceClasses(handle.objects, enabled("DRAExtendedResource"))
        self._ledger = Ledger(handle.objects, self._gates.consumable_capacity)
        self._selectors = Selectors()
        self._outcomes = Outcomes()
        self._inventory = Inventory(self._gates.partitionable_devices)
        self._slices_version = -1
        self._binder = ClaimBinder(
            handle, self._ledger, self._gates.binding_conditions, self._binding_timeout_s, wall_clock
        )
        self._has_rules = self._gates.device_taints and enabled("DRADeviceTaintRules")
        self._hints = ClaimHints(self._ledger, self._has_rules)
        self._wall_clock = wall_clock

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that may make devices available, or bring a missing claim."""
        return self._hints.registrations()

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Return nothing for pods with claims, whose columns are never kept; all others score 0 everywhere."""
        return None if pod.spec.resource_claims else ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold a pod back whose claims are not there yet."""
        try:
            claims_of(pod, self._ledger)
        except ClaimsMissingError as missing:
            return unresolvable(str(missing))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Collect the pod's claims; skip pods without claims, reject pods that cannot run anywhere at present."""
        pod_state = StateData()
        state.write(self.name, pod_state)
        try:
            claims = claims_of(pod, self._ledger)
        except ClaimsMissingError as missing:
            return unresolvable(str(missing))
        wanted = self._classes.backed(pod)
        if not claims and not wanted:
            return SKIP
        extended = claim_for(pod, self._ledger) if wanted else None
        for claim in claims:
            refused = self._refused(claim)
            if refused is not None:
                return refused
        pod_state.claims = [*claims, extended] if extended is not None else claims
        pod_state.extended = len(claims) if extended is not None else None
        pod_state.wanted = wanted
        to_allocate = [claim for _, claim in pod_state.to_allocate()]
        if to_allocate:
            pod_state.allocator = self._allocator(state.work)
            containers = (*pod.spec.init_containers, *pod.spec.containers) if extended is not None else ()
            pod_state.outcomes = self._known(to_allocate, containers)
        return None

    def pre_filter_version(self, pod: PodInfo) -> int | None:
        """Skip pods without claims until a device class may offer what they request."""
        return None if pod.spec.resource_claims else self._handle.objects.version(DEVICE_CLASS)

    def _known(self, claims: list[ResourceClaim], containers: Sequence[Container]) -> KeptOutcomes:
        """Return what earlier searches for the same have found."""
        versions = self._slices_version, self._handle.objects.version(DEVICE_CLASS)
        return self._outcomes.of(claims, containers, versions, self._ledger.allocated(), self._inventory)

    def _refused(self, claim: ResourceClaim) -> Status | None:
        """Say why a claim cannot be allocated anywhere, if so."""
        if claim.status.allocation is not None:
            return None
        if self._ledger.is_pending(claim.metadata.uid):
            return unresolvable(BEING_ALLOCATED.format(claim=claim_key(claim)))
        for request in claim.spec.devices.requests:
            where = {"claim": claim_key(claim), "request": request.name}
            if request.exactly is not None:
                status = self._class_missing(request.exactly.device_class_name, request.name)
                if status is not None:
                    return status
            elif not request.first_available:
                return unresolvable(UNKNOWN_REQUEST.format(**where))
            elif not self._gates.prioritized_list:
                return unresolvable(NO_LISTS.format(**where))
            for alternative in request.first_available:
                status = self._class_missing(alternative.device_class_name, f"{request.name}/{alternative.name}")
                if status is not None:
                    return status
        return None

    def _class_missing(self, class_name: str, request: str) -> Status | None:
        if not class_name:
            return error(UNSUPPORTED_REQUEST.format(request=request))
        if self._class_of(class_name) is None:
            return unresolvable(NO_CLASS.format(request=request, name=class_name))
        return None

    def _class_of(self, name: str) -> DeviceClass | None:
        found: DeviceClass | None = self._handle.objects.get(DEVICE_CLASS, name)
        return found

    def _allocator(self, work: WorkBudget) -> Allocator:
        objects = self._handle.objects
        version = objects.version(SLICE) + (objects.version(RULE) if self._has_rules else 0)  # both only grow
        if version != self._slices_version:
            self._slices_version = version
            rules = sorted(objects.list(RULE), key=lambda rule: rule.metadata.name) if self._has_rules else ()
            self._inventory.update(objects.list(SLICE), rules)
        allocated = self._ledger.allocated()
        return Allocator(self._gates, allocated, self._class_of, self._selectors, self._step_limit, work)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject a node that cannot reach the allocated claims, or lacks devices for the others."""
        pod_state: StateData | None = state.get(self.name)
        if pod_state is None:
            return error(NOT_FOUND)
        if pod_state.is_empty:
            return None
        extended, status = self._extended_on(pod_state, pod, node)
        if status is not None:
            return status
        if extended is None and not pod_state.has_user_claims:
            return None  # the node has the resources without devices
        unavailable = [
            index for index, claim in enumerate(pod_state.claims) if not self._is_available(claim, node.node)
        ]
        if pod_state.allocator is not None:
            found, status = self._found_on(pod_state, node.node, extended)
            if status is not None:
                return status
            if not unavailable:
                pod_state.by_node[node.name] = NodeAllocation(found, extended)
        if unavailable:
            pod_state.unavailable[node.name] = unavailable
            return unresolvable(NOT_AVAILABLE)
        return None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return codes, int32 (len(rows),). Costs as many steps of work as asking about each node."""
        nodes = int(np.count_nonzero(table.valid[rows]))
        state.work.spend(self.name, STEPS_PER_NODE * nodes, lambda: "which filters node by node")
        pod_state: StateData | None = state.get(self.name)
        outcomes = None if pod_state is None else pod_state.shared_outcomes
        if pod_state is None or outcomes is None or not (isinstance(rows, slice) and rows == EVERY_ROW):
            return self._node_by_node(state, pod, table, rows)

        def search(row: int) -> tuple[NodeAllocation | None, Status | None]:
            found, status = self._found_on(pod_state, table.node(row), None)
            return (NodeAllocation(found, None), None) if status is None else (None, status)

        codes, statuses, pod_state.by_node = outcomes.column(table, search)
        return FilterColumn(codes, lambda code: statuses[code - 1])

    def _node_by_node(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        asked = np.arange(table.capacity)[rows].tolist()
        said = [self.filter(state, pod, table.view(row)) if table.valid[row] else None for row in asked]
        statuses = list(dict.fromkeys(status for status in said if status is not None))
        code_of: dict[Status | None, int] = {status: code for code, status in enumerate(statuses, start=1)}
        codes = np.array([code_of.get(status, 0) for status in said], dtype=np.int32)
        return FilterColumn(codes, lambda code: statuses[code - 1])

    def _extended_on(
        self, pod_state: StateData, pod: PodInfo, node: NodeView
    ) -> tuple[NodeClaim | None, Status | None]:
        """Return the claim for extended resources as it is for a node; None where the node needs none."""
        claim = pod_state.extended_claim
        if claim is None:
            return None, None
        if claim.spec.devices.requests:
            return None, unresolvable(STALE_CLAIM)  # of an earlier attempt: PostFilter will delete it
        reason = unfit_reason(pod_state.wanted, self._classes, node)
        if reason:
            return None, unresolvable(reason)
        resources = from_devices(pod_state.wanted, self._classes, node)
        if not resources and not pod_state.has_user_claims:
            return None, None
        key = tuple(resources.items())
        found = pod_state.node_claims.get(key)
        if found is None:
            found = pod_state.node_claims[key] = node_claim(claim, pod, resources)
        return found, None

    def _is_available(self, claim: ResourceClaim, node: Node) -> bool:
        """Say whether an allocated claim can be used from a node and has not failed; any other can."""
        allocation = claim.status.allocation
        if allocation is None:
            return True
        selector = allocation.node_selector
        if selector is not None and not selector.matches(node.metadata.labels, node.metadata.name):
            return False
        if not self._gates.binding_conditions:
            return True
        if has_failed(claim):
            return False
        return is_ready(claim) or not has_timed_out(claim, self._wall_clock(), self._binding_timeout_s)

    def _found_on(
        self, pod_state: StateData, node: Node, extended: NodeClaim | None
    ) -> tuple[tuple[Any, ...], Status | None]:
        known = pod_state.outcomes.by_node.get(node.metadata.name) if pod_state.outcomes is not None else None
        if known is not None and known.node is node:
            return _told(known)
        claims = [
            extended.claim if index == pod_state.extended and extended is not None else claim
            for index, claim in pod_state.to_allocate()
        ]
        assert pod_state.allocator is not None, "called where there is something to allocate"
        problem = ""
        try:
            found = pod_state.allocator.allocate(node, self._inventory.pools(node), claims)
        except AllocationGivenUpError:
            found, problem = None, GIVEN_UP.format(node=node.metadata.name)
        except AllocationTimeoutError:
            return (), error(TIMED_OUT.format(node=node.metadata.name))  # as an error it needs no event for a retry
        except InvalidPoolsError as broken:
            return (), unresolvable(str(broken))
        except AllocationError as fault:
            return (), error(str(fault))
        outcome = NodeOutcome(node, found, problem)
        if pod_state.outcomes is not None:
            pod_state.outcomes.by_node[node.metadata.name] = outcome
        return _told(outcome)

    def shortages(self, pod: PodInfo, nodes: Sequence[Node], work: WorkBudget) -> list[DeviceShortage]:
        """Return the requests of a pod's claims that none of these nodes has enough devices for, and the best of them.

        For people: as things are now, and by the search itself. Nothing where that would take more work than is left.
        """
        try:
            claims = [claim for claim in claims_of(pod, self._ledger) if claim.status.allocation is None]
            allocator = self._allocator(work)
            asked = [(claim, request) for claim in claims for request in claim.spec.devices.requests]
            told = (self._shortage(allocator, claim, request, nodes) for claim, request in asked)
            return [each for each in told if each is not None]
        except (ClaimsMissingError, AllocationError, AllocationGivenUpError, AllocationTimeoutError, OutOfBudgetError):
            return []

    def _shortage(
        self, allocator: Allocator, claim: ResourceClaim, request: DeviceRequest, nodes: Sequence[Node]
    ) -> DeviceShortage | None:
        asked = request.exactly
        if asked is None or asked.allocation_mode != EXACT_COUNT:
            return None
        pools = self._inventory.pools
        at_most = [(allocator.most_for(node, pools(node), claim, request), node) for node in nodes]
        best: tuple[DeviceRoom, Node] | None = None
        # From the most promising node on: once one has as much as the next could have at most, none has more.
        for most, node in sorted(at_most, key=lambda each: each[0], reverse=True):
            if best is not None and best[0] >= most:
                break
            try:
                room = allocator.room_for(node, pools(node), claim, request, most)
            except InvalidPoolsError:
                continue
            if room.free >= asked.count:
                return None
            if best is None or room > best[0]:
                best = room, node
        if best is None:
            return None
        room, node = best
        texts = tuple(each.cel.expression for each in asked.selectors if each.cel is not None)
        name = f"{claim_key(claim)}/{request.name}"
        return DeviceShortage(name, asked.device_class_name, texts, asked.count, node.metadata.name, room)

    def report(self, claim: ResourceClaim, nodes: Sequence[Node], work: WorkBudget) -> ClaimReport:
        """Return what devices some nodes have for a claim, for people: by the search, and device by device."""
        key, allocation = claim_key(claim), claim.status.allocation
        if allocation is not None:
            devices = tuple(f"{each.driver}/{each.pool}/{each.device}" for each in allocation.devices.results)
            return ClaimReport(key, len(nodes), allocated=devices)
        refused = self._refused(claim)
        if refused is not None:
            return ClaimReport(key, 0, problem=refused.message)
        allocator, pools = self._allocator(work), self._inventory.pools

        def why_not(node: Node, ask: Ask) -> Iterator[tuple[str, Refusal | None]]:
            said = allocator.why_not(node, pools(node), claim, ask)
            return ((str(device.id), refusal) for device, refusal in said)

        def fits(node: Node, asked: ResourceClaim) -> bool:
            try:
                return allocator.allocate(node, pools(node), [asked]) is not None
            except InvalidPoolsError:
                return False

        try:
            asks = [
                ask
                for request in claim.spec.devices.requests
                for ask in asks_of(claim, request, self._gates, self._class_of)
            ]
            ends = (AllocationGivenUpError, AllocationTimeoutError, OutOfBudgetError)
            return report_of(claim, nodes, asks, why_not, fits, ends)
        except AllocationError as fault:
            return ClaimReport(key, len(nodes), problem=str(fault))

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]:
        """Give back an allocation that only this pod uses and that keeps it from running."""
        pod_state: StateData | None = state.get(self.name)
        if self.name in state.skip_filter or (pod_state is not None and pod_state.is_empty):
            return None, unschedulable(NO_CLAIMS)
        if pod_state is None:
            return None, error(NOT_FOUND)
        for index in self._in_the_way(pod_state, diagnosis):
            claim = pod_state.claims[index]
            if index != pod_state.extended and not is_used_by_others(pod, claim):
                return self._giving_back(self._binder.deallocate(claim), DEALLOCATED)
        extended = pod_state.extended_claim
        if extended is not None and not is_in_memory(extended):
            return self._giving_back(self._binder.delete(extended), DELETED)
        return None, unschedulable(STILL_NOT_SCHEDULABLE)

    def _in_the_way(self, pod_state: StateData, diagnosis: Diagnosis) -> list[int]:
        """Return the allocated claims that a node rejected by this plugin cannot reach, or whose devices have failed.

        All nodes were asked about them; upstream asks where no earlier filter has refused the pod.
        """
        if not pod_state.unavailable:
            return []
        refused = (name for name, status in diagnosis.node_statuses.items() if status.plugin == self.name)
        return sorted({index for name in refused for index in pod_state.unavailable.get(name, ())})

    def _giving_back(self, steps: Steps[str], done: str) -> Steps[PostFilterAnswer]:
        problem = yield from steps
        return None, error(problem) if problem else unschedulable(done)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Prefer nodes that can satisfy early alternatives of lists."""
        pod_state: StateData | None = state.get(self.name)
        if pod_state is None or not self._gates.prioritized_list:
            return 0
        allocation = pod_state.by_node.get(node.name)
        return 0 if allocation is None else allocation_score(pod_state.claims, allocation.found)

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Say the same of many rows."""
        scores: Scores = np.zeros(len(table.valid[rows]), dtype=np.int64)
        pod_state: StateData | None = state.get(self.name)
        if pod_state is None or not self._gates.prioritized_list or not has_alternatives(pod_state.claims):
            return scores
        for at, row in enumerate(np.arange(table.capacity)[rows].tolist()):
            allocation = pod_state.by_node.get(table.names[row])
            if allocation is not None:
                scores[at] = allocation_score(pod_state.claims, allocation.found)
        return scores

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Scale to 100."""
        return default_normalize(scores)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take the devices found on the node, before the API server knows."""
        pod_state: StateData | None = state.get(self.name)
        if pod_state is None or pod_state.is_empty or pod_state.allocator is None:
            return None
        chosen = pod_state.by_node.get(node_name)
        if chosen is None or not chosen.found:
            user_claims = any(index != pod_state.extended for index, _ in pod_state.to_allocate())
            return error(NO_ALLOCATION) if user_claims else None
        pod_state.mappings = chosen.node_claim
        for (index, claim), found in zip(pod_state.to_allocate(), chosen.found, strict=True):
            wanted = chosen.node_claim.claim if index == pod_state.extended and chosen.node_claim else claim
            allocation = allocation_of(
                wanted,
                found,
                node_name,
                binding_conditions=self._gates.binding_conditions,
                new_share_id=self._new_share_id,
            )
            status = msgspec.structs.replace(wanted.status, allocation=allocation)
            pod_state.allocations[index] = allocation
            pod_state.reserved_uids[index] = claim.metadata.uid
            self._ledger.reserve(msgspec.structs.replace(wanted, status=status))
        return None

    def _new_share_id(self) -> str:
        return str(uuid.UUID(int=self._handle.rng.getrandbits(128), version=4))

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give back what was taken and has not been written."""
        pod_state: StateData | None = state.get(self.name)
        if pod_state is not None:
            for uid in pod_state.reserved_uids.values():
                self._ledger.release(uid)
            pod_state.allocations.clear()
            pod_state.reserved_uids.clear()

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Skip pods without claims; nothing that is written for the others concerns other plugins."""
        pod_state: StateData | None = state.get(self.name)
        return SKIP if pod_state is None or pod_state.is_empty else PreBindPreFlightResult(allow_parallel=True)

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | Steps[Status | None] | None:
        """Write allocations and reservations, and wait until the devices are ready."""
        pod_state: StateData | None = state.get(self.name)
        if pod_state is None or pod_state.is_empty:
            return None
        return self._binder.bind(pod_state, pod, node_name)


def _told(outcome: NodeOutcome) -> tuple[tuple[Any, ...], Status | None]:
    if outcome.problem:
        return (), error(outcome.problem)  # as an error it needs no event for a retry
    return ((), unresolvable(CANNOT_ALLOCATE)) if outcome.found is None else (outcome.found, None)
