"""The defaults of all types: one table, and a walk over an object that fills in what it leaves open.

Like upstream's defaulting functions, those here belong to types, so that a pod's container has the same defaults as one
in the template of a CronJob. What depends on the kind that holds a type (a Job's spec) or on the cluster is set by the
kind's strategy. A value that is there is never changed.
Source: pkg/apis/*/v1/defaults.go, v1.36.
"""

import re
from collections.abc import Callable
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.schema import Message, message, type_of

DEFAULT_MODE = 0o644
# [host[:port]/]path[:tag]
_IMAGE = re.compile(
    r"(?![a-f0-9]{64}$)((?=[^/]*[.:A-Z][^/]*/|localhost/)[A-Za-z0-9.\[\]:-]+/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
    r"(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*(?::\w[\w.-]{0,127})?",
    re.ASCII,
).fullmatch


def _pull_policy(container: Object) -> str:
    """Images without a tag, or tagged latest, may change and are always pulled."""
    image = container.get("image")
    if not isinstance(image, str) or "@" in image or not _IMAGE(image):
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _empty_dir(volume: Object) -> Object | None:
    return {} if volume.keys() <= {"name"} else None


def _rolling(strategy: Object) -> Object | None:
    return {} if strategy["type"] == "RollingUpdate" else None


def _exact_count(request: Object) -> int | None:
    return 1 if request["allocationMode"] == "ExactCount" else None


def _policy_types(spec: Object) -> list[str]:
    return ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _metrics(_spec: Object) -> list[Object]:
    target = {"type": "Utilization", "averageUtilization": 80}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


_CONTAINER: Object = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": _pull_policy,
}
_DEVICES: Object = {"allocationMode": "ExactCount", "count": _exact_count}
_SELECTED: Object = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_WEBHOOK: Object = {"failurePolicy": "Fail", **_SELECTED, "timeoutSeconds": 10}
_REACHED: Object = {"port": 443}
_RBAC = "rbac.authorization.k8s.io"
_FILES: Object = {"defaultMode": DEFAULT_MODE}
# type -> field -> its default, or how it follows from the fields before it (None where there is none)
_DEFAULTS: MappingProxyType[str, Object] = MappingProxyType(
    {
        "admissionregistration.v1.MatchResources": _SELECTED,
        "admissionregistration.v1.MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
        "admissionregistration.v1.MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
        "admissionregistration.v1.NamedRuleWithOperations": {"scope": "*"},
        "admissionregistration.v1.RuleWithOperations": {"scope": "*"},
        "admissionregistration.v1.ServiceReference": _REACHED,
        "admissionregistration.v1.ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
        "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
        "apiextensions.v1.ServiceReference": _REACHED,
        "apiregistration.v1.ServiceReference": _REACHED,
        "apps.v1.DaemonSetSpec": {"template": {}, "revisionHistoryLimit": 10, "updateStrategy": {}},
        "apps.v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate", "rollingUpdate": _rolling},
        "apps.v1.DeploymentSpec": {
            "replicas": 1, "template": {}, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}
        },
        "apps.v1.DeploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": _rolling},
        "apps.v1.ReplicaSetSpec": {"replicas": 1, "template": {}},
        "apps.v1.RollingUpdateDaemonSet": {"maxUnavailable": 1, "maxSurge": 0},
        "apps.v1.RollingUpdateDeployment": {"maxUnavailable": "25%", "maxSurge": "25%"},
        "apps.v1.RollingUpdateStatefulSetStrategy": {"partition": 0},
        "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "apps.v1.StatefulSetSpec": {
            "replicas": 1, "template": {}, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {}, "serviceName": "", "persistentVolumeClaimRetentionPolicy": {},
        },
        "apps.v1.StatefulSetUpdateStrategy": {"type": "RollingUpdate", "rollingUpdate": _rolling},
        "autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1, "metrics": _metrics},
        "batch.v1.CronJobSpec": {
            "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1, "jobTemplate": {},
        },
        "batch.v1.JobSpec": {"template": {}},
        "batch.v1.JobTemplateSpec": {"spec": {}},
        "batch.v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
        "core.v1.ConfigMapVolumeSource": _FILES,
        "core.v1.Container": _CONTAINER,
        "core.v1.ContainerPort": {"protocol": "TCP"},
        "core.v1.DownwardAPIVolumeSource": _FILES,
        "core.v1.EphemeralContainer": _CONTAINER,
        "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
        "core.v1.HostPathVolumeSource": {"type": ""},
        "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
        "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
        "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
        "core.v1.PodSpec": {
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "securityContext": {}, "schedulerName": "default-scheduler",
        },
        "core.v1.PodTemplateSpec": {"metadata": {}, "spec": {"containers": None}},
        "core.v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
        "core.v1.ProjectedVolumeSource": _FILES,
        "core.v1.ReplicationControllerSpec": {"replicas": 1, "template": {}},
        "core.v1.Secret": {"type": "Opaque"},
        "core.v1.SecretVolumeSource": _FILES,
        "core.v1.ServicePort": {"protocol": "TCP", "targetPort": lambda port: port.get("port", 0)},
        "core.v1.ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"},
        "core.v1.Volume": {"emptyDir": _empty_dir},
        "networking.v1.IngressClassParametersReference": {"scope": "Cluster"},
        "networking.v1.NetworkPolicyPort": {"protocol": "TCP"},
        "networking.v1.NetworkPolicySpec": {"policyTypes": _policy_types},
        "rbac.v1.RoleRef": {"apiGroup": _RBAC},
        "rbac.v1.Subject": {"apiGroup": lambda subject: _RBAC if subject.get("kind") in ("User", "Group") else None},
        "resource.v1.DeviceSubRequest": _DEVICES,
        "resource.v1.DeviceToleration": {"operator": "Equal"},
        "resource.v1.ExactDeviceRequest": _DEVICES,
        "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority", "value": 0},
        "storage.v1.CSIDriverSpec": {
            "attachRequired": True, "podInfoOnMount": False, "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType", "volumeLifecycleModes": ["Persistent"],
            "requiresRepublish": False, "seLinuxMount": False,
        },
        "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    }
)  # fmt: skip
# Fields of which a zero, or an empty list, is no value.
_ZERO_IS_NONE = frozenset({"count", "metrics", "policyTypes", "targetPort"})


