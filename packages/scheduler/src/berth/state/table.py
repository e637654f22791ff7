"""Nodes as NumPy columns: one row per node.

The cache writes it; plugins read it, either by column (`table.requested[index][rows]`) or, node by node, through
`table.view(row)`. Two change logs say which rows have to be looked at again by code that keeps something derived from
them: `node_log` for the node object, `pod_log` for the pods there. Every write to a row ends with an entry in one of
them. Rows are reused when nodes leave; log positions never are.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.api.pod_resources import CPU, MEMORY, PODS
from berth.api.quantity import counted, milli_value, value
from berth.api.read_only import ReadOnlyDict, ReadOnlyList, make_read_only
from berth.api.taints import Taint
from berth.state.change_log import ChangeLog
from berth.state.image_index import ImageIndex
from berth.state.label_index import LabelColumn, LabelIndex, Mask
from berth.state.node_tree import NodeTree, Zones
from berth.state.node_view import NodeView
from berth.state.ordering import put_in_order
from berth.state.pod_info import PodInfo

Int64 = NDArray[np.int64]

PERMANENT_RESOURCES = 2
"""CPU and memory come first, and keep their columns whether or not anything names them."""
DOUBLED_BELOW = 1024
"""Tables of fewer rows double when they are full, larger ones grow by an eighth."""


class TableOrder(NamedTuple):
    """The order of things in a table, which the objects alone do not determine."""

    capacity: int
    rows: Mapping[str, int]
    free: tuple[int, ...]
    zones: Zones


class NodeTable:
    """Columns over all nodes, read-only; `valid` says which rows hold a node."""

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        # Plugins read lists, and the maps in them, as they are; the owner writes through methods of `list` and `dict`.
        self.names: ReadOnlyList[str] = ReadOnlyList([""] * capacity)
        self.nodes: ReadOnlyList[Node | None] = ReadOnlyList([None] * capacity)
        self.pods: ReadOnlyList[ReadOnlyDict[str, PodInfo]] = ReadOnlyList(ReadOnlyDict() for _ in range(capacity))
        self.row_of: dict[str, int] = {}
        self.valid: Mask = np.zeros(capacity, dtype=np.bool_)
        self.resource_index: dict[str, int] = {CPU: 0, MEMORY: 1}
        self.allocatable: Int64 = np.zeros((2, capacity), dtype=np.int64)
        self.requested: Int64 = np.zeros((2, capacity), dtype=np.int64)
        self.scoring_requested: Int64 = np.zeros((2, capacity), dtype=np.int64)
        self.allowed_pods: Int64 = np.zeros(capacity, dtype=np.int64)
        self.pod_count: Int64 = np.zeros(capacity, dtype=np.int64)
        self.unschedulable: Mask = np.zeros(capacity, dtype=np.bool_)
        self.taint_set_ids: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.taint_sets: ReadOnlyList[tuple[Taint, ...]] = ReadOnlyList([()])
        self.version: Int64 = np.zeros(capacity, dtype=np.int64)
        self.node_log: ChangeLog[int] = ChangeLog()
        self.pod_log: ChangeLog[int] = ChangeLog()
        self.pods_by_priority: dict[int, int] = {}
        """How many counted pods have each priority."""
        self.tree = NodeTree()
        self.labels = LabelIndex(self._labels_of, self.node_log)
        self.images = ImageIndex(capacity)
        self.derived: dict[object, Any] = {}
        """What plugins derive from the columns and share among themselves, by their own keys."""
        self._taint_set_of: dict[tuple[Taint, ...], int] = {(): 0}
        self._taint_set_users: list[int] = [0]
        """How many rows have a taint set, by its number; the empty set, number 0, stays even without any."""
        self._free_taint_sets: list[int] = []
        self._resource_users: dict[str, int] = {}
        """How many node objects and counted pods name a resource, for all but CPU and memory."""
        self._free_columns: list[int] = []
        # Descending, since rows are taken from the end, lowest first.
        self._free = list(range(capacity - 1, -1, -1))
        self._held: dict[int, int] = {}
        """How many pods are lifted off each row, if any; they will be put back."""
        self._order: TableOrder | None = None
        """The current order, once noted, until a node comes, goes, or changes its zone."""
        self._orders: list[dict[int, tuple[str, ...]]] = []
        """For each open `note_order`: for the rows that have changed, the uids of their pods in the earlier order."""
        self._views: dict[int, tuple[int, NodeView]] = {}
        self._next_version = 0
        self.node_count = 0
        self.face: Any = None
        """Its face for out-of-tree plugins (`berth.framework.faces`)."""

    def __len__(self) -> int:
        return self.node_count

    def label(self, key: str) -> LabelColumn:
        """Return the column of a label key."""
        return self.labels.column(key, self.capacity)

    def view(self, row: int) -> NodeView:
        """Return one node with its pods as plain objects, as of now; the same object until the row changes."""
        known = self._views.get(row)
        # No version is used twice, so the view of an earlier node in this row cannot be mistaken for this one's.
        if known is not None and known[0] == self.version[row]:
            return known[1]
        view = self._make_view(row)
        self._views[row] = (int(self.version[row]), view)
        return view

    def node(self, row: int) -> Node:
        """Return the node object of a valid row."""
        node = self.nodes[row]
        assert node is not None, f"row {row} holds no node"
        return node

    def rows(self) -> NDArray[np.intp]:
        """Return the rows that hold a node, in row order."""
        return np.flatnonzero(self.valid)

    def _make_view(self, row: int) -> NodeView:
        resources = self.resource_index
        return NodeView(
            row=row,
            node=self.node(row),
            pods=ReadOnlyDict(self.pods[row]),
            allocatable=ReadOnlyDict({name: int(self.allocatable[index, row]) for name, index in resources.items()}),
            requested=ReadOnlyDict({name: int(self.requested[index, row]) for name, index in resources.items()}),
            scoring_requested=(int(self.scoring_requested[0, row]), int(self.scoring_requested[1, row])),
            allowed_pods=int(self.allowed_pods[row]),
        )

    def _labels_of(self, row: int) -> Mapping[str, str] | None:
        node = self.nodes[row]
        return None if node is None else node.metadata.labels


class WritableNodeTable(NodeTable):
    """The table as the cache keeps it."""

    def put_node(self, node: Node) -> int:
        """Add or replace a node; return its row. Raises `QuantityError` without changing anything."""
        make_read_only(node)
        known = self.row_of.get(node.metadata.name)
        # A heartbeat that changes only the version is not logged, so nothing derived has to be recomputed.
        if known is not None and _is_alike(self.nodes[known], node):
            list.__setitem__(self.nodes, known, node)
            return known
        # Before anything is written, since an invalid quantity must not change anything.
        amounts = _amounts(node.status.allocatable)
        row = self.row_for(node.metadata.name)
        if not self.valid[row]:
            self.valid[row] = True
            self.node_count += 1
        before = self.nodes[row]
        # The new object's resources are counted before the old one's are released, so a resource of both keeps its
        # column.
        self._write_allocatable(row, amounts)
        list.__setitem__(self.nodes, row, node)
        if before is not None:
            self._release(before.status.allocatable)
        self.unschedulable[row] = node.spec.unschedulable
        self._set_taints(row, node.spec.taints)
        self.tree.put(row, node.metadata.labels)
        self.images.put(row, node.status.images)
        self._touch(row, self.node_log)
        return row

    def row_for(self, name: str) -> int:
        """Return the row of a name; a new one, not yet valid, if a pod names a node that has not been seen yet."""
        row = self.row_of.get(name)
        if row is None:
            self._order = None
            row = self.row_of[name] = self._take_row()
            list.__setitem__(self.names, row, name)
        return row

    def make_room(self, rows: int) -> None:
        """Reserve this many free rows, so that masks made now still fit once that many nodes have come."""
        if len(self._free) < rows:
            self._order = None
            self._grow(self.capacity + rows - len(self._free))

    def remove_node(self, name: str) -> None:
        """Remove a node; the row becomes free for another one with its last pod."""
        row = self.row_of[name]
        if self.valid[row]:
            self.valid[row] = False
            self.node_count -= 1
        before = self.nodes[row]
        list.__setitem__(self.nodes, row, None)
        self.allocatable[:, row] = 0
        if before is not None:
            self._release(before.status.allocatable)
        self.allowed_pods[row] = 0
        self.unschedulable[row] = False
        self._set_taints(row, ())
        self.tree.remove(row)
        self.images.put(row, ())
        self._views.pop(row, None)
        self._touch(row, self.node_log)
        # While pods are counted on it, the row stays with the name, so that a node that comes back finds them.
        self._free_if_unused(row)

    def add_pod(self, row: int, pod: PodInfo) -> None:
        """Count a pod on a row."""
        if self._orders:
            self._note_order(row)
        dict.__setitem__(self.pods[row], pod.uid, pod)
        self._count(row, pod, 1)

    def add_alike(self, groups: Iterable[tuple[PodInfo, Sequence[int]]]) -> None:
        """Count pods that are already in `pods`; each group is given as one of them and the rows of all.

        Those of a group have one shape. The result is the same as counting them one by one.
        """
        amounts: dict[str, tuple[list[int], list[int]]] = {}
        cpu_milli: list[int] = []
        memory_bytes: list[int] = []
        everywhere: list[int] = []
        # Shapes that differ only in other things, like those of a DaemonSet's pods, share their requests.
        requesting: dict[int, tuple[PodInfo, list[int]]] = {}
        for pod, rows in groups:
            self.pods_by_priority[pod.priority] = self.pods_by_priority.get(pod.priority, 0) + len(rows)
            known = requesting.get(id(pod.requests))
            if known is None:
                requesting[id(pod.requests)] = pod, list(rows)
            else:
                known[1].extend(rows)
        for pod, rows in requesting.values():
            count = len(rows)
            for resource, amount in pod.requests.items():
                if amount:
                    at, of_each = amounts.setdefault(resource, ([], []))
                    at += rows
                    of_each += [amount] * count
            cpu_milli += [pod.scoring_requests[0]] * count
            memory_bytes += [pod.scoring_requests[1]] * count
            everywhere += rows
        for resource, (at, of_each) in amounts.items():
            index = self.column_of(resource)
            np.add.at(self.requested[index], np.asarray(at, dtype=np.intp), np.asarray(of_each, dtype=np.int64))
            if index >= PERMANENT_RESOURCES:
                self._use(resource, len(at))
        where = np.asarray(everywhere, dtype=np.intp)
        np.add.at(self.scoring_requested[0], where, np.asarray(cpu_milli, dtype=np.int64))
        np.add.at(self.scoring_requested[1], where, np.asarray(memory_bytes, dtype=np.int64))
        np.add.at(self.pod_count, where, 1)
        for row in sorted(set(everywhere)):
            self._touch(row, self.pod_log)

    def remove_pod(self, row: int, pod: PodInfo) -> None:
        """Take a pod off a row."""
        if self._orders:
            self._note_order(row)
        dict.__delitem__(self.pods[row], pod.uid)
        self._count(row, pod, -1)
        self._free_if_unused(row)

    def hold(self, row: int) -> None:
        """Keep a row's name until `release`, even if nothing is left on it: one of its pods is about to be lifted."""
        self._held[row] = self._held.get(row, 0) + 1

    def release(self, row: int) -> None:
        """Note that a lifted pod is back on its row, or will not come back."""
        left = self._held.pop(row) - 1
        if left:
            self._held[row] = left
        self._free_if_unused(row)

    def touch_pods(self, row: int) -> None:
        """Log a row as if its pods had changed."""
        self._touch(row, self.pod_log)

    def replace_pod(self, row: int, pod: PodInfo) -> None:
        """Replace a counted pod by a newer object; nothing that is counted may differ.

        So nothing is logged, but the row gets a new version: the object may now say when the pod started, for example.
        """
        dict.__setitem__(self.pods[row], pod.uid, pod)
        self._renew_version(row)

    def note_order(self) -> TableOrder:
        """Return the current order, and from now on record, for each row that changes, the order its pods were in.

        `put_in_order` or `keep_order` ends that; one may begin inside another.
        """
        self._orders.append({})
        if self._order is None or self._order.zones is not self.tree.zones():
            self._order = TableOrder(self.capacity, dict(self.row_of), tuple(self._free), self.tree.zones())
        return self._order

    def keep_order(self) -> None:
        """Commit the recorded order."""
        self._orders.pop()

    def _note_order(self, row: int) -> None:
        # Whatever the innermost record has noted, those around it have noted before.
        for known in reversed(self._orders):
            if row in known:
                return
            known[row] = tuple(self.pods[row])

    def reserve_rows(self, order: TableOrder) -> None:
        """Reserve the old rows, which are free, for names of an earlier order that have no row now."""
        if order is self._order:  # no row was taken or given up since
            return
        self._order = None
        if self.capacity < order.capacity:  # another table's order: it has grown, as this one has not yet
            self._grow(order.capacity)
        for name, row in order.rows.items():
            if name not in self.row_of and not self.names[row]:
                self.row_of[name] = row
                list.__setitem__(self.names, row, name)
        self._free = [row for row in self._free if not self.names[row]]

    def put_in_order(self, order: TableOrder) -> None:
        """Put nodes, free rows and the pods of each row into an earlier order, now that the same ones are there."""
        if order is not self._order or order.zones is not self.tree.zones():
            self._order = None
            put_in_order(self.row_of, order.rows)
            self.tree.put_in_order(order.zones)
            known = set(order.free)
            others = (row for row in self._free if row not in known)
            self._free = [*others, *(row for row in order.free if not self.names[row])]
        for row, uids in self._orders.pop().items():
            if put_in_order(self.pods[row], uids):
                self.touch_pods(row)

    def column_of(self, resource: str) -> int:
        """Return the index of a resource's columns, new ones if no node or pod names it yet.

        Once no node and no pod names it any more, the columns, which are then zero, go to another resource.
        """
        index = self.resource_index.get(resource)
        if index is None:
            if not self._free_columns:
                self._give_back_unnamed()
            if not self._free_columns:
                self._add_columns()
            index = self.resource_index[resource] = self._free_columns.pop()
        return index

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        requested, index_of = self.requested, self.resource_index
        for resource, amount in pod.requests.items():
            if amount:
                index = index_of.get(resource)
                if index is None:
                    index = self.column_of(resource)
                    # It may have replaced the array that was read above by a wider one.
                    requested = self.requested
                requested[index, row] += sign * amount
                if index >= PERMANENT_RESOURCES:
                    self._use(resource, sign)
        cpu_milli, memory_bytes = pod.scoring_requests
        self.scoring_requested[0, row] += sign * cpu_milli
        self.scoring_requested[1, row] += sign * memory_bytes
        self.pod_count[row] += sign
        by_priority, priority = self.pods_by_priority, pod.priority
        left = by_priority[priority] = by_priority.get(priority, 0) + sign
        if not left:
            del by_priority[priority]
        self._touch(row, self.pod_log)

    def _touch(self, row: int, log: ChangeLog[int]) -> None:
        self._renew_version(row)
        log.append(row)

    def _renew_version(self, row: int) -> None:
        self._next_version += 1
        self.version[row] = self._next_version

    def _free_if_unused(self, row: int) -> None:
        # A row is freed exactly once: when its node object, its last pod and its last lifted pod are gone, in any
        # order.
        if self.valid[row] or self.pods[row] or row in self._held:
            return
        # Everything counted on the row has been subtracted, and each step was logged. The node that takes the row next
        # logs it again, so nothing derived for the old node outlives it.
        self._order = None
        del self.row_of[self.names[row]]
        list.__setitem__(self.names, row, "")
        self._free.append(row)

    def _write_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        self.allocatable[:, row] = 0
        for resource, amount in amounts.items():
            if resource == PODS:
                continue
            index = self.column_of(resource)
            self.allocatable[index, row] = amount
            if index >= PERMANENT_RESOURCES:
                self._use(resource, 1)
        self.allowed_pods[row] = amounts.get(PODS, 0)

    def _use(self, resource: str, change: int) -> None:
        """Count the users of a resource; its columns become free with the last one."""
        users = self._resource_users.get(resource, 0) + change
        if users:
            self._resource_users[resource] = users
        else:
            # Every user has subtracted its amount again, so the columns hold only zeros and can be reused.
            del self._resource_users[resource]
            self._free_columns.append(self.resource_index.pop(resource))

    def _release(self, resources: Iterable[str]) -> None:
        """Note that a node object that named these resources is gone; the row's amounts have already been written."""
        for resource in resources:
            if resource in self._resource_users:
                self._use(resource, -1)

    def _give_back_unnamed(self) -> None:
        """Free the columns of resources that were asked for but that no node and no pod names.

        They are zero, and stay so until another resource takes them over, which cannot happen within a call.
        """
        for resource, index in tuple(self.resource_index.items()):
            if index >= PERMANENT_RESOURCES and resource not in self._resource_users:
                del self.resource_index[resource]
                self._free_columns.append(index)

    def _add_columns(self) -> None:
        """Double the number of resource columns, so that each new one costs little."""
        count = len(self.allocatable)
        more = np.zeros((count, self.capacity), dtype=np.int64)
        self.allocatable = np.concatenate([self.allocatable, more])
        self.requested = np.concatenate([self.requested, more])
        self._free_columns += range(2 * count - 1, count - 1, -1)

    def _set_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        """Give a row its set of taints; a set that no row has any more is forgotten, and its number may be reused.

        A number only identifies the set that has it now: whatever is computed by number is valid for one call.
        """
        before, number = int(self.taint_set_ids[row]), self._taint_set(taints)
        if number == before:
            return
        self.taint_set_ids[row] = number
        self._taint_set_users[number] += 1
        self._taint_set_users[before] -= 1
        if before and not self._taint_set_users[before]:
            # The last row has dropped the set. Its number is free only from here on, since the new set already has one.
            del self._taint_set_of[self.taint_sets[before]]
            list.__setitem__(self.taint_sets, before, ())
            self._free_taint_sets.append(before)

    def _taint_set(self, taints: tuple[Taint, ...]) -> int:
        found = self._taint_set_of.get(taints)
        if found is None:
            if not self._free_taint_sets:
                self._free_taint_sets.append(len(self.taint_sets))
                list.append(self.taint_sets, ())
                self._taint_set_users.append(0)
            found = self._taint_set_of[taints] = self._free_taint_sets.pop()
            list.__setitem__(self.taint_sets, found, taints)
        return found

    def _take_row(self) -> int:
        if not self._free:
            # Every column operation pays for empty rows, so large tables grow by less than double.
            self._grow(self.capacity * 2 if self.capacity < DOUBLED_BELOW else self.capacity + self.capacity // 8)
        return self._free.pop()

    def _grow(self, capacity: int) -> None:
        more = capacity - self.capacity
        list.extend(self.names, [""] * more)
        list.extend(self.nodes, [None] * more)
        list.extend(self.pods, [ReadOnlyDict() for _ in range(more)])
        self.allocatable, self.requested, self.scoring_requested = (
            np.pad(column, ((0, 0), (0, more))) for column in (self.allocatable, self.requested, self.scoring_requested)
        )
        self.allowed_pods, self.pod_count = np.pad(self.allowed_pods, (0, more)), np.pad(self.pod_count, (0, more))
        self.valid, self.unschedulable = np.pad(self.valid, (0, more)), np.pad(self.unschedulable, (0, more))
        self.taint_set_ids, self.version = np.pad(self.taint_set_ids, (0, more)), np.pad(self.version, (0, more))
        self.images.grow(capacity)
        self._free += range(capacity - 1, self.capacity - 1, -1)
        self.capacity = capacity


def _is_alike(old: Node | None, new: Node) -> bool:
    """Say whether two objects of a node differ only in their version."""
    if old is None or old.spec != new.spec or old.status != new.status:
        return False
    version = old.metadata.resource_version
    return old.metadata == msgspec.structs.replace(new.metadata, resource_version=version)


def _amounts(quantities: Mapping[str, str | int | float]) -> dict[str, int]:
    return {name: counted((milli_value if name == CPU else value)(amount)) for name, amount in quantities.items()}
