"""Which devices are taken: by claims as the API server has them, and by those whose allocation is under way.

Claims and the plugin's own reservations go in, an `Allocated` comes out, which the search only reads. A reservation is
*pending* from Reserve until PreBind has written it, and *written* until the watch has brought what was written: it
counts all that time. `plugin.py` reserves, `binding.py` writes. Source: the plugin's dra_manager.go, v1.36.
"""

from collections.abc import Iterator
from typing import Any

from berth.api.dra import DeviceRequestAllocationResult, ResourceClaim
from berth.api.quantity import nano_value
from berth.framework.readers import ObjectReader
from berth.plugins.dra.devices import DeviceId, PoolId
from berth.state.objects import key_of

CLAIM = "ResourceClaim"

TOUCHES_KEPT = 4096
"""At least this many changes to pools are remembered."""


class Allocated:
    """Devices that are taken, each with how often, and capacity that is consumed of shared ones."""

    __slots__ = ("_touched", "capacity", "devices", "position", "shared")

    def __init__(self) -> None:
        self.position = 0
        """How often anything was taken or given back."""
        self._touched: list[PoolId] = []
        self.devices: dict[DeviceId, int] = {}
        self.shared: dict[DeviceId, int] = {}
        self.capacity: dict[DeviceId, dict[str, int]] = {}

    def is_allocated(self, device: DeviceId) -> bool:
        """Say whether the device is in use, by one claim alone or shared."""
        return device in self.devices or device in self.shared

    def touched_since(self, position: int) -> set[PoolId] | None:
        """Return the pools of which something was taken or given back since; None where that is too long ago."""
        ago = self.position - position
        return None if ago > len(self._touched) else set(self._touched[len(self._touched) - ago :])

    def add(self, claim: ResourceClaim, consumable: bool, sign: int = 1) -> None:
        """Count the devices of a claim or, with a sign of -1, stop counting them."""
        if claim.status.allocation is None:
            return
        for result in claim.status.allocation.devices.results:
            if not result.admin_access:  # admin access observes a device without taking it
                self._add_device(result, consumable, sign)

    def _add_device(self, result: DeviceRequestAllocationResult, consumable: bool, sign: int) -> None:
        device = DeviceId(result.driver, result.pool, result.device)
        self.position += 1
        self._touched.append(PoolId(result.driver, result.pool))
        if len(self._touched) > 2 * TOUCHES_KEPT:
            del self._touched[:TOUCHES_KEPT]
        shared = consumable and result.share_id is not None
        _count(self.shared if shared else self.devices, device, sign)
        if not shared:
            return
        consumed = self.capacity.setdefault(device, {})
        for name, amount in result.consumed_capacity.items():
            _count(consumed, name, sign * nano_value(amount))
        if not consumed:
            del self.capacity[device]


def _count(counts: dict[Any, int], key: Any, by: int) -> None:
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)


