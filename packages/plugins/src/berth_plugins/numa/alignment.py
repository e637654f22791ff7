"""Whether the zones of one node have room for a pod, as a kubelet with the policy single-numa-node would find.

In the scope `pod` all that the pod asks for must come from one zone. In the scope `container` each container may have
another: the lowest that has room, from which it is taken, so that those after it see less. Init containers and sidecars
must fit, and take nothing.

`Verdict` is also what a column's codes mean.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from berth.plugin import Status, unschedulable
from berth_plugins.numa.requests import APP, INIT, SIDECAR, Amounts, Ask, is_on, is_scarce, may_be_node_wide
from berth_plugins.numa.topology import CONTAINER, POD, Topology

LEAST_NUMA_NODES = "LeastNUMANodes"


class Verdict(IntEnum):
    """What is said of a node; 0 means that the pod fits."""

    FITS = 0
    POD = 1
    CONTAINER = 2
    INIT_CONTAINER = 3
    SIDECAR = 4
    STALE = 5
    IRREGULAR = 6
    ASKS_FOR_NOTHING = 7


VERDICT_OF_KIND: Mapping[str, Verdict] = MappingProxyType(
    {APP: Verdict.CONTAINER, INIT: Verdict.INIT_CONTAINER, SIDECAR: Verdict.SIDECAR}
)

STATUSES: Mapping[int, Status] = MappingProxyType(
    {
        Verdict.POD: unschedulable("cannot align pod"),
        Verdict.CONTAINER: unschedulable("cannot align container"),
        Verdict.INIT_CONTAINER: unschedulable("cannot align init container"),
        Verdict.SIDECAR: unschedulable("cannot align sidecar container"),
        Verdict.STALE: unschedulable("invalid node topology data"),
        # Upstream crashes when it scores such a node for a Guaranteed pod.
        Verdict.IRREGULAR: unschedulable("node topology with gaps or repetitions in its NUMA ids"),
        Verdict.ASKS_FOR_NOTHING: unschedulable("cannot score zones for a container that asks for nothing"),
    }
)

Free = Sequence[Mapping[str, int]]
"""What is free of each resource, zone by zone."""
NOWHERE = -1


def verdict(ask: Ask, topology: Topology, on_node: Collection[str], strategy: str) -> Verdict:
    """Return what is said of a node that has this topology, and these resources as a whole."""
    if ask.is_exempt:
        return Verdict.FITS
    if topology.alignment.is_single:
        free = [dict(zone.free) for zone in topology.zones]
        found = _whole_pod(ask, free, on_node) if topology.alignment.scope == POD else _parts(ask, free, on_node)
        if found is not Verdict.FITS:
            return found
    return _scoring(ask, topology, strategy)


def _whole_pod(ask: Ask, free: Free, on_node: Collection[str]) -> Verdict:
    return Verdict.FITS if lowest_zone(ask, ask.whole, free, on_node) != NOWHERE else Verdict.POD


def _parts(ask: Ask, free: list[dict[str, int]], on_node: Collection[str]) -> Verdict:
    for part in ask.parts:
        zone = lowest_zone(ask, part.asks, free, on_node)
        if zone == NOWHERE:
            return VERDICT_OF_KIND[part.kind]
        if part.kind == APP and zone < len(free):
            for name, amount in part.asks:
                if name in free[zone] and is_scarce(ask, name):
                    free[zone][name] -= amount
    return Verdict.FITS


def lowest_zone(ask: Ask, asks: Amounts, free: Free, on_node: Collection[str]) -> int:
    """Return the first zone that has all of some amounts, `NOWHERE` where none has; 0 where it does not matter."""
    zones = None
    for name, amount in asks:
        if not amount:
            continue
        if not is_on(name, on_node):
            return NOWHERE
        listing = {number for number, amounts in enumerate(free) if name in amounts}
        if not listing and may_be_node_wide(name):
            continue
        if is_scarce(ask, name):
            listing = {number for number in listing if free[number][name] >= amount}
        zones = listing if zones is None else zones & listing
        if not zones:
            return NOWHERE
    return 0 if zones is None else min(zones)


def is_scored(topology: Topology, strategy: str) -> bool:
    """Say whether a strategy looks at the zones of a node at all."""
    return strategy == LEAST_NUMA_NODES or topology.alignment.is_single


def _scoring(ask: Ask, topology: Topology, strategy: str) -> Verdict:
    """Return what keeps a Guaranteed pod from being scored on a node; all others score the same everywhere."""
    if not ask.is_guaranteed or not is_scored(topology, strategy):
        return Verdict.FITS
    is_by_container = topology.alignment.scope == CONTAINER
    if not topology.is_regular and (is_by_container or strategy != LEAST_NUMA_NODES):
        return Verdict.IRREGULAR
    if strategy != LEAST_NUMA_NODES and asks_for_nothing(ask, by_container=is_by_container):
        return Verdict.ASKS_FOR_NOTHING
    return Verdict.FITS


def asks_for_nothing(ask: Ask, *, by_container: bool) -> bool:
    """Say whether the pod, or any of its containers, asks for nothing: it has no share of a zone to be scored by."""
    return any(not part.asks for part in ask.parts) if by_container else not ask.whole


# --- in numbers -------------------------------------------------------------------------------------------------------


class ZoneLack(NamedTuple):
    """What the zone that comes nearest has too little of: by resource, what is needed, and what is free."""

    zone: int
    needs: Mapping[str, int]
    free: Mapping[str, int]
    kind: str
    """What asks for it: the kind of a container, or `pod`."""


def lack(ask: Ask, topology: Topology, on_node: Collection[str]) -> ZoneLack | None:
    """Return what the first part that fits no zone lacks, in the zone that comes nearest; None where all fit."""
    free = [dict(zone.free) for zone in topology.zones]
    if not free or not topology.alignment.is_single:
        return None
    if topology.alignment.scope == POD:
        return _nearest(ask, ask.whole, "pod", free, on_node)
    for part in ask.parts:
        found = _nearest(ask, part.asks, part.kind, free, on_node)
        if found is not None:
            return found
        zone = lowest_zone(ask, part.asks, free, on_node)
        if part.kind == APP:
            for name, amount in part.asks:
                if name in free[zone] and is_scarce(ask, name):
                    free[zone][name] -= amount
    return None


def _nearest(ask: Ask, asks: Amounts, kind: str, free: Free, on_node: Collection[str]) -> ZoneLack | None:
    if lowest_zone(ask, asks, free, on_node) != NOWHERE:
        return None
    nearest, least = 0, None
    for number, amounts in enumerate(free):
        short = _short(ask, asks, amounts, free, on_node)
        missing = sum((needed - amounts.get(name, 0)) / needed for name, needed in short.items())
        if least is None or missing < least:
            nearest, least = number, missing
    short = _short(ask, asks, free[nearest], free, on_node)
    left = {name: free[nearest].get(name, 0) if is_on(name, on_node) else 0 for name in short}
    return ZoneLack(nearest, short, left, kind)


def _short(ask: Ask, asks: Amounts, amounts: Mapping[str, int], free: Free, on_node: Collection[str]) -> dict[str, int]:
    """Return what is needed of each resource of which a zone has too little."""
    short = {}
    for name, amount in asks:
        is_listed = any(name in each for each in free)
        if not amount or (is_on(name, on_node) and not is_listed and may_be_node_wide(name)):
            continue
        least = amount if is_scarce(ask, name) else 0
        if not is_on(name, on_node) or name not in amounts or amounts[name] < least:
            short[name] = amount
    return short
