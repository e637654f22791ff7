"""NodeVolumeLimits of v1.20: claims of CSI volumes against what CSINode says; in-tree disks only where migrated.

Without PreFilter; claims that are missing do not count, and VolumeAttachments are not looked at.
Source: release-1.20, pkg/scheduler/framework/plugins/nodevolumelimits/csi.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.config.feature_gates import FeatureGates
from berth.config.types import ExtensionPoint
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import Codes, FilterColumn, Rows
from berth.framework.promises import Promises
from berth.framework.readers import ObjectReader
from berth.framework.status import Status, error, unschedulable
from berth.plugins.legacy.cloud_limits import KINDS, NO_CLAIM_NAME, is_migrated
from berth.plugins.volumes.attachable import limits_of
from berth.plugins.volumes.claims import CLAIM, CLASS, VOLUME, class_name_of
from berth.plugins.volumes.limits import REASON, NodeVolumeLimits
from berth.plugins.volumes.migration import InTreePlugin, VolumeHandle, plugin_named, plugin_of, volume_handle
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

_EXCEEDED = unschedulable(REASON)
_KIND_OF = {kind.provisioner: kind for kind in KINDS}


@final
class LegacyNodeVolumeLimits(NodeVolumeLimits):
    """Filter."""

    name: ClassVar[str] = "NodeVolumeLimits"
    promises: ClassVar[Promises] = msgspec.structs.replace(
        NodeVolumeLimits.promises,
        points=frozenset({ExtensionPoint.FILTER}),
    )

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._features = handle.features

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse a node whose drivers cannot attach so many."""
        csi_node: CSINode | None = self._objects.get("CSINode", node.name)
        wanted = csi_volumes(self._objects, (pod,), csi_node, self._features)
        limits: Mapping[str, int] = limits_of(csi_node)
        if isinstance(wanted, Status) or not wanted or not limits:
            return wanted if isinstance(wanted, Status) else None
        there = csi_volumes(self._objects, node.pods.values(), csi_node, self._features)
        if isinstance(there, Status):
            return there
        before = Counter(volume.driver for volume in there)
        more = Counter(volume.driver for volume in wanted - there)
        exceeded = any(driver in limits and before[driver] + n > limits[driver] for driver, n in more.items())
        return _EXCEEDED if exceeded else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),); only pods with claims look at any row."""
        codes: Codes = np.zeros(table.capacity, dtype=np.int32)
        statuses: list[Status] = []
        has_claims = any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)
        for row in np.flatnonzero(table.valid).tolist() if has_claims else ():
            status = self.filter(state, pod, table.view(row))
            if status is not None:
                if status not in statuses:
                    statuses.append(status)
                codes[row] = statuses.index(status) + 1
        return FilterColumn(codes[rows], lambda code: statuses[code - 1])


def csi_volumes(
    objects: ObjectReader, pods: Iterable[PodInfo], csi_node: CSINode | None, features: FeatureGates
) -> set[VolumeHandle] | Status:
    """Return the CSI volumes of pods as they count on a node, or why that cannot be said."""
    found: set[VolumeHandle] = set()
    for pod in pods:
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            if not name:
                return error(NO_CLAIM_NAME)
            claim: PersistentVolumeClaim | None = objects.get(CLAIM, name, pod.namespace)
            handle = _handle(objects, claim, csi_node, features) if claim is not None else None
            if handle is not None and handle.driver and handle.volume:
                found.add(handle)
    return found


def _handle(
    objects: ObjectReader, claim: PersistentVolumeClaim, csi_node: CSINode | None, features: FeatureGates
) -> VolumeHandle | None:
    volume: PersistentVolume | None = objects.get(VOLUME, claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        plugin = plugin_of(volume)
        counts = volume.spec.csi is not None or _has_moved(plugin, csi_node, features)
        return volume_handle(volume) if counts else None
    storage_class: StorageClass | None = objects.get(CLASS, class_name_of(claim))
    if storage_class is None:
        return None
    plugin = plugin_named(storage_class.provisioner)
    if plugin is not None and not _has_moved(plugin, csi_node, features):
        return None
    driver = storage_class.provisioner if plugin is None else plugin.driver
    return VolumeHandle(driver, f"{claim.metadata.namespace}/{claim.metadata.name}")


def _has_moved(plugin: InTreePlugin | None, csi_node: CSINode | None, features: FeatureGates) -> bool:
    kind = None if plugin is None else _KIND_OF.get(plugin.name)
    return kind is not None and is_migrated(kind, csi_node, features)
