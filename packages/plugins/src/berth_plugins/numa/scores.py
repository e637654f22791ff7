"""How well one node's zones suit a Guaranteed pod, from 0 to 100, by the strategy that the args name.

MostAllocated, LeastAllocated and BalancedAllocation score each zone, and the lowest score that is not 0 counts: what
fits nowhere is not considered by the kubelet. In the scope `container` that is the mean over the containers, init
containers included, which are looked at one by one. These three look at nodes with single-numa-node only.

LeastNUMANodes counts how many zones it takes, and prefers sets of zones that are as near to one another as any set of
that size. It looks at all nodes.

Amounts are rounded up to whole units here: to cores, where it is cpu.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import NamedTuple

from berth.plugin import MAX_NODE_SCORE
from berth_plugins.numa.alignment import LEAST_NUMA_NODES, is_scored
from berth_plugins.numa.requests import Amounts, Ask
from berth_plugins.numa.topology import POD, Topology

MOST_ALLOCATED, LEAST_ALLOCATED, BALANCED = "MostAllocated", "LeastAllocated", "BalancedAllocation"
STRATEGIES = (MOST_ALLOCATED, BALANCED, LEAST_ALLOCATED, LEAST_NUMA_NODES)

FARTHEST = 255
"""The distance of zones of which it is not known."""
NOT_A_NUMBER = -(1 << 63)
"""What Go makes of a variance that is none: that of fewer than two shares."""
HEAVIEST = 1 << 32
"""No resource weighs more, so that sums are exact in floating point."""
KEPT_SETS = 4096
"""Orders of more sets of zones than this are not kept."""

Spend = Callable[[int], None]
"""Spends steps of the attempt's budget of work."""


class Strategy(NamedTuple):
    """The kind, and the weights of resources; those that are not named weigh 1."""

    kind: str
    weights: Mapping[str, int] = MappingProxyType({})

    def weight(self, resource: str) -> int:
        """Return the weight of a resource, at least 1."""
        return max(1, min(self.weights.get(resource, 1), HEAVIEST))


def score_of(ask: Ask, topology: Topology, strategy: Strategy, spend: Spend) -> int:
    """Score one node for a Guaranteed pod."""
    if not is_scored(topology, strategy.kind):
        return 0
    is_by_pod = topology.alignment.scope == POD
    if strategy.kind == LEAST_NUMA_NODES:
        return _least_zones(topology, (ask.whole,) if is_by_pod else tuple(p.asks for p in ask.parts), spend)
    if is_by_pod:
        return _lowest(ask.whole, topology, strategy)
    scores = [_lowest(part.asks, topology, strategy) for part in ask.parts]
    return int(sum(map(float, scores)) / len(scores))


def _lowest(asks: Amounts, topology: Topology, strategy: Strategy) -> int:
    """Return the lowest score of any zone that is not 0; 0 where all are."""
    scores = [zone_score(asks, zone.free, strategy) for zone in topology.zones]
    return min((score for score in scores if score), default=0)


