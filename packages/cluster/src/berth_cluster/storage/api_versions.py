"""Kinds that are shown and taken in other versions of the API than the one in which they are stored.

A view turns a stored object into one of another version and back. Whatever the two versions have in common is passed on
as it is; only what has another shape is converted. Stored objects are shared and never edited: views make new ones of
the parts that differ. Objects that come from outside may have any shape, so that nothing is taken for granted here.

Events live in two API groups at once. The others are kinds whose shape changed from version to version:
devices and claims between v1alpha3, v1beta1 and v1, pod groups between v1alpha1 and v1beta1, and autoscalers, of which
v1 shows less.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY, NEW_EVENTS, Addressed, ResourceType, resource_type
from berth_cluster.custom.version import CustomType
from berth_cluster.storage.watch import Entry

Convert = Callable[[Any], Any]


class ApiView(NamedTuple):
    """One kind in another version."""

    from_stored: Convert
    to_stored: Convert

    def entry(self, entry: Entry) -> Entry:
        """A stored entry as the version shows it."""
        return Entry(self.from_stored(entry.obj), entry.revision)


def view_of(kind: ResourceType) -> ApiView | None:
    """How a kind is shown and taken; None where it is as it is stored."""
    if kind is NEW_EVENTS:
        return _EVENTS
    if isinstance(kind, CustomType):
        return None if kind.custom.is_as_stored else _custom_view(kind)
    stored = BY_KEY[kind.key]
    if kind is stored or kind.version == stored.version:
        return None
    shape = _SHAPES.get((kind.plural, kind.version), _SAME_SHAPE)
    return ApiView(_then(shape.from_stored, kind.api_version), _then(shape.to_stored, stored.api_version))


def _custom_view(kind: CustomType) -> ApiView:
    """Versions of a custom resource differ in apiVersion, and in what their schemas prune and add."""

    def shown(obj: Any) -> Any:
        made = {**msgspec.json.decode(msgspec.json.encode(obj)), "apiVersion": kind.api_version}
        kind.custom.complete(made)
        return made

    return ApiView(shown, lambda obj: {**obj, "apiVersion": kind.custom.stored_version})


def addressed_type(resource: Addressed) -> ResourceType:
    """The kind that `resource` names, in its version if it says one that is not the stored one."""
    if isinstance(resource, ResourceType):
        return resource
    stored = resource_type(resource)
    version = getattr(resource, "version", stored.version)
    if version == stored.version or stored is NEW_EVENTS:
        return stored
    return msgspec.structs.replace(stored, version=version)


def _then(convert: Convert, api_version: str) -> Convert:
    def converted(obj: Any) -> Any:
        made = convert(obj)
        return {**made, "apiVersion": api_version} if isinstance(made, dict) else made

    return converted


def _at(convert: Convert, *path: str) -> Convert:
    """A conversion of the part at a path; where there is no such part the object stays as it is."""
    for name in reversed(path):
        convert = _inside(name, convert)
    return convert


def _inside(name: str, convert: Convert) -> Convert:
    def converted(obj: Any) -> Any:
        if not isinstance(obj, dict) or obj.get(name) is None:
            return obj
        return {**obj, name: convert(obj[name])}

    return converted


def _each(convert: Convert) -> Convert:
    """A conversion of every object in a list."""
    return lambda found: (
        [convert(one) if isinstance(one, dict) else one for one in found] if isinstance(found, list) else found
    )


def _both(first: Convert, second: Convert) -> Convert:
    return lambda obj: second(first(obj))


def _unchanged(obj: Any) -> Any:
    return obj


# --- devices ----------------------------------------------------------------------------------------------------------


def _flat(part: str) -> Convert:
    """What stands in a part of an object stands in the object itself."""

    def flat(obj: Object) -> Object:
        inner = obj.get(part)
        rest = {key: value for key, value in obj.items() if key != part}
        return {**rest, **inner} if isinstance(inner, dict) else rest

    return flat


def _exact_request(request: Object) -> Object:
    """v1beta1 to v1: all but the name and the alternatives stands under `exactly`."""
    kept = {key: value for key, value in request.items() if key in ("name", "firstAvailable", "exactly")}
    rest = {key: value for key, value in request.items() if key not in kept}
    return {**kept, "exactly": rest} if rest and "exactly" not in kept else kept


def _basic_device(device: Object) -> Object:
    """v1 to v1beta1: all but the name stands under `basic`."""
    basic = {key: value for key, value in device.items() if key not in ("name", "basic")}
    return {"name": device["name"], "basic": basic} if "name" in device else {"basic": basic}


def _bare_amounts(capacity: Any) -> Any:
    """To v1alpha3, whose capacities are quantities and nothing more."""
    if not isinstance(capacity, dict):
        return capacity
    return {key: one.get("value") if isinstance(one, dict) else one for key, one in capacity.items()}


def _amounts(capacity: Any) -> Any:
    if not isinstance(capacity, dict):
        return capacity
    return {key: one if isinstance(one, dict) else {"value": one} for key, one in capacity.items()}


_REQUESTS = ("devices", "requests")
_FLAT, _EXACT = _at(_each(_flat("exactly")), *_REQUESTS), _at(_each(_exact_request), *_REQUESTS)
_BASIC, _PLAIN = _each(_basic_device), _each(_flat("basic"))
_TO_ALPHA_DEVICE = _each(_both(_inside("capacity", _bare_amounts), _basic_device))
_FROM_ALPHA_DEVICE = _each(_both(_flat("basic"), _inside("capacity", _amounts)))
_SPEC = "spec"

# --- pod groups -------------------------------------------------------------------------------------------------------

_MODES: MappingProxyType[str, Object] = MappingProxyType({"Pod": {"single": {}}, "PodGroup": {"all": {}}})


def _mode_as_union(mode: Any) -> Any:
    return _MODES.get(mode, mode) if isinstance(mode, str) else mode


def _mode_as_word(mode: Any) -> Any:
    return next((word for word, union in _MODES.items() if isinstance(mode, dict) and set(mode) == set(union)), mode)


def _workload_reference(spec: Any) -> Any:
    """v1alpha2 to v1beta1: the reference to the workload is flat."""
    if not isinstance(spec, dict):
        return spec
    reference = spec.get("podGroupTemplateRef")
    workload = reference.get("workload") if isinstance(reference, dict) else None
    if not isinstance(workload, dict):
        return spec
    flat = {"workloadName": workload.get("workloadName"), "templateName": workload.get("podGroupTemplateName")}
    return {**{key: value for key, value in spec.items() if key != "podGroupTemplateRef"}, "workloadRef": flat}


def _template_reference(spec: Any) -> Any:
    """v1beta1 to v1alpha2."""
    flat = spec.get("workloadRef") if isinstance(spec, dict) else None
    if not isinstance(flat, dict):
        return spec
    workload = {"workloadName": flat.get("workloadName"), "podGroupTemplateName": flat.get("templateName")}
    rest = {key: value for key, value in spec.items() if key != "workloadRef"}
    return {**rest, "podGroupTemplateRef": {"workload": workload}}


def _renamed(old: str, new: str) -> Convert:
    def rename(obj: Any) -> Any:
        if not isinstance(obj, dict) or old not in obj:
            return obj
        return {new if key == old else key: value for key, value in obj.items()}

    return rename


_TO_UNION, _TO_WORD = _inside("disruptionMode", _mode_as_union), _inside("disruptionMode", _mode_as_word)
_TEMPLATES, _V1ALPHA1_GROUPS = "podGroupTemplates", "podGroups"
_TO_V1ALPHA1 = _both(
    _inside(_TEMPLATES, _each(_renamed("schedulingPolicy", "policy"))), _renamed(_TEMPLATES, _V1ALPHA1_GROUPS)
)
_FROM_V1ALPHA1 = _both(
    _renamed(_V1ALPHA1_GROUPS, _TEMPLATES), _inside(_TEMPLATES, _each(_renamed("policy", "schedulingPolicy")))
)

# --- autoscalers ------------------------------------------------------------------------------------------------------


def _cpu_percentage(spec: Any) -> Any:
    """v2 to v1, which knows but one metric."""
    if not isinstance(spec, dict):
        return spec
    shown = {key: value for key, value in spec.items() if key not in ("metrics", "behavior")}
    for metric in spec.get("metrics") or ():
        source = metric.get("resource") if isinstance(metric, dict) else None
        target = source.get("target") if isinstance(source, dict) and source.get("name") == "cpu" else None
        if isinstance(target, dict) and target.get("averageUtilization"):
            shown["targetCPUUtilizationPercentage"] = target["averageUtilization"]
    return shown


def _cpu_metric(spec: Any) -> Any:
    """v1 to v2."""
    if not isinstance(spec, dict) or "targetCPUUtilizationPercentage" not in spec:
        return spec
    rest = {key: value for key, value in spec.items() if key != "targetCPUUtilizationPercentage"}
    target = {"type": "Utilization", "averageUtilization": spec["targetCPUUtilizationPercentage"]}
    return {**rest, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}


_V1_STATUS = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")


def _v1_status(status: Any) -> Any:
    return {key: status[key] for key in _V1_STATUS if key in status} if isinstance(status, dict) else status


# --- events ----------------------------------------------------------------------------------------------------------

# The fields of events.k8s.io/v1 -> those of v1, in which events are stored.
_EVENT_FIELDS = MappingProxyType(
    {
        **{name: name for name in ("metadata", "reason", "type", "eventTime", "series", "action", "related")},
        "reportingInstance": "reportingInstance",
        "regarding": "involvedObject",
        "note": "message",
        "deprecatedSource": "source",
        "deprecatedFirstTimestamp": "firstTimestamp",
        "deprecatedLastTimestamp": "lastTimestamp",
        "deprecatedCount": "count",
        "reportingController": "reportingComponent",
    }
)


def _event(api_version: str, names: Mapping[str, str]) -> Convert:
    """An event with the fields of another version; those that it does not have are left out."""
    kind = {"apiVersion": api_version, "kind": "Event"}
    return lambda obj: kind | {names[key]: value for key, value in obj.items() if key in names}


# --- all of them ------------------------------------------------------------------------------------------------------

_SAME_SHAPE = ApiView(_unchanged, _unchanged)
_EVENTS = ApiView(
    _event("events.k8s.io/v1", {stored: new for new, stored in _EVENT_FIELDS.items()}), _event("v1", _EVENT_FIELDS)
)
# (plural, version) -> how the shape differs from the stored one; no entry where it does not
_SHAPES: MappingProxyType[tuple[str, str], ApiView] = MappingProxyType(
    {
        **{
            ("resourceclaims", version): ApiView(_at(_FLAT, _SPEC), _at(_EXACT, _SPEC))
            for version in ("v1alpha3", "v1beta1")
        },
        **{
            ("resourceclaimtemplates", version): ApiView(_at(_FLAT, _SPEC, _SPEC), _at(_EXACT, _SPEC, _SPEC))
            for version in ("v1alpha3", "v1beta1")
        },
        ("resourceslices", "v1beta1"): ApiView(_at(_BASIC, _SPEC, "devices"), _at(_PLAIN, _SPEC, "devices")),
        ("resourceslices", "v1alpha3"): ApiView(
            _at(_TO_ALPHA_DEVICE, _SPEC, "devices"), _at(_FROM_ALPHA_DEVICE, _SPEC, "devices")
        ),
        ("horizontalpodautoscalers", "v1"): ApiView(
            _both(_at(_cpu_percentage, _SPEC), _at(_v1_status, "status")), _at(_cpu_metric, _SPEC)
        ),
        ("podgroups", "v1beta1"): ApiView(
            _at(_both(_workload_reference, _TO_UNION), _SPEC), _at(_both(_template_reference, _TO_WORD), _SPEC)
        ),
        ("workloads", "v1beta1"): ApiView(
            _at(_each(_TO_UNION), _SPEC, _TEMPLATES), _at(_each(_TO_WORD), _SPEC, _TEMPLATES)
        ),
        ("workloads", "v1alpha1"): ApiView(_at(_TO_V1ALPHA1, _SPEC), _at(_FROM_V1ALPHA1, _SPEC)),
    }
)
