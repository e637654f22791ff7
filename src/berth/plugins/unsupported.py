"""What this release does not schedule yet, said in one place: pods with volumes or with resource claims.

The volume plugins and DynamicResources are registered with their args and events, skip every pod that they have
nothing to do with, and turn the others away in PreFilter with the sentences made here, so that no such pod is put
where its volumes or devices cannot follow.
"""

from collections.abc import Callable, Sequence
from typing import Any

from berth.api.pod import Volume
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.status import SKIP, Status, unresolvable
from berth.state.pod_info import PodInfo

NOT_YET = "this release of Berth does not schedule pods with {what} yet"

VolumeKind = Callable[[Volume], bool]


def is_claimed(volume: Volume) -> bool:
    """A volume by way of a PersistentVolumeClaim, be it a named one or one made for the pod."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def is_exclusive_disk(volume: Volume) -> bool:
    """An inline disk that two pods cannot write at once."""
    return any(
        source is not None
        for source in (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    )


def is_attached_disk(volume: Volume) -> bool:
    """An inline disk of a cloud, of which a node takes a limited number."""
    return any(
        source is not None
        for source in (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.azure_disk, volume.cinder)
    )


def skip_or_refuse_volumes(pod: PodInfo, *kinds: VolumeKind) -> Status:
    """Return Skip for a pod without volumes of these kinds, and a rejection that names one for any other."""
    for volume in pod.spec.volumes:
        if any(kind(volume) for kind in kinds):
            what = "persistent volume claims" if is_claimed(volume) else "disks in the pod's own spec"
            return unresolvable(f"{NOT_YET.format(what=what)} (volume {volume.name!r})")
    return SKIP


def refuse_resource_claims(pod: PodInfo) -> Status | None:
    """Return a rejection that names the claim for a pod with resource claims, None for any other."""
    if not pod.spec.resource_claims:
        return None
    claim = pod.spec.resource_claims[0]
    return unresolvable(f"{NOT_YET.format(what='resource claims')} (claim {claim.name!r})")


def refuse_device_resource(resource: str) -> Status:
    """Return a rejection of a pod whose extended resource only a device class offers."""
    return unresolvable(f"{NOT_YET.format(what='extended resources backed by devices')} (resource {resource!r})")


def events(*registered: tuple[str, Action]) -> Sequence[ClusterEventWithHint]:
    """Return registrations of these kinds and actions; none of them helps a pod that this release refuses."""
    return tuple(ClusterEventWithHint(ClusterEvent(kind, action), never) for kind, action in registered)


def never(_pod: PodInfo, _old: Any, _new: Any) -> QueueingHint:
    """Nothing that happens in the cluster changes what this release can do."""
    return QueueingHint.SKIP
