"""Whether the remaining devices can satisfy the remaining requests at all.

The search (`allocator.py`) takes the first suitable device for each request, and backtracks when a later request finds
none. If no choice can help, trying all of them takes ages: ten requests that any of 24 devices would satisfy, before
one that none satisfies, make 7·10¹² attempts. So once a search has got stuck it makes an `Outlook`: which devices each
request would accept if they were free. The search gives up, or goes back early, where the requests that are left cannot
be given as many different devices as they ask for.

That never changes which solution is found first, since it only leaves out attempts that cannot lead to one. What it
ignores (constraints, counters, capacity) can only make fewer devices suitable, never more.
"""

from collections.abc import Sequence
from typing import NamedTuple

MAX_UNITS = 256
"""With more devices than these to find places for, the question is not asked: the budget of work is the bound then."""


class Demand(NamedTuple):
    """What one request, or one alternative of it, asks for. Devices are bits of an integer."""

    accepts: int
    """The devices that will do."""
    wanted: int
    """How many it asks for."""
    shares: int = 0
    """Those of the accepted devices that others may take as well, which nobody has to compete for."""

    def left(self, taken: int) -> "Demand":
        """Return what is left to ask for once so many devices are taken for it."""
        return self._replace(wanted=self.wanted - taken)


class Outlook(NamedTuple):
    """The demands of all requests in the order of the search."""

    demands: tuple[tuple[Demand, ...], ...]
    """For each request, in order, its alternatives; one where it has no list of them."""

    def allows(self, first: Sequence[Demand], after: int, free: int) -> bool:
        """Say whether demands `first` and those of the requests from index `after` on may all be met from `free`."""
        return may_be_met([*first, *(_easiest(alternatives) for alternatives in self.demands[after:])], free)


def _easiest(alternatives: tuple[Demand, ...]) -> Demand:
    """Return a demand that is met whenever one of the alternatives is; alternatives that cannot be met do not count."""
    possible = [demand for demand in alternatives if demand.accepts.bit_count() >= demand.wanted]
    accepts = shares = 0
    for demand in possible:
        accepts |= demand.accepts
        shares |= demand.shares
    return Demand(accepts, min((demand.wanted for demand in possible or alternatives), default=0), shares)


def may_be_met(demands: Sequence[Demand], free: int) -> bool:
    """Say whether the demands can be given as many different devices as they ask for, as far as can be told.

    `free` has the devices that are not taken. This is a maximum matching between devices and demands: each unit takes a
    free device, or one whose holder can move to another.
    """
    units: list[int] = []
    for demand in demands:
        accepts = demand.accepts & (free | demand.shares)
        if accepts.bit_count() < demand.wanted:
            return False
        competing = demand.wanted - (accepts & demand.shares).bit_count()
        units += [accepts & ~demand.shares] * max(0, competing)
    if len(units) > MAX_UNITS:
        return True
    holder: dict[int, int] = {}
    return all(_place(unit, units, holder) for unit in range(len(units)))


def _place(unit: int, units: Sequence[int], holder: dict[int, int]) -> bool:
    """Give a unit a device, moving holders on where that is needed; say whether it has one (Kuhn's algorithm)."""
    seen = 0
    came_from: dict[int, int] = {}  # by device, the unit that would take it
    waiting = [unit]
    while waiting:
        asking = waiting.pop()
        options = units[asking] & ~seen
        while options:
            device = options & -options
            options ^= device
            seen |= device
            came_from[device] = asking
            held_by = holder.get(device)
            if held_by is not None:
                waiting.append(held_by)
                continue
            _move(device, unit, came_from, holder)
            return True
    return False


def _move(device: int, unit: int, came_from: dict[int, int], holder: dict[int, int]) -> None:
    """Hand the free device to the unit that reached it, that one's device to the next, and so on up to `unit`."""
    held = {who: what for what, who in holder.items()}
    while True:
        taker = came_from[device]
        holder[device] = taker
        if taker == unit:
            return
        device = held[taker]
