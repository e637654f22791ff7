"""Which changes may let a pod through that NodeVolumeLimits rejected.

Registered are upstream's events, and more that liveness needs: a node that comes with room, a CSINode that goes (its
node takes any number then), claims and volumes whose change makes two volumes one or takes one away, and drivers.
"""

from collections.abc import Callable, Sequence

from berth.api.node import Node
from berth.api.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.status import Status
from berth.plugins.volumes.attachable import limits_of, may_be_attached, new_volumes
from berth.plugins.volumes.claims import CLAIM, VOLUME, claim_names, is_claim_of
from berth.state.objects import ObjectStore
from berth.state.pod_info import PodInfo

ALL = Action.ADD | Action.UPDATE | Action.DELETE


class LimitsHints:
    """The events of NodeVolumeLimits; `fits` says whether a node without pods takes a pod's volumes."""

    __slots__ = ("_fits", "_objects")

    def __init__(self, objects: ObjectStore, fits: Callable[[PodInfo, str], bool]) -> None:
        self._objects = objects
        self._fits = fits

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Return what to register; any CSINode that comes may help."""
        return (
            ClusterEventWithHint(ClusterEvent("CSINode", Action.ADD)),
            ClusterEventWithHint(ClusterEvent("CSINode", Action.UPDATE | Action.DELETE), self.after_csi_node_change),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self.after_pod_deletion),
            ClusterEventWithHint(ClusterEvent(CLAIM, ALL), self.after_claim_change),
            ClusterEventWithHint(ClusterEvent("VolumeAttachment", Action.DELETE), self.after_attachment_deletion),
            ClusterEventWithHint(ClusterEvent(VOLUME, ALL), self.after_volume_change),
            ClusterEventWithHint(ClusterEvent("CSIDriver", Action.UPDATE | Action.DELETE), self.after_driver_change),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD), self.after_node_added),
        )

    def after_csi_node_change(self, pod: PodInfo, old: CSINode | None, new: CSINode | None) -> QueueingHint:
        """Queue where a limit is higher than before, or gone, or one of the pod's drivers is new on the node."""
        now = limits_of(new)
        if any(limit < now.get(driver, limit + 1) for driver, limit in limits_of(old).items()):
            return QueueingHint.QUEUE
        return queue_if(not (_drivers_on(new) - _drivers_on(old)).isdisjoint(self._drivers(pod)))

    def after_driver_change(self, pod: PodInfo, old: CSIDriver | None, new: CSIDriver | None) -> QueueingHint:
        """Queue where one of the pod's drivers no longer keeps it off nodes."""
        if old is None or not old.spec.prevent_pod_scheduling_if_missing:
            return QueueingHint.SKIP
        relaxed = new is None or not new.spec.prevent_pod_scheduling_if_missing
        return queue_if(relaxed and old.metadata.name in self._drivers(pod))

    def after_pod_deletion(self, _pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
        """Queue where the pod that goes had a place, and volumes that count."""
        if old is None or not (old.node_name or old.status.nominated_node_name):
            return QueueingHint.SKIP
        return queue_if(any(may_be_attached(volume) for volume in old.spec.volumes))

    def after_claim_change(
        self, pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> QueueingHint:
        """Queue where it is one of the pod's claims, or a claim goes that may have been counted."""
        return queue_if(new is None or is_claim_of(pod, new, claim_names(pod)))

    def after_attachment_deletion(
        self, pod: PodInfo, old: VolumeAttachment | None, _new: VolumeAttachment | None
    ) -> QueueingHint:
        """Queue where a volume of one of the pod's drivers is detached."""
        return queue_if(old is not None and old.spec.attacher in self._drivers(pod))

    def after_volume_change(
        self, pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume | None
    ) -> QueueingHint:
        """Queue where a volume of the pod's claims comes or changes, or one that was attached goes."""
        if new is None:
            return queue_if(old is not None and old.spec.csi is not None and old.spec.csi.driver in self._drivers(pod))
        claims = (self._objects.get(CLAIM, name, pod.namespace) for name in claim_names(pod))
        return queue_if(any(c is not None and c.spec.volume_name == new.metadata.name for c in claims))

    def after_node_added(self, pod: PodInfo, _old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where the node takes the pod's volumes."""
        return queue_if(new is not None and self._fits(pod, new.metadata.name))

    def _drivers(self, pod: PodInfo) -> set[str]:
        wanted = new_volumes(self._objects, pod)
        return set() if isinstance(wanted, Status) else {volume.driver for volume in wanted}


def _drivers_on(csi_node: CSINode | None) -> set[str]:
    return {driver.name for driver in csi_node.spec.drivers} if csi_node is not None else set()
