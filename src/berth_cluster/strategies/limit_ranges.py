"""LimitRanges: what is checked of them, and what admission does to pods and claims because of them.

The rules are those of `berth_workloads.limit_ranges`. Upstream: plugin/pkg/admission/limitranger.
"""

from collections.abc import Callable, Iterator

from berth_cluster.apimachinery.errors import FieldErrors, forbidden
from berth_cluster.apimachinery.meta import Object, value_at
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import Unique, always, each
from berth_cluster.strategies.pod_checks import STANDARD_RESOURCES
from berth_cluster.strategies.pod_defaults import objects_in
from berth_workloads.amounts import Amounts, amounts, largest, total
from berth_workloads.limit_ranges import Limited, violations, with_defaults

LIMIT_RANGES = BY_KEY["", "limitranges"]
ANNOTATION = "kubernetes.io/limit-ranger"
_BOUNDS = ("min", "max", "maxLimitRequestRatio")
_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def _complete(obj: Object, _view: ClusterView) -> None:
    """Defaults for containers follow from one another."""
    for item in objects_in(obj.get("spec") or {}, "limits"):
        if item.get("type") == "Container":
            parts = [item.get(name) or {} for name in ("default", "defaultRequest", "min", "max")]
            limits, requests = with_defaults(*parts)
            item.update({name: part for name, part in (("default", limits), ("defaultRequest", requests)) if part})


def _is_key(name: str) -> bool:
    mistakes = FieldErrors()
    names.check_key(name, "", mistakes)
    return not mistakes


def _check_type(kind: str, field: str, errors: FieldErrors) -> None:
    names.check_key(kind, field, errors)
    if _is_key(kind) and "/" not in kind and kind not in _TYPES:
        errors.invalid(field, kind, "must be a standard limit type or fully qualified")


def _check_amounts(item: Object, field: str, errors: FieldErrors) -> None:
    """Names of resources, and bounds and defaults that contradict one another."""
    kind = item.get("type", "")
    for section in ("max", "min", "default", "defaultRequest"):
        if kind == "Pod" and section.startswith("default"):
            if item.get(section):
                errors.forbidden(f"{field}.{section}", "may not be specified when `type` is 'Pod'")
        else:
            _check_resources(item, section, field, errors)
    if kind == "PersistentVolumeClaim" and not any("storage" in (item.get(name) or {}) for name in ("min", "max")):
        why = "either minimum or maximum storage value is required, but neither was provided"
        errors.required(f"{field}.limits", why)
    _check_resources(item, "maxLimitRequestRatio", field, errors)
    _check_order(item, field, errors)
    for name, ratio in amounts(item.get("maxLimitRequestRatio")).items():
        if ratio.value < 1:
            errors.invalid(f"{field}.maxLimitRequestRatio[{name}]", str(ratio), f"ratio {ratio} is less than 1")


_CHECK = always("spec", each("limits", always("type", _check_type), Unique("type", ""), _check_amounts), default={})


def _check_resources(item: Object, section: str, field: str, errors: FieldErrors) -> None:
    for name in item.get(section) or {}:
        place = f"{field}.{section}[{name}]"
        is_known = "/" in name or name in STANDARD_RESOURCES or name.startswith("hugepages-")
        names.check_key(name, place, errors)
        if _is_key(name) and not is_known:
            errors.invalid(place, name, "must be a standard resource type or fully qualified")