class Ledger:
    """All claims and reservations of the cluster, added up."""

    __slots__ = (
        "_allocated",
        "_consumable",
        "_counted",
        "_objects",
        "_outdated",
        "_pending",
        "_uid_of",
        "_version",
        "_written",
    )

    def __init__(self, objects: ObjectReader, consumable: bool) -> None:
        self._objects = objects
        self._consumable = consumable
        self._allocated = Allocated()
        self._version = -1
        self._outdated: set[str] = set()
        """By uid, the claims that were written or forgotten since everything was counted."""
        self._counted: dict[str, ResourceClaim] = {}
        self._uid_of: dict[str, str] = {}
        """The uid of each stored claim, by its key."""
        self._pending: dict[str, ResourceClaim] = {}
        self._written: dict[str, ResourceClaim] = {}

    def __len__(self) -> int:
        return len(self._pending) + len(self._written)

    def allocated(self) -> Allocated:
        """Return what is taken now; not to be changed."""
        self._sync()
        return self._allocated

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as it was last written or seen, or None."""
        stored: ResourceClaim | None = self._objects.get(CLAIM, name, namespace)
        written = None if stored is None else self._written.get(stored.metadata.uid)
        if stored is None or written is None or _has_come(stored, written):
            return stored
        return written

    def claims(self) -> Iterator[ResourceClaim]:
        """Return all claims as the API server has them."""
        return self._objects.list(CLAIM)

    def is_pending(self, uid: str) -> bool:
        """Say whether an allocation of this claim is being written."""
        return uid in self._pending

    def reserve(self, claim: ResourceClaim) -> None:
        """Count the allocation in `claim` before the API server knows."""
        self.release(claim.metadata.uid)
        self._pending[claim.metadata.uid] = claim
        self._allocated.add(claim, self._consumable)

    def release(self, uid: str) -> bool:
        """Take back a reservation that was not written; return whether there was one."""
        claim = self._pending.pop(uid, None)
        if claim is not None:
            self._allocated.add(claim, self._consumable, -1)
        return claim is not None

    def written(self, reserved_uid: str, claim: ResourceClaim) -> None:
        """Note a claim as the API server returned it; it counts until the watch has brought it."""
        self._sync()  # first, to know whether the claim existed before
        stored: ResourceClaim | None = self._objects.get(CLAIM, key_of(claim))
        # Where the watch was faster there is nothing to wait for. A what-if takes back what is stored, and not this.
        if stored is None or stored.metadata.uid != claim.metadata.uid or not _has_come(stored, claim):
            self._written[claim.metadata.uid] = claim
        self.release(reserved_uid)
        self._outdated.add(claim.metadata.uid)

    def forget(self, uid: str) -> None:
        """Stop counting a claim that was written: it has been deleted."""
        if self._written.pop(uid, None) is not None:
            self._outdated.add(uid)

    def _sync(self) -> None:
        """Count what has changed since the last time, stored or written."""
        version = self._objects.version(CLAIM)
        if version == self._version and not self._outdated:
            return
        changed = self._objects.changed_since(CLAIM, self._version) if self._version >= 0 else None
        if changed is None:
            changed = [*self._uid_of, *(key_of(claim) for claim in self._objects.list(CLAIM))]
        self._version = version
        for key in dict.fromkeys(changed):
            self._follow(key)
        for uid in self._outdated:
            known = self._written.get(uid) or self._counted.get(uid)
            if known is not None and self._uid_of.get(key_of(known)) == uid:
                self._follow(key_of(known))
            else:
                self._count(uid, self._written.get(uid))  # the watch has yet to bring it, or it is gone
        self._outdated.clear()

    def _follow(self, key: str) -> None:
        """Count a claim that has come, changed or gone: as it was written, where the watch has not caught up yet."""
        stored: ResourceClaim | None = self._objects.get(CLAIM, key)
        before, uid = self._uid_of.pop(key, None), "" if stored is None else stored.metadata.uid or key
        if before is not None and before != uid:
            self._written.pop(before, None)  # it was there, and has been deleted
            self._count(before, None)
        if stored is None:
            return
        self._uid_of[key] = uid
        written = self._written.get(uid)
        if written is not None and _has_come(stored, written):
            del self._written[uid]
            written = None
        self._count(uid, stored if written is None else written)

    def _count(self, uid: str, claim: ResourceClaim | None) -> None:
        """Count a claim as it is now, or not at all."""
        known = self._counted.get(uid)
        if known is claim:
            return
        if known is not None:
            self._allocated.add(known, self._consumable, -1)
            del self._counted[uid]
        if claim is not None:
            self._allocated.add(claim, self._consumable)
            self._counted[uid] = claim


def _has_come(stored: ResourceClaim, written: ResourceClaim) -> bool:
    """Say whether the stored object is the one that was written, or a later one."""
    before, now = written.metadata.resource_version, stored.metadata.resource_version
    if before.isdigit() and now.isdigit():
        return int(now) >= int(before)
    return before == now
