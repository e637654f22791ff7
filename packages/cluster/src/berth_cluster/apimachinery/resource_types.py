"""The table of what the embedded API server stores and serves.

Each row holds what the store, discovery, printed tables and routing need to know about one resource. The key of a
resource is `(group, plural)`; anything with these two attributes addresses it, `berth.api.resources.Resource` included.
Controllers and owner references name resources by kind instead (`resource_of`).
"""

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import ClassVar, Protocol

import msgspec

from berth_cluster.apimachinery.errors import no_such_path
from berth_cluster.apimachinery.meta import Object

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

ResourceKey = tuple[str, str]


class Addressed(Protocol):
    """Anything that names a resource by its group and plural."""

    @property
    def group(self) -> str: ...
    @property
    def plural(self) -> str: ...


class ResourceType(msgspec.Struct, frozen=True):
    """One resource of the API: its names, and what may be done with it. Those of definitions are `CustomType`s."""

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
    is_idle: bool = False  # stored, and nothing in this cluster acts on it
    given_singular: str = ""
    given_list_kind: str = ""
    is_custom: ClassVar[bool] = False

    @property
    def singular(self) -> str:
        """The kind in lower case, as upstream's discovery has it, or what a definition says."""
        return self.given_singular or self.kind.lower()

    @property
    def list_kind(self) -> str:
        """The kind of lists."""
        return self.given_list_kind or f"{self.kind}List"

    @property
    def unique_kind(self) -> str:
        """The kind, with its group where anybody may have declared it: controllers go by kinds."""
        return f"{self.kind}.{self.group}" if self.is_custom else self.kind

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

    def getter(self, _field: str) -> Callable[[Object], str] | None:
        """How field selectors read a field that this kind declares; None where it declares none of that name."""
        return None

    def undeclared(self, _obj: Object, *, partial: bool) -> list[str] | None:
        """The fields of an object or a patch that are not declared; None where the tables of types know them."""


# Under a group and version, each line is a kind: its name and plural, and what else is said of it. `/x` is a
# subresource, `@x` a category, `cluster` means that it is in no namespace, `generation` that metadata.generation counts
# changes of its spec, `idle` that nothing in this cluster acts on it; any other word is a short name.
_TABLE = """
v1
  ConfigMap configmaps cm
  Endpoints endpoints ep
  Event events ev
  LimitRange limitranges limits
  Namespace namespaces ns /finalize /status cluster
  Node nodes no /status cluster
  PersistentVolumeClaim persistentvolumeclaims pvc /status
  PersistentVolume persistentvolumes pv /status cluster
  Pod pods po /binding /ephemeralcontainers /eviction /resize /status @all generation
  ReplicationController replicationcontrollers rc /status /scale @all generation
  ResourceQuota resourcequotas quota /status
  Secret secrets
  ServiceAccount serviceaccounts sa /token
  Service services svc /status @all
apps/v1
  ControllerRevision controllerrevisions
  DaemonSet daemonsets ds /status @all generation
  Deployment deployments deploy /status /scale @all generation
  ReplicaSet replicasets rs /status /scale @all generation
  StatefulSet statefulsets sts /status /scale @all generation
autoscaling/v2
  HorizontalPodAutoscaler horizontalpodautoscalers hpa /status @all generation
batch/v1
  CronJob cronjobs cj /status @all generation
  Job jobs /status @all generation
policy/v1
  PodDisruptionBudget poddisruptionbudgets pdb /status generation
scheduling.k8s.io/v1
  PriorityClass priorityclasses pc cluster generation
scheduling.k8s.io/v1alpha2
  PodGroup podgroups /status generation
  Workload workloads generation
resource.k8s.io/v1
  DeviceClass deviceclasses cluster generation
  ResourceClaim resourceclaims /status
  ResourceClaimTemplate resourceclaimtemplates
  ResourceSlice resourceslices cluster generation
resource.k8s.io/v1beta2
  DeviceTaintRule devicetaintrules /status cluster generation
storage.k8s.io/v1
  CSIDriver csidrivers cluster
  CSINode csinodes cluster
  CSIStorageCapacity csistoragecapacities
  StorageClass storageclasses sc cluster
  VolumeAttachment volumeattachments /status cluster idle
  VolumeAttributesClass volumeattributesclasses vac cluster idle
apiextensions.k8s.io/v1
  CustomResourceDefinition customresourcedefinitions crd crds /status @api-extensions cluster generation
coordination.k8s.io/v1
  Lease leases
discovery.k8s.io/v1
  EndpointSlice endpointslices generation
events.k8s.io/v1
  Event events ev
node.k8s.io/v1
  RuntimeClass runtimeclasses cluster
rbac.authorization.k8s.io/v1
  ClusterRoleBinding clusterrolebindings cluster
  ClusterRole clusterroles cluster
  RoleBinding rolebindings
  Role roles
v1
  PodTemplate podtemplates generation idle
certificates.k8s.io/v1
  CertificateSigningRequest certificatesigningrequests csr /status cluster idle
admissionregistration.k8s.io/v1
  MutatingAdmissionPolicy mutatingadmissionpolicies cluster generation idle
  MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings cluster generation idle
  MutatingWebhookConfiguration mutatingwebhookconfigurations cluster generation idle
  ValidatingAdmissionPolicy validatingadmissionpolicies /status cluster generation idle
  ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings cluster generation idle
  ValidatingWebhookConfiguration validatingwebhookconfigurations cluster generation idle
flowcontrol.apiserver.k8s.io/v1
  FlowSchema flowschemas /status cluster generation idle
  PriorityLevelConfiguration prioritylevelconfigurations /status cluster generation idle
apiregistration.k8s.io/v1
  APIService apiservices /status cluster idle
networking.k8s.io/v1
  IngressClass ingressclasses cluster generation idle
  Ingress ingresses ing /status generation idle
  NetworkPolicy networkpolicies netpol generation idle
"""
_WORDS = frozenset({"cluster", "generation", "idle"})


def _rows() -> Iterable[ResourceType]:
    group = version = ""
    for line in _TABLE.split("\n"):
        kind, *words = line.split() or ("",)
        if not words:
            group, _, version = kind.rpartition("/")
            continue
        plural, *words = words
        yield ResourceType(
            group,
            version,
            plural,
            kind,
            "cluster" not in words,
            tuple(word for word in words if word[0] not in "/@" and word not in _WORDS),
            tuple(word[1:] for word in words if word.startswith("/")),
            tuple(word[1:] for word in words if word.startswith("@")),
            has_generation="generation" in words,
            is_idle="idle" in words,
        )


METRICS_GROUP = "metrics.k8s.io"
METRICS_TYPES = (  # which are worked out when somebody asks, and never stored
    ResourceType(METRICS_GROUP, "v1beta1", "nodes", "NodeMetrics", False, verbs=("get", "list")),
    ResourceType(METRICS_GROUP, "v1beta1", "pods", "PodMetrics", verbs=("get", "list")),
)
RESOURCE_TYPES = tuple(_rows())
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
