"""Volumes that claims may still get, found by what a claim asks for instead of by looking at all of them.

The object store goes in; what a claim may get comes out: the volumes promised to it, and free ones by their node
affinity, smallest first. The index follows the store's changes when it is asked; what is assumed of volumes is laid
over each answer.
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.node_selector import NodeSelector
from berth.api.quantity import nano_value
from berth.api.selectors import Selector, compile_selector
from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.framework.readers import ObjectReader
from berth.plugins.node_selection import Term, compile_terms
from berth.plugins.volumes.claims import (
    AVAILABLE,
    FILESYSTEM,
    STORAGE,
    VOLUME,
    class_name_of,
    is_bound_to,
    key_of_claim,
    may_hold,
    requested,
)

Sized = tuple[int, str]
"""A free volume: its size in nano-bytes, and its name."""


class Traits(NamedTuple):
    """What a claim and a volume must agree in, beside size."""

    class_name: str
    modes: frozenset[str]
    volume_mode: str
    attributes: str


def traits_of(volume: PersistentVolume) -> Traits:
    """Return the traits of a volume."""
    spec = volume.spec
    modes, mode = frozenset(spec.access_modes), spec.volume_mode or FILESYSTEM
    return Traits(class_name_of(volume), modes, mode, spec.volume_attributes_class_name or "")


def affinity_as_stored(volume: PersistentVolume) -> NodeSelector | None:
    """Return the node affinity that a volume is found by."""
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


class _Place(NamedTuple):
    """Where the index keeps a volume."""

    traits: Traits | None
    affinity: NodeSelector | None
    sized: Sized
    promised_to: str


class FreeVolumes:
    """Free volumes of one node affinity, smallest first, and the rows that can use them as of one epoch of those."""

    __slots__ = ("_terms", "affinity", "epoch", "rows", "sized")

    def __init__(self, affinity: NodeSelector | None) -> None:
        self.affinity = affinity
        self.sized: list[Sized] = []
        self.epoch = 0
        self.rows: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._terms: tuple[Term, ...] | None = None

    def is_usable(self, labels: Mapping[str, str]) -> bool:
        """Say whether a node with these labels can use the volumes."""
        if self.affinity is None:
            return True
        if self._terms is None:
            self._terms = compile_terms(self.affinity)
        return any(term.matches(labels, "") for term in self._terms)


class Offer:
    """What one claim may get: the volumes promised to it, else the smallest of the free ones that it can use."""

    __slots__ = ("_groups", "_least", "_objects", "_selector", "_taken", "promised")

    def __init__(
        self,
        objects: ObjectReader,
        claim: PersistentVolumeClaim,
        promised: tuple[PersistentVolume, ...],
        groups: list[dict[NodeSelector | None, FreeVolumes]],
    ) -> None:
        self._objects = objects
        self._least = (nano_value(requested(claim)), "")
        self._selector: Selector | None = None
        if claim.spec.selector is not None:
            self._selector = compile_selector(claim.spec.selector)
        self._groups = groups
        self._taken = frozenset(objects.assumed.keys(VOLUME))
        self.promised = promised

    def best_on(self, labels: Mapping[str, str], taken: Collection[str]) -> PersistentVolume | None:
        """Return what the claim gets on a node with these labels, where the pod has taken some for other claims.

        A promised volume that cannot be used there leaves the claim without one.
        """
        for volume in self.promised:
            if volume.metadata.name not in taken:
                affinity = affinity_as_stored(volume)
                return volume if affinity is None or affinity.matches(labels, "") else None
        smallest: Sized | None = None
        for group, sized in self.free(len(taken) + 1):
            first = next((one for one in sized if one[1] not in taken), None)
            if first is not None and (smallest is None or first < smallest) and group.is_usable(labels):
                smallest = first
        return None if smallest is None else self._volume(smallest[1])

    def free(self, count: int) -> Iterator[tuple[FreeVolumes, list[Sized]]]:
        """Yield each group that has volumes for the claim, with the smallest `count` of those."""
        least, taken = self._least, self._taken
        for groups in self._groups:
            for group in groups.values():
                sized = group.sized
                start = 0 if sized[0] > least else bisect_left(sized, least)
                if self._selector is not None:
                    found = [one for one in sized[start:] if self._is_wanted(one)][:count]
                elif taken:
                    found = [one for one in sized[start : start + count + len(taken)] if one[1] not in taken][:count]
                else:
                    found = sized[start : start + count]
                if found:
                    yield group, found

    def _is_wanted(self, one: Sized) -> bool:
        selector = self._selector
        assert selector is not None, "asked only where the claim selects"
        return one[1] not in self._taken and selector.matches(self._volume(one[1]).metadata.labels)

    def _volume(self, name: str) -> PersistentVolume:
        found: PersistentVolume | None = self._objects.get(VOLUME, name)
        assert found is not None, f"volume {name!r} is offered but not there"
        return found


class VolumeIndex:
    """Volumes by what claims ask for."""

    __slots__ = ("_free", "_objects", "_places", "_promised", "_version")

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._version = 0
        self._places: dict[str, _Place] = {}
        self._free: dict[str, dict[Traits, dict[NodeSelector | None, FreeVolumes]]] = {}
        self._promised: dict[str, set[str]] = {}

    def offer(self, claim: PersistentVolumeClaim) -> Offer:
        """Return what a claim may get."""
        self._sync()
        traits = Traits(
            class_name_of(claim),
            frozenset(claim.spec.access_modes),
            claim.spec.volume_mode or FILESYSTEM,
            claim.spec.volume_attributes_class_name or "",
        )
        groups = [
            found
            for offered, found in self._free.get(traits.class_name, {}).items()
            if offered[2:] == traits[2:] and traits.modes <= offered.modes
        ]
        return Offer(self._objects, claim, self._promised_to(claim), groups)

    def _promised_to(self, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, ...]:
        names = self._promised.get(key_of_claim(claim), set()).union(self._objects.assumed.keys(VOLUME))
        found = (self._objects.latest(VOLUME, name) for name in sorted(names))
        return tuple(
            volume
            for volume in found
            if volume is not None
            and class_name_of(volume) == class_name_of(claim)
            and is_bound_to(volume, claim)
            and may_hold(volume, claim)
        )

    def _sync(self) -> None:
        version = self._objects.version(VOLUME)
        if version == self._version:
            return
        changed = self._objects.changed_since(VOLUME, self._version)
        if changed is None:
            self._free.clear()
            self._promised.clear()
            self._places.clear()
            changed = [volume.metadata.name for volume in self._objects.list(VOLUME)]
        for name in dict.fromkeys(changed):
            self._drop(name)
            volume: PersistentVolume | None = self._objects.get(VOLUME, name)
            if volume is not None:
                self._put(name, volume)
        self._version = version

    def _put(self, name: str, volume: PersistentVolume) -> None:
        ref = volume.spec.claim_ref
        is_free = ref is None and volume.status.phase == AVAILABLE and volume.metadata.deletion_timestamp is None
        sized = (nano_value(volume.spec.capacity.get(STORAGE, 0)), name)
        place = _Place(
            traits_of(volume) if is_free else None,
            affinity_as_stored(volume),
            sized,
            f"{ref.namespace}/{ref.name}" if ref is not None else "",
        )
        self._places[name] = place
        if place.traits is not None:
            groups = self._free.setdefault(place.traits.class_name, {}).setdefault(place.traits, {})
            group = groups.get(place.affinity)
            if group is None:
                group = groups[place.affinity] = FreeVolumes(place.affinity)
            insort(group.sized, sized)
        elif place.promised_to:
            self._promised.setdefault(place.promised_to, set()).add(name)

    def _drop(self, name: str) -> None:
        place = self._places.pop(name, None)
        if place is None:
            return
        if place.traits is not None:
            groups = self._free[place.traits.class_name][place.traits]
            sized = groups[place.affinity].sized
            del sized[bisect_left(sized, place.sized)]
            if not sized:
                del groups[place.affinity]
        elif place.promised_to:
            self._promised[place.promised_to].discard(name)
            if not self._promised[place.promised_to]:
                del self._promised[place.promised_to]
