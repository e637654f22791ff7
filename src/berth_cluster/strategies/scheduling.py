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
from berth_cluster.strategies.pod_admission import priority_class

SYSTEM_CRITICAL = 2_000_000_000
HIGHEST_USER_PRIORITY = 1_000_000_000
GROUP = "scheduling.k8s.io"
MAX_TEMPLATES = 8
MAX_TOPOLOGY_CONSTRAINTS = 1
DISRUPTION_MODES = ("Pod", "PodGroup")
IMMUTABLE = "field is immutable"

_POLICIES = ("basic", "gang")
_IMMUTABLE = (
    "podGroupTemplateRef", "schedulingPolicy", "schedulingConstraints", "resourceClaims", "disruptionMode",
    "priorityClassName", "priority",
)  # fmt: skip


class PriorityClassStrategy(RESTStrategy):
    """Priority classes: their value never changes, and the highest belong to the system."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """The preemption policy."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def prepare_update(self, new: Object, _old: Object, _subresource: str, view: ClusterView) -> None:
        """As on creation."""
        self.prepare_create(new, view)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The value."""
        value, name = obj["value"], obj["metadata"]["name"]
        if not isinstance(value, int) or isinstance(value, bool):
            errors.invalid("value", value, "must be a whole number")
        elif name.startswith("system-"):
            if value < SYSTEM_CRITICAL:
                why = "priority class names with 'system-' prefix are reserved for system use only"
                errors.forbidden("metadata.name", why)
        elif value > HIGHEST_USER_PRIORITY:
            why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.forbidden("value", why)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Pods carry the value, so it cannot change behind them."""
        if new["value"] != old["value"]:
            errors.forbidden("value", "may not be changed in an update.")
        if new["preemptionPolicy"] != old.get("preemptionPolicy"):
            errors.invalid("preemptionPolicy", new["preemptionPolicy"], "field is immutable")


class PodGroupStrategy(RESTStrategy):
    """Pod groups: their spec never changes, their status belongs to the scheduler."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """The disruption mode, and the priority of the class."""
        obj.pop("status", None)
        spec = obj.setdefault("spec", {})
        spec.setdefault("disruptionMode", "Pod")
        computed = (priority_class(obj, "podgroups", GROUP, view) or {}).get("value", 0)
        given = spec.setdefault("priority", computed)
        if given != computed:
            why = (
                f"the integer value of priority ({given}) must not be provided in pod group spec; "
                f"priority admission controller computed {computed} from the given PriorityClass name"
            )
            raise forbidden("podgroups", GROUP, obj["metadata"]["name"], why)
        _check_template_exists(obj, view)

    def prepare_update(self, new: Object, old: Object, subresource: str, _view: ClusterView) -> None:
        """What was filled in stays where an update leaves it out."""
        if subresource:
            return
        was = old.get("spec") or {}
        spec = new.setdefault("spec", {})
        for name in ("disruptionMode", "priorityClassName", "priority"):
            if name in was:
                spec.setdefault(name, was[name])

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Policy, constraints and disruption mode."""
        _check_group_spec(obj["spec"], "spec", errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """A group's spec cannot change, since its pods are scheduled by it."""
        now, was = new["spec"], old.get("spec") or {}
        for name in _IMMUTABLE:
            if now.get(name) != was.get(name):
                errors.invalid(f"spec.{name}", Raw(_shown(now.get(name))), IMMUTABLE)


class WorkloadStrategy(RESTStrategy):
    """Workloads: templates that controllers make pod groups from."""

    __slots__ = ()

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The templates."""
        templates = (obj.get("spec") or {}).get("podGroupTemplates") or []
        if not templates:
            errors.required("spec.podGroupTemplates")
        if len(templates) > MAX_TEMPLATES:
            errors.invalid("spec.podGroupTemplates", len(templates), f"must have at most {MAX_TEMPLATES} items")
        seen: set[Any] = set()
        for number, template in enumerate(templates):
            field = f"spec.podGroupTemplates[{number}]"
            name = template.get("name", "")
            names.check_label_name(name, f"{field}.name", errors)
            if name in seen:
                errors.duplicate(field, name)
            seen.add(name)
            _check_group_spec(template, field, errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Templates cannot change, since groups have been made from them."""
        now, was = new.get("spec") or {}, old.get("spec") or {}
        if now.get("podGroupTemplates") != was.get("podGroupTemplates"):
            errors.invalid("spec.podGroupTemplates", Raw(_shown(now.get("podGroupTemplates"))), IMMUTABLE)
        if was.get("controllerRef") and now.get("controllerRef") != was.get("controllerRef"):
            errors.invalid("spec.controllerRef", Raw(_shown(now.get("controllerRef"))), IMMUTABLE)


def _check_group_spec(spec: Object, field: str, errors: FieldErrors) -> None:
    """What a group and a template of one have in common."""
    _check_policy(spec.get("schedulingPolicy") or {}, f"{field}.schedulingPolicy", errors)
    constraints = spec.get("schedulingConstraints")
    if constraints is not None:
        _check_topology(constraints.get("topology") or [], f"{field}.schedulingConstraints.topology", errors)
    mode = spec.get("disruptionMode")
    if mode is not None and mode not in DISRUPTION_MODES:
        errors.unsupported(f"{field}.disruptionMode", str(mode), DISRUPTION_MODES)


def _check_policy(policy: Object, field: str, errors: FieldErrors) -> None:
    chosen = [name for name in _POLICIES if policy.get(name) is not None]
    names_known = ", ".join(f"`{name}`" for name in _POLICIES)
    if not chosen:
        errors.invalid(field, "", f"must specify one of: {names_known}")
    elif len(chosen) > 1:
        errors.invalid(field, Raw("{" + ", ".join(chosen) + "}"), f"must specify exactly one of: {names_known}")
    gang = policy.get("gang")
    if gang is not None:
        count = gang.get("minCount")
        if not count:
            errors.required(f"{field}.gang.minCount")
        elif count < 1:
            errors.invalid(f"{field}.gang.minCount", count, "must be greater than or equal to 1")


def _check_topology(constraints: list[Any], field: str, errors: FieldErrors) -> None:
    if len(constraints) > MAX_TOPOLOGY_CONSTRAINTS:
        errors.invalid(field, len(constraints), f"must have at most {MAX_TOPOLOGY_CONSTRAINTS} item")
    for number, constraint in enumerate(constraints):
        key = constraint.get("key")
        if not key:
            errors.required(f"{field}[{number}].key")
        else:
            names.check_key(str(key), f"{field}[{number}].key", errors)


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


def _shown(value: Any) -> str:
    return "null" if value is None else str(value)
