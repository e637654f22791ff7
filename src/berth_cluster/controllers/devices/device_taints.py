"""When the taints of devices end the pods that use them.

Taints come from published slices and from DeviceTaintRules, tolerations from claims. The result is the time from which
the users of a claim are to be evicted, and the rules that are among the reasons. Used by the device taint eviction
controller. Upstream: pkg/controller/devicetainteviction, v1.36 (KEP-5055).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from berth.api.device_taints import is_for, tolerates
from berth.api.dra import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from berth_cluster.apimachinery.meta import parse_time

NO_EXECUTE = "NoExecute"

PoolId = tuple[str, str]
"""Driver and pool name."""


class DeviceEviction(NamedTuple):
    """When the users of a claim are to be evicted (seconds since the epoch), and the uids of the rules behind it."""

    at_s: float
    rules: frozenset[str]


class DevicePools:
    """The published slices by pool; only those of a pool's newest generation count."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: dict[PoolId, dict[str, ResourceSlice]] = {}

    def put(self, published: ResourceSlice) -> None:
        """Take a new or changed slice in."""
        self._slices.setdefault(pool_of(published), {})[published.metadata.name] = published

    def drop(self, published: ResourceSlice) -> None:
        """A slice is gone, or now of another pool."""
        slices = self._slices.get(pool_of(published), {})
        slices.pop(published.metadata.name, None)
        if not slices:
            self._slices.pop(pool_of(published), None)

    def taints(self, pool_id: PoolId, device: str) -> tuple[DeviceTaint, ...]:
        """The taints that a device was published with."""
        found = (one.taints for _, one in self._devices({pool_id}) if one.name == device)
        return next(found, ())

    def count(self, rule: DeviceTaintRule) -> int:
        """How many published devices a rule selects."""
        return sum(is_for(rule, *pool_id, device.name) for pool_id, device in self._devices(self._slices))

    def _devices(self, pool_ids: Iterable[PoolId]) -> Iterator[tuple[PoolId, Device]]:
        for pool_id in pool_ids:
            slices = self._slices.get(pool_id, {}).values()
            newest = max((one.spec.pool.generation for one in slices), default=0)
            for one in slices:
                if one.spec.pool.generation == newest:
                    yield from ((pool_id, device) for device in one.spec.devices)


def pool_of(published: ResourceSlice) -> PoolId:
    """Which pool a slice is part of."""
    return published.spec.driver, published.spec.pool.name


def results_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """The devices that a claim has been given."""
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def eviction_of(claim: ResourceClaim, pools: DevicePools, rules: Iterable[DeviceTaintRule]) -> DeviceEviction | None:
    """When the users of a claim are to go; None when all NoExecute taints of its devices are tolerated for ever."""
    found: list[DeviceEviction] = []
    rules = list(rules)
    for result in results_of(claim):
        pool_id = (result.driver, result.pool)
        taints = [(taint, "") for taint in pools.taints(pool_id, result.device)]
        taints += [(rule.spec.taint, rule.metadata.uid) for rule in rules if is_for(rule, *pool_id, result.device)]
        for taint, uid in taints:
            at_s = _eviction_time(taint, result)
            if at_s is not None:
                found.append(DeviceEviction(at_s, frozenset((uid,)) if uid else frozenset()))
    return earliest(found)


def earliest(found: list[DeviceEviction]) -> DeviceEviction | None:
    """The earliest of several evictions, with the reasons of all of them."""
    if not found:
        return None
    return DeviceEviction(min(one.at_s for one in found), frozenset[str]().union(*(one.rules for one in found)))


def _eviction_time(taint: DeviceTaint, result: DeviceRequestAllocationResult) -> float | None:
    """When a taint ends the use of a device: when the shortest matching toleration runs out; None if it never does."""
    if taint.effect != NO_EXECUTE:
        return None
    covering = [one for one in result.tolerations if one.effect == NO_EXECUTE and tolerates(one, taint)]
    if any(one.toleration_seconds is None for one in covering):
        return None
    seconds = min((max(0, one.toleration_seconds or 0) for one in covering), default=0)
    return parse_time(taint.time_added) + seconds
