"""Where the pods of one pod set go: the search through a topology, from what fits to what is placed.

First each domain's room is counted, from the leaves up (`rooms`). Then the lowest level at which the pods fit is
sought, upwards from the one that is wished for; and from the domains chosen there pods are handed down level by level,
to as few domains as will do. `required` never looks higher up. `unconstrained` fills the fullest domain that has room,
everything else the emptiest, but the last domain is the one in which the least is left over. A leader is placed before
its workers, where it costs these no room that they need.

Source: kubernetes-sigs/kueue, pkg/cache/scheduler/tas_flavor_snapshot.go (findTopologyAssignment), KEP-2724.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

import msgspec

from berth_kueue.topology.balanced import balanced_rooms
from berth_kueue.topology.placing import SliceLayer, TopologyAssignment, TopologyWish
from berth_kueue.topology.rooms import DomainRoom, Exclusions, SliceLevels, sum_up
from berth_kueue.topology.tree import TopologyTree


class NoRoomError(Exception):
    """There is no place; the message is Kueue's."""


class TopologyGates(NamedTuple):
    """The feature gates that a placement depends on, as Kueue has them by default."""

    TASProfileMixed: bool = True
    TASHandleOverlappingFlavors: bool = True
    TASBalancedPlacement: bool = False
    TASRespectNodeAffinityPreferred: bool = False


class PlacementTask(msgspec.Struct, frozen=True):
    """One search: how many pods, in which slices, at which level."""

    tree: TopologyTree
    gates: TopologyGates
    count: int
    leaders: int
    is_required: bool
    is_unconstrained: bool
    level: int
    slices: SliceLevels
    layers: tuple[SliceLayer, ...] = ()
    """Where there are several: what a failure tells of each."""

    @property
    def slice_count(self) -> int:
        """How many whole slices the pods are."""
        return self.count // self.slices.size

    @property
    def fills_up(self) -> bool:
        """Whether the fullest domain with room is taken, and not the emptiest."""
        return self.is_unconstrained and self.gates.TASProfileMixed


def task_of(
    tree: TopologyTree, gates: TopologyGates, wish: TopologyWish, count: int, *, has_leader: bool, is_implied: bool
) -> PlacementTask:
    """Read what a pod set wishes of a topology. Raises `NoRoomError` where the topology has no such levels."""
    size = slice_size(wish)
    level = wish.level(tree.levels[0], tree.levels[-1]) or (tree.levels[-1] if is_implied else "")
    if not level:
        raise NoRoomError("topology level not specified")
    at = tree.level_index(level)
    if at < 0:
        raise NoRoomError(f"no requested topology level: {level}")
    slice_level = wish.slice_level(tree.levels[-1])
    slices_at = tree.level_index(slice_level)
    if slices_at < 0:
        raise NoRoomError(f"no requested topology level for slices: {slice_level}")
    if at > slices_at:
        raise NoRoomError(f"podset slice topology {slice_level} is above the podset topology {level}")
    inner = _inner_sizes(tree, wish.layers, size, slices_at)
    return PlacementTask(
        tree,
        gates,
        count,
        int(has_leader),
        bool(wish.required),
        wish.is_unconstrained or is_implied or wish.is_of_slices_only,
        at,
        SliceLevels(size, slices_at, inner),
        wish.layers if inner else (),
    )


def slice_size(wish: TopologyWish) -> int:
    """The size of the outermost slices, 1 where there are none. Raises `NoRoomError`."""
    if not wish.layers:
        return 1
    if wish.layers[0].size <= 0:
        raise NoRoomError("slice topology requested, but slice size not provided")
    return wish.layers[0].size


def _inner_sizes(tree: TopologyTree, layers: Sequence[SliceLayer], size: int, level: int) -> dict[int, int]:
    """The size of slices within slices, by level; the levels between two layers have that of the lower one."""
    sizes: dict[int, int] = {}
    for layer in layers[1:]:
        at = tree.level_index(layer.level)
        if at < 0:
            raise NoRoomError(f"no requested topology level for additional slice layer: {layer.level}")
        if at <= level:
            raise NoRoomError(
                f"additional slice layer topology {layer.level} must be at a lower level than {tree.levels[level]}"
            )
        if size % layer.size:
            raise NoRoomError(f"additional slice layer size {layer.size} must evenly divide parent layer size {size}")
        sizes |= dict.fromkeys(range(level + 1, at + 1), layer.size)
        size, level = layer.size, at
    return sizes


