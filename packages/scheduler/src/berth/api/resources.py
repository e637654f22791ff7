"""The kinds of objects that a scheduler reads or writes, and where an API server serves them."""

from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote


class Resource(NamedTuple):
    """A kind of object and its place in the API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`, …: what apiVersion says."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, or of one object or its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        tail = "".join(f"/{quote(part, safe='')}" for part in (name, subresource) if part)
        return f"{root}{where}/{self.plural}{tail}"


_TABLE = (
    Resource("", "v1", "pods", "Pod", True),
    Resource("", "v1", "nodes", "Node", False),
    Resource("", "v1", "namespaces", "Namespace", False),
    Resource("", "v1", "services", "Service", True),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", True),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True),
    Resource("", "v1", "configmaps", "ConfigMap", True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True),
    Resource("apps", "v1", "statefulsets", "StatefulSet", True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", True),
    Resource("events.k8s.io", "v1", "events", "Event", True),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False),
    Resource("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", False),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True),
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False),
    Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True),
    Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", True),
    Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False),
    Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False),
    Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False),
    Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False),
)

_OTHER_VERSIONS = MappingProxyType(
    {
        "DeviceClass": ("v1", "v1beta2", "v1beta1", "v1alpha3"),
        "ResourceClaim": ("v1", "v1beta2", "v1beta1", "v1alpha3"),
        "ResourceSlice": ("v1", "v1beta2", "v1beta1", "v1alpha3"),
        "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
        "PodGroup": ("v1beta1", "v1alpha2"),
    }
)


def versions_of(kind: str) -> tuple[Resource, ...]:
    """Return the versions of a kind that can be read (see `berth.api.conversion`), the one to be preferred first."""
    resource = RESOURCES[kind]
    return tuple(resource._replace(version=each) for each in _OTHER_VERSIONS.get(kind, (resource.version,)))


RESOURCES = MappingProxyType({resource.kind: resource for resource in _TABLE})
"""Every kind that the scheduler can read or write, by kind, in the version whose shape its struct has."""
