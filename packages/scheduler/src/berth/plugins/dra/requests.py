"""What claims ask for, in the form the search needs: one `Ask` for each request, or for each alternative of a list.

Claims, classes and the pools that a node sees go in; asks come out, or an `AllocationError` where a claim makes no
sense. Called by `allocator.py`. Source: k8s.io/dynamic-resource-allocation/structured, v1.36.
"""

from collections.abc import Callable
from typing import NamedTuple

from berth.api.dra import DeviceClass, DeviceRequest, ExactDeviceRequest, ResourceClaim

EXACT_COUNT = "ExactCount"
ALL = "All"
MAX_RESULTS = 32
"""At most this many devices can be allocated for one claim."""


class AllocationError(Exception):
    """Something is wrong with a claim, a class or a selector; until it is corrected the pod cannot run anywhere."""


class Gates(NamedTuple):
    """The features that change what may be allocated."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True


class Ask(NamedTuple):
    """One request, or one alternative of a request with a list of them."""

    claim: ResourceClaim
    spec: ExactDeviceRequest
    name: str
    parent: str
    """The request that this is an alternative of, or the empty string."""
    device_class: DeviceClass

    @property
    def full_name(self) -> str:
        """The name that results carry."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def is_all(self) -> bool:
        """Say whether all devices are wanted that match."""
        return self.spec.allocation_mode == ALL

    @property
    def selectors(self) -> tuple[tuple[str, str], ...]:
        """Each selector's text, preceded by where it stands: the class or request, and the selector's index."""
        told = [(f"class {self.device_class.metadata.name}", self.device_class.spec.selectors)]
        told.append((f"claim {claim_key(self.claim)}", self.spec.selectors))
        return tuple(
            (f"{who}: selector #{index}", selector.cel.expression)
            for who, selectors in told
            for index, selector in enumerate(selectors)
            if selector.cel is not None
        )


def claim_key(claim: ResourceClaim) -> str:
    """Return `namespace/name` of a claim."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def asks_of(
    claim: ResourceClaim, request: DeviceRequest, gates: Gates, class_of: Callable[[str], DeviceClass | None]
) -> tuple[Ask, ...]:
    """Return what a request asks for: the alternatives in order of preference. Raises `AllocationError`."""
    where = f"claim {claim_key(claim)}, request {request.name}"
    if request.first_available and not gates.prioritized_list:
        raise AllocationError(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
    if request.first_available:
        return tuple(_ask(claim, spec, spec.name, request.name, gates, class_of) for spec in request.first_available)
    return (_ask(claim, request.exactly or ExactDeviceRequest(), request.name, "", gates, class_of),)


def _ask(
    claim: ResourceClaim,
    spec: ExactDeviceRequest,
    name: str,
    parent: str,
    gates: Gates,
    class_of: Callable[[str], DeviceClass | None],
) -> Ask:
    where = f"claim {claim_key(claim)}, request {name}"
    if spec.capacity is not None and not gates.consumable_capacity:
        kind = "subrequest" if parent else "request"
        raise AllocationError(
            f"claim {claim_key(claim)}, {kind} {name}: has capacity requests, but the DRAConsumableCapacity feature "
            "is disabled"
        )
    for index, selector in enumerate(spec.selectors):
        if selector.cel is None:
            raise AllocationError(f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)")
    if spec.admin_access and not gates.admin_access:
        raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
    if not spec.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    device_class = class_of(spec.device_class_name)
    if device_class is None:
        raise AllocationError(
            f"{where}: could not retrieve device class {spec.device_class_name}: "
            f'deviceclass.resource.k8s.io "{spec.device_class_name}" not found'
        )
    if spec.allocation_mode not in (EXACT_COUNT, ALL):
        raise AllocationError(f"{where}: unsupported count mode {spec.allocation_mode}")
    return Ask(claim, spec, name, parent, device_class)
