"""Pod disruption budgets (API group policy), and the limits of a namespace."""

import re

import msgspec

from berth.api.quantity import parse
from berth_cluster.apimachinery.errors import FieldErrors, Raw
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy

PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


class PodDisruptionBudgetStrategy(RESTStrategy):
    """Pod disruption budgets."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Nothing may be disrupted until a controller has counted."""
        obj.setdefault("spec", {})
        counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
        obj["status"] = dict.fromkeys(counts, 0)

    def prepare_update(self, new: Object, _old: Object, _subresource: str, _view: ClusterView) -> None:
        """A budget without a spec is an empty one."""
        new.setdefault("spec", {})

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """One bound, not two, and a selector that can be read."""
        spec = obj["spec"]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = Raw(msgspec.json.encode(spec).decode())
            errors.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
        names.check_selector(spec.get("selector"), "spec.selector", errors)
        for name in ("minAvailable", "maxUnavailable"):
            bound = spec.get(name)
            if isinstance(bound, str) and not re.fullmatch(r"[0-9]+%", bound):
                errors.invalid(f"spec.{name}", bound, PERCENT_MESSAGE)
            elif isinstance(bound, int) and bound < 0:
                errors.invalid(f"spec.{name}", bound, "must be greater than or equal to 0")


class LimitRangeStrategy(RESTStrategy):
    """LimitRanges; `limits.py` holds objects to them."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Limits of containers: the default request is the default limit, and that is the maximum."""
        for limit in (obj.setdefault("spec", {}).get("limits")) or []:
            if limit.get("type") != "Container":
                continue
            for source, target in (("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")):
                if limit.get(source):
                    limit[target] = {**limit[source], **(limit.get(target) or {})}

    def prepare_update(self, new: Object, _old: Object, _subresource: str, view: ClusterView) -> None:
        """As on creation."""
        self.prepare_create(new, view)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Types, names of resources, and that no minimum is above its maximum."""
        seen: set[str] = set()
        for number, limit in enumerate(obj["spec"].get("limits") or []):
            field, kind = f"spec.limits[{number}]", limit.get("type", "")
            names.check_key(kind, f"{field}.type", errors)
            if kind and "/" not in kind and kind not in _LIMIT_TYPES:
                errors.invalid(f"{field}.type", kind, "must be a standard limit type or fully qualified")
            if kind in seen:
                errors.duplicate(f"{field}.type", kind)
            seen.add(kind)
            _check_limit(limit, field, errors)


_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_LIMITED = ("cpu", "memory", "ephemeral-storage", "storage", "pods", "services", "secrets", "configmaps",
            "replicationcontrollers", "resourcequotas", "persistentvolumeclaims")  # fmt: skip


def _check_limit(limit: Object, field: str, errors: FieldErrors) -> None:
    highest, lowest = limit.get("max") or {}, limit.get("min") or {}
    if limit.get("type") == "PersistentVolumeClaim" and "storage" not in {*highest, *lowest}:
        why = "either minimum or maximum storage value is required, but neither was provided"
        errors.required(f"{field}.limits", why)
    for section in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        for name in limit.get(section) or {}:
            names.check_key(name, f"{field}.{section}[{name}]", errors)
            if "/" not in name and name not in _LIMITED and not name.startswith("hugepages-"):
                place = f"{field}.{section}[{name}]"
                errors.invalid(place, name, "must be a standard resource type or fully qualified")
    for name in lowest.keys() & highest.keys():
        if parse(lowest[name]) > parse(highest[name]):
            why = f"min value {lowest[name]} is greater than max value {highest[name]}"
            errors.invalid(f"{field}.min[{name}]", lowest[name], why)
