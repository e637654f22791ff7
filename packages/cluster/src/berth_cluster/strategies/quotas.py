"""ResourceQuotas: what is checked of them. What they count is in `berth_workloads.quotas`."""

from berth_cluster.apimachinery.errors import FieldErrors, Raw, as_json
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies.base import RESTStrategy
from berth_cluster.strategies.checks import IMMUTABLE, always
from berth_workloads.amounts import amounts
from berth_workloads.pods import objects_in
from berth_workloads.quotas import MUST_BE_GIVEN, NAMED, NATIVE

_COUNTED = NAMED | {"persistentvolumeclaims", "services.nodeports", "services.loadbalancers"}
_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")


def _check(spec: Object, _field: str, errors: FieldErrors) -> None:
    """Known resources, whole numbers of objects, and scopes that suit them and one another."""
    hard = amounts(spec.get("hard"))
    for name, limit in hard.items():
        field = f"spec.hard[{name}]"
        computing = name.removeprefix("requests.").removeprefix("limits.") in NATIVE or "hugepages-" in name
        known = computing or name in _COUNTED or name == "requests.storage"
        if not known and "/" not in name:
            errors.invalid(field, name, "must be a standard resource type or fully qualified")
            errors.invalid(field, name, "must be a standard resource for quota")
        if limit.value < 0:
            errors.invalid(field, str(limit), "must be greater than or equal to 0")
        if name in _COUNTED and limit.value.denominator != 1:
            errors.invalid(field, str(limit), "must be an integer")
    scopes = spec.get("scopes") or []
    shown = Raw(as_json(scopes))
    fitting = {"pods"} if "BestEffort" in scopes else {"pods", *MUST_BE_GIVEN}
    if any(scope not in _SCOPES for scope in scopes):
        errors.invalid("spec.scopes", shown, "unsupported scope")
    elif scopes and set(hard) - fitting:
        errors.invalid("spec.scopes", shown, "unsupported scope applied to resource")
    if any({scope, f"Not{scope}"} <= set(scopes) for scope in _SCOPES):
        errors.invalid("spec.scopes", shown, "conflicting scopes")
    for each in objects_in(spec.get("scopeSelector") or {}, "matchExpressions"):
        if each.get("operator") in ("In", "NotIn") and not each.get("values"):
            why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.required("spec.scopeSelector.matchExpressions.values", why)


def _check_change(new: Object, old: Object, errors: FieldErrors) -> None:
    """What a quota counts stays the same."""
    before, after = ((one.get("spec") or {}).get("scopes") or [] for one in (old, new))
    if sorted(before) != sorted(after):
        errors.invalid("spec.scopes", Raw(as_json(after)), IMMUTABLE)


RESOURCE_QUOTA = RESTStrategy(check=always("spec", _check, default={}), status={}, change=_check_change)
