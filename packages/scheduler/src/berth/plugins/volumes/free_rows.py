"""On which rows a claim finds no free volume, kept for the next claim that asks for the same.

For each kind of claim the number of groups of volumes is kept that a row can draw on, and repaired from the index's
changes: a volume that is taken costs the rows of its group, not a pass over all volumes. Asked by `BindingColumns`.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.plugins.volumes.node_rows import NodeRows
from berth.plugins.volumes.volume_index import ClaimNeeds, FreeVolumes, Offer
from berth.state.label_index import Mask

KINDS_AT_MOST = 64
"""How many kinds of claims rows are kept for."""


class _UsableGroups:
    """The invariant: `groups[row]` is how many of the groups in `counted` a row can use, as of an epoch of rows."""

    __slots__ = ("counted", "epoch", "groups", "position")

    def __init__(self, capacity: int, epoch: int) -> None:
        self.groups: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.counted: dict[int, FreeVolumes] = {}
        """The groups by identity: a group that is gone and comes again is another one."""
        self.epoch = epoch
        self.position = 0


class FreeRows:
    """The rows with free volumes, by what claims ask for."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: Recent[Hashable, _UsableGroups] = Recent(KINDS_AT_MOST)

    def without(self, asked: ClaimNeeds, offer: Offer, nodes: NodeRows, capacity: int) -> Mask:
        """Return the rows where there is no free volume for a claim of this kind, the caller's to write to."""
        kept = self._kept.get(asked)
        changed = None if kept is None else offer.changed_groups(kept.position)
        if kept is None or changed is None or kept.epoch != nodes.epoch or len(kept.groups) != capacity:
            kept = _UsableGroups(capacity, nodes.epoch)
            self._kept.put(asked, kept, capacity * kept.groups.itemsize)
            changed = offer.groups()
        for group in changed:
            self._count(kept, asked, group, nodes)
        kept.position = offer.position
        left = kept.groups
        for group in offer.used_up():
            if left is kept.groups:
                left = left.copy()
            left[nodes.usable_rows(group)] -= 1
        without: Mask = left == 0
        return without

    def _count(self, kept: _UsableGroups, asked: ClaimNeeds, group: FreeVolumes, nodes: NodeRows) -> None:
        has_some = asked.is_offered(group.traits) and bool(group.sized) and group.sized[-1] >= asked.least
        if has_some == (id(group) in kept.counted):
            return
        if has_some:
            kept.counted[id(group)] = group
        else:
            del kept.counted[id(group)]
        kept.groups[nodes.usable_rows(group)] += 1 if has_some else -1