def zone_score(asks: Amounts, free: Mapping[str, int], strategy: Strategy) -> int:
    """Score one zone."""
    if strategy.kind == BALANCED:
        return _balance([(units(name, amount), units(name, free.get(name, 0))) for name, amount in asks])
    total = weights = 0
    for name, amount in asks:
        weights += strategy.weight(name)
        if has := free.get(name, 0):
            asked, left = units(name, amount), units(name, has)
            share = asked if strategy.kind == MOST_ALLOCATED else left - asked
            total += strategy.weight(name) * (share * MAX_NODE_SCORE // left if amount <= has else 0)
    return total // weights if weights else 0


def units(resource: str, amount: int) -> int:
    """Return an amount in whole units."""
    return -(-amount // 1000) if resource == "cpu" else amount


def _balance(amounts: list[tuple[int, int]]) -> int:
    """Score a zone by how even the shares are that are asked for."""
    shares = [asked / has if has else 1.0 for asked, has in amounts]
    if any(share > 1 for share in shares):
        return 0
    if len(shares) < 2:
        return NOT_A_NUMBER
    mean = sum(shares) / len(shares)
    squares = differences = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
        differences += share - mean
    # What is taken off is the error of the mean, as gonum has it, since scores are cut to whole numbers.
    variance = (squares - differences * differences / len(shares)) / (len(shares) - 1)
    return int((1 - variance) * MAX_NODE_SCORE)


# --- LeastNUMANodes ---------------------------------------------------------------------------------------------------

Distances = tuple[tuple[int, ...], ...]
"""How far each zone is from each."""


class ZoneSet(NamedTuple):
    """Zones that might be used together, and whether no other set of that size is nearer together."""

    zones: tuple[int, ...]
    is_nearest: bool


def distances_of(topology: Topology) -> Distances:
    """Return how far the zones are from one another."""
    numbers = [zone.number for zone in topology.zones]
    return tuple(tuple(zone.costs.get(other, FARTHEST) for other in numbers) for zone in topology.zones)


def zone_sets(distances: Distances, size: int, spend: Spend) -> tuple[ZoneSet, ...]:
    """Return the sets of so many zones, those nearest together first, then in the order of their zones.

    What is nearest is nearest among all sets, whether or not a pod fits them; sets whose mean distance is 256 or more
    are never used.
    """
    count = comb(len(distances), size)
    if count <= KEPT_SETS:
        return _kept_sets(distances, size)
    spend((4 + size * size) * count)
    return tuple(_ordered_sets(distances, size))


@lru_cache(maxsize=64)
def _kept_sets(distances: Distances, size: int) -> tuple[ZoneSet, ...]:
    return tuple(_ordered_sets(distances, size))


def _ordered_sets(distances: Distances, size: int) -> Iterator[ZoneSet]:
    sums = [
        (sum(distances[one][other] for one in zones for other in zones), zones)
        for zones in combinations(range(len(distances)), size)
    ]
    least = min([FARTHEST * size * size, *(total for total, _ in sums)])
    for total, zones in sorted(sums, key=lambda each: each[0]):
        if total < (FARTHEST + 1) * size * size:
            yield ZoneSet(zones, total == least)


def score_of_count(count: int, max_zones: int, *, is_nearest: bool) -> int:
    """Return the score of a pod that takes this many zones; negative, and so an error, where that is too many."""
    step = MAX_NODE_SCORE // max_zones
    return MAX_NODE_SCORE - count * step + (step // 2 if is_nearest else 0)


def _least_zones(topology: Topology, all_asks: tuple[Amounts, ...], spend: Spend) -> int:
    free, distances = [dict(zone.free) for zone in topology.zones], distances_of(topology)
    most, is_nearest = 0, True
    for asks in all_asks:
        if not any(name in amounts for name, _ in asks for amounts in free):
            continue
        found = _first_set(asks, free, distances, spend)
        if found is None:
            return 0
        most, is_nearest = max(most, len(found.zones)), is_nearest and found.is_nearest
        _take(asks, free, found.zones)
    return score_of_count(most, topology.alignment.max_zones, is_nearest=is_nearest) if most else MAX_NODE_SCORE


def _first_set(asks: Amounts, free: list[dict[str, int]], distances: Distances, spend: Spend) -> ZoneSet | None:
    """Return the set of zones that is used: as few as possible, then as near as possible; None where none is enough.

    Each zone of it must list all that is asked for.
    """
    for size in range(1, len(free) + 1):
        sets = zone_sets(distances, size, spend)
        spend(len(sets) * (1 + size * len(asks)))
        for found in sets:
            if all(
                all(name in free[zone] for zone in found.zones)
                and sum(free[zone][name] for zone in found.zones) >= amount
                for name, amount in asks
            ):
                return found
    return None


def _take(asks: Amounts, free: list[dict[str, int]], zones: tuple[int, ...]) -> None:
    """Take amounts from zones: all that the first one has, then from the next."""
    for name, amount in asks:
        left = amount
        for zone in zones:
            taken = min(left, free[zone].get(name, 0))
            if name in free[zone]:
                free[zone][name] -= taken
            left -= taken
