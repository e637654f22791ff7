"""Which volumes a pod would get on a node, from claims, volumes and classes as they are or are assumed to be.

`PodClaims` is made once for each attempt; `PodVolumes` for a node, when the node is asked about and again when it is
chosen. Reasons are those of upstream's `VolumeBinding`, v1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from berth.api.node_selector import NodeSelector
from berth.api.quantity import parse, value
from berth.api.selectors import compile_selector
from berth.api.storage import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from berth.framework.readers import ObjectReader
from berth.framework.status import Status, error, unresolvable
from berth.plugins.volumes.claims import (
    CLAIM,
    CLAIM_NOT_FOUND,
    CLASS,
    NO_BINDING_MODE,
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    VOLUME,
    WAIT_FOR_FIRST_CONSUMER,
    claim_name,
    class_name_of,
    is_fully_bound,
    ownership_fault,
    requested,
)
from berth.plugins.volumes.migration import is_migrated_on, migrated_affinity, plugin_of
from berth.plugins.volumes.volume_index import Offer, VolumeIndex, affinity_as_stored
from berth.state.pod_info import PodInfo

REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"

LOST = "Lost"


class NodeForVolumes(NamedTuple):
    """A node as far as volumes go."""

    name: str
    labels: Mapping[str, str]


class ClaimToBind(NamedTuple):
    """A claim that waits for its first consumer, and what it may get; None where its node was chosen before."""

    claim: PersistentVolumeClaim
    offer: Offer | None


class PodClaims(NamedTuple):
    """A pod's claims: those bound, and those to be bound, smallest first."""

    bound: tuple[PersistentVolumeClaim, ...]
    to_bind: tuple[ClaimToBind, ...]


class Binding(NamedTuple):
    """A claim, and the volume it is to get."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class Provision(NamedTuple):
    """A claim for which a volume is to be made, and the capacity it is to be taken from, where the driver tells."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None


class PodVolumes(NamedTuple):
    """What a pod's unbound claims would get on one node."""

    bindings: tuple[Binding, ...] = ()
    provisions: tuple[Provision, ...] = ()


class _Refused(NamedTuple):
    reason: str


def check_claims(objects: ObjectReader, pod: PodInfo) -> Status | None:
    """Return why a pod's claims cannot be used at all, or None."""
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        claim: PersistentVolumeClaim | None = objects.get(CLAIM, name, pod.namespace)
        if claim is None:
            made = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return unresolvable(made if volume.ephemeral is not None else CLAIM_NOT_FOUND.format(name))
        fault = _fault(pod, claim, made_for_pod=volume.ephemeral is not None)
        if fault:
            return unresolvable(fault)
    return None


def _fault(pod: PodInfo, claim: PersistentVolumeClaim, *, made_for_pod: bool) -> str:
    name = claim.metadata.name
    if claim.status.phase == LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return ownership_fault(pod, claim) if made_for_pod else ""


def claims_of(objects: ObjectReader, index: VolumeIndex, pod: PodInfo) -> PodClaims | Status:
    """Divide a pod's claims into bound and unbound; a rejection where one should have been bound already."""
    bound: list[PersistentVolumeClaim] = []
    waiting: list[PersistentVolumeClaim] = []
    immediate = False
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        claim: PersistentVolumeClaim = cast("Any", objects.latest(CLAIM, name, pod.namespace))
        if is_fully_bound(claim):
            bound.append(claim)
            continue
        waits = _waits(objects, claim)
        if isinstance(waits, Status):
            return waits
        if waits and not claim.spec.volume_name:
            waiting.append(claim)
        else:
            immediate = True
    if immediate:
        return unresolvable(REASON_IMMEDIATE)
    # Claims whose place was chosen before come first, as they are; the others smallest first.
    waiting.sort(key=lambda claim: (0, 0) if _has_place(claim) else (1, parse(requested(claim))))
    return PodClaims(
        tuple(bound),
        tuple(ClaimToBind(claim, None if _has_place(claim) else index.offer(claim)) for claim in waiting),
    )


def _has_place(claim: PersistentVolumeClaim) -> bool:
    return SELECTED_NODE in claim.metadata.annotations


def _waits(objects: ObjectReader, claim: PersistentVolumeClaim) -> bool | Status:
    """Say whether a claim's class binds only for a consumer."""
    name = class_name_of(claim)
    found: StorageClass | None = objects.get(CLASS, name) if name else None
    if found is None:
        return False
    if found.volume_binding_mode is None:
        return error(NO_BINDING_MODE.format(name))
    return found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def volumes_on(objects: ObjectReader, claims: PodClaims, node: NodeForVolumes) -> PodVolumes | Status:
    """Return what the pod would get on a node, or why it cannot run there."""
    reasons = []
    reason = _bound_fault(objects, claims.bound, node)
    if reason == REASON_NODE_CONFLICT:
        reasons.append(reason)
    found = _unbound_volumes(objects, claims.to_bind, node)
    if isinstance(found, Status):
        return found
    if isinstance(found, _Refused):
        reasons.append(found.reason)
    if reason == REASON_VOLUME_MISSING:
        reasons.append(reason)
    return found if isinstance(found, PodVolumes) and not reasons else unresolvable(*reasons)


