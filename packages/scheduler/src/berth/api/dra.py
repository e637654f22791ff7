"""Dynamic resource allocation: claims, slices, device classes (resource.k8s.io/v1)."""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from berth.api.meta import Condition, ObjectMeta, Struct
from berth.api.node_selector import NodeSelector
from berth.api.quantity import Quantity
from berth.api.read_only import EMPTY


class CELSelector(Struct, frozen=True):
    """selectors[].cel."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    """selectors[]."""

    cel: CELSelector | None = None


class DeviceToleration(Struct, frozen=True):
    """tolerations[] of a device request."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Struct, frozen=True):
    """capacity of a device request: how much of a consumable capacity it wants."""

    requests: Mapping[str, Quantity] = EMPTY


class ExactDeviceRequest(Struct, frozen=True):
    """A request for devices of one class; `name` is set where it is a subrequest of firstAvailable."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct, frozen=True):
    """spec.devices.requests[]: exactly one of the two forms."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[ExactDeviceRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    """spec.devices.constraints[]."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Struct, frozen=True):
    """spec.devices of a claim."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[Any, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    """spec of a claim."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct, frozen=True):
    """status.allocation.devices.results[]."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: Mapping[str, Quantity] = EMPTY


class DeviceAllocationResult(Struct, frozen=True):
    """status.allocation.devices."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[Any, ...] = ()


class AllocationResult(Struct, frozen=True):
    """status.allocation of a claim."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumer(Struct, frozen=True):
    """status.reservedFor[]."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Struct, frozen=True):
    """status.devices[]: what a driver says of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Struct, frozen=True):
    """status of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumer, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(Struct, frozen=True):
    """A claim on devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(Struct, frozen=True):
    """spec of a device class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[Any, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    """A class of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True):
    """An attribute of a device; exactly one field is set."""

    int_: int | None = field(default=None, name="int")
    bool_: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class DeviceCapacity(Struct, frozen=True):
    """A capacity of a device; the request policy stays raw until consumable capacity reads it."""

    value: Quantity = 0
    request_policy: Any = None


class DeviceCounterConsumption(Struct, frozen=True):
    """consumesCounters[] of a device."""

    counter_set: str = ""
    counters: Mapping[str, DeviceCapacity] = EMPTY


class DeviceTaint(Struct, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Device(Struct, frozen=True):
    """spec.devices[] of a slice."""

    name: str = ""
    attributes: Mapping[str, DeviceAttribute] = EMPTY
    capacity: Mapping[str, DeviceCapacity] = EMPTY
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class CounterSet(Struct, frozen=True):
    """spec.sharedCounters[] of a slice."""

    name: str = ""
    counters: Mapping[str, DeviceCapacity] = EMPTY


class ResourcePool(Struct, frozen=True):
    """spec.pool of a slice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Struct, frozen=True):
    """spec of a slice."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct, frozen=True):
    """Devices that a driver publishes."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(Struct, frozen=True):
    """Which devices a rule is for; what is not set does not matter."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True):
    """spec of a rule; without a selector it is for no device."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Struct, frozen=True):
    """A taint that an administrator puts on devices (resource.k8s.io/v1beta2)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
