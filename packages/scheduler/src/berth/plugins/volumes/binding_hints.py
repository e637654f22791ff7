"""Which changes may let a pod through that VolumeBinding rejected.

Registered are upstream's events, and two more that liveness needs: a CSI driver that goes, and a pod that goes or
fails to bind while its claims are unbound, since the volumes that were assumed to be its own are free again. Hints go
by the pod's claims as they are when something happens; a claim that changes later is an event of its own.
"""

from collections.abc import Sequence

from berth.api.node import Node
from berth.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.readers import ObjectReader
from berth.framework.status import Status
from berth.plugins.volumes.binder import NodeForVolumes, check_claims, claims_of, volume_limit_bytes, volumes_on
from berth.plugins.volumes.claims import (
    CLAIM,
    CLASS,
    VOLUME,
    claim_names,
    class_name_of,
    is_claim_of,
    is_fully_bound,
)
from berth.plugins.volumes.migration import MIGRATED_PLUGINS
from berth.plugins.volumes.volume_index import VolumeIndex
from berth.state.pod_info import PodInfo

ADD_OR_UPDATE = Action.ADD | Action.UPDATE


class BindingHints:
    """The events of VolumeBinding."""

    __slots__ = ("_index", "_objects")

    def __init__(self, objects: ObjectReader, index: VolumeIndex) -> None:
        self._objects = objects
        self._index = index

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Return what to register."""
        return (
            ClusterEventWithHint(ClusterEvent(CLASS, ADD_OR_UPDATE), self.after_class_change),
            ClusterEventWithHint(ClusterEvent(CLAIM, ADD_OR_UPDATE), self.after_claim_change),
            ClusterEventWithHint(ClusterEvent(VOLUME, ADD_OR_UPDATE), self.after_volume_change),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), self.after_node_change),
            ClusterEventWithHint(ClusterEvent("CSINode", ADD_OR_UPDATE), self.after_csi_node_change),
            ClusterEventWithHint(ClusterEvent("CSIDriver", Action.UPDATE | Action.DELETE), self.after_driver_change),
            ClusterEventWithHint(ClusterEvent("CSIStorageCapacity", ADD_OR_UPDATE), self.after_capacity_change),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self.after_pod_deletion),
        )

    def after_class_change(self, pod: PodInfo, old: StorageClass | None, new: StorageClass | None) -> QueueingHint:
        """Queue where a class of the pod's claims comes, or allows other topologies."""
        if new is None or new.metadata.name not in self._classes(pod):
            return QueueingHint.SKIP
        return queue_if(old is None or old.allowed_topologies != new.allowed_topologies)

    def after_claim_change(
        self, pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> QueueingHint:
        """Queue where it is one of the pod's claims."""
        return queue_if(new is not None and is_claim_of(pod, new, claim_names(pod)))

    def after_volume_change(
        self, pod: PodInfo, _old: PersistentVolume | None, new: PersistentVolume | None
    ) -> QueueingHint:
        """Queue where it is the volume of one of the pod's claims, or one that they may get."""
        if new is None:
            return QueueingHint.SKIP
        claims = self._claims(pod)
        name, volume_class = new.metadata.name, class_name_of(new)
        return queue_if(
            any(
                claim.spec.volume_name == name or (not is_fully_bound(claim) and class_name_of(claim) == volume_class)
                for claim in claims
            )
        )

    def after_node_change(self, pod: PodInfo, _old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where the pod's volumes can be had on the node."""
        if new is None or check_claims(self._objects, pod) is not None:
            return QueueingHint.SKIP
        claims = claims_of(self._objects, self._index, pod)
        if isinstance(claims, Status):
            return QueueingHint.SKIP
        found = volumes_on(self._objects, claims, NodeForVolumes(new.metadata.name, new.metadata.labels))
        return queue_if(not isinstance(found, Status))

    def after_csi_node_change(self, _pod: PodInfo, old: CSINode | None, new: CSINode | None) -> QueueingHint:
        """Queue where a node's drivers become known, or take over from other in-tree plugins."""
        if old is None or new is None:
            return QueueingHint.QUEUE
        return queue_if(
            old.metadata.annotations.get(MIGRATED_PLUGINS) != new.metadata.annotations.get(MIGRATED_PLUGINS)
        )

    def after_driver_change(self, pod: PodInfo, old: CSIDriver | None, new: CSIDriver | None) -> QueueingHint:
        """Queue where a driver that provisions for the pod no longer asks for its capacity to be looked at."""
        if old is None or not old.spec.storage_capacity or (new is not None and new.spec.storage_capacity):
            return QueueingHint.SKIP
        classes = (self._objects.get(CLASS, name) for name in self._classes(pod))
        return queue_if(any(c is not None and c.provisioner == old.metadata.name for c in classes))

    def after_capacity_change(
        self, pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
    ) -> QueueingHint:
        """Queue where there is more room for volumes of a class of the pod's claims."""
        if new is None or new.storage_class_name not in self._classes(pod):
            return QueueingHint.SKIP
        if old is None or old.node_topology != new.node_topology:
            return QueueingHint.QUEUE
        before, now = volume_limit_bytes(old), volume_limit_bytes(new)
        return queue_if(now is not None and (before is None or now > before))

    def after_pod_deletion(self, _pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
        """Queue where a pod whose claims were yet to be bound goes, or could not be bound."""
        return queue_if(old is not None and any(not is_fully_bound(claim) for claim in self._claims(old)))

    def _claims(self, pod: PodInfo) -> list[PersistentVolumeClaim]:
        found = (self._objects.get(CLAIM, name, pod.namespace) for name in claim_names(pod))
        return [claim for claim in found if claim is not None]

    def _classes(self, pod: PodInfo) -> set[str]:
        return {class_name_of(claim) for claim in self._claims(pod)}
