"""Cached columns, and which of their rows are still valid.

A key says whose answer a column is (profile, plugin, point, pod fragment). An entry remembers the log positions and
counters of everything that its plugin says it depends on. The invariant: a column is what its plugin would compute from
the table and the objects as they were at those positions and counters. So the rows that a log has named since are
computed again, if the plugin depends on that log. A counter names no rows, so once it has moved, the whole column is
computed again. Decisions never depend on any of this: with `enabled` off, every column is computed afresh.

Keys hold what plugins read of pods, which may be long. So the store is bounded in the bytes of its keys as well.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.engine.memo_entry import NOTHING, Column, MemoEntry
from berth.framework.blame import contained
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Rows, SignaturePlugin
from berth.framework.promises import NEVER_KEPT, Dependencies, Dependency, Objects
from berth.state.cache import Cache
from berth.state.follower import rows_since
from berth.state.objects import ObjectStore
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Compute = Callable[[Rows], tuple[Column, Any]]
"""Computes a column for some rows, with what is stored beside it (a filter's `describe`)."""

RowForm = Callable[[CycleState, PodInfo, NodeTable, int], int]
"""Computes the value of one row."""

DomainForm = Callable[[CycleState, PodInfo], MemoEntry | None]
"""Computes an entry, which is not kept, from answers for whole domains; None if there are none."""

REPAIR_AT_MOST = 4
"""A column is repaired while fewer than one row in this many has changed, and computed as a whole otherwise."""

FEW_ROWS = 8
"""Up to this many changed rows are asked about one by one if the plugin allows it: arrays have a fixed cost."""

SEEN_AT_MOST = 1 << 14
"""How many keys that were asked for only once are remembered."""

SEEN_BYTES_AT_MOST = 32 << 20
"""How large the pods of these keys may be together, in bytes of JSON; each pod counts once per plugin."""

ENTRY_BYTES = 1 << 10
"""What an entry takes up besides its column and the pod in its key."""

MAX_POSITIONS = 16
"""For how many log positions the rows changed since are cached."""

SLOTS_AT_MOST = 1 << 12
"""How many slots of one plugin are remembered; a new slot still finds its column by key."""


class DependencySet:
    """The dependencies that a plugin declared, as flags that are cheap to check for every pod."""

    __slots__ = (
        "all_nodes",
        "asks_each",
        "goes_by_objects",
        "is_by_row",
        "is_kept",
        "is_lasting",
        "kinds",
        "moves",
        "owner",
        "pods_anywhere",
        "pods_on_node",
        "reservations",
    )

    def __init__(self, dependencies: Dependencies, owner: str, *, asks_each: bool = False) -> None:
        self.owner = owner
        self.asks_each = asks_each
        """Whether a column costs a call for each of its rows."""
        self.is_kept = not dependencies & NEVER_KEPT
        self.pods_on_node = Dependency.PODS_ON_NODE in dependencies
        self.pods_anywhere = Dependency.PODS_ANYWHERE in dependencies
        self.all_nodes = Dependency.ALL_NODES in dependencies
        self.reservations = Dependency.OWN_RESERVATIONS in dependencies
        self.kinds = tuple(sorted(kind for d in dependencies if isinstance(d, Objects) for kind in d.kinds))
        self.is_by_row = self.is_kept and not (self.pods_anywhere or self.all_nodes or self.reservations or self.kinds)
        """Whether a row's answer depends on that row alone (and on the pod)."""
        self.is_lasting = self.is_kept and not self.pods_anywhere
        """Whether a column usually survives the placing of a pod."""
        self.moves = not self.is_by_row or self.pods_on_node
        """Whether an answer may change without a change of a node object."""
        self.goes_by_objects = self.is_kept and not (self.pods_anywhere or self.all_nodes or self.reservations)
        """Whether it depends only on rows and on objects."""


class MemoKey:
    """Whose column it is. Its hash is computed once, since fragments can be long.

    `size` is that of the pod that the fragment belongs to, in bytes of JSON.
    """

    __slots__ = ("_hash", "parts", "size")

    def __init__(self, *parts: Hashable, size: int = 0) -> None:
        self.parts = parts
        self.size = size
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, MemoKey) and self.parts == other.parts)


