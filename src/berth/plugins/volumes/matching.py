"""What a claim asks for, and whether a volume can hold it; rules of k8s.io/component-helpers/storage/volume, v1.36."""

from berth.api.quantity import Quantity, parse
from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.plugins.volumes.claims import STORAGE

AVAILABLE = "Available"
FILESYSTEM = "Filesystem"


def requested(claim: PersistentVolumeClaim) -> Quantity:
    """Return how much storage a claim asks for."""
    return claim.spec.resources.requests.get(STORAGE, 0)


def may_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Say whether size, mode and attributes are right, and the volume is there to stay."""
    return (
        volume.metadata.deletion_timestamp is None
        and parse(volume.spec.capacity.get(STORAGE, 0)) >= parse(requested(claim))
        and (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
    )
