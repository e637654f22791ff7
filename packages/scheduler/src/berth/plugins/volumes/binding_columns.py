"""The column form of VolumeBinding: what `binder.volumes_on` says of a node, for all rows at once.

Claims and the node table go in, and a code for each row comes out: one bit for each reason. Volumes are gone through
by node affinity, so that thousands of local volumes cost one pass over the volumes, not one for every node.
"""

from collections.abc import Iterable
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from berth.api.quantity import value
from berth.api.selectors import compile_selector
from berth.api.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.framework.interface import Codes
from berth.framework.readers import ObjectReader
from berth.framework.status import Status, unresolvable
from berth.plugins.volumes.binder import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_VOLUME_MISSING,
    ClaimToBind,
    PodClaims,
    tells_capacity,
    volume_limit_bytes,
)
from berth.plugins.volumes.claims import CLASS, NO_PROVISIONER, SELECTED_NODE, VOLUME, class_name_of, requested
from berth.plugins.volumes.free_rows import FreeRows
from berth.plugins.volumes.migration import is_migrated_on, migrated_affinity, plugin_of
from berth.plugins.volumes.node_rows import NodeRows, RowArray
from berth.plugins.volumes.volume_index import Offer, affinity_as_stored
from berth.state.label_index import Mask
from berth.state.table import NodeTable

NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING = 1, 2, 4, 8

_REASONS = (
    (NODE_CONFLICT, REASON_NODE_CONFLICT),
    (BIND_CONFLICT, REASON_BIND_CONFLICT),
    (NOT_ENOUGH_SPACE, REASON_NOT_ENOUGH_SPACE),
    (VOLUME_MISSING, REASON_VOLUME_MISSING),
)

NOTHING = -1
"""Stands for no volume in an array of volume numbers."""

Numbers = NDArray[np.intp]


def describe(code: int) -> Status:
    """Return the status that a code means."""
    return unresolvable(*(reason for bit, reason in _REASONS if code & bit))


class BindingColumns:
    """Codes of all rows, from the store and the table as they are."""

    __slots__ = ("_free_rows", "_nodes", "_objects", "_table")

    def __init__(self, objects: ObjectReader, table: NodeTable) -> None:
        self._objects = objects
        self._table = table
        self._nodes = NodeRows(table)
        self._free_rows = FreeRows()

    def codes(self, claims: PodClaims) -> Codes:
        """Return int32 of shape (capacity,): the reasons against each row. Rows without a node hold no meaning."""
        self._nodes.sync()
        codes: Codes = np.zeros(self._table.capacity, dtype=np.int32)
        self._add_bound(codes, claims.bound)
        if claims.to_bind:
            codes |= self._unbound(claims.to_bind)
        return codes

    def _add_bound(self, codes: Codes, claims: Iterable[PersistentVolumeClaim]) -> None:
        """Add to each row the first thing that is wrong with the bound volumes there."""
        good = np.ones(len(codes), dtype=np.bool_)
        for claim in claims:
            volume: PersistentVolume | None = self._objects.latest(VOLUME, claim.spec.volume_name)
            if volume is None:
                codes[good] |= VOLUME_MISSING
                return
            usable = self._usable(volume)
            codes[good & ~usable] |= NODE_CONFLICT
            good &= usable

    def _usable(self, volume: PersistentVolume) -> Mask:
        usable = self._nodes.mask(self._nodes.by_affinity(affinity_as_stored(volume)))
        plugin = plugin_of(volume)
        if plugin is not None:
            names, get = self._table.names, self._objects.get
            migrated = [
                row for row in self._table.rows().tolist() if is_migrated_on(plugin, get("CSINode", names[row]))
            ]
            if migrated:
                there = self._nodes.mask(self._nodes.by_affinity(migrated_affinity(volume, plugin)))
                usable[migrated] = there[migrated]
        return usable

    def _unbound(self, claims: tuple[ClaimToBind, ...]) -> Codes:
        """Return the codes for claims to be bound: nodes chosen earlier come first, then volumes, then provisioning."""
        elsewhere = np.zeros(self._table.capacity, dtype=np.bool_)
        needs: list[tuple[PersistentVolumeClaim, Mask]] = []
        given = _Given(self._table.capacity)
        for claim, offer in claims:
            if offer is None:
                place = self._table.row_of.get(claim.metadata.annotations[SELECTED_NODE], -1)
                elsewhere |= np.arange(len(elsewhere)) != place
                needs.append((claim, np.ones(len(elsewhere), dtype=np.bool_)))
            elif len(claims) == 1 and offer.asked is not None and not offer.promised:
                # Which volume it would be does not matter where no other claim of the pod could want the same.
                needs.append((claim, self._free_rows.without(offer.asked, offer, self._nodes, self._table.capacity)))
            else:
                needs.append((claim, given.serve(offer, self._nodes)))
        codes: Codes = elsewhere.astype(np.int32) * np.int32(BIND_CONFLICT)
        for claim, needed in needs:
            open_rows = needed & (codes == 0)
            if open_rows.any():
                np.copyto(codes, self._provision_codes(claim), where=open_rows)
        return codes

    def _provision_codes(self, claim: PersistentVolumeClaim) -> Codes:
        """Return why a volume for the claim cannot be made for each row."""
        codes: Codes = np.full(self._table.capacity, BIND_CONFLICT, dtype=np.int32)
        storage_class: StorageClass | None = self._objects.get(CLASS, class_name_of(claim))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return codes
        is_told = tells_capacity(self._objects, storage_class, claim)
        if not (is_told or storage_class.allowed_topologies):
            codes.fill(0)
            return codes
        allowed = self._nodes.by_topologies(storage_class.allowed_topologies)
        if not is_told:
            codes[allowed] = 0
            return codes
        codes[allowed] = NOT_ENOUGH_SPACE
        roomy = self._nodes.mask(self._roomy_rows(storage_class, claim))
        codes[allowed[roomy[allowed]]] = 0
        return codes

    def _roomy_rows(self, storage_class: StorageClass, claim: PersistentVolumeClaim) -> RowArray:
        """Return the rows that reach a large enough capacity of the class."""
        size_bytes, name = value(requested(claim)), storage_class.metadata.name
        found: list[RowArray] = [np.zeros(0, dtype=np.intp)]
        capacities: Iterable[CSIStorageCapacity] = self._objects.list("CSIStorageCapacity")
        for capacity in capacities:
            if capacity.storage_class_name == name and capacity.node_topology is not None:
                limit = volume_limit_bytes(capacity)
                if limit is not None and limit >= size_bytes:
                    found.append(self._nodes.by_selector(compile_selector(capacity.node_topology)))
        return np.concatenate(found)


