"""Columns: what one plugin answers about every row, for all pods of which it reads the same.

A column is a view (`berth.state.views`) with a journal: it is repaired in place, and each repair first notes what it
overwrites. So a decision can be read later (`ColumnSnapshot`), however often its columns have been repaired since, and
taking a snapshot costs nothing.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from berth.framework.blame import contained
from berth.framework.cycle_state import CycleState
from berth.framework.interface import OverDomains, Rows
from berth.framework.loaded import LoadedPlugin
from berth.framework.promises import NEVER_KEPT, Dependencies, Dependency, Objects
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.views import FEW_ROWS, NODES, PODS, ChangedRows, Memory, View

Values = NDArray[Any]
Asking = tuple[CycleState, PodInfo]
"""What plugins are asked with."""

JOURNAL_AT_MOST = 64
"""After so many repairs, or as many rows as there are, a column goes on as a copy with an empty journal; the old ones
stay as they are for the snapshots that hold them. So a snapshot has at most this many repairs to undo, and a journal is
never much larger than its column."""

NOTHING = np.zeros(0, dtype=np.int64)

Journal = list[tuple[NDArray[np.intp] | int, Any]]
"""The rows of each repair, or its one row, and the values that were there before."""


class ColumnSnapshot(NamedTuple):
    """A column as it was at one moment, however often it has been repaired since.

    Values and journal are the column's own, and the journal is only ever appended to: undoing what was appended after
    the first `repairs` entries, latest first, gives the column of that moment.
    """

    column: Values
    journal: Journal
    repairs: int

    def values(self) -> Values:
        """Return the column as it was; do not write to it."""
        if len(self.journal) == self.repairs:
            return self.column
        column = self.column.copy()
        # Latest first: if a row was repaired more than once, its oldest value is written last and stays.
        for rows, before in reversed(self.journal[self.repairs :]):
            column[rows] = before
        return column


class DomainSnapshot(NamedTuple):
    """A column by domain; it is expanded to rows when read."""

    over: OverDomains

    def values(self) -> Values:
        """Return the column."""
        # "wrap" also takes -1 for the last element, and is twice as fast as checking every index.
        return self.over.values.take(self.over.ids, mode="wrap")


class DependencySet:
    """The dependencies that a plugin declared, as flags that are cheap to check for every pod."""

    __slots__ = (
        "_all_nodes",
        "_kinds",
        "_owner",
        "_pods_anywhere",
        "_reservations",
        "is_by_row",
        "is_kept",
        "is_lasting",
        "pods_on_node",
    )

    def __init__(self, dependencies: Dependencies, owner: str) -> None:
        self._owner = owner
        self.is_kept = not dependencies & NEVER_KEPT
        self.pods_on_node = Dependency.PODS_ON_NODE in dependencies
        self._pods_anywhere = Dependency.PODS_ANYWHERE in dependencies
        self._all_nodes = Dependency.ALL_NODES in dependencies
        self._reservations = Dependency.OWN_RESERVATIONS in dependencies
        self._kinds = tuple(sorted(kind for d in dependencies if isinstance(d, Objects) for kind in d.kinds))
        self.is_by_row = self.is_kept and not (
            self._pods_anywhere or self._all_nodes or self._reservations or self._kinds
        )
        """Whether a row's answer depends on that row alone (and on the pod)."""
        self.is_lasting = self.is_kept and not self._pods_anywhere
        """Whether an answer for all rows usually survives the placing of a pod."""

    @property
    def asks_ahead(self) -> bool:
        """Whether plain answers last long enough to ask for some that a pod does not need: they go by rows and objects
        alone.
        """
        return self.is_kept and not (self._pods_anywhere or self._all_nodes or self._reservations)

    def counters(self, memory: Memory) -> tuple[int, ...]:
        """Return the counters that make all rows stale when one of them has moved."""
        if self.is_by_row:
            return ()
        return (
            memory.pods_anywhere if self._pods_anywhere else 0,
            # Each row's answer depends on all nodes, so a change of one of them makes every row stale.
            memory.nodes if self._all_nodes else 0,
            memory.reservations(self._owner) if self._reservations else 0,
            *map(memory.version_of, self._kinds),
        )


Signature = Callable[[PodInfo], Hashable | None]
"""Returns what a plugin reads of a pod; None if that cannot be said."""


class RowForm(Protocol):
    """Computes the value of one row."""

    def __call__(self, state: CycleState, pod: PodInfo, table: NodeTable, row: int, /) -> int: ...


