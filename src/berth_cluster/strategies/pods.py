"""Pods: defaults and admission on creation, and almost everything immutable afterwards."""

from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object, timestamp
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.strategic_merge import identity
from berth_cluster.strategies import defaults, limit_ranges, pod_admission, runtime_classes
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import always
from berth_cluster.strategies.pod_checks import check_pod_spec, pod_warnings
from berth_cluster.strategies.pod_defaults import default_from_limits, objects_in
from berth_cluster.strategies.pod_resize import check_resize, resized

IMMUTABLE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
_SECTIONS = ("containers", "initContainers")
_CHANGEABLE = ("activeDeadlineSeconds", "schedulingGates", "terminationGracePeriodSeconds", "tolerations")
# What may still be narrowed while a pod waits behind a scheduling gate.
_CHANGEABLE_WHEN_GATED = ("affinity", "nodeSelector")


class PodStrategy(RESTStrategy):
    """What the API server and its admission plugins do to pods."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            check=always("spec", check_pod_spec),
            admission=limit_ranges.limit_pod,
            kept=("spec.enableServiceLinks", "spec.priority", "spec.preemptionPolicy"),
            told=lambda pod: pod_warnings(pod["spec"], "spec"),
        )

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Defaults, priority, tolerations, label keys, and the first status."""
        defaults.fill_in(obj)
        spec = obj["spec"]
        default_from_limits(spec)
        spec.setdefault("enableServiceLinks", True)
        pod_admission.set_service_account(obj, view)
        pod_admission.set_priority(obj, view)
        pod_admission.add_default_tolerations(obj)
        runtime_classes.apply_runtime_class(obj, view)
        pod_admission.merge_label_keys(obj)
        limit_ranges.default_limits(obj, view)
        obj["status"] = {"phase": "Pending", "qosClass": pod_admission.qos_class(spec)}
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [_gated_condition(view)]

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """Defaults again. A status written without the QoS class keeps the one it had: no writer means to remove it."""
        if subresource == "status":
            qos = (old.get("status") or {}).get("qosClass")
            if qos:
                new["status"].setdefault("qosClass", qos)
            return
        if subresource == "resize":
            new["spec"] = resized(old["spec"], new["spec"])
        RESTStrategy.prepare_update(self, new, old, "", view)
        if not subresource:
            default_from_limits(new["spec"])
            pod_admission.add_default_tolerations(new)

    def validate_update(self, kind: ResourceType, new: Object, old: Object, subresource: str) -> None:
        """A resize has rules of its own."""
        if subresource != "resize":
            super().validate_update(kind, new, old, subresource)
            return
        errors = FieldErrors()
        self.check(new, "", errors)
        check_resize(new, old, errors)
        errors.raise_for(kind.kind, kind.group, new["metadata"]["name"])

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """A pod's spec cannot change, except for a few fields."""
        was, now = old["spec"], new["spec"]
        if any(len(was.get(section) or []) != len(now.get(section) or []) for section in _SECTIONS):
            for section in _SECTIONS:
                if len(was.get(section) or []) != len(now.get(section) or []):
                    errors.forbidden(f"spec.{section}", "pod updates may not add or remove containers")
            return
        _check_gates(was, now, errors)
        kept = {identity(one) for one in now.get("tolerations") or []}
        if any(identity(one) not in kept for one in was.get("tolerations") or []):
            errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        free = _CHANGEABLE + (_CHANGEABLE_WHEN_GATED if was.get("schedulingGates") else ())
        if _fixed_part(was, free) != _fixed_part(now, free):
            errors.forbidden("spec", IMMUTABLE_MESSAGE)


def _gated_condition(view: ClusterView) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(view.clock()),
        "reason": "SchedulingGated",
        "message": GATED_MESSAGE,
    }


def _check_gates(was: Object, now: Object, errors: FieldErrors) -> None:
    known = {gate.get("name") for gate in objects_in(was, "schedulingGates")}
    for gate in objects_in(now, "schedulingGates"):
        if gate.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errors.forbidden("spec.schedulingGates", why)


def _fixed_part(spec: Object, free: tuple[str, ...]) -> dict[str, Any]:
    fixed = {key: value for key, value in spec.items() if key not in free}
    for section in ("containers", "initContainers"):
        if section in fixed:
            fixed[section] = [
                {key: value for key, value in container.items() if key not in ("image", "imagePullPolicy")}
                for container in objects_in(spec, section)
            ]
    return fixed