class _Given:
    """Which volumes the claims of a pod have been given so far, row by row."""

    __slots__ = ("_by_claim", "_capacity", "_numbers")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._numbers: dict[str, int] = {}
        self._by_claim: list[Numbers] = []

    def serve(self, offer: Offer, nodes: NodeRows) -> Mask:
        """Give the next claim the best volume on each row; return the rows where there is none."""
        given: Numbers = np.full(self._capacity, NOTHING, dtype=np.intp)
        undecided = np.ones(self._capacity, dtype=np.bool_)
        for volume in offer.promised:
            usable = nodes.mask(nodes.by_affinity(affinity_as_stored(volume)))
            number = self._number(volume.metadata.name)
            free = undecided & ~self._is_taken(number)
            given[free & usable] = number
            undecided &= ~free  # where a promised volume cannot be used, the claim gets none
        self._give_free(offer, nodes, given, undecided)
        self._by_claim.append(given)
        without: Mask = given == NOTHING
        return without

    def _give_free(self, offer: Offer, nodes: NodeRows, given: Numbers, undecided: Mask) -> None:
        # Each claim before this one has taken at most one volume on a row. So if the n claims before it took n of a
        # group's volumes, its n + 1 smallest still hold the smallest one that is left.
        offered = [(one, group) for group, sized in offer.free(len(self._by_claim) + 1) for one in sized]
        if not offered:
            return
        offered.sort(key=itemgetter(0))
        known = self._numbers
        numbers = [known.setdefault(name, len(known)) for (_, name), _ in offered]
        usable = [nodes.usable_rows(group) for _, group in offered]
        rows = np.concatenate(usable)
        pairs = np.repeat(numbers, [len(rows) for rows in usable])
        keep = undecided[rows]
        for before in self._by_claim:
            keep &= before[rows] != pairs
        # Written last to first, so that the first of a row is the one that stays.
        given[rows[keep][::-1]] = pairs[keep][::-1]

    def _is_taken(self, number: int) -> Mask:
        taken = np.zeros(self._capacity, dtype=np.bool_)
        for before in self._by_claim:
            taken |= before == number
        return taken

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))
