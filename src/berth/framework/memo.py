"""Columns that were computed before, and which of their rows are still good.

A key says whose answer it is (plugin, point, pod fragment). An entry remembers the positions and counters of
everything its plugin depends on; rows that changed since are computed again, and if more than rows may have changed,
all of them. Results never depend on this: with `enabled` off every column is computed afresh.

Columns are repaired in place. Who must look at one later (the trace of decisions) takes a `ColumnSnapshot`, which
undoes the repairs made since; taking one costs nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.framework.interface import Dependencies, Dependency, Objects, Rows
from berth.state.cache import Cache
from berth.state.objects import ObjectStore
from berth.state.table import NodeTable

Column = NDArray[Any]
Compute = Callable[[Rows], tuple[Column, Any]]
"""Computes a column for some rows, with whatever goes with it (a filter's `describe`)."""

NEVER_KEPT = frozenset({Dependency.UNKNOWN, Dependency.FEASIBLE_SET})

REPAIR_AT_MOST = 4
"""Rows are repaired one by one as long as they are less than one in this many of all."""

JOURNAL_AT_MOST = 64
"""After so many repairs, or as many rows as there are, a column is copied: snapshots of the old one need undo no more
than these, and a journal is never much larger than its column."""

Journal = list[tuple[NDArray[np.intp], Column]]


class ColumnSnapshot(NamedTuple):
    """A column as it was at one moment, however often it has been repaired since."""

    column: Column
    journal: Journal
    repairs: int

    def values(self) -> Column:
        """Return the column as it was; do not write to it."""
        if len(self.journal) == self.repairs:
            return self.column
        column = self.column.copy()
        for rows, before in reversed(self.journal[self.repairs :]):
            column[rows] = before
        return column


class DependencySet:
    """What a plugin declared, taken apart once so that checking it is cheap."""

    __slots__ = (
        "all_nodes",
        "is_by_row",
        "is_kept",
        "is_lasting",
        "kinds",
        "owner",
        "pods_anywhere",
        "pods_on_node",
        "reservations",
    )

    def __init__(self, dependencies: Dependencies, owner: str) -> None:
        self.owner = owner
        self.is_kept = not dependencies & NEVER_KEPT
        self.pods_on_node = Dependency.PODS_ON_NODE in dependencies
        self.pods_anywhere = Dependency.PODS_ANYWHERE in dependencies
        self.all_nodes = Dependency.ALL_NODES in dependencies
        self.reservations = Dependency.OWN_RESERVATIONS in dependencies
        self.kinds = tuple(sorted(kind for d in dependencies if isinstance(d, Objects) for kind in d.kinds))
        self.is_by_row = self.is_kept and not (self.pods_anywhere or self.all_nodes or self.reservations or self.kinds)
        """Whether a row's answer depends on that row alone (and on the pod)."""
        self.is_lasting = self.is_kept and not self.pods_anywhere
        """Whether a column usually outlives the placing of one pod."""


class MemoKey:
    """Whose column it is; hashes once, since fragments can be long."""

    __slots__ = ("_hash", "parts")

    def __init__(self, *parts: Hashable) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, MemoKey) and self.parts == other.parts)


class MemoEntry:
    """One column and what it is valid for. `epoch` differs each time the whole column was computed."""

    __slots__ = ("column", "epoch", "extra", "journal", "journaled", "node_position", "pod_position", "versions")

    def __init__(self) -> None:
        self.column: Column = np.zeros(0)
        self.extra: Any = None
        self.journal: Journal = []
        self.journaled = 0
        """How many rows the journal holds."""
        self.epoch = 0
        self.versions: tuple[int, ...] = ()
        self.node_position = self.pod_position = -1

    def snapshot(self) -> ColumnSnapshot:
        """Return the column as it is now."""
        return ColumnSnapshot(self.column, self.journal, len(self.journal))

    def repair(self, rows: NDArray[np.intp], values: Column) -> None:
        """Write new values to some rows, remembering the old ones."""
        self.journaled += len(rows)
        if len(self.journal) >= JOURNAL_AT_MOST or self.journaled > len(self.column):
            self.column, self.journal, self.journaled = self.column.copy(), [], len(rows)
        self.journal.append((rows, self.column[rows]))
        self.column[rows] = values


