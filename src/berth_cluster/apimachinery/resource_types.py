"""The table of what the embedded API server stores and serves.

Each row holds what the store, discovery, printed tables and routing need to know about one resource. The key of a
resource is `(group, plural)`; anything with these two attributes addresses it, `berth.api.resources.Resource` included.
Controllers and owner references name resources by kind instead (`resource_of`).
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import msgspec

from berth_cluster.apimachinery.errors import no_such_path

if TYPE_CHECKING:
    from berth_cluster.custom.version import CustomVersion

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS = ("status",)
STATUS_SCALE = ("status", "scale")

ResourceKey = tuple[str, str]


class Addressed(Protocol):
    """Anything that names a resource by its group and plural."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...


class ResourceType(msgspec.Struct, frozen=True):
    """One resource of the API: its names, and what may be done with it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_generation: bool = False  # metadata.generation counts changes of the spec
    custom: "CustomVersion | None" = None  # what a CustomResourceDefinition says of its objects

    @property
    def singular(self) -> str:
        """The kind in lower case, as upstream's discovery has it, or what a CustomResourceDefinition says."""
        return self.kind.lower() if self.custom is None else self.custom.singular

    @property
    def list_kind(self) -> str:
        """The kind of lists."""
        return f"{self.kind}List" if self.custom is None else self.custom.list_kind

    @property
    def unique_kind(self) -> str:
        """The kind, with its group where anybody may have declared it: controllers go by kinds."""
        return self.kind if self.custom is None else f"{self.kind}.{self.group}"

    @property
    def key(self) -> ResourceKey:
        """What addresses this resource."""
        return (self.group, self.plural)

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        """Whether status is written apart from the rest."""
        return "status" in self.subresources


def _core() -> Iterable[ResourceType]:
    yield ResourceType("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
    yield ResourceType("", "v1", "endpoints", "Endpoints", short_names=("ep",))
    yield ResourceType("", "v1", "events", "Event", short_names=("ev",))
    yield ResourceType("", "v1", "limitranges", "LimitRange", short_names=("limits",))
    yield ResourceType("", "v1", "namespaces", "Namespace", False, ("ns",), ("finalize", "status"))
    yield ResourceType("", "v1", "nodes", "Node", False, ("no",), STATUS)
    yield ResourceType("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",), STATUS)
    yield ResourceType("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",), STATUS)
    yield ResourceType(
        "",
        "v1",
        "pods",
        "Pod",
        True,
        ("po",),
        ("binding", "eviction", "resize", "status"),
        ("all",),
        has_generation=True,
    )
    yield ResourceType(
        "",
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        True,
        ("rc",),
        STATUS_SCALE,
        ("all",),
        has_generation=True,
    )
    yield ResourceType("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), STATUS)
    yield ResourceType("", "v1", "secrets", "Secret")
    yield ResourceType("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",), ("token",))
    yield ResourceType("", "v1", "services", "Service", True, ("svc",), STATUS, ("all",))


def _workloads() -> Iterable[ResourceType]:
    yield ResourceType("apps", "v1", "controllerrevisions", "ControllerRevision")
    for plural, kind, short, subresources in (
        ("daemonsets", "DaemonSet", "ds", STATUS),
        ("deployments", "Deployment", "deploy", STATUS_SCALE),
        ("replicasets", "ReplicaSet", "rs", STATUS_SCALE),
        ("statefulsets", "StatefulSet", "sts", STATUS_SCALE),
    ):
        yield ResourceType("apps", "v1", plural, kind, True, (short,), subresources, ("all",), has_generation=True)
    yield ResourceType(
        "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ("hpa",), STATUS, ("all",),
        has_generation=True,
    )  # fmt: skip
    yield ResourceType("batch", "v1", "cronjobs", "CronJob", True, ("cj",), STATUS, ("all",), has_generation=True)
    yield ResourceType("batch", "v1", "jobs", "Job", True, (), STATUS, ("all",), has_generation=True)
    yield ResourceType(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), STATUS, has_generation=True
    )


