"""The API group scheduling.k8s.io: priority classes (v1), and pod groups with their workloads (v1alpha2, v1.36).

Source of the rules: staging/src/k8s.io/api/scheduling/v1alpha2/types.go, pkg/registry/scheduling, and kubernetes.io
"PodGroup lifecycle". All feature gates of these kinds count as on here; a scheduler decides by its own gates what it
makes of them.
"""

from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors, Raw, forbidden
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import Unique, always, at_least, both, each, given, need, one_of, unchanged
from berth_cluster.strategies.pod_admission import priority_class

SYSTEM_CRITICAL = 2_000_000_000
HIGHEST_USER_PRIORITY = 1_000_000_000
GROUP = "scheduling.k8s.io"
MAX_TEMPLATES = 8
MAX_TOPOLOGY_CONSTRAINTS = 1

_POLICIES = ("basic", "gang")
_GROUP_IMMUTABLE = (
    "podGroupTemplateRef", "schedulingPolicy", "schedulingConstraints", "resourceClaims", "disruptionMode",
    "priorityClassName", "priority",
)  # fmt: skip


def _check_priority(obj: Object, _field: str, errors: FieldErrors) -> None:
    """The highest values belong to the system."""
    value = obj["value"]
    if obj["metadata"]["name"].startswith("system-"):
        if value < SYSTEM_CRITICAL:
            why = "priority class names with 'system-' prefix are reserved for system use only"
            errors.forbidden("metadata.name", why)
    elif value > HIGHEST_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.forbidden("value", why)


def _keep_priority(new: Object, old: Object, errors: FieldErrors) -> None:
    """Pods carry the value, so it cannot change behind them."""
    if new["value"] != old["value"]:
        errors.forbidden("value", "may not be changed in an update.")
    unchanged(("preemptionPolicy",), new, old, errors)


def _complete_group(obj: Object, view: ClusterView) -> None:
    """The disruption mode, and the priority of the class; the status belongs to the scheduler."""
    obj.pop("status", None)
    spec = obj["spec"]
    spec.setdefault("disruptionMode", "Pod")
    computed = (priority_class(obj, "podgroups", GROUP, view) or {}).get("value", 0)
    given_value = spec.setdefault("priority", computed)
    if given_value != computed:
        why = (
            f"the integer value of priority ({given_value}) must not be provided in pod group spec; "
            f"priority admission controller computed {computed} from the given PriorityClass name"
        )
        raise forbidden("podgroups", GROUP, obj["metadata"]["name"], why)
    _check_template_exists(obj, view)


def _check_template_exists(obj: Object, view: ClusterView) -> None:
    """Refuse a group that names a workload, or a template in it, that does not exist."""
    reference = ((obj["spec"].get("podGroupTemplateRef") or {}).get("workload")) or {}
    workload_name, template_name = reference.get("workloadName"), reference.get("podGroupTemplateName")
    if not workload_name:
        return
    meta = obj["metadata"]
    workload = view.find(BY_KEY[GROUP, "workloads"], meta["namespace"], workload_name)
    if workload is None:
        raise forbidden("podgroups", GROUP, meta["name"], f"no Workload with name {workload_name} was found")
    templates = (workload.get("spec") or {}).get("podGroupTemplates") or []
    if not any(template.get("name") == template_name for template in templates):
        why = f"Workload {workload_name} has no podGroupTemplate with name {template_name}"
        raise forbidden("podgroups", GROUP, meta["name"], why)


def _check_policy(policy: Object, field: str, errors: FieldErrors) -> None:
    chosen = [name for name in _POLICIES if policy.get(name) is not None]
    names_known = ", ".join(f"`{name}`" for name in _POLICIES)
    if not chosen:
        errors.invalid(field, "", f"must specify one of: {names_known}")
    elif len(chosen) > 1:
        errors.invalid(field, Raw("{" + ", ".join(chosen) + "}"), f"must specify exactly one of: {names_known}")


def _no_more(most: int, what: str) -> Any:
    def check(entries: list[Object] | None, field: str, errors: FieldErrors) -> None:
        if len(entries or ()) > most:
            errors.invalid(field, len(entries or ()), f"must have at most {most} {what}")

    return check


def _keep_controller(new: Object, old: Object, errors: FieldErrors) -> None:
    """Templates cannot change, since groups have been made from them; a controller is named once."""
    owner = ("spec.controllerRef",) if (old.get("spec") or {}).get("controllerRef") else ()
    unchanged(("spec.podGroupTemplates", *owner), new, old, errors)


_GROUP_SPEC = both(
    always(
        "schedulingPolicy",
        _check_policy,
        given("gang", need("minCount", at_least(1))),
        default={},
    ),
    given("schedulingConstraints.topology", _no_more(MAX_TOPOLOGY_CONSTRAINTS, "item")),
    each("schedulingConstraints.topology", need("key", names.check_key)),
    given("disruptionMode", one_of("Pod", "PodGroup")),
)
_WORKLOAD = both(
    need("podGroupTemplates"),
    given("podGroupTemplates", _no_more(MAX_TEMPLATES, "items")),
    each("podGroupTemplates", always("name", names.check_label_name), Unique("name", "", at_entry=True), _GROUP_SPEC),
)
PRIORITY_CLASS = RESTStrategy(check=_check_priority, change=_keep_priority)
# A group's spec cannot change, since its pods are scheduled by it.
POD_GROUP = RESTStrategy(
    check=always("spec", _GROUP_SPEC),
    fixed=tuple(f"spec.{name}" for name in _GROUP_IMMUTABLE),
    kept=("spec.disruptionMode", "spec.priorityClassName", "spec.priority"),
    complete=_complete_group,
)
WORKLOAD = RESTStrategy(check=always("spec", _WORKLOAD, default={}), change=_keep_controller)
