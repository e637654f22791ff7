"""Running Filter plugins over all nodes: by column where they have one, node by node where not.

Out comes, for each plugin that has something to say, a code for each row; which rows are left follows from them.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.memo import Compute, DependencySet, MemoKey, Memos, Slot, Slots
from berth.engine.memo_entry import ColumnSnapshot, MemoEntry
from berth.engine.sums import Sums
from berth.framework.blame import PluginBrokenError, described
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Codes, FilterColumn, Rows
from berth.framework.promises import UNKNOWN, promises_of
from berth.framework.status import Status, error, is_success, merged
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Mask = NDArray[np.bool_]


class Verdict(NamedTuple):
    """One plugin's codes over all rows (0 fits) at the time it was asked, and what they mean."""

    plugin: str
    column: ColumnSnapshot
    describe: Callable[[int], Status]

    @property
    def codes(self) -> Codes:
        """The codes; do not write to them."""
        return self.column.values()

    def status(self, row: int) -> Status | None:
        """Return what the plugin says of a row; None where the pod fits there."""
        code = int(self.codes[row])
        return self.describe(code).by(self.plugin) if code else None


class FilterRunner:
    """A Filter plugin in column form, whichever form it was written in."""

    __slots__ = ("_compute", "name", "plugin", "row_form", "slots")

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        by_column = hasattr(plugin, "filter_columns")
        self._compute = plugin.filter_columns if by_column else PerNodeFilter(plugin).filter_columns
        promises = promises_of(type(plugin))
        declared = promises.filter_depends_on if by_column else UNKNOWN
        self.row_form = plugin.filter_row if promises.filters_by_row else None
        self.slots = Slots(self, (self.name, "filter"), plugin, DependencySet(declared, self.name))

    def compute(self, extra: Any, state: CycleState, pod: PodInfo, table: NodeTable) -> Compute:
        """Return what asks the plugin about some rows: for codes, and what they mean."""

        def compute(rows: Rows) -> FilterColumn:
            try:
                return self._compute(state, pod, table, rows)
            except Exception as bug:
                raise self.broke(bug) from bug

        return compute

    def note(self, extra: Any, value: int) -> None:
        """Nothing is known of the column as a whole."""

    def broke(self, bug: Exception) -> PluginBrokenError:
        """Return what stands for a bug of the plugin."""
        return PluginBrokenError("Filter", self.name, bug)

    def verdict(self, entry: MemoEntry) -> Verdict:
        """Make what the plugin says of the entry as it stands, and keep it there."""
        verdict = entry.made = Verdict(self.name, entry.snapshot(), entry.extra)
        return verdict


class PerNodeFilter:
    """Gives a plain Filter plugin the column form; equal statuses share a code."""

    __slots__ = ("_plugin",)

    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Ask the plugin about each valid row of `rows`."""
        asked = np.arange(table.capacity)[rows].tolist()
        said = [call_filter(self._plugin, state, pod, table.view(row)) if table.valid[row] else None for row in asked]
        statuses = list(dict.fromkeys(status for status in said if status is not None))
        code_of: dict[Status | None, int] = {status: code for code, status in enumerate(statuses, start=1)}
        codes = np.array([code_of.get(status, 0) for status in said], dtype=np.int32)
        return FilterColumn(codes, lambda code: statuses[code - 1])


def call_filter(plugin: Any, state: CycleState, pod: PodInfo, node: Any) -> Status | None:
    """Ask a plugin about one node; a plugin that breaks says Error, naming itself and the node."""
    try:
        status: Status | None = plugin.filter(state, pod, node)
    except Exception as broken:  # a third-party plugin's bug must not stop the scheduler
        return error(f"plugin {plugin.name!r} failed on node {node.name!r}: {described(broken)}")
    return None if is_success(status) else status


class FilterPlan:
    """Which plugins have something to say of pods of one shape, and where their answers are kept."""

    __slots__ = ("_profile", "_sum_key", "all_lasting", "slots")

    def __init__(self, runners: Sequence[FilterRunner], profile: str, skipped: Set[str], pod: PodInfo) -> None:
        """Make the plan for pods of this pod's shape where these plugins skip."""
        self.slots = [runner.slots.of(profile, pod) for runner in runners if runner.name not in skipped]
        self.all_lasting = all(slot.key is not None for slot in self.slots)
        """Whether the columns of all plugins may be kept."""
        self._profile = profile
        self._sum_key: MemoKey | None = None

    @property
    def sum_key(self) -> MemoKey:
        """Whose mask the columns that are kept make together."""
        if self._sum_key is None:
            self._sum_key = MemoKey("passing", self._profile, *[s.key for s in self.slots if s.key is not None])
        return self._sum_key

    def ask(
        self, memos: Memos, state: CycleState, pod: PodInfo, slots: Sequence[Slot] | None = None
    ) -> list[MemoEntry]:
        """Return an entry for each plugin of the plan (or of some slots of it) with its codes over all nodes."""
        wanted = self.slots if slots is None else slots
        return memos.refresh(wanted, state, pod)[0]


