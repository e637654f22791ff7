"""All object structs under one name, for readers who do not care in which module a kind is defined."""

from berth.api.dra import DeviceClass, ResourceClaim, ResourceSlice
from berth.api.meta import (
    Condition,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Struct,
)
from berth.api.node import (
    ConfigMap,
    Lease,
    LeaseSpec,
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from berth.api.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from berth.api.pod import Affinity, Container, NodeAffinity, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint
from berth.api.scheduling import Event, PodGroup, Workload
from berth.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from berth.api.taints import Taint, Toleration

__all__ = [
    "Affinity",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "Condition",
    "ConfigMap",
    "Container",
    "DeviceClass",
    "Event",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Lease",
    "LeaseSpec",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodAffinityTerm",
    "PodDisruptionBudget",
    "PodGroup",
    "PodSpec",
    "PriorityClass",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceSlice",
    "Service",
    "StatefulSet",
    "StorageClass",
    "Struct",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "VolumeAttachment",
    "Workload",
]
