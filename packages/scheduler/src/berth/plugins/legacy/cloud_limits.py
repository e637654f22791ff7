"""EBSLimits, GCEPDLimits, AzureDiskLimits and CinderLimits of v1.20: how many disks of a cloud a node takes.

There is one class for each kind, over one base. A volume counts once, however many pods use it. A claim counts by the
disk that it is bound to or, unbound, where its class's provisioner makes such disks. The limit is what the node reports
under `attachable-volumes-…`, else that of the kind. A kind that CSINode says is migrated, under the gates for that, is
left to NodeVolumeLimits. Deviation: the environment variable KUBE_MAX_PD_VOLS is not read.
Source: release-1.20, pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go, pkg/volume/util/attach_limit.go.
"""

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from berth.api.node import Node
from berth.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.config.feature_gates import FeatureGates
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    Codes,
    ColumnFilterPlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    PodWhatIfPlugin,
    Rows,
    SignaturePlugin,
)
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.readers import ObjectReader
from berth.framework.status import Status, error, unschedulable
from berth.plugins.volumes.claims import CLAIM, CLASS, VOLUME
from berth.plugins.volumes.uses import VolumeUses
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

REASON = "node(s) exceed max volume count"
NO_CLAIM_NAME = "PersistentVolumeClaim had no name"

INSTANCE_TYPE_LABELS = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
MIGRATION_GATE = "CSIMigration"

_EBS_NITRO = re.compile(r"^[cmr]5.*|t3|z1d")
_EXCEEDED = unschedulable(REASON)


class DiskKind(NamedTuple):
    """How to recognise the disks of one cloud, and how many a node takes where it does not report that."""

    limit_key: str
    provisioner: str
    gate: str
    id_of: Callable[[Any], str | None]
    """The disk of a pod's volume, or of the spec of a PersistentVolume; None for another kind."""
    default_limit: Callable[[str], int]
    """By instance type."""
    least_limit: int
    """The least that `default_limit` gives."""


def _ebs_limit(instance_type: str) -> int:
    return 25 if _EBS_NITRO.search(instance_type) else 39


EBS = DiskKind(
    "attachable-volumes-aws-ebs",
    "kubernetes.io/aws-ebs",
    "CSIMigrationAWS",
    lambda source: source.aws_elastic_block_store and source.aws_elastic_block_store.volume_id,
    _ebs_limit,
    25,
)
GCE_PD = DiskKind(
    "attachable-volumes-gce-pd",
    "kubernetes.io/gce-pd",
    "CSIMigrationGCE",
    lambda source: source.gce_persistent_disk and source.gce_persistent_disk.pd_name,
    lambda _: 16,
    16,
)
AZURE = DiskKind(
    "attachable-volumes-azure-disk",
    "kubernetes.io/azure-disk",
    "CSIMigrationAzureDisk",
    lambda source: source.azure_disk and source.azure_disk.disk_name,
    lambda _: 16,
    16,
)
CINDER = DiskKind(
    "attachable-volumes-cinder",
    "kubernetes.io/cinder",
    "CSIMigrationOpenStack",
    lambda source: source.cinder and source.cinder.volume_id,
    lambda _: 256,
    256,
)
KINDS = (EBS, GCE_PD, AZURE, CINDER)


def disks_of(kind: DiskKind, objects: ObjectReader, pods: Iterable[PodInfo]) -> set[Hashable] | Status:
    """Return the disks of one kind that pods use, or why that cannot be said."""
    found: set[Hashable] = set()
    for pod in pods:
        for volume in pod.spec.volumes:
            disk: Hashable = kind.id_of(volume)
            if disk is None and volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
                if not name:
                    return error(NO_CLAIM_NAME)
                disk = _claimed(kind, objects, pod.namespace, name)
            if disk is not None:
                found.add(disk)
    return found


