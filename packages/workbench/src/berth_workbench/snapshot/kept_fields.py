"""Which fields of which kinds a snapshot keeps: those that scheduling reads, and what workloads are made of.

The scheduler reads the fields of the structs in `berth.api`, so these are the list. Added to them is what an embedded
cluster or a what-if needs to continue a workload. Everything else, such as commands, environments, mounts, volumes of
secrets, `managedFields` and most annotations, is left out.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from berth.api.codec import KINDS
from berth.api.dra import DeviceAllocationResult, DeviceClaim, DeviceClassSpec, ResourceClaimSpec
from berth.api.meta import LabelSelector, ObjectMeta
from berth.api.pod import PodSpec
from berth.api.resources import RESOURCES, Resource
from berth.api.storage import PersistentVolumeClaimSpec
from berth_workbench.snapshot.documents import NOT_READ
from berth_workbench.snapshot.roles import ROLES, Role


class Leaf(NamedTuple):
    """A value that is kept whole; the role says how it is anonymized."""

    role: Role


class Each(NamedTuple):
    """A list."""

    shape: "Shape"
    leaves_out: str = ""
    """Elements that have this field only are left out."""


class Values(NamedTuple):
    """A map whose keys are kept."""

    shape: "Shape"
    role: Role
    """That of the keys."""


Shape: TypeAlias = "Leaf | Each | Values | Mapping[str, Shape]"
"""An object with the fields that are kept, a list, a map, or a value."""

OPAQUE = frozenset({(DeviceClaim, "config"), (DeviceAllocationResult, "config"), (DeviceClassSpec, "config")})
"""Fields of the structs that are left out: what drivers are configured with says nothing to scheduling, and may be a
secret."""


@cache
def struct_shape(struct: type[msgspec.Struct]) -> Shape:
    """Return the fields that a struct reads."""
    fields = msgspec.structs.fields(struct)
    return MappingProxyType(
        {
            field.encode_name: _field_shape(struct, field.name, msgspec.inspect.type_info(field.type))
            for field in fields
            if (struct, field.name) not in OPAQUE
        }
    )


def _field_shape(struct: type, name: str, kind: msgspec.inspect.Type) -> Shape:
    role = ROLES.get((struct, name))
    if role is not None:
        return Leaf(role)
    if isinstance(kind, msgspec.inspect.UnionType):
        return _field_shape(struct, name, next(each for each in kind.types if not isinstance(each, _NONE)))
    if isinstance(kind, msgspec.inspect.StructType):
        return struct_shape(kind.cls)
    if isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        # As `PodSpec` does: volumes of other sources say nothing to scheduling, and the names of some are random.
        return Each(
            _field_shape(struct, name, kind.item_type), "name" if (struct, name) == (PodSpec, "volumes") else ""
        )
    if isinstance(kind, msgspec.inspect.DictType):
        keys = ROLES.get((struct, f"{name}.keys"), Role.KEPT)
        return Values(_field_shape(struct, f"{name}.values", kind.value_type), keys)
    return Leaf(Role.KEPT)


_NONE = msgspec.inspect.NoneType


def _merged(shape: Shape, more: Shape) -> Shape:
    if isinstance(shape, Each) and isinstance(more, Each):
        return Each(_merged(shape.shape, more.shape), shape.leaves_out)
    if isinstance(shape, Mapping) and isinstance(more, Mapping):
        return {**shape, **{key: _merged(shape[key], each) if key in shape else each for key, each in more.items()}}
    return more


def _kept(*names: str) -> dict[str, Shape]:
    return {name: Leaf(Role.KEPT) for name in names}


_META = _merged(
    struct_shape(ObjectMeta),
    {
        "generateName": Leaf(Role.DROPPED),
        "ownerReferences": Each(_kept("blockOwnerDeletion")),
        **_kept("deletionGracePeriodSeconds"),
    },
)
_LOCAL_VOLUMES = Each({"emptyDir": {}, "hostPath": {}})
"""They say nothing to scheduling, but a plan that moves a pod has to know that there are some."""
_POD_SPEC = _merged(
    struct_shape(PodSpec),
    {
        "volumes": _LOCAL_VOLUMES,
        **_kept("restartPolicy"),
    },
)
_SELECTOR = struct_shape(LabelSelector)
_TEMPLATE = {"metadata": _META, "spec": _POD_SPEC}
_CLAIM_TEMPLATE = {"metadata": _META, "spec": struct_shape(PersistentVolumeClaimSpec)}
_REPLICAS = _kept(
    "replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "unavailableReplicas", "currentReplicas",
    "fullyLabeledReplicas", "terminatingReplicas", "observedGeneration", "collisionCount",
)  # fmt: skip
_ROLLOUT = {
    "selector": _SELECTOR,
    "template": _TEMPLATE,
    **_kept("replicas", "minReadySeconds", "revisionHistoryLimit"),
}

_RULES = Each(
    {
        "apiGroups": Leaf(Role.API_NAMES),
        "resources": Leaf(Role.API_NAMES),
        "resourceNames": Leaf(Role.NAMES),
        **_kept("operations", "scope"),
    }
)
_SELECTORS: Mapping[str, Shape] = MappingProxyType({"namespaceSelector": _SELECTOR, "objectSelector": _SELECTOR})
_WEBHOOKS: Mapping[str, Shape] = MappingProxyType(
    {"webhooks": Each({"name": Leaf(Role.NAME), "rules": _RULES, **_SELECTORS})}
)
_REQUESTS: Mapping[str, Shape] = MappingProxyType(
    {"resourceRules": _RULES, "excludeResourceRules": _RULES, **_SELECTORS}
)
_POLICY: Mapping[str, Shape] = MappingProxyType({"spec": {"matchConstraints": _REQUESTS}})
_BINDING: Mapping[str, Shape] = MappingProxyType(
    {"spec": {"policyName": Leaf(Role.NAME), "matchResources": _REQUESTS, **_kept("validationActions")}}
)

_BESIDE: Mapping[str, Shape] = MappingProxyType(
    {
        "Pod": {"metadata": _META, "spec": _POD_SPEC, "status": _kept("qosClass")},
        "Node": {
            "status": {"nodeInfo": {"kubeletVersion": Leaf(Role.VERSION), **_kept("operatingSystem", "architecture")}}
        },
        "Namespace": {"status": _kept("phase")},
        "PersistentVolume": {"spec": _kept("persistentVolumeReclaimPolicy")},
        "StorageClass": _kept("reclaimPolicy", "allowVolumeExpansion"),
        "ReplicaSet": {"spec": _ROLLOUT, "status": _REPLICAS},
        "ReplicationController": {"spec": {"template": _TEMPLATE, **_kept("minReadySeconds")}, "status": _REPLICAS},
        "StatefulSet": {
            "spec": {
                **_ROLLOUT,
                "serviceName": Leaf(Role.NAME),
                "volumeClaimTemplates": Each(_CLAIM_TEMPLATE),
                **_kept("podManagementPolicy", "updateStrategy", "ordinals", "persistentVolumeClaimRetentionPolicy"),
            },
            "status": {**_REPLICAS, "currentRevision": Leaf(Role.NAME), "updateRevision": Leaf(Role.NAME)},
        },
        "PodDisruptionBudget": {"status": _kept("observedGeneration")},
        "Deployment": {
            "spec": {**_ROLLOUT, **_kept("strategy", "paused", "progressDeadlineSeconds")},
            "status": _REPLICAS,
        },
        "DaemonSet": {
            "spec": {**_ROLLOUT, **_kept("updateStrategy")},
            "status": _kept(
                "currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled",
                "numberReady", "numberUnavailable", "observedGeneration", "updatedNumberScheduled",
            ),
        },
        "Job": {
            "spec": {
                "selector": _SELECTOR,
                "template": _TEMPLATE,
                **_kept(
                    "activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions",
                    "manualSelector", "maxFailedIndexes", "parallelism", "podReplacementPolicy", "suspend",
                    "ttlSecondsAfterFinished",
                ),
            },
            "status": {
                "conditions": Each(
                    {
                        "type": Leaf(Role.CONDITION),
                        "reason": Leaf(Role.WORD),
                        **_kept("status", "lastTransitionTime"),
                    }
                ),
                **_kept(
                    "active", "succeeded", "failed", "ready", "terminating", "startTime", "completionTime",
                    "completedIndexes", "failedIndexes",
                ),
            },
        },
        "ResourceClaimTemplate": {"spec": {"metadata": _META, "spec": struct_shape(ResourceClaimSpec)}},
        "RuntimeClass": {
            "handler": Leaf(Role.NAME),
            "overhead": {"podFixed": Leaf(Role.RESOURCE_AMOUNTS)},
            "scheduling": {"nodeSelector": Leaf(Role.LABELS), "tolerations": Leaf(Role.TOLERATIONS)},
        },
        "ResourceQuota": {
            "spec": {
                "hard": Leaf(Role.QUOTA_AMOUNTS),
                "scopeSelector": {
                    "matchExpressions": Each({"values": Each(Leaf(Role.NAME)), **_kept("scopeName", "operator")})
                },
                **_kept("scopes"),
            },
            "status": {name: Leaf(Role.QUOTA_AMOUNTS) for name in ("hard", "used")},
        },
        "MutatingWebhookConfiguration": _WEBHOOKS,
        "ValidatingWebhookConfiguration": _WEBHOOKS,
        "MutatingAdmissionPolicy": _POLICY,
        "MutatingAdmissionPolicyBinding": _BINDING,
        "ValidatingAdmissionPolicy": _POLICY,
        "ValidatingAdmissionPolicyBinding": _BINDING,
        "LimitRange": {
            "spec": {
                "limits": Each(
                    {
                        "type": Leaf(Role.WORD),
                        **{
                            name: Leaf(Role.RESOURCE_AMOUNTS)
                            for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
                        },
                    }
                )
            }
        },
    }
)  # fmt: skip

_ADMISSION = "admissionregistration.k8s.io"
_FURTHER = (
    Resource(_ADMISSION, "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False),
    Resource(_ADMISSION, "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False),
    Resource(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False),
    Resource(_ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False),
    Resource(_ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False),
    Resource(_ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False),
    Resource("apps", "v1", "daemonsets", "DaemonSet", True),
    Resource("apps", "v1", "deployments", "Deployment", True),
    Resource("batch", "v1", "jobs", "Job", True),
    Resource("", "v1", "limitranges", "LimitRange", True),
    Resource("", "v1", "resourcequotas", "ResourceQuota", True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True),
)

TAKEN: Mapping[str, Resource] = MappingProxyType(
    {each.kind: each for each in (*RESOURCES.values(), *_FURTHER) if each.kind not in NOT_READ}
)
"""The kinds that a snapshot has, each in the version in which it is kept."""


@cache
def shape_of(kind: str) -> Mapping[str, Shape]:
    """Return what is kept of a kind of `TAKEN`."""
    struct = KINDS.get(kind)
    common: Shape = {"kind": Leaf(Role.KEPT), "apiVersion": Leaf(Role.KEPT), "metadata": _META}
    found = _merged(common, struct_shape(struct)) if struct is not None else common
    found = _merged(found, {"metadata": _META, **_as_fields(_BESIDE.get(kind, {}))})
    assert isinstance(found, Mapping)
    return found


def _as_fields(shape: Shape) -> Mapping[str, Shape]:
    assert isinstance(shape, Mapping)
    return shape


def trimmed(value: Any, shape: Shape) -> Any:
    """Return what is kept of a JSON value; parts without the expected shape are left out."""
    if isinstance(shape, Leaf):
        return _kept_annotations(value) if shape.role is Role.ANNOTATIONS else value
    if isinstance(shape, Each):
        if not isinstance(value, list):
            return None
        found = [trimmed(each, shape.shape) for each in value]
        only = {shape.leaves_out}
        return [each for each in found if each and each.keys() != only] if shape.leaves_out else found
    if not isinstance(value, dict):
        return None
    if isinstance(shape, Values):
        return {key: trimmed(each, shape.shape) for key, each in value.items()}
    return {key: trimmed(each, shape[key]) for key, each in value.items() if key in shape}


def _kept_annotations(value: Any) -> Any:
    """Those of Kubernetes itself but for copies of manifests, and those that tell hollow nodes what pods do."""
    if not isinstance(value, dict):
        return None
    return {key: text for key, text in value.items() if is_kept_annotation(key)}


def is_kept_annotation(key: str) -> bool:
    """Say whether snapshots have an annotation."""
    return key not in MANIFESTS and (is_kubernetes(key) or key.startswith("berth.dev/"))


MANIFESTS = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""The annotations that have a copy of the object."""


def is_kubernetes(key: str) -> bool:
    """Say whether a qualified name is of a domain that Kubernetes has reserved for itself."""
    domain, slash, _ = key.partition("/")
    return bool(slash) and f".{domain}".endswith((".kubernetes.io", ".k8s.io"))