_ORDER = (
    # (smaller, larger, the field and the part whose value the error names, what the error calls them)
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def _check_order(item: Object, field: str, errors: FieldErrors) -> None:
    parts = {name: amounts(item.get(name)) for name in ("min", "max", "default", "defaultRequest")}
    for name in sorted({name for part in parts.values() for name in part}):
        for low, high, place, shown, low_words, high_words in _ORDER:
            smaller, larger = parts[low].get(name), parts[high].get(name)
            if smaller is not None and larger is not None and smaller.value > larger.value:
                why = f"{low_words} {smaller} is greater than {high_words} {larger}"
                errors.invalid(f"{field}.{place}[{name}]", str(parts[shown][name]), why)


LIMIT_RANGE = RESTStrategy(check=_CHECK, complete=_complete, amend=lambda new, _old, view: _complete(new, view))


def default_limits(pod: Object, view: ClusterView) -> None:
    """Give containers the default amounts of the namespace's LimitRanges."""
    for item in _items(pod, view):
        if item.get("type") == "Container":
            _set_defaults(pod, item)


def limit_pod(pod: Object, view: ClusterView) -> None:
    """Refuse a pod that is outside the bounds of the namespace's LimitRanges."""
    _refuse(pod, "pods", view, lambda item: _of_pod(pod["spec"], item))


def limit_claim(claim: Object, view: ClusterView) -> None:
    """Refuse a claim for more or less storage than the namespace's LimitRanges let it have."""
    kind, asked = "PersistentVolumeClaim", amounts(value_at(claim, "spec.resources.requests"))

    def violated(item: Object) -> Iterator[str]:
        if item.get("type") != kind:
            return iter(())
        least, most = amounts(item.get("min")), amounts(item.get("max"))
        return violations(kind, Limited(asked, {}), least, most, {}, requests_only=True)

    _refuse(claim, "persistentvolumeclaims", view, violated)


def _items(obj: Object, view: ClusterView) -> Iterator[Object]:
    for one in view.objects(LIMIT_RANGES, obj["metadata"]["namespace"]):
        yield from objects_in(one.get("spec") or {}, "limits")


def _refuse(obj: Object, plural: str, view: ClusterView, violated: Callable[[Object], Iterator[str]]) -> None:
    """Refuse an object for what the first LimitRange has against it that has anything."""
    for one in view.objects(LIMIT_RANGES, obj["metadata"]["namespace"]):
        items = objects_in(one.get("spec") or {}, "limits")
        why = list(dict.fromkeys(text for item in items for text in violated(item)))
        if why:
            raise forbidden(plural, "", obj["metadata"]["name"], why[0] if len(why) == 1 else f"[{', '.join(why)}]")


def _set_defaults(pod: Object, item: Object) -> None:
    told = []
    for section, words in (("containers", "container"), ("initContainers", "init container")):
        for container in objects_in(pod["spec"], section):
            resources = container.setdefault("resources", {})
            for part, default in (("requests", "defaultRequest"), ("limits", "default")):
                missing = {
                    name: given
                    for name, given in (item.get(default) or {}).items()
                    if name not in (resources.get(part) or {})
                }
                if missing:
                    resources[part] = {**(resources.get(part) or {}), **missing}
                    told.append(f"{', '.join(sorted(missing))} {part[:-1]} for {words} {container.get('name')}")
    if told:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"


def _of_pod(spec: Object, item: Object) -> Iterator[str]:
    kind, bounds = item.get("type", ""), [amounts(item.get(name)) for name in _BOUNDS]
    if kind == "Container":
        for section in ("containers", "initContainers"):
            for container in objects_in(spec, section):
                yield from violations(kind, limited_by(container.get("resources") or {}), *bounds)
    elif kind == "Pod":
        yield from violations(kind, Limited(pod_total(spec, "requests"), pod_total(spec, "limits")), *bounds)


def limited_by(resources: Object) -> Limited:
    """The amounts of a container."""
    return Limited(amounts(resources.get("requests")), amounts(resources.get("limits")))


def pod_total(spec: Object, part: str) -> Amounts:
    """What a pod requests, or what limits it, all in all; `part` says which.

    Init containers run one after the other beside the sidecars that came before them. What the pod itself says counts
    more, and its overhead comes on top: of limits, where there is one.
    """
    running = [amounts((one.get("resources") or {}).get(part)) for one in objects_in(spec, "containers")]
    sidecars: list[Amounts] = []
    peak: Amounts = {}
    for one in objects_in(spec, "initContainers"):
        own = amounts((one.get("resources") or {}).get(part))
        peak = largest(peak, total([*sidecars, own]))
        if one.get("restartPolicy") == "Always":
            sidecars.append(own)
    found = {**largest(total([*running, *sidecars]), peak), **amounts((spec.get("resources") or {}).get(part))}
    overhead = amounts(spec.get("overhead"))
    return total([found, {name: more for name, more in overhead.items() if part == "requests" or name in found}])
