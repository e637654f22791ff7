"""JSON to frozen structs.

`decode(kind, document)` takes bytes or an already parsed object and checks what types alone cannot say: quantities.
An object that cannot be read raises `ObjectError`, which names the object, the field and what is wrong with it.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from berth.api import dra, node, pod, scheduling, storage
from berth.api.meta import Struct
from berth.api.quantity import Quantity, QuantityError, parse
from berth.api.untrusted import UNREADABLE, problem_of, read_deep
from berth.api.user_error import UserError

KINDS: Mapping[str, type[Struct]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            pod.Pod,
            node.Node,
            node.Namespace,
            node.Service,
            node.ReplicationController,
            node.ReplicaSet,
            node.StatefulSet,
            node.PriorityClass,
            node.PodDisruptionBudget,
            node.Lease,
            node.ConfigMap,
            storage.PersistentVolume,
            storage.PersistentVolumeClaim,
            storage.StorageClass,
            storage.CSINode,
            storage.CSIDriver,
            storage.CSIStorageCapacity,
            storage.VolumeAttachment,
            dra.ResourceClaim,
            dra.ResourceSlice,
            dra.DeviceClass,
            dra.DeviceTaintRule,
            scheduling.PodGroup,
            scheduling.Workload,
            scheduling.Event,
        )
    }
)
"""The struct of each kind."""


class ObjectError(UserError, ValueError):
    """An API object that cannot be read; the message says which object, which field, and why."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(f"{kind} {name or '(without a name)'}: {reason}")
        self.kind = kind
        self.name = name
        self.reason = reason


class _NamedMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _NamedMeta = msgspec.field(default_factory=_NamedMeta)


def decode(kind: str, document: bytes | Mapping[str, Any]) -> Any:
    """Return the struct of `kind` that `document` holds; raises `ObjectError`."""
    try:
        found: Struct = read_deep(_decode, KINDS[kind], document)
        check_quantities(found)
    except (*UNREADABLE, QuantityError) as error:
        raise ObjectError(kind, object_name(document), problem_of(error)) from error
    return found


@lru_cache(maxsize=64)
def decoder(struct: type[Struct]) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a struct, made once."""
    return msgspec.json.Decoder(struct)


def _decode(struct: type[Struct], document: bytes | Mapping[str, Any]) -> Struct:
    try:
        if isinstance(document, bytes | bytearray | memoryview | msgspec.Raw):
            return decoder(struct).decode(document)  # type: ignore[no-any-return]
        return msgspec.convert(document, struct)
    except msgspec.ValidationError:
        # Go writes nil slices and maps without omitempty as null; reading them as absent is worth a second pass.
        parsed = document if isinstance(document, Mapping) else msgspec.json.decode(document)
        return msgspec.convert(without_nulls(parsed), struct)


def without_nulls(value: Any) -> Any:
    """Return a JSON value without the fields that are null."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def object_name(document: bytes | Mapping[str, Any]) -> str:
    """Return `namespace/name` of a document, whatever else is wrong with it; empty where no name can be read."""
    try:
        if isinstance(document, Mapping):
            meta = msgspec.convert(document, _Named).metadata
        else:
            meta = read_deep(msgspec.json.decode, document, type=_Named).metadata
    except UNREADABLE:
        return ""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def check_quantities(found: Struct) -> None:
    """Raise `QuantityError`, naming the field, where something that scheduling reads as a quantity is not one."""
    for path, quantities in _quantities_of(found):
        for name, quantity in quantities.items():
            try:
                parse(quantity)
            except QuantityError as error:
                raise QuantityError(f"{path}[{name}]: {error}" if path else f"{name}: {error}") from error


def _quantities_of(found: Struct) -> Iterable[tuple[str, Mapping[str, Quantity]]]:
    if isinstance(found, pod.Pod):
        return _pod_quantities(found)
    if isinstance(found, node.Node):
        return (("status.allocatable", found.status.allocatable), ("status.capacity", found.status.capacity))
    if isinstance(found, storage.PersistentVolume):
        return (("spec.capacity", found.spec.capacity),)
    if isinstance(found, storage.PersistentVolumeClaim):
        return (("spec.resources.requests", found.spec.resources.requests),)
    if isinstance(found, storage.CSIStorageCapacity):
        fields = {"capacity": found.capacity, "maximumVolumeSize": found.maximum_volume_size}
        return (("", {name: quantity for name, quantity in fields.items() if quantity is not None}),)
    if isinstance(found, dra.ResourceSlice):
        return _slice_quantities(found.spec)
    if isinstance(found, dra.ResourceClaim):
        return _claim_quantities(found.spec.devices.requests)
    return ()


def _slice_quantities(spec: dra.ResourceSliceSpec) -> Iterable[tuple[str, Mapping[str, Quantity]]]:
    for index, device in enumerate(spec.devices):
        yield f"spec.devices[{index}].capacity", _values_of(device.capacity)
        for number, consumed in enumerate(device.consumes_counters):
            yield f"spec.devices[{index}].consumesCounters[{number}].counters", _values_of(consumed.counters)
    for index, counter_set in enumerate(spec.shared_counters):
        yield f"spec.sharedCounters[{index}].counters", _values_of(counter_set.counters)


def _values_of(amounts: Mapping[str, dra.DeviceCapacity]) -> Mapping[str, Quantity]:
    return {name: amount.value for name, amount in amounts.items()}


def _claim_quantities(requests: Iterable[dra.DeviceRequest]) -> Iterable[tuple[str, Mapping[str, Quantity]]]:
    for index, request in enumerate(requests):
        path = f"spec.devices.requests[{index}]"
        forms = [(f"{path}.firstAvailable[{number}]", form) for number, form in enumerate(request.first_available)]
        forms += [(f"{path}.exactly", request.exactly)] if request.exactly is not None else []
        for where, form in forms:
            if form.capacity is not None:
                yield f"{where}.capacity.requests", form.capacity.requests


def _pod_quantities(found: pod.Pod) -> Iterable[tuple[str, Mapping[str, Quantity]]]:
    spec, status = found.spec, found.status
    for field_name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield f"spec.{field_name}[{index}].resources.requests", container.resources.requests
            yield f"spec.{field_name}[{index}].resources.limits", container.resources.limits
    yield "spec.overhead", spec.overhead
    if spec.resources is not None:
        yield "spec.resources.requests", spec.resources.requests
        yield "spec.resources.limits", spec.resources.limits
    yield "status.allocatedResources", status.allocated_resources
    if status.resources is not None:
        yield "status.resources.requests", status.resources.requests
    yield from _container_status_quantities("containerStatuses", status.container_statuses)
    yield from _container_status_quantities("initContainerStatuses", status.init_container_statuses)


def _container_status_quantities(
    field_name: str, states: Iterable[pod.ContainerStatus]
) -> Iterable[tuple[str, Mapping[str, Quantity]]]:
    for index, state in enumerate(states):
        yield f"status.{field_name}[{index}].allocatedResources", state.allocated_resources
        if state.resources is not None:
            yield f"status.{field_name}[{index}].resources.requests", state.resources.requests
