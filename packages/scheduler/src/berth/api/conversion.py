"""Objects of older and newer API versions, brought into the shape that the structs of `berth.api` have, and back.

Servers from v1.31 on differ in the version under which they serve dynamic resource allocation and pod groups. Where the
version followed is not that of the structs, informers read with `reader_of`, and `berth.kube.served` converts what is
written and answered. Sources: k8s.io/api of v1.31 to v1.37, resource/{v1alpha3,v1beta1,v1beta2,v1} and
scheduling/{v1alpha2,v1beta1}.

| version | differs from the structs in |
| --- | --- |
| resource v1alpha3 | as v1beta1; the capacity of a device is a bare quantity; rules may select by class and CEL |
| resource v1beta1 | requests have no `exactly`; devices keep everything but their name in `basic` |
| resource v1beta2, v1 | nothing |
| scheduling v1beta1 | `disruptionMode` is a union; the condition is called PodGroupInitiallyScheduled |
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from berth.api.codec import KINDS, ObjectError, decode, object_name
from berth.api.meta import Struct
from berth.api.resources import RESOURCES, Resource
from berth.api.untrusted import UNREADABLE, problem_of, read_deep

Json = dict[str, Any]
Reader = Callable[[bytes | msgspec.Raw], Any]

_RESOURCE_GROUP, _SCHEDULING_GROUP = "resource.k8s.io", "scheduling.k8s.io"
_DISRUPTION_MODES = {"single": "Pod", "all": "PodGroup"}
SCHEDULED, INITIALLY_SCHEDULED = "PodGroupScheduled", "PodGroupInitiallyScheduled"


def is_converted(resource: Resource) -> bool:
    """Say whether this is another version than that of the structs."""
    known = RESOURCES.get(resource.kind)
    return known is not None and known.group == resource.group and known.version != resource.version


def _has_other_shape(resource: Resource) -> bool:
    return is_converted(resource) and resource.version not in ("v1", "v1beta2")


def struct_of(resource: Resource) -> type[Struct] | None:
    """Return the struct that has the shape of this version, None where objects of it have to be converted."""
    return None if _has_other_shape(resource) else KINDS.get(resource.kind)


def reader_of(resource: Resource) -> Reader:
    """Return what reads an object of this version into its struct; the reader raises `ObjectError`."""
    kind = resource.kind
    if not _has_other_shape(resource):
        return lambda raw: decode(kind, raw)

    def read(raw: bytes | msgspec.Raw) -> Any:
        try:
            document = read_deep(msgspec.json.decode, raw)
        except UNREADABLE as error:
            raise ObjectError(kind, object_name(bytes(raw)), problem_of(error)) from error
        if not isinstance(document, dict):
            raise ObjectError(kind, "", f"expected an object, got {type(document).__name__}")
        return decode(kind, to_structs(resource, document))

    return read


def to_structs(resource: Resource, document: Json) -> Json:
    """Return an object as served in this version in the shape of the structs; raises `ObjectError`.

    What does not have the shape that the version has is left as it is, for the decoder to complain about.
    """
    if not is_converted(resource):
        return document
    spec, kind = document.get("spec"), resource.kind
    current = {**document, "apiVersion": RESOURCES[kind].api_version} if "apiVersion" in document else dict(document)
    if not _has_other_shape(resource):
        return current
    if kind == "PodGroup":
        return _renamed_condition(_with_spec(current, spec, _plain_disruption_mode), INITIALLY_SCHEDULED, SCHEDULED)
    if kind == "ResourceClaim":
        return _with_spec(current, spec, lambda found: _with_requests(found, _nested_request))
    if kind == "ResourceSlice":
        has_bare_capacity = resource.version == "v1alpha3"
        return _with_spec(current, spec, lambda found: _flat_devices(found, has_bare_capacity))
    if kind == "DeviceTaintRule":
        _refuse_wider_selectors(spec, object_name(document))
    return current


def to_served(resource: Resource, document: Mapping[str, Any]) -> Json:
    """Return an object, or a part of one as in a patch, that has the structs' shape in that of the version served."""
    if not is_converted(resource):
        return dict(document)
    spec, kind = document.get("spec"), resource.kind
    served = {**document, "apiVersion": resource.api_version} if "apiVersion" in document else dict(document)
    if not _has_other_shape(resource):
        return served
    if kind == "PodGroup":
        return _renamed_condition(served, SCHEDULED, INITIALLY_SCHEDULED)
    if kind == "ResourceClaim":
        return _with_spec(served, spec, lambda found: _with_requests(found, _flat_request))
    return served


