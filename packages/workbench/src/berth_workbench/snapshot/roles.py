"""What the text fields of objects are for, so that `anonymizing` knows which are names, and of what.

A field of a struct that holds text, or a map, must stand in `ROLES` or in `PLAIN`; a test holds both against the
structs. So a field that is added to a struct cannot get into an anonymized snapshot unnoticed.
"""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from berth.api import dra, meta, node, node_selector, pod, scheduling, storage, taints


class Role(Enum):
    """What a value is for."""

    KEPT = auto()
    """A number, a quantity, a time, a driver's name, or a word of the API that nobody can choose."""
    DROPPED = auto()
    """Text for people."""
    WORD = auto()
    """A word that anybody can choose; those that Kubernetes has itself are kept, others left out."""
    WORDS = auto()
    NUMBER = auto()
    """Text that is a number, or yes or no; other texts are left out."""
    VERSION = auto()
    """A release; what vendors append to it is left out."""
    NAME = auto()
    """The name of an object or of a part of one, or an identifier."""
    NAMES = auto()
    UID = auto()
    LABELS = auto()
    """A map of labels, or of labels to match."""
    LABEL_KEY = auto()
    LABEL_KEYS = auto()
    REQUIREMENTS = auto()
    """`[{key, operator, values}]` on labels or fields."""
    TAINTS = auto()
    TAINT = auto()
    TOLERATIONS = auto()
    ANNOTATIONS = auto()
    FINALIZERS = auto()
    IMAGE = auto()
    IMAGES = auto()
    RESOURCE = auto()
    """The name of a resource that nodes have and pods ask for."""
    RESOURCE_AMOUNTS = auto()
    """Amounts by resource."""
    QUOTA_AMOUNTS = auto()
    """Amounts by what quotas bound: resources, with or without `requests.`, and objects, also by class."""
    REQUEST = auto()
    """A request for devices: its name, or `request/subrequest`."""
    REQUESTS = auto()
    ATTRIBUTES = auto()
    """Attributes of a device."""
    CEL = auto()
    CONDITION = auto()
    """The type of a condition."""
    CONDITIONS = auto()
    API_NAMES = auto()
    """Groups or resources of the API, as rules have them: `pods/*`, `*`; those of the kinds of a snapshot are kept."""
    KIND = auto()
    API_VERSION = auto()
    ADDRESS = auto()
    AVOIDED_PODS = auto()
    """The JSON of an annotation that names controllers."""


Field = tuple[type, str]


def _of(role: Role, struct: type, *fields: str) -> dict[Field, Role]:
    return {(struct, field): role for field in fields}


