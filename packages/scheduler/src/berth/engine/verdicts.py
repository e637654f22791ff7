"""Runs Filter plugins over all nodes and reads their answers: the one place that decides why a node is ruled out.

A plugin answers with a code for each row, 0 if the pod fits, by column if it can and otherwise node by node. Both are
cached if it declares what its answers depend on. `run_filters` asks all of them and returns `Verdicts`, which live as
long as the cycle. `Findings` is the part that outlives it, for the trace.

`rejected_rows` alone decides which plugin rejects a row. The diagnosis (condition, event, wake-ups), the trace and its
explanations, what-ifs and the answers to another scheduler are all built on it, so they cannot name different plugins.
For pods that are alike the diagnosis takes the result from the cache in `rejections.py`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.engine.columns import (
    ColumnSnapshot,
    DependencySet,
    DomainSnapshot,
    Journal,
    RowForm,
    Values,
    column_of,
    signature_of,
)
from berth.engine.node_kinds import NodeKinds
from berth.engine.rejections import Rejections
from berth.engine.sums import MaskSource, passing
from berth.framework.blame import PluginBrokenError, contained, described, origin_of
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import CountedRejections, RejectedNodes
from berth.framework.interface import Codes, DomainCodes, FilterColumn, FilterPlugin, RowArray, Rows
from berth.framework.loaded import LoadedPlugin
from berth.framework.status import Status, error, is_success, merged
from berth.framework.work_budget import STEPS_PER_NODE, OutOfBudgetError
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth.state.views import NEVER, Memory

Mask = NDArray[np.bool_]

REASONS_AT_MOST = 512
"""A column of plain answers is kept if it has no more different statuses than this."""


class Verdict(NamedTuple):
    """One plugin's codes over all rows (0: fits) at the time it was asked, and what they mean.

    Codes mean nothing without the `describe` that came with them: a plugin numbers its reasons anew for each pod. The
    codes are a snapshot, so they stay as they were however often the cached column is repaired.
    """

    plugin: str
    column: ColumnSnapshot | DomainSnapshot
    describe: Callable[[int], Status]

    @property
    def codes(self) -> Codes:
        """The codes, int32 of shape (rows of the table,); do not write to them."""
        return self.column.values()

    @property
    def said(self) -> tuple[str, FilterColumn]:
        """The plugin's name, with its codes over all rows."""
        return self.plugin, FilterColumn(self.codes, self.describe)

    def fits(self) -> Mask:
        """Return by row, bool of shape (rows of the table,), whether the pod fits."""
        fits: Mask
        if isinstance(self.column, DomainSnapshot):
            over = self.column.over
            fits = (over.values == 0).take(over.ids, mode="wrap")
        else:
            fits = self.codes == 0
        return fits

    @property
    def rejects(self) -> bool:
        """Whether it rejects any row, or any domain, even one without nodes."""
        if isinstance(self.column, DomainSnapshot):
            return bool(np.count_nonzero(self.column.over.values[:-1]))
        return bool(self.codes.any())

    def status(self, row: int) -> Status | None:
        """Return the plugin's status for a row; None if the pod fits there."""
        code = int(self.codes[row])
        return self.describe(code).by(self.plugin) if code else None


def rejected_rows(
    among: Mask,
    said: Iterable[tuple[str, FilterColumn]],
    overlay: Iterable[RejectedNodes] = (),
    *,
    merges: bool = False,
) -> Iterator[RejectedNodes]:
    """Yield the rejected rows of a mask, grouped by the status that counts there; each row is in at most one group.

    On each row the first rejection counts, and the overlay's comes before all others. If it has none, the first plugin
    of `said` that rejects the row counts or, with `merges`, all of them together. Source:
    pkg/scheduler/framework/runtime/framework.go, RunFilterPluginsWithNominatedPods; alwaysCheckAllPredicates in v1.20.

    `said` holds the plugins in the order of the profile, with codes over the rows of `among`, and is read only while
    rows are left.
    """
    # kube-scheduler runs the filters twice where pods are nominated to a node, with these pods counted in and then
    # without, and stops at the first failure of the first run. So what the overlay says of a row comes before
    # everything in `said`, whatever the order of the plugins.
    left = among.copy()
    for status, rows in overlay:
        failing = rows[left[rows]]
        if len(failing):
            yield RejectedNodes(status, failing)
            left[failing] = False
    yield from _by_all(left, tuple(said)) if merges else _by_first(left, said)