def _claimed(kind: DiskKind, objects: ObjectReader, namespace: str, name: str) -> Hashable:
    """Return the disk behind a claim, the claim itself where it stands for one, or None."""
    claim: PersistentVolumeClaim | None = objects.get(CLAIM, name, namespace)
    if claim is None:
        return None
    volume: PersistentVolume | None = objects.get(VOLUME, claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return kind.id_of(volume.spec)
    storage_class: StorageClass | None = objects.get(CLASS, claim.spec.storage_class_name or "")
    makes_disks = storage_class is not None and storage_class.provisioner == kind.provisioner
    return (namespace, name) if makes_disks else None


def limit_of(kind: DiskKind, node: Node, allocatable: dict[str, int] | Any) -> int:
    """Return how many disks a node takes."""
    if kind.limit_key in node.status.allocatable:
        return int(allocatable.get(kind.limit_key, 0))
    labels = node.metadata.labels
    return kind.default_limit(next((labels[key] for key in INSTANCE_TYPE_LABELS if key in labels), ""))


def is_migrated(kind: DiskKind, csi_node: CSINode | None, features: FeatureGates) -> bool:
    """Say whether a node hands disks of this kind to a CSI driver."""
    if csi_node is None or not (features.enabled(MIGRATION_GATE) and features.enabled(kind.gate)):
        return False
    return kind.provisioner in csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")


class AttachRoom(NamedTuple):
    """How many disks a node can still attach, and how many of them a pod would need."""

    allocatable: int
    requested: int


class CloudDisks:
    """Disks of all kinds, for BalancedAllocation."""

    __slots__ = ("_features", "_objects")

    def __init__(self, objects: ObjectReader, features: FeatureGates) -> None:
        self._objects = objects
        self._features = features

    def room(self, pod: PodInfo, node: NodeView) -> AttachRoom:
        """Return the room for the last kind of disk that a pod brings; none for one that brings no disk."""
        found = AttachRoom(0, 0)
        for kind in KINDS:
            wanted = disks_of(kind, self._objects, (pod,))
            there = disks_of(kind, self._objects, node.pods.values())
            if isinstance(wanted, Status) or isinstance(there, Status) or not wanted:
                continue
            if not is_migrated(kind, self._objects.get("CSINode", node.name), self._features):
                found = AttachRoom(limit_of(kind, node.node, node.allocatable) - len(there), len(wanted - there))
        return found


class CloudLimits(FilterPlugin, ColumnFilterPlugin, PodWhatIfPlugin, SignaturePlugin, EventsPlugin):
    """Filter, for the disks of one kind."""

    kind: ClassVar[DiskKind]
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset(
            {Dependency.NODE, Dependency.PODS_ON_NODE, Objects((CLAIM, CLASS, "CSINode", VOLUME))}
        ),
        filters_by_affecting_pods=True,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.objects
        self._features = handle.features
        self._uses = VolumeUses(handle.cache.table)

    def signature(self, pod: PodInfo) -> Hashable:
        """Return one value for all pods without volumes, as only volumes count; None for others, so nothing is kept."""
        return None if pod.spec.volumes else ()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse a node that cannot attach so many."""
        wanted = disks_of(self.kind, self._objects, (pod,))
        return wanted if isinstance(wanted, Status) else self._status(wanted, node)

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return codes, int32 (len(rows),): what is against each row.

        Only pods that bring disks look at any, and only at rows that might be over their limit.
        """
        wanted = disks_of(self.kind, self._objects, (pod,)) if pod.spec.volumes else set()
        codes: Codes = np.zeros(table.capacity, dtype=np.int32)
        statuses: list[Status] = []
        if isinstance(wanted, Status):
            return FilterColumn(codes[rows] + 1, lambda _code: wanted)
        for row in self._doubtful(len(wanted), table) if wanted else ():
            status = self._status(wanted, table.view(row))
            if status is not None:
                if status not in statuses:
                    statuses.append(status)
                codes[row] = statuses.index(status) + 1
        return FilterColumn(codes[rows], lambda code: statuses[code - 1])

    def _doubtful(self, wanted: int, table: NodeTable) -> list[int]:
        """Return the rows where all volumes there and these together exceed the least that the node may take."""
        self._uses.sync()
        reported = table.resource_index.get(self.kind.limit_key)
        # A limit of 0 looks like one that is not reported.
        least = self.kind.least_limit if reported is None else table.allocatable[reported]
        rows: list[int] = np.flatnonzero(table.valid & (self._uses.attachable + wanted > least)).tolist()
        return rows

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Say whether the other pod's volumes may count."""
        return bool(other.spec.volumes)

    def _status(self, wanted: set[Hashable], node: NodeView) -> Status | None:
        csi_node = self._objects.get("CSINode", node.name)
        if not wanted or is_migrated(self.kind, csi_node, self._features):
            return None
        there = disks_of(self.kind, self._objects, node.pods.values())
        if isinstance(there, Status):
            return there
        fits = len(there | wanted) <= limit_of(self.kind, node.node, node.allocatable)
        return None if fits else _EXCEEDED

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register pods that go, and nodes, claims and volumes that come or change."""
        return (
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE)),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)),
            ClusterEventWithHint(ClusterEvent(CLAIM, Action.ADD | Action.UPDATE)),
            ClusterEventWithHint(ClusterEvent(VOLUME, Action.ADD | Action.UPDATE)),
        )


@final
class EBSLimits(CloudLimits):
    """AWS Elastic Block Store."""

    name: ClassVar[str] = "EBSLimits"
    promises: ClassVar[Promises] = CloudLimits.promises
    kind: ClassVar[DiskKind] = EBS


@final
class GCEPDLimits(CloudLimits):
    """GCE persistent disks."""

    name: ClassVar[str] = "GCEPDLimits"
    promises: ClassVar[Promises] = CloudLimits.promises
    kind: ClassVar[DiskKind] = GCE_PD


@final
class AzureDiskLimits(CloudLimits):
    """Azure disks."""

    name: ClassVar[str] = "AzureDiskLimits"
    promises: ClassVar[Promises] = CloudLimits.promises
    kind: ClassVar[DiskKind] = AZURE


@final
class CinderLimits(CloudLimits):
    """OpenStack Cinder."""

    name: ClassVar[str] = "CinderLimits"
    promises: ClassVar[Promises] = CloudLimits.promises
    kind: ClassVar[DiskKind] = CINDER
