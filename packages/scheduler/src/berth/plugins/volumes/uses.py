"""Which rows' pods use which disks and claims, so that no plugin has to look at every pod of every node.

The node table goes in; rows come out by what is used there. Brought up to date when it is asked, by looking again at
the rows where pods came or went since.
"""

from collections.abc import Set
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from berth.api.pod import Volume
from berth.plugins.volumes.attachable import may_be_attached
from berth.plugins.volumes.claims import named_claims
from berth.state.follower import RowFollower, RowsByKey
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Key = tuple[str, ...]


class PodUse(NamedTuple):
    """What one pod uses: exclusive disks and named claims by key, and how many of its volumes may be attached."""

    keys: frozenset[Key]
    attachable: int


_NOTHING = PodUse(frozenset(), 0)


def disk_key(volume: Volume) -> Key | None:
    """Return what two volumes must share to be the same exclusive disk, or None for another kind of volume."""
    if volume.gce_persistent_disk is not None:
        return "gce", volume.gce_persistent_disk.pd_name
    if volume.aws_elastic_block_store is not None:
        return "ebs", volume.aws_elastic_block_store.volume_id
    if volume.iscsi is not None:
        return "iscsi", volume.iscsi.iqn
    return ("rbd", volume.rbd.pool, volume.rbd.image) if volume.rbd is not None else None


def claim_key(namespace: str, name: str) -> Key:
    """Return the key of a claim."""
    return "claim", namespace, name


def use_of(pod: PodInfo) -> PodUse:
    """Return what a pod uses; computed once for each pod."""
    if not pod.spec.volumes:
        return _NOTHING
    found = pod.fragments.get("volumes/use")
    if found is None:
        disks = {key for volume in pod.spec.volumes if (key := disk_key(volume)) is not None}
        claims = {claim_key(pod.namespace, name) for name in named_claims(pod)}
        attachable = sum(may_be_attached(volume) for volume in pod.spec.volumes)
        found = pod.fragments["volumes/use"] = PodUse(frozenset(disks | claims), attachable)
    return cast("PodUse", found)


class VolumeUses:
    """Rows by what their pods use."""

    __slots__ = ("_follower", "_rows", "_table", "at_most", "attachable")

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._follower = RowFollower(table, pods=True)
        self._rows: RowsByKey[Key] = RowsByKey()
        self.attachable: NDArray[np.int64] = np.zeros(table.capacity, dtype=np.int64)
        """By row, how many volumes of its pods may be attached, each counted for each pod."""
        self.at_most = 0
        """No row has more attachable volumes than this; it may be that none has had so many for a while."""

    def sync(self) -> None:
        """Follow the node table; to be called before the others."""
        table = self._table
        if len(self.attachable) != table.capacity:
            self.attachable = np.pad(self.attachable, (0, table.capacity - len(self.attachable)))
        for row in self._follower.rows_to_look_at():
            uses = [use_of(pod) for pod in table.pods[row].values() if pod.spec.volumes]
            attachable = sum(use.attachable for use in uses)
            self.attachable[row] = attachable
            self.at_most = max(self.at_most, attachable)
            self._rows.put(row, frozenset().union(*(use.keys for use in uses)))

    def rows(self, key: Key) -> Set[int]:
        """Return the rows where some pod uses this; not to be changed."""
        return self._rows.of(key)

    def is_used(self, key: Key) -> bool:
        """Say whether a pod on a node that exists uses this."""
        return any(self._table.valid[row] for row in self.rows(key))
