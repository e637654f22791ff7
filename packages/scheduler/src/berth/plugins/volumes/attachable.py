"""Which volumes must be attached to a node, as their drivers know them: a pod's, and those attached already.

A claim without a volume counts as one of its class's driver, under a name of its own, so that it counts once however
many pods use it. Source of the rules: upstream's `NodeVolumeLimits`, v1.36.
"""

from collections.abc import Iterable

from berth.api.pod import Volume
from berth.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from berth.framework.readers import ObjectReader
from berth.framework.status import Status, error, unresolvable
from berth.plugins.volumes.claims import (
    CLAIM,
    CLAIM_NOT_FOUND,
    CLASS,
    VOLUME,
    claim_name,
    class_name_of,
    key_of_claim,
    ownership_fault,
)
from berth.plugins.volumes.migration import VolumeHandle, inline_handle, plugin_named, plugin_of, volume_handle
from berth.state.pod_info import PodInfo

NO_CLAIM_NAME = "PersistentVolumeClaim had no name"

_UNBOUND = "\0unbound\0"
"""Starts the name of a claim without a volume, as no driver's handle does."""


def may_be_attached(volume: Volume) -> bool:
    """Say whether a volume of a pod may have to be attached."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or plugin_of(volume) is not None


def new_volumes(objects: ObjectReader, pod: PodInfo) -> frozenset[VolumeHandle] | Status:
    """Return what must be attached for a pod that is to be placed, or why that cannot be said."""
    found: set[VolumeHandle] = set()
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            found |= _inline(volume)
            continue
        if not name:
            return error(NO_CLAIM_NAME)
        claim: PersistentVolumeClaim | None = objects.get(CLAIM, name, pod.namespace)
        if claim is None:
            return unresolvable(f"looking up PVC {pod.namespace}/{name}: {CLAIM_NOT_FOUND.format(name)}")
        fault = ownership_fault(pod, claim) if volume.ephemeral is not None else ""
        if fault:
            return error(fault)
        found |= _claimed(objects, claim)
    return frozenset(found)


def volumes_in_use(objects: ObjectReader, pods: Iterable[PodInfo]) -> set[VolumeHandle]:
    """Return what is attached for the pods on a node; a claim that is gone, or not the pod's own, does not count."""
    found: set[VolumeHandle] = set()
    for pod in pods:
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is None:
                found |= _inline(volume)
                continue
            claim: PersistentVolumeClaim | None = objects.get(CLAIM, name, pod.namespace)
            if claim is not None and not (volume.ephemeral is not None and ownership_fault(pod, claim)):
                found |= _claimed(objects, claim)
    return found


def attached_volumes(objects: ObjectReader, attachments: Iterable[VolumeAttachment]) -> set[VolumeHandle]:
    """Return the CSI volumes that these attachments are of."""
    found = set()
    for attachment in attachments:
        name = attachment.spec.source.persistent_volume_name
        volume: PersistentVolume | None = objects.get(VOLUME, name) if name is not None else None
        if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
            found.add(VolumeHandle(attachment.spec.attacher, volume.spec.csi.volume_handle))
    return found


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """Return how many volumes of each driver a node takes, where the driver says."""
    drivers = csi_node.spec.drivers if csi_node is not None else ()
    return {
        d.name: d.allocatable.count for d in drivers if d.allocatable is not None and d.allocatable.count is not None
    }


def _inline(volume: Volume) -> set[VolumeHandle]:
    handle = inline_handle(volume)
    return set() if handle is None else {handle}


def _claimed(objects: ObjectReader, claim: PersistentVolumeClaim) -> set[VolumeHandle]:
    name = claim.spec.volume_name
    volume: PersistentVolume | None = objects.get(VOLUME, name) if name else None
    handle = volume_handle(volume) if volume is not None else _unbound(objects, claim)
    return {handle} if handle is not None and handle.driver and handle.volume else set()


def _unbound(objects: ObjectReader, claim: PersistentVolumeClaim) -> VolumeHandle | None:
    """Return what a claim without a volume counts as: one of its class's driver, or nothing."""
    name = class_name_of(claim)
    storage_class: StorageClass | None = objects.get(CLASS, name) if name else None
    if storage_class is None:
        return None
    plugin = plugin_named(storage_class.provisioner)
    driver = plugin.driver if plugin is not None else storage_class.provisioner
    return VolumeHandle(driver, f"{_UNBOUND}{key_of_claim(claim)}")
