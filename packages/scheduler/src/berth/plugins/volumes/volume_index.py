"""Indexes the volumes that claims may still get by what claims ask for, instead of looking at all volumes.

The object store goes in; what a claim may get comes out: the volumes promised to it, and free ones by their node
affinity, smallest first. The index follows the store's changes when it is asked; what is assumed of volumes is laid
over each answer.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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

CHANGES_KEPT = 4096
"""At least this many changes of groups are remembered."""

Sized = tuple[int, str]
"""A free volume: its size in nano-bytes, and its name."""


class Traits(NamedTuple):
    """What a claim and a volume must agree on, besides size."""

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


class ClaimNeeds(NamedTuple):
    """What a claim that selects no volumes by their labels asks for."""

    traits: Traits
    least: Sized
    """Stands before the smallest volume that is large enough."""

    def is_offered(self, offered: Traits) -> bool:
        """Say whether volumes of these traits will do."""
        wanted = self.traits
        return offered.class_name == wanted.class_name and offered[2:] == wanted[2:] and wanted.modes <= offered.modes


class FreeVolumes:
    """Free volumes of one node affinity, smallest first, and the rows that can use them as of one epoch of those."""

    __slots__ = ("_terms", "affinity", "epoch", "rows", "sized", "traits")

    def __init__(self, traits: Traits, affinity: NodeSelector | None) -> None:
        self.traits = traits
        self.affinity = affinity
        self.sized: list[Sized] = []
        self.epoch = 0
        self.rows: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._terms: tuple[Term, ...] | None = None

    def is_usable(self, labels: Mapping[str, str]) -> bool:
        """Say whether a node with these labels can use the volumes."""
        if self.affinity is None:
            return True
        return any(term.matches(labels, "") for term in self.terms(self.affinity))

    def terms(self, affinity: NodeSelector) -> tuple[Term, ...]:
        """Return the terms of the group's affinity, of which a node must match one."""
        if self._terms is None:
            self._terms = compile_terms(affinity)
        return self._terms

    def places(self) -> tuple[tuple[str, str], ...]:
        """Return labels of which a node must have one to use the volumes; nothing where no label is needed."""
        if self.affinity is None:
            return ()
        terms = self.terms(self.affinity)
        needed = (r for r in terms[0].labels if r.operator == "In") if len(terms) == 1 else iter(())
        first = next(needed, None)
        return () if first is None else tuple((first.key, value) for value in first.values)


class FreeGroups:
    """Groups of free volumes of the same traits, found by their affinity or by the labels of a node."""

    __slots__ = ("_anywhere", "_by_affinity", "_by_place", "_keys")

    def __init__(self) -> None:
        self._by_affinity: dict[NodeSelector | None, FreeVolumes] = {}
        self._by_place: dict[tuple[str, str], dict[int, FreeVolumes]] = {}
        self._keys: Counter[str] = Counter()
        """How many entries of `_by_place` each label has."""
        self._anywhere: dict[int, FreeVolumes] = {}
        """The groups that a node may use whatever its labels are, as far as `FreeVolumes.places` tells."""

    def __iter__(self) -> Iterator[FreeVolumes]:
        """Yield all groups."""
        return iter(self._by_affinity.values())

    def get(self, affinity: NodeSelector | None) -> FreeVolumes | None:
        """Return the group of this affinity, or None."""
        return self._by_affinity.get(affinity)

    def put(self, group: FreeVolumes) -> None:
        """Add a group."""
        self._by_affinity[group.affinity] = group
        places = group.places()
        if not places:
            self._anywhere[id(group)] = group
        for place in places:
            there = self._by_place.get(place)
            if there is None:
                there = self._by_place[place] = {}
                self._keys[place[0]] += 1
            there[id(group)] = group

    def remove(self, group: FreeVolumes) -> None:
        """Take a group out."""
        del self._by_affinity[group.affinity]
        self._anywhere.pop(id(group), None)
        for place in group.places():
            there = self._by_place[place]
            there.pop(id(group), None)
            if not there:
                del self._by_place[place]
                self._keys -= Counter((place[0],))

    def near(self, labels: Mapping[str, str]) -> Iterator[FreeVolumes]:
        """Yield the groups that a node of these labels may use, and perhaps others."""
        for key in self._keys:
            if key in labels:
                yield from self._by_place.get((key, labels[key]), {}).values()
        yield from self._anywhere.values()