def _by_first(left: Mask, said: Iterable[tuple[str, FilterColumn]]) -> Iterator[RejectedNodes]:
    """Group rows by the first plugin that rejects them; `left` is written to."""
    for plugin, column in said:
        failing = np.flatnonzero(left & (column.codes != 0))
        if not len(failing):
            continue
        codes = column.codes[failing]
        first = codes.item(0)
        if (codes == first).all():  # what most plugins have to say is one thing, and finding that costs least
            yield RejectedNodes(column.describe(first).by(plugin), failing)
        else:
            # By ascending code, the order that `rejections._statuses` follows as well. The sort is stable, so rows stay
            # ascending, and it avoids a pass over all rows for each code: a plugin may have one for each node.
            order = np.argsort(codes, kind="stable")
            codes = codes[order]
            for rows in np.split(failing[order], np.flatnonzero(np.diff(codes)) + 1):
                yield RejectedNodes(column.describe(column.codes.item(rows[0])).by(plugin), rows)
        left[failing] = False
        # The next column may not have been computed yet (`WhatIf.loaded_columns`), and there is no row left to ask
        # about.
        if not left.any():
            return


def _by_all(left: Mask, said: Sequence[tuple[str, FilterColumn]]) -> Iterator[RejectedNodes]:
    """Group rows by everything said about them, as one status: rows with the same codes share it."""
    if not said:
        return
    rows = np.flatnonzero(left)
    codes = np.array([column.codes[rows] for _, column in said])
    fails = codes.any(axis=0)
    rows, codes = rows[fails], codes[:, fails]
    if not len(rows):
        return
    patterns, which = np.unique(codes, axis=1, return_inverse=True)
    for index, pattern in enumerate(patterns.T.tolist()):
        by_plugin = zip(said, pattern, strict=True)
        statuses = [column.describe(code).by(plugin) for (plugin, column), code in by_plugin if code]
        # Some releases of NumPy 2 give the inverse along an axis two dimensions; flattened, both are the same.
        yield RejectedNodes(merged(statuses), rows[which.ravel() == index])


