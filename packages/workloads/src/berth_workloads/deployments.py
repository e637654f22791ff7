"""The arithmetic of a Deployment's rollout: how many pods may be surplus or missing, and how large ReplicaSets become.

Amounts are numbers of pods. Source: pkg/controller/deployment (rolling, sync) and its util package, v1.36.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from berth_workloads.int_or_percent import IntOrPercent, scaled

DEFAULT_SHARE = "25%"
"""maxSurge and maxUnavailable where they are not given."""


class RolloutBounds(NamedTuple):
    """What a rollout keeps to."""

    wanted: int
    surge: int
    """So many pods more than wanted there may be."""
    unavailable: int
    """So many of the wanted pods may be missing."""

    @property
    def most(self) -> int:
        """How many pods there may be at most."""
        return self.wanted + self.surge

    @property
    def least_available(self) -> int:
        """How many pods have to be available."""
        return self.wanted - self.unavailable


class SizedSet(NamedTuple):
    """A ReplicaSet: how many pods it asks for, how many are available, and what it was last sized for."""

    replicas: int
    available: int = 0
    most: int = 0
    """The pods that its Deployment might have had at most; 0 where that was not noted."""
    age: int = 0
    """Rises from older to newer ones."""


def rolling_update(max_surge: IntOrPercent, max_unavailable: IntOrPercent, wanted: int) -> RolloutBounds:
    """Return the bounds of a rolling update: the surge rounded up, what is unavailable down, and never both 0."""
    surge = max(0, scaled(max_surge, wanted, round_up=True))
    unavailable = max(0, scaled(max_unavailable, wanted, round_up=False))
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RolloutBounds(wanted, surge, min(unavailable, wanted))


def new_set_size(bounds: RolloutBounds, total: int, new: int) -> int:
    """Return how many pods the newest ReplicaSet should ask for; it asks for `new`, and all together for `total`."""
    room = bounds.most - total
    return new + min(room, bounds.wanted - new) if room > 0 else new


def removable_old_pods(bounds: RolloutBounds, total: int, new: SizedSet) -> int:
    """Return how many pods of old ReplicaSets may go at most, available or not; where that is not above 0, none go."""
    return total - bounds.least_available - (new.replicas - new.available)


def without_unavailable(old: Iterable[SizedSet], budget: int) -> list[int]:
    """Return the sizes of old ReplicaSets without pods that are not available, of which `budget` may go."""
    sizes = []
    for one in old:
        cut = min(max(0, one.replicas - one.available), budget)
        sizes.append(one.replicas - cut)
        budget -= cut
    return sizes


def without_surplus(sizes: Iterable[int], available: int, bounds: RolloutBounds) -> list[int]:
    """Return the sizes of old ReplicaSets, the oldest first, without what is available beyond what has to be."""
    spare, left = max(0, available - bounds.least_available), []
    for size in sizes:
        cut = min(size, spare)
        spare -= cut
        left.append(size - cut)
    return left


def proportional_sizes(bounds: RolloutBounds, before: int, active: Sequence[SizedSet]) -> list[int]:
    """Return the sizes of ReplicaSets when their Deployment is scaled in the middle of a rollout: each gets its share.

    Larger ones first, and the largest takes what rounding leaves over. `before` is how many pods the Deployment had.
    """
    allowed = bounds.most if bounds.wanted > 0 else 0
    to_add = allowed - sum(one.replicas for one in active)
    sizes = [one.replicas for one in active]
    if not to_add or not active:
        return sizes
    direction = -1 if to_add > 0 else 1  # of equals, the newest grow first and the oldest shrink first
    ordered = sorted(range(len(active)), key=lambda at: (-active[at].replicas, direction * active[at].age))
    added = 0
    for at in ordered:
        part = _proportion(active[at], bounds, before, to_add, added)
        sizes[at] += part
        added += part
    sizes[ordered[0]] = max(0, sizes[ordered[0]] + to_add - added)
    return sizes


def _proportion(one: SizedSet, bounds: RolloutBounds, before: int, to_add: int, added: int) -> int:
    left = to_add - added
    if one.replicas == 0:
        return 0
    if bounds.wanted == 0:
        return max(-one.replicas, left)
    exact = one.replicas * bounds.most / (one.most or before or 1)
    part = math.floor(exact + 0.5) - one.replicas
    return min(part, left) if to_add > 0 else max(part, left)