class Memos:
    """A bounded store of columns over one cache."""

    def __init__(self, cache: Cache, objects: ObjectStore, *, enabled: bool = True, max_bytes: int = 96 << 20) -> None:
        self.enabled = enabled
        self._cache = cache
        self._objects = objects
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[MemoKey, MemoEntry] = OrderedDict()
        self._reservations: dict[str, int] = {}
        self._epochs = 0
        self._last_changed: tuple[tuple[int, ...], NDArray[np.intp] | None] = ((), None)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def table(self) -> NodeTable:
        """The table that the columns run over."""
        return self._cache.table

    def entry(self, key: MemoKey | None, dependencies: DependencySet, compute: Compute) -> MemoEntry:
        """Return an up-to-date entry: the kept one, repaired or computed anew, or a fresh one that is not kept."""
        if key is None or not self.enabled or not dependencies.is_kept:
            return self._computed(MemoEntry(), (), compute)
        entry = self._entries.get(key)
        if entry is None:
            return self._new_entry(key, dependencies, compute)
        self._entries.move_to_end(key)
        table = self._cache.table
        same_pods = not dependencies.pods_on_node or entry.pod_position == table.pod_log.position
        same_nodes = entry.node_position == table.node_log.position and len(entry.column) == table.capacity
        if dependencies.is_by_row and same_pods and same_nodes:
            return entry  # what it comes to for most columns and pods: nothing has happened that they look at
        versions = self._versions(dependencies)
        if entry.versions != versions or not self._repaired(entry, dependencies, compute):
            self._computed(entry, versions, compute)
        return entry

    def facts(self, key: MemoKey) -> Any:
        """Return what goes with a kept column, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry.extra

    def changed_rows(self, node_position: int, pod_position: int, with_pods: bool) -> NDArray[np.intp] | None:
        """Return the rows changed after these positions; None where that is all of them, or so many that it may be."""
        table = self._cache.table
        asked = (node_position, pod_position, table.node_log.position, table.pod_log.position, int(with_pods))
        # Entries that were last used together are asked for together: all of them get the same answer.
        if self._last_changed[0] != asked:
            self._last_changed = (asked, self._rows_between(node_position, pod_position, with_pods))
        return self._last_changed[1]

    def _rows_between(self, node_position: int, pod_position: int, with_pods: bool) -> NDArray[np.intp] | None:
        table = self._cache.table
        changed = table.node_log.since(node_position)
        if changed is None:
            return None
        if with_pods:
            by_pods = table.pod_log.since(pod_position)
            if by_pods is None:
                return None
            changed = by_pods if not len(changed) else np.union1d(changed, by_pods)
        return None if len(changed) * REPAIR_AT_MOST > table.capacity else changed

    def note_reservation(self, plugin: str) -> None:
        """Tell that a plugin's own reservations have changed."""
        self._reservations[plugin] = self._reservations.get(plugin, 0) + 1

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0

    def _new_entry(self, key: MemoKey, dependencies: DependencySet, compute: Compute) -> MemoEntry:
        entry = self._computed(MemoEntry(), self._versions(dependencies), compute)
        self._entries[key] = entry
        self._bytes += entry.column.nbytes
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.column.nbytes
        return entry

    def _computed(self, entry: MemoEntry, versions: tuple[int, ...], compute: Compute) -> MemoEntry:
        table = self._cache.table
        self._epochs += 1
        entry.column, entry.extra = compute(slice(None))
        entry.journal, entry.journaled, entry.versions, entry.epoch = [], 0, versions, self._epochs
        entry.node_position, entry.pod_position = table.node_log.position, table.pod_log.position
        return entry

    def _repaired(self, entry: MemoEntry, dependencies: DependencySet, compute: Compute) -> bool:
        table = self._cache.table
        nodes, pods = table.node_log.position, table.pod_log.position
        if entry.node_position == nodes and (entry.pod_position == pods or not dependencies.pods_on_node):
            return True
        rows = self.changed_rows(entry.node_position, entry.pod_position, dependencies.pods_on_node)
        if rows is None:
            return False
        if len(rows):
            values, entry.extra = compute(rows)
            entry.repair(rows, values)
        entry.node_position, entry.pod_position = nodes, pods
        return True

    def _versions(self, dependencies: DependencySet) -> tuple[int, ...]:
        """Return everything that makes an entry wholly stale when it differs."""
        cache = self._cache
        if dependencies.is_by_row:
            return (cache.table.capacity,)
        return (
            cache.table.capacity,
            cache.index.version if dependencies.pods_anywhere else 0,
            cache.table.node_log.position if dependencies.all_nodes else 0,
            self._reservations.get(dependencies.owner, 0) if dependencies.reservations else 0,
            *(self._objects.version(kind) for kind in dependencies.kinds),
        )