class FilterRunner:
    """A Filter plugin in column form, whichever form it was written in."""

    __slots__ = (
        "_columns",
        "_kinds",
        "domain_form",
        "name",
        "needs",
        "node_calls",
        "plain",
        "plugin",
        "row_form",
        "signature",
    )

    def __init__(self, plugin: LoadedPlugin) -> None:
        assert plugin.filter is not None, f"{plugin.name} is not run at Filter: it has no plain form"
        self.plugin = plugin
        self.plain = plugin.filter
        self.name = plugin.name
        self.node_calls = 0
        """How often the plain form was asked about a node, what-ifs left out."""
        columns = plugin.filter_columns
        self._columns = None if columns is None else columns.filter_columns
        self.row_form: RowForm | None = None if plugin.filter_row is None else plugin.filter_row.filter_row
        self.domain_form = None if plugin.filter_domains is None else plugin.filter_domains.filter_domains
        self._kinds = None if plugin.node_signature is None else NodeKinds(plugin.node_signature)
        self.needs = DependencySet(plugin.promises.filter_depends_on, self.name)
        self.signature = signature_of(plugin, self.needs)

    def ask(self, extra: Any, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Ask the plugin about some rows, for codes and what they mean."""
        try:
            if self._columns is None:
                return self._plain_column(extra, state, pod, table, rows)
            return self._columns(state, pod, table, rows)
        except BaseException as raised:
            bug = contained(raised)
            raise self.broke(bug) from bug

    def _plain_column(
        self, reasons: "PlainReasons | None", state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows
    ) -> FilterColumn:
        """Ask about nodes one by one, all of them or an array of rows; `reasons` are those of their column."""
        if reasons is None or isinstance(rows, slice):  # a whole column has codes of its own
            reasons = PlainReasons()
        positions = np.arange(table.capacity) if isinstance(rows, slice) else rows
        codes = np.zeros(len(positions), dtype=np.int32)
        places = table.valid[positions].nonzero()[0]
        asked: RowArray = positions[places]
        which: RowArray | slice = slice(None)
        if self._kinds is not None:
            asked, which = self._kinds.among(table, asked)
        # Paid before the first call, so that an attempt that cannot afford all nodes does not begin with them.
        state.work.spend(self.name, STEPS_PER_NODE * len(asked), lambda: "which filters node by node")
        self.node_calls += len(asked)
        broken = BrokenOnNodes(self.name)
        said: list[int] = []
        for row in asked.tolist():
            view = table.view(row)
            try:
                status = self.plain.filter(state, pod, view)
            # No bug on this node: the budget is the attempt's, which now ends.
            except OutOfBudgetError:
                raise
            except Exception as bug:  # a third-party plugin's bug must not stop the scheduler
                status = broken.on(view.name, bug)
                reasons.has_broken = True
            said.append(0 if status is None or is_success(status) else reasons.code_of(status))
        # A row without a node passes here; `Sums.passing` leaves it out.
        codes[places] = np.array(said, dtype=np.int32)[which]
        return FilterColumn(codes, reasons)

    def lasts(self, extra: Any) -> bool:
        """Say whether a column may be used again: plain answers only if they are few and nothing raised."""
        return self._columns is not None or extra is None or extra.lasts

    def of_pod(self, state: CycleState, pod: PodInfo, table: NodeTable, *, by_domain: bool) -> "Verdict":
        """Ask about all rows for one pod alone; `by_domain`, if the plugin answers so."""
        if by_domain and self.domain_form is not None:
            codes = self.over_domains(state, pod)
            if codes is not None:
                return Verdict(self.name, DomainSnapshot(codes.codes), codes.describe)
        column, describe = self.ask(None, state, pod, table, slice(None))
        return self.snapshot(column, [], 0, describe)

    def over_domains(self, state: CycleState, pod: PodInfo) -> DomainCodes | None:
        """Return the plugin's answer for whole domains; None if it does not answer by domain."""
        assert self.domain_form is not None
        try:
            return self.domain_form(state, pod)
        except BaseException as raised:
            bug = contained(raised)
            raise self.broke(bug) from bug

    def note(self, extra: Any, value: int) -> None:
        """Do nothing: unlike with scores, no facts are kept about the column as a whole."""

    def snapshot(self, column: Values, journal: Journal, repairs: int, extra: Any) -> "Verdict":
        """Return the plugin's verdict: its column as it is."""
        return Verdict(self.name, ColumnSnapshot(column, journal, repairs), extra)

    def broke(self, bug: Exception) -> PluginBrokenError:
        """Return the error that names the plugin as the origin of a bug."""
        return PluginBrokenError("Filter", self.name, bug)


class PlainReasons:
    """The statuses that a plain filter has given to the nodes of one column, each under a code of its own.

    A code keeps its meaning for as long as the column is repaired, so that the codes of all rows agree.
    """

    __slots__ = ("_codes", "_statuses", "has_broken")

    def __init__(self) -> None:
        self._codes: dict[Status, int] = {}
        self._statuses: list[Status] = []
        self.has_broken = False
        """Whether the plugin raised on a node: then it has to be asked again, since next time it may not raise."""

    def __call__(self, code: int) -> Status:
        """Return what a code means."""
        return self._statuses[code - 1]

    def code_of(self, status: Status) -> int:
        """Return the code of a status, a new one if necessary."""
        code = self._codes.get(status)
        if code is None:
            self._statuses.append(status)
            code = self._codes[status] = len(self._statuses)
        return code

    @property
    def lasts(self) -> bool:
        """Whether the column may be kept: a plugin may give a different reason for every node, every time."""
        return not self.has_broken and len(self._statuses) <= REASONS_AT_MOST


class BrokenOnNodes:
    """The status of nodes on which a plugin raised: one for all on which it raised in the same way.

    Describing an exception takes far longer than most filters, so only the first of a kind is described. A plugin that
    raises on each of thousands of nodes costs one description, and gives one reason.
    """

    __slots__ = ("_first", "_plugin")

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._first: dict[Hashable, Status] = {}

    def on(self, node_name: str, bug: Exception) -> Status:
        """Return the status of a node on which the plugin raised; it names the first such node."""
        origin = origin_of(bug)
        found = self._first.get(origin)
        if found is None:
            found = self._first[origin] = _broken_on(self._plugin, node_name, bug)
        return found


def _broken_on(plugin: str, node_name: str, bug: Exception) -> Status:
    return error(f"plugin {plugin!r} failed on node {node_name!r}: {described(bug)}")


def call_filter(plugin: FilterPlugin, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
    """Ask a plugin about one node; if it raises, the status is an error that names the plugin and the node."""
    try:
        status = plugin.filter(state, pod, node)
    except OutOfBudgetError:
        raise
    except BaseException as raised:  # a third-party plugin's bug must not stop the scheduler
        return _broken_on(plugin.name, node.name, contained(raised))
    return None if is_success(status) else status


class FilterPlan:
    """Which plugins filter pods of one shape, and the views of their answers."""

    __slots__ = ("_memory", "_rejections", "all_kept", "asked", "beside_rows", "columns", "kept", "passing", "runners")

    def __init__(self, memory: Memory, runners: Sequence[FilterRunner], skipped: Set[str], pod: PodInfo) -> None:
        """Make the plan for pods of this pod's shape where these plugins skip."""
        self._memory = memory
        self.runners = [runner for runner in runners if runner.name not in skipped]
        self.columns = [column_of(memory, runner, pod) for runner in self.runners]
        """Their columns; None where a plugin is asked about each pod."""
        self.asked = [place for place, column in enumerate(self.columns) if column is None]
        """The places of those that are."""
        self.kept = tuple([column for column in self.columns if column is not None])
        self.all_kept = not self.asked
        self.passing = passing(memory, self.kept)
        """The rows that pass all plugins that have a column."""
        self.beside_rows = tuple(runner.needs for runner in self.runners if not runner.needs.is_by_row)
        """What the plugins whose answers depend on more than rows depend on."""
        self._rejections: Rejections | None = None

    @property
    def rejections(self) -> Rejections:
        """Which of the plugins that have a column rejects each row."""
        if self._rejections is None:
            self._rejections = self._memory.view((Rejections, self.kept), lambda: Rejections(self.kept))
        return self._rejections

    def counted(self, state: CycleState, pod: PodInfo) -> CountedRejections:
        """Return what the first plugin that has a column and rejects a row says of it."""
        return self._memory.bring(self.rejections, (state, pod)).counted()


def run_filters(
    plan: FilterPlan,
    memory: Memory,
    state: CycleState,
    pod: PodInfo,
    searched: Mask,
    *,
    merges: bool = False,
) -> "Verdicts":
    """Ask every plugin of the plan about all nodes; `merges` is the profile's `checks_all_filters`."""
    table = memory.table
    view = memory.bring(plan.passing, (state, pod))
    mask = view.mask
    verdicts: list[Any] = [None if c is None else c.taken or c.snapshot() for c in plan.columns]
    narrowed: list[Verdict] = []
    for place in plan.asked:
        verdict = verdicts[place] = plan.runners[place].of_pod(state, pod, table, by_domain=memory.enabled)
        if verdict.rejects:
            narrowed.append(verdict)
            # Not `&=`, here and below: `mask` may be the one that is kept, which the next replica uses.
            mask = mask & verdict.fits()
    if searched is not table.valid:
        mask = mask & searched
    found = Verdicts(verdicts, searched, mask, merges=merges)
    # What is derived from columns that must be asked for again must not be kept.
    if searched is table.valid and memory.enabled and view.verified != NEVER:
        if not narrowed:
            found.source = MaskSource(view, None)
            if not merges:
                # All that reject anything here have columns; plans that share these may differ in the others.
                found.kept = plan, state, pod
        elif len(narrowed) == 1 and isinstance(narrowed[0].column, DomainSnapshot):
            found.source = MaskSource(view, narrowed[0].column.over)
    return found


class Findings(NamedTuple):
    """The answers about the rows of a table, in a form that stays true after the cycle.

    It holds snapshots and arrays of its own, never a column or mask that is repaired in place. The caller says which
    rows to read: which of them held nodes is remembered elsewhere.
    """

    by_plugin: Sequence[Verdict] = ()
    """The filters that did not skip, in the order of the profile."""
    overlay: Sequence[RejectedNodes] = ()
    """What rejects rows with nominated pods counted in (`Profile.run_filter`); each row occurs at most once."""
    merges: bool = False
    """Whether every filter that rejects a row counts, or the first one only."""

    def rejected(self, among: Mask) -> Iterator[RejectedNodes]:
        """Yield the rejected rows of a mask, grouped by the status that counts there."""
        return rejected_rows(among, (verdict.said for verdict in self.by_plugin), self.overlay, merges=self.merges)

    def passing(self, among: Mask) -> Mask:
        """Return the rows of a mask that every plugin passes, nominated pods counted in; the caller may write to it."""
        mask = among.copy()
        for verdict in self.by_plugin:
            mask &= verdict.codes == 0
        for _, rows in self.overlay:
            mask[rows] = False
        return mask

    def statuses(self, row: int) -> list[Status]:
        """Return every status against a row, plugin by plugin, each once; those caused by nominated pods come first.

        The first of them is the one that counts for the row or, with `merges`, a part of it.
        """
        said = [status for status, rows in self.overlay if row in rows]
        said += [status for verdict in self.by_plugin if (status := verdict.status(row)) is not None]
        return list(dict.fromkeys(said))


class Verdicts:
    """What all Filter plugins say about all rows, for use within the cycle: the masks are the live ones."""

    __slots__ = ("_merges", "by_plugin", "kept", "overlay", "passing", "searched", "source")

    def __init__(self, by_plugin: Sequence[Verdict], searched: Mask, passing: Mask, *, merges: bool = False) -> None:
        self.by_plugin = by_plugin
        self.searched = searched
        """The rows that were looked at."""
        self.overlay: Sequence[RejectedNodes] = ()
        """What rejects rows with nominated pods counted in. Filled in by the profile if there are such pods."""
        self.source: MaskSource | None = None
        """Where `passing` comes from, if it is a view's mask, or one minus whole domains."""
        self.kept: tuple[FilterPlan, CycleState, PodInfo] | None = None
        """The plan and what was asked, if only plugins that have a column reject anything."""
        self._merges = merges
        self.passing = passing
        """The rows that every plugin passes as they are, nominated pods left out; do not write to it."""

    @property
    def findings(self) -> Findings:
        """What was said, without the masks that the next cycle may change."""
        return Findings(self.by_plugin, self.overlay, self._merges)

    def feasible(self) -> Mask:
        """Return the rows that every plugin passes, nominated pods counted in; do not write to it."""
        if not self.overlay:
            return self.passing
        mask = self.passing.copy()
        for _, rows in self.overlay:
            mask[rows] = False
        return mask

    def rejected(self) -> Iterator[RejectedNodes]:
        """Yield the searched rows that fail, grouped by the status that counts there."""
        return self.findings.rejected(self.searched)

    def counted(self) -> CountedRejections | None:
        """Return what `rejected` yields as one value, which pods that are alike share if it is cached; to be called at
        once.
        """
        if self.kept is None or self.overlay:
            return None
        plan, state, pod = self.kept
        return plan.counted(state, pod)
