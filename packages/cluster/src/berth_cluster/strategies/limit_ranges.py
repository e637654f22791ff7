"""LimitRanges: what is checked of them, and the claims that they refuse; of pods, `pod_admission` knows.

The rules are those of `berth_workloads.limit_ranges`. Upstream: plugin/pkg/admission/limitranger.
"""

from berth_cluster.apimachinery.errors import FieldErrors, forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import Unique, always, each
from berth_cluster.strategies.pod_checks import STANDARD_RESOURCES
from berth_workloads.amounts import amounts
from berth_workloads.limit_ranges import completed_items, limit_range_refusal
from berth_workloads.pods import objects_in

LIMIT_RANGES = BY_KEY["", "limitranges"]
_TYPES = ("Container", "Pod", "PersistentVolumeClaim")


def _complete(obj: Object, _view: ClusterView) -> None:
    """Defaults for containers follow from one another."""
    items = objects_in(obj.get("spec") or {}, "limits")
    for item, completed in zip(items, completed_items(obj), strict=True):
        item.update(completed)


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


def limit_claim(claim: Object, view: ClusterView) -> None:
    """Refuse a claim for more or less storage than the namespace's LimitRanges let it have."""
    found = view.objects(LIMIT_RANGES, claim["metadata"]["namespace"])
    why = limit_range_refusal("PersistentVolumeClaim", claim.get("spec") or {}, found)
    if why:
        raise forbidden("persistentvolumeclaims", "", claim["metadata"]["name"], why)
