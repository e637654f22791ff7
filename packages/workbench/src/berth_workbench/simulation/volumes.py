"""What becomes of a claim before any pod is scheduled: its default class, and a volume where none waits for a pod.

Pure functions over structs, of the admission plugin DefaultStorageClass and of the volume controller, v1.36.
"""

from collections.abc import Iterable

import msgspec

from berth.api.quantity import Quantity, parse
from berth.api.selectors import SelectorError, compile_selector
from berth.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.plugins.volumes.claims import AVAILABLE, BETA_CLASS, STORAGE, class_name_of, is_bound_to, requested
from berth_workloads.volume_claims import FILESYSTEM, CandidateVolume, ClaimedStorage, volume_for

DEFAULT_CLASSES = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def with_default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    """Return a new claim with the cluster's default class where it names none; of several the newest."""
    if claim.spec.storage_class_name is not None or BETA_CLASS in claim.metadata.annotations:
        return claim
    defaults = [
        each for each in classes if any(each.metadata.annotations.get(key) == "true" for key in DEFAULT_CLASSES)
    ]
    if not defaults:
        return claim
    newest = max(each.metadata.creation_timestamp or "" for each in defaults)
    name = min(each.metadata.name for each in defaults if (each.metadata.creation_timestamp or "") == newest)
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, storage_class_name=name))


def smallest_for(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """Return the smallest free volume that may hold a claim, or the one that is meant for it; None without one."""
    known = {volume.metadata.name: volume for volume in volumes}
    found = volume_for(_storage(claim, requested(claim)), (_candidate(each, claim) for each in known.values()))
    return None if found is None else known[found.name]


def _candidate(volume: PersistentVolume, claim: PersistentVolumeClaim) -> CandidateVolume:
    """A volume of a manifest has no phase; the volume controller would make it available."""
    is_available = volume.spec.claim_ref is None and volume.status.phase in ("", "Pending", AVAILABLE)
    return CandidateVolume(
        name=volume.metadata.name,
        storage=_storage(volume, volume.spec.capacity.get(STORAGE, 0)),
        is_meant_for_it=is_bound_to(volume, claim),
        is_free=is_available and _is_selected(volume, claim),
        is_being_deleted=volume.metadata.deletion_timestamp is not None,
    )


def _storage(obj: PersistentVolume | PersistentVolumeClaim, size: Quantity) -> ClaimedStorage:
    spec = obj.spec
    attributes_class, mode = spec.volume_attributes_class_name or "", spec.volume_mode or FILESYSTEM
    return ClaimedStorage(parse(size), class_name_of(obj), attributes_class, mode, frozenset(spec.access_modes))


def _is_selected(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    try:
        return claim.spec.selector is None or compile_selector(claim.spec.selector).matches(volume.metadata.labels)
    except SelectorError:
        return False