def _scheduling() -> Iterable[ResourceType]:
    group = "scheduling.k8s.io"
    yield ResourceType(group, "v1", "priorityclasses", "PriorityClass", False, ("pc",), has_generation=True)
    yield ResourceType(group, "v1alpha2", "podgroups", "PodGroup", True, (), STATUS, has_generation=True)
    yield ResourceType(group, "v1alpha2", "workloads", "Workload", has_generation=True)
    group = "resource.k8s.io"
    yield ResourceType(group, "v1", "deviceclasses", "DeviceClass", False, has_generation=True)
    yield ResourceType(group, "v1", "resourceclaims", "ResourceClaim", True, (), STATUS)
    yield ResourceType(group, "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
    yield ResourceType(group, "v1", "resourceslices", "ResourceSlice", False, has_generation=True)
    yield ResourceType(group, "v1beta2", "devicetaintrules", "DeviceTaintRule", False, (), STATUS, has_generation=True)


def _storage() -> Iterable[ResourceType]:
    group = "storage.k8s.io"
    yield ResourceType(group, "v1", "csidrivers", "CSIDriver", False)
    yield ResourceType(group, "v1", "csinodes", "CSINode", False)
    yield ResourceType(group, "v1", "csistoragecapacities", "CSIStorageCapacity")
    yield ResourceType(group, "v1", "storageclasses", "StorageClass", False, ("sc",))
    yield ResourceType(group, "v1", "volumeattachments", "VolumeAttachment", False, (), STATUS)


def _idle() -> Iterable[ResourceType]:
    """Kinds that are stored, and on which nothing in the cluster acts."""
    yield ResourceType("", "v1", "podtemplates", "PodTemplate", has_generation=True)
    yield ResourceType("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False,
                       ("csr",), STATUS)  # fmt: skip
    group = "admissionregistration.k8s.io"
    yield ResourceType(
        group, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False, has_generation=True
    )
    yield ResourceType(
        group, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False, (), STATUS, has_generation=True
    )
    yield ResourceType(
        group, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False, has_generation=True
    )
    yield ResourceType(
        group, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False, has_generation=True
    )
    group = "flowcontrol.apiserver.k8s.io"
    yield ResourceType(group, "v1", "flowschemas", "FlowSchema", False, (), STATUS, has_generation=True)
    yield ResourceType(
        group, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", False, (), STATUS, has_generation=True
    )
    yield ResourceType("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, (), STATUS)
    group = "networking.k8s.io"
    yield ResourceType(group, "v1", "ingressclasses", "IngressClass", False, has_generation=True)
    yield ResourceType(group, "v1", "ingresses", "Ingress", True, ("ing",), STATUS, has_generation=True)
    yield ResourceType(group, "v1", "networkpolicies", "NetworkPolicy", True, ("netpol",), has_generation=True)


def _others() -> Iterable[ResourceType]:
    group, crd = "apiextensions.k8s.io", ("crd", "crds")
    yield ResourceType(
        group,
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        crd,
        STATUS,
        ("api-extensions",),
        has_generation=True,
    )
    yield ResourceType("coordination.k8s.io", "v1", "leases", "Lease")
    yield ResourceType("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", has_generation=True)
    yield ResourceType("events.k8s.io", "v1", "events", "Event", short_names=("ev",))
    yield ResourceType("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
    group = "rbac.authorization.k8s.io"
    yield ResourceType(group, "v1", "clusterrolebindings", "ClusterRoleBinding", False)
    yield ResourceType(group, "v1", "clusterroles", "ClusterRole", False)
    yield ResourceType(group, "v1", "rolebindings", "RoleBinding")
    yield ResourceType(group, "v1", "roles", "Role")


METRICS_GROUP = "metrics.k8s.io"
METRICS_TYPES = (  # which are worked out when somebody asks, and never stored
    ResourceType(METRICS_GROUP, "v1beta1", "nodes", "NodeMetrics", False, verbs=("get", "list")),
    ResourceType(METRICS_GROUP, "v1beta1", "pods", "PodMetrics", verbs=("get", "list")),
)
RESOURCE_TYPES: tuple[ResourceType, ...] = (
    *_core(), *_workloads(), *_scheduling(), *_storage(), *_others(), *_idle()
)  # fmt: skip
IDLE_KINDS = frozenset({kind.kind for kind in _idle()} | {"VolumeAttachment"})
BY_KEY = MappingProxyType({kind.key: kind for kind in RESOURCE_TYPES})

PODS = BY_KEY["", "pods"]
NODES = BY_KEY["", "nodes"]
NAMESPACES = BY_KEY["", "namespaces"]
CONFIG_MAPS = BY_KEY["", "configmaps"]
SERVICE_ACCOUNTS = BY_KEY["", "serviceaccounts"]
EVENTS = BY_KEY["", "events"]
NEW_EVENTS = BY_KEY["events.k8s.io", "events"]
PRIORITY_CLASSES = BY_KEY["scheduling.k8s.io", "priorityclasses"]
DEFINITIONS = BY_KEY["apiextensions.k8s.io", "customresourcedefinitions"]
DISRUPTION_BUDGETS = BY_KEY["policy", "poddisruptionbudgets"]
_BY_KIND = MappingProxyType({resource.kind: resource for resource in RESOURCE_TYPES} | {"Event": EVENTS})


def resource_type(resource: Addressed) -> ResourceType:
    """The table's row for whatever addresses a resource; raises `StoreError` (404) where there is none."""
    if isinstance(resource, ResourceType):
        return resource
    found = BY_KEY.get((resource.group, resource.plural))
    if found is None:
        raise no_such_path()
    return found


def resource_of(kind: str) -> ResourceType:
    """The resource of a kind; for Event, which two API groups have, the one in `v1`."""
    return _BY_KIND[kind]