def _with_spec(document: Json, spec: Any, change: Callable[[Json], Json]) -> Json:
    return {**document, "spec": change(spec)} if isinstance(spec, dict) else document


def _with_requests(spec: Json, change: Callable[[Json], Json]) -> Json:
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, dict) else None
    if not isinstance(devices, dict) or not isinstance(requests, list):
        return spec
    changed = [change(each) if isinstance(each, dict) else each for each in requests]
    return {**spec, "devices": {**devices, "requests": changed}}


def _nested_request(request: Json) -> Json:
    """A request for devices of one class has its fields under `exactly` today, all but the name."""
    if request.get("firstAvailable"):
        return {key: request[key] for key in ("name", "firstAvailable") if key in request}
    exactly = {key: value for key, value in request.items() if key not in ("name", "firstAvailable")}
    return {"name": request.get("name", ""), "exactly": exactly}


def _flat_request(request: Json) -> Json:
    exactly = request.get("exactly")
    rest = {key: value for key, value in request.items() if key != "exactly"}
    return {**rest, **exactly} if isinstance(exactly, dict) else rest


def _flat_devices(spec: Json, has_bare_capacity: bool) -> Json:
    devices = spec.get("devices")
    if not isinstance(devices, list):
        return spec
    return {**spec, "devices": [_flat_device(each, has_bare_capacity) for each in devices]}


def _flat_device(device: Any, has_bare_capacity: bool) -> Any:
    basic = device.get("basic") if isinstance(device, dict) else None
    if not isinstance(basic, dict):
        return device
    flat = {**basic, **{key: value for key, value in device.items() if key != "basic"}}
    capacity = flat.get("capacity")
    if has_bare_capacity and isinstance(capacity, dict):
        flat["capacity"] = {
            name: amount if isinstance(amount, dict) else {"value": amount} for name, amount in capacity.items()
        }
    return flat


def _refuse_wider_selectors(spec: Any, name: str) -> None:
    """A rule that selects by more than its struct holds would taint too many devices if the rest were ignored."""
    selector = spec.get("deviceSelector") if isinstance(spec, dict) else None
    if not isinstance(selector, dict):
        return
    for field in ("deviceClassName", "selectors"):
        if selector.get(field):
            reason = (
                f"spec.deviceSelector.{field} was given up in v1beta2, and is not evaluated; use driver, pool, device"
            )
            raise ObjectError("DeviceTaintRule", name, reason)


def _plain_disruption_mode(spec: Json) -> Json:
    mode = spec.get("disruptionMode")
    if not isinstance(mode, dict):
        return spec
    rest = {key: value for key, value in spec.items() if key != "disruptionMode"}
    chosen = [word for member, word in _DISRUPTION_MODES.items() if mode.get(member) is not None]
    return {**rest, "disruptionMode": chosen[0]} if chosen else rest


def _renamed_condition(document: Json, old: str, new: str) -> Json:
    status = document.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    if not isinstance(status, dict) or not isinstance(conditions, list):
        return document
    renamed = [
        {**each, "type": new} if isinstance(each, dict) and each.get("type") == old else each for each in conditions
    ]
    return {**document, "status": {**status, "conditions": renamed}}
