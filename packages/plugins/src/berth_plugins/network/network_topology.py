"""NetworkTopologies: what it costs from one region, or zone, to another.

Kind NetworkTopology of networktopology.diktyo.x-k8s.io, v1alpha1. It has lists of costs under several names, of which a
configuration chooses one. Lists of the name `NetperfCosts` are taken as sorted, since the tool that measures writes
them so; others are sorted first. Both are searched as sorted lists are: what is out of its place is not found.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from berth.plugin import CustomResource, ObjectMeta

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
MEASURED = "NetperfCosts"

MAX_COST = 100
"""What counts where no cost is known."""
SAME_ZONE_COST = 1

ALWAYS, NEVER, NEITHER = -math.inf, math.inf, math.nan
"""Costs that every limit allows, that none allows, and that say nothing of a limit."""

Entry = TypeVar("Entry")


class CostInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What it costs to a destination."""

    destination: str = ""
    network_cost: int = 0


class OriginInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What it costs from an origin."""

    origin: str = ""
    cost_list: tuple[CostInfo, ...] | None = None


class TopologyInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What it costs between the values of a node label."""

    topology_key: str = ""
    origin_list: tuple[OriginInfo, ...] | None = None


class WeightInfo(msgspec.Struct, frozen=True, rename="camel"):
    """Costs under a name."""

    name: str = ""
    topology_list: tuple[TopologyInfo, ...] | None = None


class NetworkTopologySpec(msgspec.Struct, frozen=True):
    """All costs."""

    weights: tuple[WeightInfo, ...] | None = None


class NetworkTopology(msgspec.Struct, frozen=True):
    """A NetworkTopology of networktopology.diktyo.x-k8s.io."""

    metadata: ObjectMeta
    spec: NetworkTopologySpec = NetworkTopologySpec()


NETWORK_TOPOLOGIES = CustomResource(
    "networktopology.diktyo.x-k8s.io", "v1alpha1", "networktopologies", "NetworkTopology", struct=NetworkTopology
)


class Place(NamedTuple):
    """Where a node is; "" where its labels do not say."""

    region: str
    zone: str


class Distance(NamedTuple):
    """How far it is to a pod that is depended on: what that counts, and what is held against the limit."""

    cost: int
    limited: float


SAME_ZONE = Distance(SAME_ZONE_COST, ALWAYS)
NOWHERE = Distance(MAX_COST, NEVER)
UNKNOWN = Distance(MAX_COST, NEITHER)


class NetworkCosts:
    """The costs of one name."""

    __slots__ = ("_from", "_origins")

    def __init__(self, topology: NetworkTopology, name: str) -> None:
        is_sorted = name == MEASURED
        self._origins = [
            (_origins_of(each, REGION, is_sorted), _origins_of(each, ZONE, is_sorted))
            for each in topology.spec.weights or ()
            if each.name == name
        ]
        self._from: dict[Place, Mapping[tuple[str, str], int]] = {}

    def distance(self, here: Place, there: Place) -> Distance:
        """Return how far it is from one node to another."""
        if not there.region and not there.zone:
            return NOWHERE
        if here == there:
            return SAME_ZONE
        way = (here.zone, there.zone) if here.region == there.region else (here.region, there.region)
        cost = self._costs_from(here).get(way)
        return UNKNOWN if cost is None else Distance(cost, cost)

    def _costs_from(self, place: Place) -> Mapping[tuple[str, str], int]:
        """Return what is listed for a node's region and its zone, by the two ends."""
        found = self._from.get(place)
        if found is None:
            listed: dict[tuple[str, str], int] = {}
            for both in self._origins:
                for origin, origins in zip(place, both, strict=True):
                    info = _found(origins, origin, _origin_of) if origin else None
                    for cost in (info.cost_list or ()) if info is not None else ():
                        listed[origin, cost.destination] = cost.network_cost
            found = self._from[place] = listed
        return found


def _origins_of(weight: WeightInfo, key: str, is_sorted: bool) -> Sequence[OriginInfo]:
    topology = _found(_ordered(weight.topology_list or (), is_sorted, _key_of), key, _key_of)
    return () if topology is None else _ordered(topology.origin_list or (), is_sorted, _origin_of)


def _key_of(info: TopologyInfo) -> str:
    return info.topology_key


def _origin_of(info: OriginInfo) -> str:
    return info.origin


def _ordered(entries: Sequence[Entry], is_sorted: bool, key_of: Callable[[Entry], str]) -> tuple[Entry, ...]:
    return tuple(entries) if is_sorted else tuple(sorted(entries, key=key_of))


def _found(entries: Sequence[Entry], key: str, key_of: Callable[[Entry], str]) -> Entry | None:
    """Return the entry of a key, looked up as in a sorted list; None where it is not found."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high - 1) // 2
        name = key_of(entries[middle])
        if name == key:
            return entries[middle]
        low, high = (middle + 1, high) if name < key else (low, middle)
    return None