ROLES: Mapping[Field, Role] = MappingProxyType(
    {
        **_of(Role.NAME, meta.ObjectMeta, "name", "namespace"),
        **_of(Role.UID, meta.ObjectMeta, "uid"),
        **_of(Role.DROPPED, meta.ObjectMeta, "resource_version"),
        **_of(Role.LABELS, meta.ObjectMeta, "labels"),
        **_of(Role.ANNOTATIONS, meta.ObjectMeta, "annotations"),
        **_of(Role.FINALIZERS, meta.ObjectMeta, "finalizers"),
        **_of(Role.NAME, meta.OwnerReference, "name"),
        **_of(Role.UID, meta.OwnerReference, "uid"),
        **_of(Role.KIND, meta.OwnerReference, "kind"),
        **_of(Role.API_VERSION, meta.OwnerReference, "api_version"),
        **_of(Role.NAME, meta.ObjectReference, "name", "namespace"),
        **_of(Role.UID, meta.ObjectReference, "uid"),
        **_of(Role.KIND, meta.ObjectReference, "kind"),
        **_of(Role.API_VERSION, meta.ObjectReference, "api_version"),
        **_of(Role.LABELS, meta.LabelSelector, "match_labels"),
        **_of(Role.REQUIREMENTS, meta.LabelSelector, "match_expressions"),
        **_of(Role.CONDITION, meta.Condition, "type"),
        **_of(Role.WORD, meta.Condition, "reason"),
        **_of(Role.DROPPED, meta.Condition, "message"),
        **_of(Role.REQUIREMENTS, node_selector.NodeSelectorTerm, "match_expressions", "match_fields"),
        # pods
        **_of(Role.NAME, pod.PodSpec, "node_name", "scheduler_name", "priority_class_name", "runtime_class_name"),
        **_of(Role.LABELS, pod.PodSpec, "node_selector"),
        **_of(Role.TOLERATIONS, pod.PodSpec, "tolerations"),
        **_of(Role.RESOURCE_AMOUNTS, pod.PodSpec, "overhead"),
        **_of(Role.LABEL_KEY, pod.PodAffinityTerm, "topology_key"),
        **_of(Role.NAMES, pod.PodAffinityTerm, "namespaces"),
        **_of(Role.LABEL_KEYS, pod.PodAffinityTerm, "match_label_keys", "mismatch_label_keys"),
        **_of(Role.LABEL_KEY, pod.TopologySpreadConstraint, "topology_key"),
        **_of(Role.LABEL_KEYS, pod.TopologySpreadConstraint, "match_label_keys"),
        **_of(Role.NAME, pod.Container, "name"),
        **_of(Role.IMAGE, pod.Container, "image"),
        **_of(Role.ADDRESS, pod.ContainerPort, "host_ip"),
        **_of(Role.DROPPED, pod.SeccompProfile, "localhost_profile"),
        **_of(Role.RESOURCE_AMOUNTS, pod.ResourceRequirements, "requests", "limits"),
        **_of(Role.NAME, pod.ResourceClaimUse, "name"),
        **_of(Role.REQUEST, pod.ResourceClaimUse, "request"),
        **_of(Role.NAME, pod.Volume, "name"),
        **_of(Role.NAME, pod.PersistentVolumeClaimVolume, "claim_name"),
        **_of(Role.NAME, pod.GCEPersistentDisk, "pd_name"),
        **_of(Role.NAME, pod.AWSElasticBlockStore, "volume_id"),
        **_of(Role.NAMES, pod.RBDVolume, "monitors"),
        **_of(Role.NAME, pod.RBDVolume, "image", "pool"),
        **_of(Role.NAME, pod.ISCSIVolume, "target_portal", "iqn"),
        **_of(Role.NAME, pod.AzureDisk, "disk_name", "disk_uri"),
        **_of(Role.NAME, pod.CinderVolume, "volume_id"),
        **_of(Role.IMAGE, pod.ImageVolume, "reference"),
        **_of(Role.NAME, pod.PodSchedulingGate, "name"),
        **_of(Role.NAME, pod.PodSchedulingGroup, "pod_group_name"),
        **_of(Role.NAME, pod.PodResourceClaim, "name", "resource_claim_name", "resource_claim_template_name"),
        **_of(Role.CONDITION, pod.PodCondition, "type"),
        **_of(Role.WORD, pod.PodCondition, "reason"),
        **_of(Role.DROPPED, pod.PodCondition, "message"),
        **_of(Role.WORD, pod.PodStatus, "reason"),
        **_of(Role.NAME, pod.PodStatus, "nominated_node_name"),
        **_of(Role.RESOURCE_AMOUNTS, pod.PodStatus, "allocated_resources"),
        **_of(Role.NAME, pod.ContainerStatus, "name"),
        **_of(Role.RESOURCE_AMOUNTS, pod.ContainerStatus, "allocated_resources"),
        **_of(Role.NAME, pod.PodResourceClaimStatus, "name", "resource_claim_name"),
        **_of(Role.NAME, pod.ExtendedResourceClaimStatus, "resource_claim_name"),
        **_of(Role.NAME, pod.ContainerExtendedResourceRequest, "container_name"),
        **_of(Role.RESOURCE, pod.ContainerExtendedResourceRequest, "resource_name"),
        **_of(Role.REQUEST, pod.ContainerExtendedResourceRequest, "request_name"),
        # nodes and what is beside them
        **_of(Role.TAINTS, node.NodeSpec, "taints"),
        **_of(Role.NAME, node.NodeSpec, "provider_id"),
        **_of(Role.RESOURCE_AMOUNTS, node.NodeStatus, "allocatable", "capacity"),
        **_of(Role.WORDS, node.NodeStatus, "declared_features"),
        **_of(Role.IMAGES, node.ContainerImage, "names"),
        **_of(Role.LABELS, node.ServiceSpec, "selector"),
        **_of(Role.LABELS, node.ReplicationControllerSpec, "selector"),
        **_of(Role.NAME, node.PodDisruptionBudgetStatus, "disrupted_pods.keys"),
        # volumes
        **_of(Role.RESOURCE_AMOUNTS, storage.VolumeResourceRequirements, "requests", "limits"),
        **_of(Role.RESOURCE_AMOUNTS, storage.PersistentVolumeSpec, "capacity"),
        **_of(Role.RESOURCE_AMOUNTS, storage.PersistentVolumeClaimStatus, "capacity"),
        **_of(
            Role.NAME,
            storage.PersistentVolumeClaimSpec,
            "storage_class_name", "volume_attributes_class_name", "volume_name",
        ),
        **_of(Role.NAME, storage.PersistentVolumeSpec, "storage_class_name", "volume_attributes_class_name"),
        **_of(Role.NAME, storage.CSIVolumeSource, "volume_handle"),
        **_of(Role.NAME, storage.DiskSource, "pd_name", "volume_id", "disk_name", "disk_uri"),
        **_of(Role.REQUIREMENTS, storage.TopologySelectorTerm, "match_label_expressions"),
        **_of(Role.NAME, storage.CSINodeDriver, "node_id"),
        **_of(Role.LABEL_KEYS, storage.CSINodeDriver, "topology_keys"),
        **_of(Role.NAME, storage.CSIStorageCapacity, "storage_class_name"),
        **_of(Role.NAME, storage.VolumeAttachmentSpec, "node_name"),
        **_of(Role.NAME, storage.VolumeAttachmentSource, "persistent_volume_name"),
        # devices
        **_of(Role.NAME, dra.DeviceRequest, "name"),
        **_of(Role.NAME, dra.ExactDeviceRequest, "name", "device_class_name"),
        **_of(Role.TOLERATIONS, dra.ExactDeviceRequest, "tolerations"),
        **_of(Role.CEL, dra.CELSelector, "expression"),
        **_of(Role.REQUESTS, dra.DeviceConstraint, "requests"),
        **_of(Role.REQUEST, dra.DeviceRequestAllocationResult, "request"),
        **_of(Role.NAME, dra.DeviceRequestAllocationResult, "pool", "device"),
        **_of(Role.TOLERATIONS, dra.DeviceRequestAllocationResult, "tolerations"),
        **_of(
            Role.CONDITIONS, dra.DeviceRequestAllocationResult, "binding_conditions", "binding_failure_conditions"
        ),
        **_of(Role.UID, dra.DeviceRequestAllocationResult, "share_id"),
        **_of(Role.NAME, dra.ResourceClaimConsumer, "name"),
        **_of(Role.WORD, dra.ResourceClaimConsumer, "api_group"),
        **_of(Role.UID, dra.ResourceClaimConsumer, "uid"),
        **_of(Role.NAME, dra.AllocatedDeviceStatus, "pool", "device"),
        **_of(Role.UID, dra.AllocatedDeviceStatus, "share_id"),
        **_of(Role.RESOURCE, dra.DeviceClassSpec, "extended_resource_name"),
        **_of(Role.NAME, dra.ResourcePool, "name"),
        **_of(Role.NAME, dra.ResourceSliceSpec, "node_name"),
        **_of(Role.NAME, dra.Device, "name", "node_name"),
        **_of(Role.ATTRIBUTES, dra.Device, "attributes"),
        **_of(Role.TAINTS, dra.Device, "taints"),
        **_of(Role.CONDITIONS, dra.Device, "binding_conditions", "binding_failure_conditions"),
        **_of(Role.NAME, dra.DeviceCounterConsumption, "counter_set"),
        **_of(Role.NAME, dra.CounterSet, "name"),
        **_of(Role.NAME, dra.DeviceTaintSelector, "pool", "device"),
        **_of(Role.TAINT, dra.DeviceTaintRuleSpec, "taint"),
        # groups of pods
        **_of(Role.LABEL_KEY, scheduling.TopologyConstraint, "key"),
        **_of(Role.NAME, scheduling.PodGroupSpec, "priority_class_name"),
        **_of(Role.NAME, scheduling.PodGroupTemplate, "name"),
    }
)  # fmt: skip
"""What a field is for; `field.keys` stands for the keys of a map whose values have fields of their own."""