def run_filters(
    plan: FilterPlan, memos: Memos, sums: Sums, state: CycleState, pod: PodInfo, table: NodeTable, searched: Mask
) -> "Verdicts":
    """Ask every plugin of the plan about all nodes."""
    entries = lasting = plan.ask(memos, state, pod)
    if not plan.all_lasting:
        lasting = [entry for slot, entry in zip(plan.slots, entries, strict=True) if slot.key is not None]
    sum_key = plan.sum_key if all([entry.is_kept for entry in lasting]) else None  # noqa: C419 (a list is faster)
    kept_mask = mask = sums.passing(sum_key, lasting)
    if lasting is not entries:
        for slot, entry in zip(plan.slots, entries, strict=True):
            if slot.key is None and entry.has_nonzero():
                mask = mask & (entry.column == 0)
    if searched is not table.valid:
        mask = mask & searched
    verdicts = [entry.made or slot.runner.verdict(entry) for slot, entry in zip(plan.slots, entries, strict=True)]
    return Verdicts(verdicts, searched, mask, sum_key if mask is kept_mask else None)


class Overlay:
    """What is said of rows with nominated pods counted in: the first failing status, or None where the pod fits."""

    __slots__ = ("_fitting", "blocked")

    def __init__(self) -> None:
        self.blocked: list[tuple[Status, NDArray[np.intp]]] = []
        """Statuses with the rows that they are of."""
        self._fitting: list[NDArray[np.intp]] = []

    def add(self, status: Status | None, rows: NDArray[np.intp]) -> None:
        """Note what is said of some rows."""
        if status is None:
            self._fitting.append(rows)
        else:
            self.blocked.append((status, rows))

    def items(self) -> Iterator[tuple[int, Status | None]]:
        """Yield each row with what is said of it."""
        for status, rows in (*self.blocked, *((None, rows) for rows in self._fitting)):
            for row in rows.tolist():
                yield row, status

    def get(self, row: int) -> Status | None:
        """Return what blocks a row, if anything does."""
        return next((status for status, rows in self.blocked if row in rows), None)


class Verdicts:
    """What all Filter plugins say of all rows."""

    __slots__ = ("_passing", "by_plugin", "overlay", "searched", "sum_key", "tells_all")

    def __init__(self, by_plugin: list[Verdict], searched: Mask, passing: Mask, sum_key: MemoKey | None) -> None:
        self.by_plugin = by_plugin
        self.searched = searched
        """The rows that were looked at."""
        self.overlay = Overlay()
        """Rows where nominated pods count."""
        self.sum_key = sum_key
        """Whose kept mask (`Sums.passing`) `passing` is, where it is one as it stands."""
        self.tells_all = False
        """Whether every failing plugin of a row counts, or the first one only."""
        self._passing = passing

    def feasible(self) -> Mask:
        """Return the rows that every plugin passes, nominated pods counted in; do not write to it."""
        if not self.overlay.blocked:
            return self._passing
        mask = self._passing.copy()
        for _, rows in self.overlay.blocked:
            mask[rows] = False
        return mask

    def groups(self) -> list[tuple[Status, NDArray[np.intp]]]:
        """Return the searched rows that fail, grouped by their first failing status, or by all of them merged."""
        left = self.searched.copy()
        found: list[tuple[Status, NDArray[np.intp]]] = []
        for status, rows in self.overlay.blocked:
            failing = rows[left[rows]]
            if len(failing):
                found.append((status, failing))
                left[failing] = False
        return found + (self._merged_groups(left) if self.tells_all else self._first_groups(left))

    def _merged_groups(self, left: Mask) -> list[tuple[Status, NDArray[np.intp]]]:
        rows = np.flatnonzero(left & ~self._passing)
        if not len(rows):
            return []
        patterns, which = np.unique([v.codes[rows] for v in self.by_plugin], axis=1, return_inverse=True)
        found = []
        for index, codes in enumerate(patterns.T.tolist()):
            said = [v.describe(code).by(v.plugin) for v, code in zip(self.by_plugin, codes, strict=True) if code]
            found.append((merged(said), rows[which.ravel() == index]))
        return found

    def _first_groups(self, left: Mask) -> list[tuple[Status, NDArray[np.intp]]]:
        found: list[tuple[Status, NDArray[np.intp]]] = []
        for verdict in self.by_plugin:
            all_codes = verdict.codes
            failing = np.flatnonzero(left & (all_codes != 0))
            codes = all_codes[failing]
            found += [
                (verdict.describe(code).by(verdict.plugin), failing[codes == code])
                for code in np.unique(codes).tolist()
            ]
            left[failing] = False
        return found