class _Plan(NamedTuple):
    """What is filled in for a type: its own fields, and those of what it holds."""

    fields: tuple[tuple[str, Any, Callable[[Object], Any] | None], ...]  # with a value, or what makes one
    parts: tuple[tuple[str, "_Plan"], ...]


def fill_in(obj: Object) -> None:
    """Set the defaults of an object, and of all that it is made of."""
    plan, has_spec = _plan_of(str(obj.get("apiVersion")), str(obj.get("kind")))
    if has_spec and not isinstance(obj.get("spec"), dict):
        obj["spec"] = {}
    _fill_in(obj, plan)


def _fill_in(holder: Object, plan: _Plan) -> None:
    for name, default, make in plan.fields:
        value = holder.get(name)
        if value is None or value == "" or (not value and name in _ZERO_IS_NONE):
            made = default if make is None else make(holder)
            if made is not None:
                holder[name] = made
    for name, below in plan.parts:
        part = holder.get(name)
        if isinstance(part, dict):
            _fill_in(part, below)
        elif isinstance(part, list):
            for one in part:
                if isinstance(one, dict):
                    _fill_in(one, below)


@cache
def _plan_of(api_version: str, kind: str) -> tuple[_Plan, bool]:
    """The plan for one of the stored kinds, and whether it has a spec."""
    known = type_of({"apiVersion": api_version, "kind": kind})
    return (_Plan((), ()), False) if known is None else (_plan(known, frozenset()), "spec" in known.fields)


def _plan(known: Message, above: frozenset[str]) -> _Plan:
    """The plan for a type; what is above it is not looked at again, since some types hold themselves."""
    above |= {known.name}
    parts = []
    for name, field in known.fields.items():
        if not field.is_scalar and not field.is_map and field.type not in above:
            plan = _plan(message(field.type), above)
            if plan.fields or plan.parts:
                parts.append((name, plan))
    own = _DEFAULTS.get(known.name, {}).items()
    return _Plan(tuple((name, value, _maker(value)) for name, value in own), tuple(parts))


def _maker(value: Any) -> Callable[[Object], Any] | None:
    """What makes a default: a function that says so, or for what can be changed a copy."""
    return value if callable(value) else (lambda _holder: value.copy()) if isinstance(value, dict | list) else None
