"""What becomes of a claim before any pod is scheduled: its default class, and a volume where none waits for a pod.

Pure functions over structs, of the admission plugin DefaultStorageClass and of the volume controller, v1.36.
"""

from collections.abc import Iterable

import msgspec

from berth.api.quantity import parse
from berth.api.selectors import SelectorError, compile_selector
from berth.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.plugins.volumes.claims import BETA_CLASS, STORAGE, class_name_of, is_bound_to, may_hold

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
    found: PersistentVolume | None = None
    for volume in volumes:
        if is_bound_to(volume, claim):
            return volume
        if volume.spec.claim_ref is not None or not _suits(claim, volume):
            continue
        if found is None or (_size(volume), volume.metadata.name) < (_size(found), found.metadata.name):
            found = volume
    return found


def _size(volume: PersistentVolume) -> object:
    return parse(volume.spec.capacity.get(STORAGE, 0))


def _suits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if class_name_of(volume) != class_name_of(claim) or not may_hold(volume, claim):
        return False
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return False
    try:
        return claim.spec.selector is None or compile_selector(claim.spec.selector).matches(volume.metadata.labels)
    except SelectorError:
        return False
