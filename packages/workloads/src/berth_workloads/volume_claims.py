"""Which volume a claim gets: one that is meant for it, else the smallest free one that satisfies it.

Source: FindMatchingVolume in component-helpers/storage/volume and checkVolumeSatisfyClaim in
pkg/controller/volume/persistentvolume, v1.36.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

FILESYSTEM = "Filesystem"
"""The volume mode where none is given."""


class ClaimedStorage(NamedTuple):
    """The storage that a claim asks for, or that a volume has."""

    size: Fraction
    class_name: str
    attributes_class: str
    mode: str
    access_modes: frozenset[str]


class CandidateVolume(NamedTuple):
    """A volume that a claim may get."""

    name: str
    storage: ClaimedStorage
    is_meant_for_it: bool
    """Its claimRef names the claim."""
    is_free: bool
    """It is available, has no claimRef, and the claim's selector matches it."""
    is_being_deleted: bool = False


def mismatch(volume: ClaimedStorage, claim: ClaimedStorage) -> str:
    """Return why a volume cannot satisfy a claim, or the empty string where it can."""
    if volume.size < claim.size:
        return "requested PV is too small"
    if volume.class_name != claim.class_name:
        return "storageClassName does not match"
    if volume.attributes_class != claim.attributes_class:
        return "volumeAttributesClassName does not match"
    if volume.mode != claim.mode:
        return "incompatible volumeMode"
    return "" if claim.access_modes <= volume.access_modes else "incompatible accessMode"


def volume_for(
    claim: ClaimedStorage, volumes: Iterable[CandidateVolume], *, only_meant: bool = False
) -> CandidateVolume | None:
    """Return the volume that a claim gets, or None.

    With `only_meant`, where the claim waits for its first consumer, a free volume is not taken. The class of a volume
    that is meant for the claim does not matter.
    """
    smallest: CandidateVolume | None = None
    for volume in volumes:
        if volume.is_being_deleted:
            continue
        if volume.is_meant_for_it:
            if not mismatch(volume.storage._replace(class_name=claim.class_name), claim):
                return volume
        elif volume.is_free and not only_meant and not mismatch(volume.storage, claim):
            is_smaller = smallest is None or _size(volume) < _size(smallest)
            smallest = volume if is_smaller else smallest
    return smallest


def _size(volume: CandidateVolume) -> tuple[Fraction, str]:
    return volume.storage.size, volume.name
