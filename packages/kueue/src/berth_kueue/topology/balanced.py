"""Balanced placement (gate TASBalancedPlacement): as few domains as will do, each with about as many slices.

The threshold is the most slices that every chosen domain can have. Siblings at the wished level are tried, parent by
parent; domains that hold fewer slices than the threshold are left out, and of what remains the combination of domains
with the least room to spare is taken. Where any of it fails, the usual search decides.

Source: kubernetes-sigs/kueue, pkg/cache/scheduler/tas_balanced_placement.go.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from berth_kueue.topology.rooms import DomainRoom, SliceLevels, sum_up

if TYPE_CHECKING:
    from berth_kueue.topology.search import PlacementSearch


class _Greedy(NamedTuple):
    """What taking the largest domains first comes to."""

    domains: int
    last_beside: DomainRoom | None
    """The last domain that was taken for a leader."""
    last: DomainRoom | None


def balanced_rooms(search: "PlacementSearch") -> tuple[int, list[DomainRoom]] | None:
    """Return the domains to place the pods in and their level, with the pods of each; None where there are none."""
    task = search.task
    if not task.gates.TASBalancedPlacement:
        return None
    rooms, threshold = _best_siblings(search)
    if threshold <= 0:
        return None
    level = task.level
    if level < task.slices.level:
        chosen = _smallest_combination(search, rooms, _by_room_and_entropy)
        if not chosen:
            return None
        rooms, level = [child for room in chosen for child in room.children], level + 1
    placed = _shared_out(search, rooms, threshold)
    return (level, placed) if placed else None


def _best_siblings(search: "PlacementSearch") -> tuple[list[DomainRoom], int]:
    """Copies of the domains under one parent that have the highest threshold, in the fewest domains."""
    task = search.task
    if task.level == 0:
        families = [search.by_level[0]]
    else:
        parents = sorted(search.by_level[task.level - 1], key=lambda room: room.domain.values)
        families = [parent.children for parent in parents]
    best: list[DomainRoom] = []
    best_threshold = fewest = 0
    for family in families:
        below = [child for room in family for child in room.children] if task.level < task.slices.level else family
        greedy = _greedy(search, below)
        if greedy is None:
            continue
        # At first the leader may stand anywhere; if that leaves too little, room for it is kept in the last domain.
        threshold = _threshold(task.slice_count, greedy)
        reserved = threshold
        if task.leaders and greedy.last is not None:
            reserved = min(threshold, greedy.last.slices_beside)
        if threshold < best_threshold:
            continue
        rooms, pruned = _pruned(search, family, threshold)
        if pruned is None and reserved < threshold:
            if reserved <= 0 or reserved < best_threshold:
                continue
            threshold = reserved
            rooms, pruned = _pruned(search, family, threshold)
        if pruned is None:
            continue
        if threshold > best_threshold or pruned.domains < fewest:
            best, best_threshold, fewest = rooms, threshold, pruned.domains
    return best, best_threshold


def _threshold(slices: int, greedy: _Greedy) -> int:
    least = slices // greedy.domains
    if greedy.last_beside is not None:
        least = min(least, greedy.last_beside.slices_beside)
    if greedy.last is not None:
        least = min(least, greedy.last.slices)
    return least


def _greedy(search: "PlacementSearch", rooms: Sequence[DomainRoom]) -> _Greedy | None:
    """Take the largest domains until everything is placed; None where it is not."""
    slices, leaders = search.task.slice_count, search.task.leaders
    taken, last_beside, last = 0, None, None
    if leaders > 0:
        rooms = search.by_size_beside(rooms)
        for room in rooms:
            if leaders <= 0 or room.leaders <= 0:
                break
            taken, last_beside = taken + 1, room
            leaders -= room.leaders
            slices -= room.slices_beside
        rooms = rooms[taken:]
    if leaders > 0:
        return None
    for room in search.by_size(rooms):
        if slices <= 0 or room.slices <= 0:
            break
        taken, last = taken + 1, room
        slices -= room.slices
    return None if slices > 0 else _Greedy(taken, last_beside, last)


def _pruned(
    search: "PlacementSearch", family: Sequence[DomainRoom], threshold: int
) -> tuple[list[DomainRoom], _Greedy | None]:
    """Copies of domains without those that are below the threshold, and what placing in them comes to."""
    task = search.task
    rooms = [room.copy() for room in family]
    for room in rooms:
        for child in room.children:
            _prune(child, threshold, task.leaders > 0)
    plain = SliceLevels(task.slices.size, task.slices.level, {})
    for room in rooms:
        sum_up(room, plain, task.level, with_leader=task.leaders > 0)
        _prune(room, threshold, task.leaders > 0)
    return rooms, _greedy(search, rooms)


def _prune(room: DomainRoom, threshold: int, has_leader: bool) -> None:
    if room.slices < threshold:
        room.clear()
    elif has_leader and room.leaders and room.slices_beside < threshold:
        room.lead_nowhere()


def _smallest_combination(
    search: "PlacementSearch", rooms: Sequence[DomainRoom], order: Callable[[DomainRoom], Any]
) -> list[DomainRoom]:
    """As many domains as the largest ones would be, with the least room to spare; the first in order of several.

    Combinations are built up domain by domain and kept by how many domains they have, how many leaders they have yet to
    place and how many pods; a negative number is room to spare.
    """
    task = search.task
    greedy = _greedy(search, rooms)
    if greedy is None:
        return []
    size = greedy.domains
    combinations: list[dict[tuple[int, int], list[DomainRoom]]] = [{} for _ in range(size + 1)]
    combinations[0][task.leaders, task.slice_count * task.slices.size] = []
    for room in sorted(rooms, key=order):
        for taken in range(size, 0, -1):
            for leaders, pods in sorted(combinations[taken - 1]):
                if leaders <= 0 and pods <= 0:
                    continue
                longer = [*combinations[taken - 1][leaders, pods], room]
                if leaders > 0 and room.leaders > 0:
                    combinations[taken].setdefault((leaders - room.leaders, pods - room.pods_beside), longer)
                if room.slices > 0:
                    combinations[taken].setdefault((leaders, pods - room.pods), longer)
    spare = [pods for leaders, pods in combinations[size] if leaders == 0 and pods <= 0]
    return combinations[size][0, max(spare)] if spare else []


def _by_room_and_entropy(room: DomainRoom) -> tuple[int, int, float, tuple[str, ...]]:
    total = sum(child.pods for child in room.children)
    shares = [child.pods / total for child in room.children if child.pods > 0] if total else []
    entropy = sum(-share * math.log2(share) for share in shares)
    return -room.leaders, -room.slices_beside, -entropy, room.domain.values


def _shared_out(search: "PlacementSearch", rooms: Sequence[DomainRoom], threshold: int) -> list[DomainRoom]:
    """Give each of the fewest domains as many slices as the threshold, and the rest to the first that have room."""
    task = search.task
    chosen = _smallest_combination(search, rooms, lambda room: room.domain.values)
    extra = task.slice_count - len(chosen) * threshold
    if not chosen or extra < 0:
        return []
    leaders = task.leaders
    chosen = search.by_size_beside(chosen)
    for room in chosen:
        more = 0
        if leaders > 0:
            more = min(room.slices_beside - threshold, extra)
        elif extra > 0:
            more = min(room.slices - threshold, extra)
        room.leaders = 1 if leaders > 0 else 0
        leaders -= room.leaders
        extra -= more
        room.slices = room.slices_beside = threshold + more
        room.pods = room.slices * task.slices.size
        room.pods_beside = room.pods - room.leaders
    return [] if extra > 0 or leaders > 0 else chosen
