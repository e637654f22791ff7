"""Volumes and what describes them: claims, volumes, classes, CSI objects, attachments."""

from collections.abc import Mapping

from msgspec import field

from berth.api.meta import Condition, LabelSelector, ObjectMeta, ObjectReference, Struct
from berth.api.node_selector import NodeSelector
from berth.api.quantity import Quantity
from berth.api.read_only import EMPTY


class VolumeResourceRequirements(Struct, frozen=True):
    """resources of a claim."""

    requests: Mapping[str, Quantity] = EMPTY
    limits: Mapping[str, Quantity] = EMPTY


class PersistentVolumeClaimSpec(Struct, frozen=True):
    """spec of a claim; storage_class_name None asks for the default class, "" for none."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    volume_name: str = ""
    selector: LabelSelector | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    """status of a claim."""

    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Mapping[str, Quantity] = EMPTY
    conditions: tuple[Condition, ...] = ()


class PersistentVolumeClaim(Struct, frozen=True):
    """A claim on a volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Struct, frozen=True):
    """spec.nodeAffinity of a volume."""

    required: NodeSelector | None = None


class CSIVolumeSource(Struct, frozen=True):
    """spec.csi of a volume."""

    driver: str = ""
    volume_handle: str = ""


class DiskSource(Struct, frozen=True):
    """In-tree disks of a volume; whichever of the names its kind uses is set."""

    pd_name: str = ""
    volume_id: str = field(default="", name="volumeID")
    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")


class PersistentVolumeSpec(Struct, frozen=True):
    """spec of a volume."""

    capacity: Mapping[str, Quantity] = EMPTY
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: DiskSource | None = None
    aws_elastic_block_store: DiskSource | None = None
    azure_disk: DiskSource | None = None
    cinder: DiskSource | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    """status of a volume."""

    phase: str = ""


class PersistentVolume(Struct, frozen=True):
    """A volume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorRequirement(Struct, frozen=True):
    """A label and the values it may have."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Struct, frozen=True):
    """allowedTopologies[] of a class; all requirements must hold."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(Struct, frozen=True):
    """A storage class."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class CSINodeAllocatable(Struct, frozen=True):
    """drivers[].allocatable: how many volumes of the driver a node can attach."""

    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    """spec.drivers[]."""

    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(Struct, frozen=True):
    """spec of a CSI node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Struct, frozen=True):
    """What CSI drivers say of a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True):
    """spec of a CSI driver."""

    storage_capacity: bool | None = None
    attach_required: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Struct, frozen=True):
    """A CSI driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Struct, frozen=True):
    """How much a driver can still provision of a class in a part of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Struct, frozen=True):
    """spec.source of an attachment."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    """spec of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Struct, frozen=True):
    """A volume attached, or being attached, to a node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