def _bound_fault(objects: ObjectReader, claims: Iterable[PersistentVolumeClaim], node: NodeForVolumes) -> str:
    csi_node = objects.get("CSINode", node.name)
    for claim in claims:
        volume: PersistentVolume | None = objects.latest(VOLUME, claim.spec.volume_name)
        if volume is None:
            return REASON_VOLUME_MISSING
        if not is_usable(affinity_of(volume, csi_node), node.labels):
            return REASON_NODE_CONFLICT
    return ""


def affinity_of(volume: PersistentVolume, csi_node: CSINode | None) -> NodeSelector | None:
    """Return the node affinity of a volume as it counts on a node, or None."""
    plugin = plugin_of(volume)
    if plugin is not None and is_migrated_on(plugin, csi_node):
        return migrated_affinity(volume, plugin)
    return affinity_as_stored(volume)


def is_usable(affinity: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Say whether a node with these labels can use a volume of this affinity."""
    return affinity is None or affinity.matches(labels, "")


def _unbound_volumes(
    objects: ObjectReader, claims: Iterable[ClaimToBind], node: NodeForVolumes
) -> PodVolumes | _Refused | Status:
    """Find volumes for the claims, promised places first; what is left over is to be provisioned."""
    bindings: list[Binding] = []
    chosen_before: list[PersistentVolumeClaim] = []
    without: list[PersistentVolumeClaim] = []
    taken: set[str] = set()
    for claim, offer in claims:
        if offer is None:
            if claim.metadata.annotations[SELECTED_NODE] != node.name:
                return _Refused(REASON_BIND_CONFLICT)
            chosen_before.append(claim)
            continue
        volume = offer.best_on(node.labels, taken)
        if volume is None:
            without.append(claim)
        else:
            taken.add(volume.metadata.name)
            bindings.append(Binding(claim, volume))
    provisions = _provisions(objects, [*chosen_before, *without], node)
    return provisions if not isinstance(provisions, list) else PodVolumes(tuple(bindings), tuple(provisions))


def _provisions(
    objects: ObjectReader, claims: Iterable[PersistentVolumeClaim], node: NodeForVolumes
) -> list[Provision] | _Refused | Status:
    found = []
    for claim in claims:
        provision = _provision(objects, claim, node)
        if not isinstance(provision, Provision):
            return provision
        found.append(provision)
    return found


def _provision(
    objects: ObjectReader, claim: PersistentVolumeClaim, node: NodeForVolumes
) -> Provision | _Refused | Status:
    storage_class: StorageClass = cast("Any", objects.get(CLASS, class_name_of(claim)))
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return _Refused(REASON_BIND_CONFLICT)
    if not allows(storage_class.allowed_topologies, node.labels):
        return _Refused(REASON_BIND_CONFLICT)
    if not tells_capacity(objects, storage_class, claim):
        return Provision(claim, None)
    capacity = _capacity_for(objects, storage_class, claim, node)
    return _Refused(REASON_NOT_ENOUGH_SPACE) if capacity is None else Provision(claim, capacity)


def allows(topologies: tuple[TopologySelectorTerm, ...], labels: Mapping[str, str]) -> bool:
    """Say whether a class allows volumes where a node with these labels can use them."""
    return not topologies or any(_term_matches(term, labels) for term in topologies)


def _term_matches(term: TopologySelectorTerm, labels: Mapping[str, str]) -> bool:
    expressions = term.match_label_expressions
    return bool(expressions) and all(labels.get(e.key) in e.values for e in expressions)


def tells_capacity(objects: ObjectReader, storage_class: StorageClass, claim: PersistentVolumeClaim) -> bool:
    """Say whether the driver publishes how much storage is left for such a claim."""
    if STORAGE not in claim.spec.resources.requests:
        return False
    driver = objects.get("CSIDriver", storage_class.provisioner)
    return driver is not None and bool(driver.spec.storage_capacity)


def _capacity_for(
    objects: ObjectReader, storage_class: StorageClass, claim: PersistentVolumeClaim, node: NodeForVolumes
) -> CSIStorageCapacity | None:
    """Return a capacity of the class that the node can reach and that is large enough, or None."""
    size_bytes = value(requested(claim))
    capacities: Iterable[CSIStorageCapacity] = objects.list("CSIStorageCapacity")
    for capacity in capacities:
        if capacity.storage_class_name == storage_class.metadata.name:
            limit = volume_limit_bytes(capacity)
            if limit is not None and limit >= size_bytes and _reaches(node, capacity):
                return capacity
    return None


def volume_limit_bytes(capacity: CSIStorageCapacity) -> int | None:
    """Return how large a volume can be at most, or None where the driver does not say."""
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return None if limit is None else value(limit)


def _reaches(node: NodeForVolumes, capacity: CSIStorageCapacity) -> bool:
    return capacity.node_topology is not None and compile_selector(capacity.node_topology).matches(node.labels)