INSIDE = frozenset(
    {
        taints.Taint, taints.Toleration, dra.DeviceTaint, dra.DeviceToleration, dra.DeviceAttribute,
        meta.LabelSelectorRequirement, node_selector.NodeSelectorRequirement, storage.TopologySelectorRequirement,
    }
)  # fmt: skip
"""Structs that a role deals with as a whole."""

PLAIN: frozenset[Field] = frozenset(
    {
        (meta.ObjectMeta, "creation_timestamp"), (meta.ObjectMeta, "deletion_timestamp"),
        (meta.Condition, "status"), (meta.Condition, "last_transition_time"),
        (pod.PodSpec, "preemption_policy"), (pod.TopologySpreadConstraint, "when_unsatisfiable"),
        (pod.TopologySpreadConstraint, "node_affinity_policy"), (pod.TopologySpreadConstraint, "node_taints_policy"),
        (pod.ContainerPort, "protocol"), (pod.Container, "restart_policy"), (pod.ContainerRestartRule, "action"),
        (pod.SeccompProfile, "type"),
        (pod.CSIVolume, "driver"), (pod.PodStatus, "phase"), (pod.PodStatus, "start_time"),
        (pod.PodCondition, "status"), (node.PriorityClass, "preemption_policy"),
        (node.PodDisruptionBudgetSpec, "min_available"), (node.PodDisruptionBudgetSpec, "max_unavailable"),
        (node.PodDisruptionBudgetSpec, "unhealthy_pod_eviction_policy"),
        (node.PodDisruptionBudgetStatus, "disrupted_pods"),
        (storage.PersistentVolumeClaimSpec, "access_modes"), (storage.PersistentVolumeClaimSpec, "volume_mode"),
        (storage.PersistentVolumeSpec, "access_modes"),
        (storage.PersistentVolumeSpec, "volume_mode"), (storage.CSIVolumeSource, "driver"),
        (storage.PersistentVolumeStatus, "phase"), (storage.PersistentVolumeClaimStatus, "phase"),
        (storage.PersistentVolumeClaimStatus, "access_modes"),
        (storage.StorageClass, "provisioner"), (storage.StorageClass, "volume_binding_mode"),
        (storage.CSINodeDriver, "name"), (storage.CSIStorageCapacity, "capacity"),
        (storage.CSIStorageCapacity, "maximum_volume_size"), (storage.VolumeAttachmentSpec, "attacher"),
        (dra.ExactDeviceRequest, "allocation_mode"), (dra.CapacityRequirements, "requests"),
        (dra.DeviceConstraint, "match_attribute"), (dra.DeviceConstraint, "distinct_attribute"),
        (dra.DeviceRequestAllocationResult, "driver"), (dra.DeviceRequestAllocationResult, "consumed_capacity"),
        (dra.AllocationResult, "allocation_timestamp"),
        (dra.ResourceClaimConsumer, "resource"), (dra.AllocatedDeviceStatus, "driver"),
        (dra.ResourceSliceSpec, "driver"), (dra.Device, "capacity"), (dra.DeviceCapacity, "value"),
        (dra.DeviceCapacity, "request_policy"), (dra.DeviceCounterConsumption, "counters"),
        (dra.CounterSet, "counters"), (dra.DeviceTaintSelector, "driver"),
        (scheduling.PodGroupSpec, "disruption_mode"),
    }
)  # fmt: skip
"""Text fields, and maps, that are kept as they are: words of the API, quantities, times, drivers, and what they name of
their devices."""