class Runner(Protocol):
    """Asks one plugin about rows. `row_form`, if the plugin has one, asks about a single row."""

    row_form: RowForm | None

    def compute(self, extra: Any, state: CycleState, pod: PodInfo, table: NodeTable) -> Compute: ...

    def note(self, extra: Any, value: int) -> None: ...

    def lasts(self, extra: Any) -> bool:
        """Whether a column may be used again, judging by what is stored with it."""
        ...

    def broke(self, bug: Exception) -> Exception: ...


class Slot:
    """A plugin's place in the plan for pods of one shape: the key of its column, and the entry it last got.

    The entry may have been dropped or be out of date; `Memos.refresh` takes care of that.
    """

    __slots__ = ("dependencies", "domain_entry", "entry", "key", "runner")

    def __init__(
        self,
        runner: Runner,
        key: MemoKey | None,
        dependencies: DependencySet,
        domain_entry: DomainForm | None = None,
    ) -> None:
        self.runner: Any = runner
        self.domain_entry = domain_entry
        """Asks for whole domains, where the plugin may answer so."""
        self.key = key
        self.dependencies = dependencies
        self.entry: MemoEntry | None = None


class SlotSet:
    """The slots of a plan, in order, and the entries that they last had.

    Most plugins depend on node objects alone, which seldom change. The invariant: while `settled_at` is the current
    state of `Memos`, the entries of all slots except those in `moving` are kept and up to date, and everything stored
    here was derived from them as they are.
    """

    __slots__ = ("deciding", "entries", "is_kept", "is_known", "made", "moving", "settled_at", "slots")

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        self.is_known = False
        """Whether it was asked for before: if pods are all different, most plans are asked for only once, and preparing
        for the next time would be wasted.
        """
        self.settled_at: tuple[int, int, int] | None = None
        self.moving: list[tuple[int, Slot]] = []
        """The slots whose answers may change without a change of a node object, and those without a key."""
        self.entries: list[MemoEntry] = []
        """Those of the last refresh that are kept. Columns of one pod alone are not held here: a plan lives as long as
        its shape, of which there are thousands.
        """
        self.is_kept = True
        """Whether every entry that has a key is kept, as of the last refresh."""
        self.deciding: list[int] | None = None
        """The indices of the entries that have a key, except those known to hold nothing but zeros; None for all."""
        self.made: list[Any] = []
        """What the caller of `Memos.refresh_set` has derived from each entry, except those in `moving`."""

    @property
    def is_settled(self) -> bool:
        """Whether all entries are kept, and what is noted here about them holds until a node changes."""
        return self.settled_at is not None and self.is_kept


class Slots:
    """A plugin's slots, by what it reads of the pod: plans share a slot if the plugin reads the same of their pods."""

    __slots__ = ("_by_fragment", "_dependencies", "_name", "_runner", "_signature", "_unkept")

    def __init__(
        self,
        runner: Runner,
        name: tuple[str, str],
        plugin: SignaturePlugin | None,
        dependencies: DependencySet,
        domain_entry: DomainForm | None = None,
    ) -> None:
        """`name` is the plugin's, and the point's; `plugin` is None where it has no signature."""
        self._runner = runner
        self._name = name
        self._dependencies = dependencies
        # Without a signature, nothing says which other pods an answer holds for. And it is no use keeping a column that
        # every placed pod makes stale as a whole, so that gets no key either.
        self._signature = plugin.signature if plugin is not None and dependencies.is_lasting else None
        self._by_fragment: Recent[Hashable, Slot] = Recent(SLOTS_AT_MOST)
        self._unkept = Slot(runner, None, dependencies, domain_entry)

    def of(self, profile: str, pod: PodInfo) -> Slot:
        """Return the slot for pods of this pod's shape; it has no key if the column is not to be kept."""
        fragment = self._signature(pod) if self._signature is not None and not pod.shape.is_large else None
        if fragment is None:
            return self._unkept
        found = self._by_fragment.get(fragment)
        if found is None:
            key = MemoKey(profile, *self._name, fragment, size=pod.shape.size)
            found = Slot(self._runner, key, self._dependencies)
            self._by_fragment.put(fragment, found, key.size)
        return found


