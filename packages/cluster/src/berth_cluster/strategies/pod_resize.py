"""The `resize` subresource of pods: CPU and memory of a pod change while it runs (KEP-1287).

`resized` is the spec that a write through `resize` may make of the old one: nothing but resources and resize policies
of containers, and the pod's own resources, is taken from it. `check_resize` says what is wrong with that.
Rules and messages: pkg/apis/core/validation ValidatePodResize, v1.36.
"""

from typing import Any

from berth.api.quantity import QuantityError, parse
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_workloads.pods import objects_in, qos_class

SECTIONS = ("containers", "initContainers")
RESIZABLE = ("cpu", "memory")
_TAKEN = ("resources", "resizePolicy")


def resized(old: Object, wanted: Object) -> Object:
    """The old spec with the resources of `wanted`; containers renamed or reordered are left for `check_resize`."""
    spec = dict(old)
    for section in SECTIONS:
        before, after = list(objects_in(spec, section)), list(objects_in(wanted, section))
        same = [one.get("name") for one in before] == [one.get("name") for one in after]
        if before or after:
            spec[section] = [_taken(*pair) for pair in zip(before, after, strict=True)] if same else after
    spec.pop("resources", None)
    if "resources" in wanted:
        spec["resources"] = wanted["resources"]
    return spec


def check_resize(new: Object, old: Object, errors: FieldErrors) -> None:
    """Report what a resize may not do."""
    was, now = old["spec"], new["spec"]
    qos = qos_class(now)
    if qos != qos_class(was):
        errors.invalid("spec", qos, "Pod QOS Class may not change as a result of resizing")
    for section in SECTIONS:
        before, after = list(objects_in(was, section)), list(objects_in(now, section))
        if [one.get("name") for one in before] != [one.get("name") for one in after]:
            errors.forbidden(f"spec.{section}", f"{section} may not be renamed or reordered on resize")
            continue
        for number, (had, has) in enumerate(zip(before, after, strict=True)):
            field = f"spec.{section}[{number}].resources"
            if section == "initContainers" and had.get("restartPolicy") != "Always" and had != has:
                errors.forbidden(field, "resources for non-sidecar init containers are immutable")
            _check_amounts(had.get("resources"), has.get("resources"), field, errors)
    _check_amounts(was.get("resources"), now.get("resources"), "spec.resources", errors, "pod-level resource")


def _taken(old: Object, new: Object) -> Object:
    kept = {key: value for key, value in old.items() if key not in _TAKEN}
    return kept | {key: new[key] for key in _TAKEN if key in new}


def _check_amounts(had: Any, has: Any, field: str, errors: FieldErrors, what: str = "resource") -> None:
    for section in ("requests", "limits"):
        before, after = _amounts(had, section), _amounts(has, section)
        if any(name in before and name not in after for name in RESIZABLE):
            errors.forbidden(f"{field}.{section}", f"{what} {section} cannot be removed")
        others = {name for name in before.keys() | after.keys() if name not in RESIZABLE}
        if any(before.get(name) != after.get(name) for name in others):
            errors.forbidden("spec", "only cpu and memory resources are mutable")


def _amounts(resources: Any, section: str) -> dict[str, Any]:
    amounts = resources.get(section) if isinstance(resources, dict) else None
    return {name: _exact(amount) for name, amount in amounts.items()} if isinstance(amounts, dict) else {}


def _exact(amount: Any) -> Any:
    try:
        return parse(amount)
    except (QuantityError, TypeError, AttributeError):
        return amount  # the check of the spec says what is wrong with it
