"""What CSINodes and VolumeAttachments say of each row: how many volumes of a driver it takes, and what is attached.

The object store and the node table go in, columns come out; both are followed by their changes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from berth.api.storage import VolumeAttachment
from berth.framework.readers import ObjectReader
from berth.plugins.volumes.attachable import limits_of
from berth.state.follower import RowFollower
from berth.state.table import NodeTable

CSI_NODE, ATTACHMENT = "CSINode", "VolumeAttachment"

NO_LIMIT = 1 << 62

Int64 = NDArray[np.int64]


class LimitColumns:
    """Limits by driver and row, attachments by row and node."""

    __slots__ = (
        "_by_driver",
        "_by_node",
        "_follower",
        "_least",
        "_limits_of",
        "_node_of",
        "_nodes_with",
        "_objects",
        "_table",
        "_versions",
        "attached",
        "attached_at_most",
    )

    def __init__(self, objects: ObjectReader, table: NodeTable) -> None:
        self._objects = objects
        self._table = table
        self._follower = RowFollower(table, nodes=True)
        self._versions = {CSI_NODE: 0, ATTACHMENT: 0}
        self._by_driver: dict[str, Int64] = {}
        self._nodes_with: Counter[str] = Counter()
        """How many rows name a driver; one that none names any more has no column."""
        self._limits_of: dict[int, Mapping[str, int]] = {}
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._node_of: dict[str, str] = {}
        self.attached: Int64 = np.zeros(table.capacity, dtype=np.int64)
        """By row, how many attachments there are to its node."""
        self.attached_at_most = 0
        """No row has more attachments than this; it may be that none has had so many for a while."""
        self._least: dict[str, int] = {}

    def sync(self) -> None:
        """Follow store and table; to be called before the others."""
        self._grow()
        rows = set(self._follower.rows_to_look_at())
        for name in self._follow_attachments():
            rows.add(self._table.row_of.get(name, -1))
        for name in self._changes(CSI_NODE):
            rows.add(self._table.row_of.get(name, -1))
        rows.discard(-1)
        for row in rows:
            self._look_at(row)

    def limit(self, driver: str) -> Int64 | None:
        """Return by row how many volumes of a driver the node takes, or None where no node says."""
        return self._by_driver.get(driver)

    def limit_at_least(self, driver: str) -> int:
        """Return a number that no node's limit for a driver is below; it may be that none has had it for a while."""
        return self._least.get(driver, NO_LIMIT)

    def attached_to(self, node_name: str) -> Iterable[VolumeAttachment]:
        """Return the attachments to a node."""
        return self._by_node.get(node_name, {}).values()

    def _grow(self) -> None:
        more = self._table.capacity - len(self.attached)
        if more:
            self.attached = np.pad(self.attached, (0, more))
            self._by_driver = {
                driver: np.pad(column, (0, more), constant_values=NO_LIMIT)
                for driver, column in self._by_driver.items()
            }

    def _changes(self, kind: str) -> Iterable[str]:
        """Return the keys of a kind that may have changed since the last time."""
        changed = self._objects.changed_since(kind, self._versions[kind])
        self._versions[kind] = self._objects.version(kind)
        if changed is not None:
            return changed
        known = self._node_of if kind == ATTACHMENT else self._table.row_of
        return {*known, *(obj.metadata.name for obj in self._objects.list(kind))}

    def _follow_attachments(self) -> set[str]:
        """Sort changed attachments by node; return the names of the nodes concerned."""
        nodes: set[str] = set()
        for key in self._changes(ATTACHMENT):
            before = self._node_of.pop(key, None)
            if before is not None:
                there = self._by_node[before]
                del there[key]
                if not there:
                    del self._by_node[before]
                nodes.add(before)
            attachment: VolumeAttachment | None = self._objects.get(ATTACHMENT, key)
            if attachment is not None:
                name = self._node_of[key] = attachment.spec.node_name
                self._by_node.setdefault(name, {})[key] = attachment
                nodes.add(name)
        return nodes

    def _look_at(self, row: int) -> None:
        name = self._table.names[row]
        self.attached[row] = attached = len(self._by_node.get(name, ()))
        self.attached_at_most = max(self.attached_at_most, attached)
        limits = limits_of(self._objects.get(CSI_NODE, name)) if name else {}
        before = self._limits_of.pop(row, {})
        for driver, limit in limits.items():
            if driver not in self._by_driver:
                self._by_driver[driver] = np.full(self._table.capacity, NO_LIMIT, dtype=np.int64)
            self._by_driver[driver][row] = limit
            self._least[driver] = min(limit, self._least.get(driver, limit))
            self._nodes_with[driver] += 1
        if limits:
            self._limits_of[row] = limits
        for driver in before:
            if driver not in limits:
                self._by_driver[driver][row] = NO_LIMIT
            self._nodes_with[driver] -= 1
            if not self._nodes_with[driver]:
                del self._nodes_with[driver], self._by_driver[driver], self._least[driver]