class _ChangedRows:
    """Rows that have changed, ascending; None if there are so many that all rows are computed again."""

    __slots__ = ("_array", "rows")

    def __init__(self, rows: list[int] | None) -> None:
        self.rows = rows
        self._array: NDArray[np.intp] | None = None

    def array(self) -> NDArray[np.intp]:
        """Return them as an array, always the same one: plugins cache what they have read for the rows of an array."""
        if self._array is None:
            self._array = np.array(self.rows, dtype=np.intp)
        return self._array


class Memos:
    """A bounded store of columns over one cache."""

    def __init__(self, cache: Cache, objects: ObjectStore, *, enabled: bool = True, max_bytes: int = 96 << 20) -> None:
        self.enabled = enabled
        self._cache = cache
        self.table: NodeTable = cache.table
        """The table that the columns run over."""
        self._objects = objects
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: dict[MemoKey, MemoEntry] = {}
        self._seen: Recent[MemoKey, bool] = Recent(SEEN_AT_MOST, SEEN_BYTES_AT_MOST)
        self._reservations: dict[str, int] = {}
        self._refreshes = 0
        self.epochs = 0
        """Grows whenever a column is kept for the first time or computed as a whole."""
        self.drops = 0
        """Grows whenever columns are dropped."""
        self.more_to_come = False
        """Whether the next pod in the queue is like the one being tried (`PodShape.is_like`): if so, columns are kept
        at once rather than from the second request on.
        """
        self._changed: dict[tuple[int, int, bool], _ChangedRows] = {}
        """The rows that have changed since some log positions, valid while the logs are at `_changed_at`."""
        self._changed_at = (-1, -1)

    @contextmanager
    def switched(self, *, on: bool) -> Iterator[None]:
        """Turn caching on or off for the length of a `with` block; entries stay."""
        before, self.enabled = self.enabled, on
        try:
            yield
        finally:
            self.enabled = before

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def version_beside_rows(self) -> int:
        """Grows with each change that no row log names: of objects, of namespace labels, of running pods' terms."""
        return self._objects.changes + self._cache.index.terms_version

    def refresh(self, slots: Sequence[Slot], state: CycleState, pod: PodInfo) -> list[MemoEntry]:
        """Return an up-to-date entry for each slot.

        If nothing has happened that its plugin depends on, that is the slot's last entry, untouched.
        """
        self._refreshes += 1
        drops = self.drops
        entries = [self._refreshed(slot, state, pod) for slot in slots]
        if drops != self.drops:
            for place, slot in enumerate(slots):
                # It was dropped to make room for a later one, and has no column any more.
                if slot.key is not None and entries[place].column is NOTHING:
                    compute = slot.runner.compute(None, state, pod, self._cache.table)
                    entries[place] = self._computed(MemoEntry(), (), compute)
        return entries

    def refresh_set(self, slots: SlotSet, state: CycleState, pod: PodInfo) -> list[MemoEntry]:
        """Return an up-to-date entry for each slot of a plan, and note in the set what holds for all of them."""
        table = self._cache.table
        if slots.settled_at != (table.node_log.position, table.capacity, self.drops) or not self.enabled:
            return self._settled(slots, state, pod)
        self._refreshes = now = self._refreshes + 1
        entries = slots.entries.copy()
        # Before any of the others is stored anew, which may drop the oldest entries.
        for entry in entries:
            entry.used = now
        is_kept = True
        nodes, pods, object_changes = table.node_log.position, table.pod_log.position, self._objects.changes
        for place, slot in slots.moving:
            entry, form = entries[place], slot.runner.row_form
            # By far the most frequent case: a pod was placed since, which changed one row and nothing else. The
            # invariant is that of `_refresh_kept`, which handles every other case.
            if form is not None and entry.is_kept and entry.node_position == nodes:
                needs = slot.dependencies
                if needs.is_by_row or (needs.goes_by_objects and entry.object_changes == object_changes):
                    rows = self.changed_rows(nodes, entry.pod_position, needs.pods_on_node)
                    if rows is not None and len(rows) <= FEW_ROWS:
                        self._repair_rows(slot.runner, entry, rows, state, pod)
                        entry.pod_position = pods
                        continue
            entry = entries[place] = self._refreshed(slot, state, pod)
            if entry.is_kept:
                slots.entries[place] = entry
            else:
                is_kept = is_kept and slot.key is None
        # Storing these may have dropped others of the set.
        if slots.settled_at[2] != self.drops:
            return self._settled(slots, state, pod)
        slots.is_kept = is_kept
        return entries

    def _repair_rows(
        self, runner: Runner, entry: MemoEntry, rows: Sequence[int], state: CycleState, pod: PodInfo
    ) -> None:
        """Ask about some rows one by one and store the answers; the caller then moves the entry's positions.

        If the plugin raises, the entry stays stale, and the same rows are asked about again.
        """
        table, form = self._cache.table, runner.row_form
        assert form is not None, "only plugins with a row form are asked about single rows"
        for row in rows:
            try:
                value = form(state, pod, table, row)
            except BaseException as raised:
                bug = contained(raised)
                raise runner.broke(bug) from bug
            entry.repair_row(row, value)
            runner.note(entry.extra, value)

    def _settled(self, slots: SlotSet, state: CycleState, pod: PodInfo) -> list[MemoEntry]:
        """Refresh every slot of a set."""
        entries = self.refresh(slots.slots, state, pod)
        slots.is_kept = all(
            [slot.key is None or entry.is_kept for slot, entry in zip(slots.slots, entries, strict=True)]  # noqa: C419
        )
        slots.settled_at, slots.deciding = None, None
        if (slots.is_known or self.more_to_come) and slots.is_kept and self.enabled:
            self._settle(slots, entries)
        slots.is_known = True
        return entries

    def _settle(self, slots: SlotSet, entries: list[MemoEntry]) -> None:
        """Note what holds for the set until a node changes."""
        slots.moving = [
            (place, slot) for place, slot in enumerate(slots.slots) if slot.dependencies.moves or not slot.key
        ]
        moving = {place for place, _ in slots.moving}
        keyed = [place for place, slot in enumerate(slots.slots) if slot.key is not None]
        slots.deciding = [place for place in keyed if place in moving or entries[place].has_nonzero()]
        slots.entries = [
            MemoEntry() if slot.key is None else entry for slot, entry in zip(slots.slots, entries, strict=True)
        ]
        slots.made = []
        slots.settled_at = (self._cache.table.node_log.position, self._cache.table.capacity, self.drops)

    def _refreshed(self, slot: Slot, state: CycleState, pod: PodInfo) -> MemoEntry:
        """Return an up-to-date entry for a slot: its last one, repaired, or a new one."""
        entry, needs, table = slot.entry, slot.dependencies, self._cache.table
        if slot.domain_entry is not None and slot.key is None and self.enabled:
            by_domain = slot.domain_entry(state, pod)
            if by_domain is not None:
                return by_domain
        if entry is None or not entry.is_kept or not self.enabled:
            # The store may have the column although this slot does not (its plan was made anew). A repair replaces the
            # facts about the whole column, so it has to start from the facts known before.
            extra = self.facts(slot.key) if self.enabled and slot.key is not None else None
            entry = self.entry(slot.key, needs, slot.runner.compute(extra, state, pod, table))
            self._drop_unless_it_lasts(slot, entry)
            # An entry that is not kept is never repaired, so the next pod must not find it here.
            slot.entry = entry if entry.is_kept else None
        # This is all that a column which is still valid costs. So the positions, which are single numbers, come first.
        elif (
            entry.node_position != table.node_log.position
            or (needs.pods_on_node and entry.pod_position != table.pod_log.position)
            or len(entry.column) != table.capacity
            or not (needs.is_by_row or self._depends_on_rows_alone(entry, needs))
        ):
            self._refresh_kept(slot, entry, state, pod)
            self._drop_unless_it_lasts(slot, entry)
        entry.used = self._refreshes
        return entry

    def _drop_unless_it_lasts(self, slot: Slot, entry: MemoEntry) -> None:
        """Drop an entry whose runner wants to compute it as a whole next time; it is still good for this pod."""
        if entry.is_kept and slot.key is not None and not slot.runner.lasts(entry.extra):
            self.drops += 1
            del self._entries[slot.key]
            self._bytes -= _bytes_of(slot.key, entry)
            entry.is_kept, entry.epoch = False, 0

    def _depends_on_rows_alone(self, entry: MemoEntry, needs: DependencySet) -> bool:
        """Say whether only rows that the logs name can have changed since the entry was brought up to date."""
        if len(entry.column) != self._cache.table.capacity:
            return False
        if needs.is_by_row or (needs.goes_by_objects and entry.object_changes == self._objects.changes):
            return True
        # The count of all changes is read first: if it has not moved, no single counter has.
        object_changes = self._objects.changes
        if entry.versions != self.versions(needs):
            return False
        entry.object_changes = object_changes
        return True

    def _refresh_kept(self, slot: Slot, entry: MemoEntry, state: CycleState, pod: PodInfo) -> None:
        """Bring a kept entry up to date: row by row if few rows have changed and the plugin can be asked about single
        rows.
        """
        table, needs, runner = self._cache.table, slot.dependencies, slot.runner
        # Single rows may be asked about only where nothing but rows can have changed.
        if runner.row_form is not None and self._depends_on_rows_alone(entry, needs):
            rows = self.changed_rows(entry.node_position, entry.pod_position, needs.pods_on_node)
            if rows is not None and len(rows) <= FEW_ROWS:
                self._repair_rows(runner, entry, rows, state, pod)
                entry.node_position, entry.pod_position = table.node_log.position, table.pod_log.position
                return
        self._update(entry, needs, runner.compute(entry.extra, state, pod, table))

    def entry(self, key: MemoKey | None, dependencies: DependencySet, compute: Compute) -> MemoEntry:
        """Return an up-to-date entry: the kept one, repaired or recomputed, or a fresh one that is not kept."""
        if key is None or not self.enabled or not dependencies.is_kept:
            return self._computed(MemoEntry(), (), compute)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._computed(MemoEntry(), self.versions(dependencies), compute)
            # A column is kept from the second request on: pods that are all different would fill the memory with
            # columns that are never used again. One that took a call for each row is worth keeping at once.
            if dependencies.asks_each or self.more_to_come or key in self._seen:
                self._keep(key, entry)
            else:
                self._seen.put(key, True, key.size)
        else:
            self._update(entry, dependencies, compute)
        entry.used = self._refreshes
        return entry

    def facts(self, key: MemoKey) -> Any:
        """Return what is stored with a kept column, or None."""
        entry = self._entries.get(key)
        return None if entry is None else entry.extra

    def changed_rows(self, node_position: int, pod_position: int, with_pods: bool) -> list[int] | None:
        """Return the rows changed after these positions; None if the column is better computed as a whole."""
        return self._changed_rows(node_position, pod_position, with_pods).rows

    def _changed_rows(self, node_position: int, pod_position: int, with_pods: bool) -> "_ChangedRows":
        table = self._cache.table
        now = (table.node_log.position, table.pod_log.position)
        # Entries that were brought up to date together have the same positions, so one answer serves all of them.
        if self._changed_at != now or len(self._changed) > MAX_POSITIONS:
            self._changed_at, self._changed = now, {}
        asked = (node_position, pod_position if with_pods else 0, with_pods)
        found = self._changed.get(asked)
        if found is None:
            rows = self._rows_between(node_position, pod_position, with_pods)
            found = self._changed[asked] = _ChangedRows(rows)
        return found

    def _rows_between(self, node_position: int, pod_position: int, with_pods: bool) -> list[int] | None:
        table = self._cache.table
        changed = (
            rows_since(table.node_log, node_position, table.pod_log, pod_position)
            if with_pods
            else table.node_log.since(node_position)
        )
        return None if changed is None or len(changed) * REPAIR_AT_MOST > table.capacity else changed

    def note_reservation(self, plugin: str) -> None:
        """Note that a plugin's own reservations have changed."""
        self._reservations[plugin] = self._reservations.get(plugin, 0) + 1

    def clear(self) -> None:
        """Forget everything; plans that still hold an entry can tell that it is no longer kept."""
        self.drops += 1
        for entry in self._entries.values():
            entry.drop()
        self._entries.clear()
        self._bytes = 0

    def _keep(self, key: MemoKey, entry: MemoEntry) -> None:
        self.epochs += 1
        entry.is_kept, entry.epoch = True, self.epochs
        self._entries[key] = entry
        self._bytes += _bytes_of(key, entry)
        if self._bytes > self._max_bytes:
            self._drop_oldest(entry)

    def _drop_oldest(self, but: MemoEntry) -> None:
        """Drop the entries that were asked for least recently."""
        self.drops += 1
        for key, entry in sorted(self._entries.items(), key=lambda item: item[1].used):
            # A quarter more than necessary is dropped, since finding the oldest means sorting all entries.
            if self._bytes <= self._max_bytes * 3 // 4:
                break
            # Dropping an entry empties its column, and the caller is about to read the new one.
            if entry is not but:
                del self._entries[key]
                self._bytes -= _bytes_of(key, entry)
                entry.drop()

    def _computed(self, entry: MemoEntry, versions: tuple[int, ...], compute: Compute) -> MemoEntry:
        table = self._cache.table
        before = entry.column.nbytes
        entry.set(*compute(slice(None)))
        entry.versions, entry.object_changes = versions, -1
        if entry.is_kept:
            self.epochs += 1
            entry.epoch = self.epochs
            self._bytes += entry.column.nbytes - before
        # Only now: if the plugin raises, the entry still has its old column at its old positions, and is recomputed on
        # the next request. Nothing is logged meanwhile, since nothing is written while a cycle is open.
        entry.node_position, entry.pod_position = table.node_log.position, table.pod_log.position
        return entry

    def _update(self, entry: MemoEntry, dependencies: DependencySet, compute: Compute) -> None:
        versions = self.versions(dependencies)
        if entry.versions != versions or not self._repaired(entry, dependencies.pods_on_node, compute):
            self._computed(entry, versions, compute)

    def _repaired(self, entry: MemoEntry, with_pods: bool, compute: Compute) -> bool:
        table = self._cache.table
        nodes, pods = table.node_log.position, table.pod_log.position
        if entry.node_position == nodes and (entry.pod_position == pods or not with_pods):
            return True
        found = self._changed_rows(entry.node_position, entry.pod_position, with_pods)
        if found.rows is None:
            return False
        if found.rows:
            changed = found.array()
            entry.repair(changed, *compute(changed))
        entry.node_position, entry.pod_position = nodes, pods
        return True

    def versions(self, dependencies: DependencySet) -> tuple[int, ...]:
        """Return the counters that make an entry stale as a whole when one of them has moved."""
        cache = self._cache
        # The capacity is always among them, as a column has one element for each row of the table.
        if dependencies.is_by_row:
            return (cache.table.capacity,)
        return (
            cache.table.capacity,
            cache.index.version if dependencies.pods_anywhere else 0,
            # Each row's answer depends on all nodes, so a change of one of them makes every row stale.
            cache.table.node_log.position if dependencies.all_nodes else 0,
            self._reservations.get(dependencies.owner, 0) if dependencies.reservations else 0,
            *(self._objects.version(kind) for kind in dependencies.kinds),
        )


def _bytes_of(key: MemoKey, entry: MemoEntry) -> int:
    return ENTRY_BYTES + key.size + entry.column.nbytes
