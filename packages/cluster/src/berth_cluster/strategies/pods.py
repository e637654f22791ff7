"""Pods: defaults and admission on creation, and almost everything immutable afterwards."""

from collections.abc import Iterable
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.go_form import difference
from berth_cluster.apimachinery.meta import Object, timestamp
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.strategic_merge import identity
from berth_cluster.strategies import defaults, pod_admission
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import always, each
from berth_cluster.strategies.ephemeral_containers import SECTION, check_additions
from berth_cluster.strategies.pod_checks import IMAGE, check_pod_spec, pod_warnings
from berth_cluster.strategies.pod_defaults import default_from_limits
from berth_cluster.strategies.pod_resize import check_resize, resized
from berth_workloads.admission import add_default_tolerations
from berth_workloads.pods import objects_in, qos_class

IMMUTABLE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
EPHEMERAL = "ephemeralcontainers"
_SECTIONS = ("containers", "initContainers")
_CHANGEABLE = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
# What may still be narrowed while a pod waits behind a scheduling gate.
_CHANGEABLE_WHEN_GATED = ("affinity", "nodeSelector")


class PodStrategy(RESTStrategy):
    """What the API server and its admission plugins do to pods."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            check=always("spec", check_pod_spec),
            admission=pod_admission.admit,
            kept=("spec.enableServiceLinks", "spec.priority", "spec.preemptionPolicy"),
            host_name="the Pod's hostname",
            told=lambda pod: pod_warnings(pod["spec"], "spec"),
            told_again=lambda _new, _old: False,  # people seldom change pods, programs often
        )

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Defaults, priority, tolerations, label keys, and the first status."""
        defaults.fill_in(obj)
        spec = obj["spec"]
        default_from_limits(spec)
        spec.setdefault("enableServiceLinks", True)
        pod_admission.complete(obj, view)
        pod_admission.merge_label_keys(obj)
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
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
        elif subresource == EPHEMERAL:
            new["spec"] = {**old["spec"], SECTION: new["spec"].get(SECTION) or []}
        RESTStrategy.prepare_update(self, new, old, "", view)
        if not subresource:
            default_from_limits(new["spec"])
            add_default_tolerations(new["spec"])

    def validate_update(
        self, kind: ResourceType, new: Object, old: Object, subresource: str, empties: Object | None = None
    ) -> None:
        """A resize has rules of its own, and so has adding ephemeral containers."""
        changes = {"resize": check_resize, EPHEMERAL: check_additions}
        if subresource not in changes:
            super().validate_update(kind, new, old, subresource, empties)
            return
        errors = FieldErrors()
        self.check(new, "", errors)
        changes[subresource](new, old, errors)
        errors.raise_for(kind.kind, kind.group, new["metadata"]["name"])

    def validate_create(self, kind: ResourceType, obj: Object, empties: Object | None = None) -> None:
        """Ephemeral containers are for pods that are there."""
        super().validate_create(kind, obj, empties)
        if obj["spec"].get(SECTION):
            errors = FieldErrors()
            errors.forbidden(f"spec.{SECTION}", "cannot be set on create")
            errors.raise_for(kind.kind, kind.group, obj["metadata"]["name"])

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """A pod's spec cannot change, except for a few fields."""
        was, now = old["spec"], new["spec"]
        for section in _SECTIONS:
            if len(was.get(section) or ()) != len(now.get(section) or ()):
                errors.forbidden(f"spec.{section}", "pod updates may not add or remove containers")
                return
            each(section, IMAGE)(now, "spec", errors)
        _check_deadline(now, was, errors)
        _check_gates(was, now, errors)
        kept = {_without_seconds(one) for one in now.get("tolerations") or ()}
        if any(_without_seconds(one) not in kept for one in was.get("tolerations") or ()):
            errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        selector = was.get("nodeSelector") or {}
        if was.get("schedulingGates") and selector.items() - (now.get("nodeSelector") or {}).items():
            why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.invalid("spec.nodeSelector", now.get("nodeSelector"), why)
        wanted = _with_what_may_change(was, now)
        if wanted != was:
            changed = difference("core.v1.PodSpec", was, wanted, "spec", errors.empties)
            errors.forbidden("spec", f"{IMMUTABLE_MESSAGE}\n{changed}")


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
    for number, gate in enumerate(objects_in(now, "schedulingGates")):
        if gate.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errors.forbidden(f"spec.schedulingGates[{number}].name", why)


def _check_deadline(now: Object, was: Object, errors: FieldErrors) -> None:
    """A deadline may come, and come sooner, but not go."""
    before, after = was.get("activeDeadlineSeconds"), now.get("activeDeadlineSeconds")
    if before is not None and after is None:
        errors.invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif before is not None and after > before:
        errors.invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")


def _without_seconds(toleration: Object) -> Any:
    return identity({key: value for key, value in toleration.items() if key != "tolerationSeconds"})


def _with_what_may_change(was: Object, now: Object) -> Object:
    """The new spec with what may change as it was before."""

    def kept(old: Object, new: Object, names: Iterable[str]) -> Object:
        before = {name: old[name] for name in names if name in old}
        return {name: value for name, value in new.items() if name not in names} | before

    names = _CHANGEABLE + (_CHANGEABLE_WHEN_GATED if was.get("schedulingGates") else ())
    if was.get("terminationGracePeriodSeconds", 0) < 0 and now.get("terminationGracePeriodSeconds") == 1:
        names += ("terminationGracePeriodSeconds",)
    wanted = kept(was, now, names)
    for section in _SECTIONS:
        if now.get(section):
            pairs = zip(was[section], now[section], strict=True)
            wanted[section] = [kept(old, new, ("image",)) for old, new in pairs]
    return wanted