class PlacementSearch:
    """A search with its rooms, which are filled in and not yet summed up."""

    __slots__ = ("by_level", "exclusions", "task")

    def __init__(self, task: PlacementTask, roots: Sequence[DomainRoom], exclusions: Exclusions) -> None:
        self.task = task
        self.exclusions = exclusions
        for root in roots:
            sum_up(root, task.slices, 0, with_leader=task.leaders > 0)
        self.by_level: list[list[DomainRoom]] = [list(roots)]
        for _ in task.tree.levels[1:]:
            self.by_level.append([child for room in self.by_level[-1] for child in room.children])

    def place(self) -> tuple[list[DomainRoom], list[DomainRoom]]:
        """Return the leaves that workers and leaders go to: `pods` and `leaders` say how many. Raises `NoRoomError`."""
        task = self.task
        balanced = balanced_rooms(self) if not task.is_required and not task.is_unconstrained else None
        level, rooms = balanced or self._fitting(task.level)
        rooms = self.least(rooms, task.count, task.leaders, task.slices.size, by_slices=True)
        lowest = len(task.tree.levels) - 1
        while not balanced and level < min(lowest, task.slices.level):
            # Above the slices' level pods go to any of the domains below, whichever parent they were counted for.
            below = self.by_size(child for room in rooms for child in room.children)
            rooms = self.least(below, task.count, task.leaders, task.slices.size, by_slices=True)
            level += 1
        while level < lowest:
            level += 1
            rooms = self._handed_down(rooms, level)
        return [room for room in rooms if room.pods > 0], [room for room in rooms if room.leaders > 0]

    def _handed_down(self, rooms: Iterable[DomainRoom], level: int) -> list[DomainRoom]:
        """Hand what each domain has been given to the domains in it, which are at `level`."""
        slices = self.task.slices
        size = slices.size if level <= slices.level else slices.inner.get(level, 1)
        lower = []
        for room in rooms:
            children = self.by_size(room.children)
            if size > 1:  # what was counted was the outermost slices
                for child in children:
                    child.slices, child.slices_beside = child.pods // size, child.pods_beside // size
            lower += self.least(children, room.pods, room.leaders, size, by_slices=size > 1)
        return lower

    # -- choosing domains ---------------------------------------------------------------------------------------------

    def _fitting(self, level: int) -> tuple[int, list[DomainRoom]]:
        """The domains that have room for everything, and their level: `level`, or one above it."""
        task, wanted = self.task, self.task.slice_count
        if not self.by_level[level]:
            raise NoRoomError(f"no topology domains at level: {task.tree.levels[level]}")
        rooms = self.by_size_beside(self.by_level[level])
        if task.fills_up:
            for room in rooms:
                if room.leaders >= task.leaders and (room.slices_beside if task.leaders else room.slices) >= wanted:
                    return level, [room]
            if task.is_required:
                raise self._no_room(level, rooms[-1].pods)
        if self._holds_all(rooms[0]):
            best = rooms[0] if task.fills_up else self._snuggest(rooms, wanted, task.leaders, by_slices=True)
            return level, [best]
        if task.is_required:
            if task.gates.TASRespectNodeAffinityPreferred:
                for at, room in enumerate(rooms):
                    if self._holds_all(room):
                        return level, [self._snuggest(rooms[at:], wanted, task.leaders, by_slices=True)]
            raise self._no_room(level, rooms[0].slices)
        if level > 0 and not task.is_unconstrained:
            return self._fitting(level - 1)
        return level, self._several(level, rooms)

    def _holds_all(self, room: DomainRoom) -> bool:
        return room.slices_beside >= self.task.slice_count and room.leaders >= self.task.leaders

    def _several(self, level: int, rooms: list[DomainRoom]) -> list[DomainRoom]:
        """Domains of one level that together have room: first for the leader, then for the rest of the workers."""
        task, slices, leaders = self.task, self.task.slice_count, self.task.leaders
        chosen = []
        rooms = self._leader_first(rooms, task.count, leaders, task.slices.size, by_slices=True)
        at = 0
        while leaders > 0 and at < len(rooms) and rooms[at].leaders > 0:
            room = rooms[at]
            if not task.fills_up and room.slices_beside >= slices:
                room = self._snuggest(rooms[at:], slices, leaders, by_slices=True)
            chosen.append(room)
            leaders -= room.leaders
            slices -= room.slices_beside
            at += 1
        if leaders > 0:
            raise self._no_room(level, task.leaders - leaders)
        rest = self.by_size(rooms[at:])
        for at, room in enumerate(rest):
            if slices <= 0:
                break
            if not task.fills_up and room.slices >= slices:
                room = self._snuggest(rest[at:], slices, 0, by_slices=True)
            chosen.append(room)
            slices -= room.slices
        if slices > 0:
            raise self._no_room(level, task.slice_count - slices)
        return chosen

    def least(
        self, rooms: Sequence[DomainRoom], count: int, leaders: int, size: int, *, by_slices: bool
    ) -> list[DomainRoom]:
        """Give the pods to the first domains that hold them, and lower these domains' room to what they were given."""
        rooms = self._leader_first(rooms, count, leaders, size, by_slices=by_slices)
        left, unit = (count // size, size) if by_slices else (count, 1)
        given = []
        for at, room in enumerate(rooms):
            beside = leaders > 0
            if not self.task.fills_up and room.leaders >= leaders and _room_for(room, by_slices, beside) >= left:
                room = self._snuggest(rooms[at:], left, leaders, by_slices=by_slices)
            has = _room_for(room, by_slices, beside)
            is_last = has >= left and room.leaders >= leaders
            takes = left if is_last else min(has, left)
            room.leaders = min(room.leaders, leaders)
            room.pods = takes * unit
            if by_slices and (beside or is_last):
                room.slices = takes
            given.append(room)
            left -= takes
            leaders -= room.leaders
            if is_last:
                return given
        return []

    def _snuggest(self, rooms: Sequence[DomainRoom], needed: int, leaders: int, *, by_slices: bool) -> DomainRoom:
        """The first domain in which the least is left over; the first of all where none has enough room."""
        if self.task.gates.TASRespectNodeAffinityPreferred:
            rooms = list(takewhile(lambda room: room.affinity == rooms[0].affinity, rooms))
        enough = [
            room for room in rooms if room.leaders >= leaders and _room_for(room, by_slices, leaders > 0) >= needed
        ]
        return min(enough, key=lambda room: _room_for(room, by_slices, leaders > 0), default=rooms[0])

    def _leader_first(
        self, rooms: Sequence[DomainRoom], count: int, leaders: int, size: int, *, by_slices: bool
    ) -> list[DomainRoom]:
        """Put first the domain where the leader takes no room away that is needed."""
        rooms = list(rooms)
        if not leaders or len(rooms) < 2:
            return rooms
        spare = sum(_room_for(room, by_slices, False) for room in rooms) - (count // size if by_slices else count)
        for room in rooms:
            lost = _room_for(room, by_slices, False) - _room_for(room, by_slices, True)
            if room.leaders >= leaders and lost <= spare:
                return [room, *(other for other in rooms if other is not room)]
        return rooms

    # -- orders -------------------------------------------------------------------------------------------------------

    def by_size(self, rooms: Iterable[DomainRoom]) -> list[DomainRoom]:
        """The domains with the most slices first, or the least; of these, where the fewest pods would be left over."""
        return sorted(rooms, key=self._order(lambda room: (room.slices, room.pods)))

    def by_size_beside(self, rooms: Iterable[DomainRoom]) -> list[DomainRoom]:
        """The same beside a leader; the domains with room for one come first."""
        order = self._order(lambda room: (room.slices_beside, room.pods_beside))
        return sorted(rooms, key=lambda room: (-room.leaders, order(room)))

    def _order(
        self, sizes: Callable[[DomainRoom], tuple[int, int]]
    ) -> Callable[[DomainRoom], tuple[int, int, int, tuple[str, ...]]]:
        prefers = self.task.gates.TASRespectNodeAffinityPreferred
        sign = 1 if self.task.fills_up else -1

        def order(room: DomainRoom) -> tuple[int, int, int, tuple[str, ...]]:
            slices, pods = sizes(room)
            return -room.affinity if prefers else 0, sign * slices, pods, room.domain.values

        return order

    # -- words --------------------------------------------------------------------------------------------------------

    def _no_room(self, level: int, fits: int) -> NoRoomError:
        task = self.task
        said = f'topology "{task.tree.name}"'
        if task.layers:
            return NoRoomError(f"{said} doesn't allow to fit{self._by_layer(level)}{self.exclusions.words()}")
        unit = "pod" if task.slices.size == 1 else "slice"
        if fits == 0:
            said += f" doesn't allow to fit any of {task.slice_count} {unit}(s)"
        else:
            said += f" allows to fit only {fits} out of {task.slice_count} {unit}(s)"
        return NoRoomError(said + self.exclusions.words())

    def _by_layer(self, level: int) -> str:
        """How many slices of each layer the domain with the most room has."""
        best = min(self.by_level[level], key=lambda room: (-room.slices, room.domain.id))
        said = ""
        for layer in self.task.layers:
            rooms = [best]
            for _ in range(self.task.tree.level_index(layer.level) - level):
                rooms = [child for room in rooms for child in room.children]
            fits = sum(room.pods // layer.size for room in rooms)
            said += f"; {fits}/{self.task.count // layer.size} slice(s) fit on level {layer.level}"
        return said


def _room_for(room: DomainRoom, by_slices: bool, beside: bool) -> int:
    if by_slices:
        return room.slices_beside if beside else room.slices
    return room.pods_beside if beside else room.pods


def assignment_of(tree: TopologyTree, counts: Iterable[tuple[DomainRoom, int]]) -> TopologyAssignment:
    """How many pods each leaf gets, as an assignment tells it: by hostname alone where that is the lowest level."""
    first = len(tree.levels) - 1 if tree.is_by_hostname else 0
    given = sorted((room.domain.values, count) for room, count in counts if count)
    return TopologyAssignment(tree.levels[first:], tuple((values[first:], count) for values, count in given))