class Offer:
    """What one claim may get: the volumes promised to it, else the smallest of the free ones that it can use."""

    __slots__ = ("_groups", "_index", "_least", "_objects", "_selector", "_taken", "asked", "promised")

    def __init__(
        self,
        objects: ObjectReader,
        claim: PersistentVolumeClaim,
        promised: tuple[PersistentVolume, ...],
        groups: list[FreeGroups],
        asked: ClaimNeeds,
        index: "VolumeIndex",
    ) -> None:
        self._objects = objects
        self._index = index
        self._least = asked.least
        self.asked: ClaimNeeds | None = asked if claim.spec.selector is None else None
        """What free volumes are found by; None where the claim selects among them by labels, too."""
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
        near = (group for groups in self._groups for group in groups.near(labels))
        for group, sized in self._free_of(near, len(taken) + 1):
            first = next((one for one in sized if one[1] not in taken), None)
            if first is not None and (smallest is None or first < smallest) and group.is_usable(labels):
                smallest = first
        return None if smallest is None else self._volume(smallest[1])

    def free(self, count: int) -> Iterator[tuple[FreeVolumes, list[Sized]]]:
        """Yield each group that has volumes for the claim, with the smallest `count` of those."""
        return self._free_of(self.groups(), count)

    def groups(self) -> Sequence[FreeVolumes]:
        """Return all groups whose traits the claim accepts."""
        return [group for groups in self._groups for group in groups]

    def _free_of(self, groups: Iterable[FreeVolumes], count: int) -> Iterator[tuple[FreeVolumes, list[Sized]]]:
        least, taken = self._least, self._taken
        for group in groups:
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

    def used_up(self) -> Iterator[FreeVolumes]:
        """Yield the groups that have volumes for the claim, all of which are assumed to be taken."""
        groups = {id(group): group for name in self._taken if (group := self._index.group_of(name)) is not None}
        for group in groups.values():
            is_ours = self.asked is not None and self.asked.is_offered(group.traits)
            if is_ours and group.sized[-1] >= self._least and not any(self._free_of((group,), 1)):
                yield group

    def changed_groups(self, position: int) -> Sequence[FreeVolumes] | None:
        """Return the groups that have changed since a position of the index; None where that is too long ago."""
        return self._index.changed_since(position)

    @property
    def position(self) -> int:
        """How often groups have changed so far."""
        return self._index.position

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

    __slots__ = ("_changed", "_free", "_objects", "_places", "_promised", "_version", "position")

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._version = 0
        self._places: dict[str, _Place] = {}
        self._free: dict[str, dict[Traits, FreeGroups]] = {}
        self._promised: dict[str, set[str]] = {}
        self._changed: list[FreeVolumes] = []
        self.position = 0
        """How often groups have got or lost a volume."""

    def offer(self, claim: PersistentVolumeClaim) -> Offer:
        """Return what a claim may get."""
        self._sync()
        traits = Traits(
            class_name_of(claim),
            frozenset(claim.spec.access_modes),
            claim.spec.volume_mode or FILESYSTEM,
            claim.spec.volume_attributes_class_name or "",
        )
        asked = ClaimNeeds(traits, (nano_value(requested(claim)), ""))
        groups = [
            found for offered, found in self._free.get(traits.class_name, {}).items() if asked.is_offered(offered)
        ]
        return Offer(self._objects, claim, self._promised_to(claim), groups, asked, self)

    def group_of(self, volume: str) -> FreeVolumes | None:
        """Return the group that a volume is free in, by its name; None where it is not free."""
        place = self._places.get(volume)
        if place is None or place.traits is None:
            return None
        return self._free[place.traits.class_name][place.traits].get(place.affinity)

    def changed_since(self, position: int) -> Sequence[FreeVolumes] | None:
        """Return the groups that have changed since then, also those that are gone; None where that is too long ago."""
        ago = self.position - position
        return None if ago > len(self._changed) else self._changed[len(self._changed) - ago :]

    def _note(self, group: FreeVolumes) -> None:
        self.position += 1
        self._changed.append(group)
        if len(self._changed) > 2 * CHANGES_KEPT:
            del self._changed[:CHANGES_KEPT]

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
            self._changed.clear()
            self.position += 1  # whatever was derived from the groups is to be made anew
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
            of_class = self._free.setdefault(place.traits.class_name, {})
            groups = of_class.get(place.traits)
            if groups is None:
                groups = of_class[place.traits] = FreeGroups()
            group = groups.get(place.affinity)
            if group is None:
                group = FreeVolumes(place.traits, place.affinity)
                groups.put(group)
            insort(group.sized, sized)
            self._note(group)
        elif place.promised_to:
            self._promised.setdefault(place.promised_to, set()).add(name)

    def _drop(self, name: str) -> None:
        place = self._places.pop(name, None)
        if place is None:
            return
        if place.traits is not None:
            groups = self._free[place.traits.class_name][place.traits]
            group = groups.get(place.affinity)
            assert group is not None, f"volume {name!r} is free in no group"
            del group.sized[bisect_left(group.sized, place.sized)]
            self._note(group)
            if not group.sized:
                groups.remove(group)
        elif place.promised_to:
            self._promised[place.promised_to].discard(name)
            if not self._promised[place.promised_to]:
                del self._promised[place.promised_to]