class Runner(Protocol):
    """Asks one plugin about rows. `row_form`, if the plugin has one, asks about a single row."""

    name: str
    plugin: LoadedPlugin
    row_form: RowForm | None
    signature: Signature | None
    needs: DependencySet

    def ask(self, extra: Any, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> tuple[Values, Any]:
        """Ask the plugin about some rows, or all; return its answers, and what is stored beside the column.

        `extra` is what has been stored there, None where the column is computed as a whole.
        """
        ...

    def note(self, extra: Any, value: int) -> None:
        """Take the new value of a single row into account."""
        ...

    def lasts(self, extra: Any) -> bool:
        """Say whether the answers may be used for another pod, judging by what is stored beside them."""
        ...

    def snapshot(self, column: Values, journal: Journal, repairs: int, extra: Any) -> Any:
        """Return what a decision keeps of the column."""
        ...

    def broke(self, bug: Exception) -> Exception:
        """Return the error that names the plugin as the origin of a bug."""
        ...


class PluginColumn(View):
    """One plugin's answers about all rows, and what its runner stores beside them.

    That is what describes the codes of a filter, or what is known of all scores of a score.
    """

    __slots__ = ("_journal", "_journaled", "column", "extra", "runner", "taken", "wordings")

    taken: Any
    """What `snapshot` returned for the column as it is; None if it was not asked for that."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.wordings = 0
        """How often `extra` has been replaced."""
        self.release()
        super().__init__(follows=PODS if runner.needs.pods_on_node else NODES)

    def counters(self, memory: Memory) -> tuple[int, ...]:
        """Return those that the plugin has declared."""
        needs: DependencySet = self.runner.needs
        return needs.counters(memory)

    def release(self) -> None:
        """Let go of the column; snapshots keep it."""
        self.set(NOTHING, None)

    def nbytes(self) -> int:
        """Return the size of the column."""
        return self.column.nbytes

    def lasts(self) -> bool:
        """Say whether the answers may be used for another pod."""
        is_lasting: bool = self.runner.lasts(self.extra)
        return is_lasting

    def compute_all(self, memory: Memory, asking: Asking) -> None:
        """Ask the plugin about all rows."""
        self.set(*self.runner.ask(None, *asking, memory.table, slice(None)))

    def compute_rows(self, memory: Memory, asking: Asking, rows: ChangedRows) -> bool:
        """Ask the plugin about some rows: one by one if they are few and it can be asked so."""
        runner: Runner = self.runner
        form, (state, pod), table = runner.row_form, asking, memory.table
        if form is None or len(rows.rows) > FEW_ROWS:
            changed = rows.array()
            self.repair(changed, *runner.ask(self.extra, state, pod, table, changed))
            return self.lasts()
        for row in rows.rows:
            try:
                value = form(state, pod, table, row)
            except BaseException as raised:
                bug = contained(raised)
                raise runner.broke(bug) from bug
            if self.repair_row(row, value):
                runner.note(self.extra, value)
        return True

    def snapshot(self) -> Any:
        """Return the column as it is now: always the same object, until it changes."""
        if self.taken is None:
            self.taken = self.runner.snapshot(self.column, self._journal, len(self._journal), self.extra)
        return self.taken

    def set(self, column: Values, extra: Any) -> None:
        """Set a column that was computed as a whole; snapshots keep the old one and its journal."""
        self.column, self.extra = column, extra
        self.wordings += 1
        self._journal: Journal = []
        self._journaled = 0
        """How many rows the journal holds."""
        self.taken = None

    def repair(self, rows: NDArray[np.intp], values: Values, extra: Any) -> None:
        """Write new values to some rows, remembering the old ones."""
        self._journaled += len(rows)
        if len(self._journal) >= JOURNAL_AT_MOST or self._journaled > len(self.column):
            self.column, self._journal, self._journaled = self.column.copy(), [], len(rows)
        # The old values go to the journal before they are overwritten; snapshots rely on it, as they hold this column.
        self._journal.append((rows, self.column[rows]))
        self.column[rows] = values
        self.extra = extra
        self.wordings += 1
        self.taken = None

    def repair_row(self, row: int, value: int) -> bool:
        """Write a value to one row, remembering the old one; say whether it is another."""
        before = self.column.item(row)
        if before == value:
            return False
        self._journaled += 1
        # `_journaled` need not be looked at here: single rows add no more than `JOURNAL_AT_MOST` to it.
        if len(self._journal) >= JOURNAL_AT_MOST:
            self.column, self._journal, self._journaled = self.column.copy(), [], 1
        self._journal.append((row, before))
        self.column[row] = value
        self.taken = None
        return True


def column_of(memory: Memory, runner: Runner, pod: PodInfo) -> PluginColumn | None:
    """Return a plugin's column for pods of this pod's shape; None if it has to be asked about each pod.

    Plans share a column if the plugin reads the same of their pods.
    """
    signature = runner.signature
    fragment = None if signature is None or pod.shape.is_large else signature(pod)
    if fragment is None:
        return None
    key = runner, fragment
    found: PluginColumn | None = memory.get(key)
    return memory.add(key, PluginColumn(runner), pod.shape.size) if found is None else found


def signature_of(plugin: LoadedPlugin, needs: DependencySet) -> Signature | None:
    """Return what says which pods a column is for; None if a plugin has to be asked about each pod.

    Without a signature, nothing says which other pods an answer holds for. And it is no use keeping a column that every
    placed pod makes stale as a whole.
    """
    return plugin.signature.signature if plugin.signature is not None and needs.is_lasting else None
