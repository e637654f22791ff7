"""A profile: the plugins of one scheduler name, in order, and how each extension point is run.

Made once from the configuration (`build.py`); called by the cycle. Statuses come back marked with their plugin. Points
that run over all nodes live in `verdicts.py` and `scores.py`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np
from msgspec.structs import force_setattr

from berth.config.types import ExtensionPoint as Point
from berth.engine.nominated_load import RivalLoad, nominated_load
from berth.engine.overlays import Overlay
from berth.engine.point_runner import PointRunner
from berth.engine.preparation import Answer, Preparation, Promised
from berth.engine.promise_check import PromiseCheck
from berth.engine.scores import Scored, ScorePlan, Shares, run_score
from berth.engine.sums import UNRANKED, BestRows, MaskSource, Ranked, Ranking
from berth.engine.verdicts import FilterPlan, Mask, Verdicts, call_filter, run_filters
from berth.engine.what_if import RowArray, WhatIf
from berth.framework.blame import PluginBrokenError, ask, blamed, contained, described
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import RejectedNodes
from berth.framework.extenders import Extender
from berth.framework.health import PluginHealth
from berth.framework.interface import (
    MAX_PERMIT_TIMEOUT_S,
    FeasibleNodes,
    NormalizePlacementScorePlugin,
    PermitPlugin,
    PlacementScorePlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ReservePlugin,
)
from berth.framework.loaded import LoadedPlugin
from berth.framework.readers import NominationReader
from berth.framework.status import Code, Status, error, is_success, merged, unresolvable
from berth.framework.work_budget import steps_to_filter
from berth.state.node_view import NodeView
from berth.state.pod_info import PodFamily, PodInfo
from berth.state.table import NodeTable
from berth.state.views import Memory

WITH_NOMINATED = "filters beside nominated pods"
"""The spender in the work budget for asking about single nodes with nominated pods counted in."""
FEW_ROWS = 3
"""Up to this many rows with rivals are asked about one by one, which is cheaper than the fixed cost of columns."""


class PreFiltered(NamedTuple):
    """The result of PreFilter: a rejection, if any, and the only nodes to look at, with the plugins that named them."""

    status: Status | None
    node_names: frozenset[str] | None
    """The only nodes to look at, as far as they exist; None for all."""
    narrowing_plugins: tuple[str, ...]
    """The plugins that named nodes, sorted."""

    @property
    def absent_status(self) -> Status | None:
        """The status of the nodes that Filter does not look at; None if it looks at all of them."""
        if self.status is not None or self.node_names is None:
            return self.status
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(self.narrowing_plugins)}]")


EVERYWHERE = PreFiltered(None, None, ())
"""PreFilter left all nodes."""


class Permitted(NamedTuple):
    """The result of Permit: None to go on, a rejection, or Wait, with each plugin's timeout in seconds and its
    message.
    """

    status: Status | None
    timeouts_s: Mapping[str, float]
    words: Mapping[str, str] = MappingProxyType({})


class PlacementScorer(NamedTuple):
    """A PlacementScore plugin of a profile, with its weight and, if it has one, its normalizer to 0 to 100."""

    plugin: PlacementScorePlugin
    weight: int
    normalize: NormalizePlacementScorePlugin | None


Present = TypeVar("Present", bound=Plugin)


class PointPlugins(Generic[Present]):
    """The plugins of a point, and which of them run for a pod: those that skipped it are left out."""

    __slots__ = ("_active", "idle_after_skip", "plugins")

    def __init__(self, plugins: tuple[Present, ...], idle_after_skip: frozenset[str]) -> None:
        self.plugins = plugins
        self.idle_after_skip = idle_after_skip
        self._active: dict[frozenset[str], tuple[Present, ...]] = {}

    def active(self, state: CycleState) -> tuple[Present, ...]:
        """Return the plugins to ask about the pod of this state, in order."""
        idle = self.idle_after_skip & state.skip_filter
        if not idle:
            return self.plugins
        found = self._active.get(idle)
        if found is None:
            found = self._active[idle] = tuple(plugin for plugin in self.plugins if plugin.name not in idle)
        return found


def _present(forms: Iterable[Present | None]) -> tuple[Present, ...]:
    """Return the plugins that have such a form."""
    return tuple(plugin for plugin in forms if plugin is not None)


def _without(plugins: tuple[Present, ...], state: CycleState) -> tuple[Present, ...]:
    """Return the plugins that have not been taken out."""
    out = state.taken_out
    return tuple(plugin for plugin in plugins if plugin.name not in out) if out else plugins


class Standing(NamedTuple):
    """A decision that is the best rows of a view."""

    pod: PodInfo
    state: CycleState
    shares: Shares
    epoch: int
    """That of the shares: as long as it is the same, the same columns count as they are."""
    ranked: Ranked


class Profile:
    """The plugins of one scheduler name."""

    def __init__(
        self,
        name: str,
        points: Mapping[Point, tuple[tuple[LoadedPlugin, int], ...]],
        memos: Memory,
        nominator: NominationReader,
        percentage_of_nodes_to_score: int | None = None,
        extenders: Sequence[Extender] = (),
        *,
        checks_all_filters: bool = False,
        runner: PointRunner,
        optional: Sequence[PluginHealth] = (),
        promise_check: PromiseCheck | None = None,
    ) -> None:
        """`optional` has the plugins that may be taken out for a while."""
        self.name = name
        self.promise_check = promise_check
        """Holds plugins to their promises, if wanted."""
        self._optional = tuple(optional)
        self.runner = runner
        """Runs the points, including those whose loops are elsewhere, and may tell an observer how long they take."""
        self.extenders = tuple(extenders)
        """The extenders, asked after the plugins in this order; the same for all profiles."""
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.checks_all_filters = checks_all_filters
        """Whether a node's verdict names all filters that reject it, or the first."""
        self.memos = memos
        self.nominator = nominator
        self._latest: Standing | None = None

        def at(point: Point) -> list[LoadedPlugin]:
            return [plugin for plugin, _ in points.get(point, ())]

        by_name = {plugin.name: plugin for point in Point for plugin in at(point)}
        self.plugins = tuple(by_name.values())
        """Every plugin once, in the order of the points and within each."""
        self.queue_sort = next(iter(at(Point.QUEUE_SORT)), None)
        """The plugin that orders the queue; every profile of a configuration has one, and it is the same in all."""
        idle = frozenset(plugin.name for plugin in self.plugins if plugin.promises.idle_after_skip)
        self.pre_enqueue = _present(plugin.pre_enqueue for plugin in at(Point.PRE_ENQUEUE))
        self.pre_filter = _present(plugin.pre_filter for plugin in at(Point.PRE_FILTER))
        self.pre_filter_extensions = _present(plugin.pre_filter_extensions for plugin in at(Point.PRE_FILTER))
        self.filters = [runner.filter_runner(plugin) for plugin in at(Point.FILTER)]
        self.post_filter = _present(plugin.post_filter for plugin in at(Point.POST_FILTER))
        self.pod_group_post_filter = _present(plugin.pod_group_post_filter for plugin in at(Point.POST_FILTER))
        self.narrowing = _present(plugin.narrow for plugin in at(Point.PRE_SCORE))
        self.pre_score = _present(plugin.pre_score for plugin in at(Point.PRE_SCORE))
        self.scorers = [runner.score_runner(plugin, weight or 1) for plugin, weight in points.get(Point.SCORE, ())]
        self._reserve = PointPlugins(_present(plugin.reserve for plugin in at(Point.RESERVE)), idle)
        self.permit = _present(plugin.permit for plugin in at(Point.PERMIT))
        self.plugins_that_permit_groups = frozenset(p.name for p in at(Point.PERMIT) if p.promises.permits_groups)
        """By name, those whose Wait means that too few members of a group have a place."""
        self._pre_bind = PointPlugins(_present(plugin.pre_bind for plugin in at(Point.PRE_BIND)), idle)
        pre_flights = _present(plugin.pre_bind_pre_flight for plugin in at(Point.PRE_BIND))
        self.pre_flights = {plugin.name: plugin for plugin in pre_flights}
        self.bind = _present(plugin.bind for plugin in at(Point.BIND))
        self.post_bind = _present(plugin.post_bind for plugin in at(Point.POST_BIND))
        is_plain = len(self.bind) == 1 and all(plugin.promises.binds_plainly for plugin in at(Point.BIND))
        self._binds_plainly = is_plain and not (self.permit or self.post_bind or self.extenders)
        self.placement_generate = _present(plugin.placement_generate for plugin in at(Point.PLACEMENT_GENERATE))
        self.placement_scorers = tuple(
            PlacementScorer(plugin.placement_score, weight or 1, plugin.normalize_placement_scores)
            for plugin, weight in points.get(Point.PLACEMENT_SCORE, ())
            if plugin.placement_score is not None
        )
        self._pre_filter_promises = {plugin.name: Promised.of_pre_filter(plugin) for plugin in self.plugins}
        self._pre_score_promises = {plugin.name: Promised.of_pre_score(plugin) for plugin in self.plugins}

    def reserve(self, state: CycleState) -> tuple[ReservePlugin, ...]:
        """Return the Reserve plugins except those that skip this pod."""
        return self._reserve.active(state)

    def pre_bind(self, state: CycleState) -> tuple[PreBindPlugin, ...]:
        """Return the PreBind plugins except those that skip this pod."""
        return self._pre_bind.active(state)

    def binds_plainly(self, state: CycleState) -> bool:
        """Say whether a pod with a node needs nothing but its Binding: no plugin acts before or after that."""
        return self._binds_plainly and not self.reserve(state) and not self.pre_bind(state)

    def run_pre_enqueue(self, pod: PodInfo, first: str = "") -> Status | None:
        """Return the first rejection of PreEnqueue, or None; the plugin named `first` is asked before the others."""
        self.runner.pre_enqueue_begins()
        return self.runner.run("PreEnqueue", self._pre_enqueued, pod, first)

    def _pre_enqueued(self, pod: PodInfo, first: str) -> Status | None:
        plugins = self.pre_enqueue
        # False sorts before True and sorting is stable, so the others stay in the profile's order.
        for plugin in sorted(plugins, key=lambda plugin: plugin.name != first) if first else plugins:
            try:
                status = plugin.pre_enqueue(pod)
            except BaseException as raised:  # a third-party plugin's bug must not lose the pod
                broken = contained(raised)
                status = error(f"plugin {plugin.name!r} failed: {described(broken)}")
            if status is not None and not is_success(status):
                return status.by(plugin.name)
        return None

    def run_pre_filter(self, state: CycleState, pod: PodInfo) -> PreFiltered:
        """Run PreFilter; plugins that skip are left out of Filter, narrowings are intersected."""
        self.memos.begin_turn()
        self.runner.attempt_begins(state)
        found = self.runner.run("PreFilter", self._pre_filtered, state, pod)
        ended = None if found.status is None or found.status.code is Code.UNSCHEDULABLE else found.status
        self.runner.asked("PreFilter", self.pre_filter, state.skip_filter, ended)
        return found

    def _pre_filtered(self, state: CycleState, pod: PodInfo) -> PreFiltered:
        rejection: Status | None = None
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        if self._optional:
            force_setattr(state, "taken_out", frozenset(health.name for health in self._optional if health.is_out()))
            force_setattr(state, "skip_filter", state.skip_filter | state.taken_out)
        # Answers must not be kept while a plugin is taken out, so nothing is prepared meanwhile.
        prepared = (
            None
            if state.taken_out
            else self._prepared(
                Point.PRE_FILTER, self.pre_filter, self._pre_filter_promises, pod, lambda p: _pre_filter(p, state, pod)
            )
        )
        if prepared is not None:
            force_setattr(state, "skip_filter", state.skip_filter | prepared.skipped)
        for plugin in _without(self.pre_filter, state) if prepared is None else prepared.to_ask:
            answer = _pre_filter(plugin, state, pod)
            if isinstance(answer, PreFilterResult):
                if answer.node_names is None:
                    continue
                narrowing.append(plugin.name)
                names = answer.node_names if names is None else names & answer.node_names
                if not names:
                    return PreFiltered(_nothing_left(sorted(narrowing)), names, tuple(sorted(narrowing)))
            elif answer is not None and answer.code is Code.SKIP:
                force_setattr(state, "skip_filter", state.skip_filter | {plugin.name})
                if prepared is not None:
                    prepared.note_skip(plugin, pod)
            elif answer is not None and not is_success(answer):
                rejection = answer.by(plugin.name)
                # After Unschedulable the others still run: PostFilter needs the states that they prepare, and any of
                # them may yet find that preemption would not help.
                if rejection.code is not Code.UNSCHEDULABLE:  # ends PreFilter, whichever plugin narrowed before
                    return PreFiltered(rejection, None, ())
        return PreFiltered(rejection, names, tuple(sorted(narrowing))) if narrowing or rejection else EVERYWHERE

    def run_filter(self, state: CycleState, pod: PodInfo, table: NodeTable, searched: Mask) -> Verdicts:
        """Ask every Filter plugin that did not skip about all nodes, then, where there are nominated pods, once more
        with these counted in.
        """
        plan = self._filter_plan(state, pod)
        verdicts = run_filters(plan, self.memos, state, pod, searched, merges=self.checks_all_filters)
        rivals = self.rivals(pod)
        if rivals is not None:
            verdicts.overlay = self._overlay_of(searched, rivals, state, pod, table)
        self.runner.asked_about_nodes(verdicts, table.node_log.position)
        if self.promise_check is not None:
            self.promise_check.filtered(self.name, plan.runners, plan.columns, state, pod, table)
        return verdicts

    def run_narrow(
        self, state: CycleState, pod: PodInfo, feasible: Mask, names: frozenset[str] | None = None
    ) -> tuple[Mask, tuple[RejectedNodes, ...]]:
        """Let plugins keep some of the feasible nodes; return what is left, and what they left out.

        A plugin that would keep none keeps all. With `names`, only those plugins are asked.
        """
        left_out: list[RejectedNodes] = []
        for plugin in self.narrowing if self.narrowing and feasible.any() else ():
            if names is not None and plugin.name not in names:
                continue
            answer = ask("PreScore", plugin, plugin.narrow, state, pod, FeasibleNodes(self.table, feasible))
            if answer is None:
                continue
            left, others = feasible & answer.mask, np.flatnonzero(feasible & ~answer.mask)
            if len(others) and left.any():
                feasible = left
                left_out.append(RejectedNodes(answer.status.by(plugin.name), others))
        return feasible, tuple(left_out)

    def _overlay_of(
        self, searched: Mask, rivals: RivalLoad, state: CycleState, pod: PodInfo, table: NodeTable
    ) -> Sequence[RejectedNodes]:
        """Return what rejects the pod once the nominated pods that it must make way for are counted in; each row occurs
        at most once.

        A pod must fit on a node twice: as the node is (the verdicts), and as it will be once the pods nominated to it
        have arrived (the overlay). Neither implies the other: a nominated pod may take the last CPU, or be the one that
        the pod must run beside. `rejected_rows` reads the overlay first.

        Only searched rows with rivals are looked at, and of these only those that have changed since a pod of this
        shape was tried (`overlays.py`).
        """
        rows = rivals.rows()
        rows = rows[searched[rows]]
        overlay = self._overlay(state, pod) if len(rows) > FEW_ROWS else None
        if overlay is None:
            return self._rejected_beside(rivals, rows, state, pod, table)
        return overlay.rejected(rows, lambda unknown: self._rejected_beside(rivals, unknown, state, pod, table))

    def _overlay(self, state: CycleState, pod: PodInfo) -> Overlay | None:
        """Return what is known about rows with nominated pods for pods like this one; None if nothing may be kept."""
        plan = self._filter_plan(state, pod)
        if pod.shape.is_large or not (self.memos.enabled and plan.all_kept) or self.nominator.node_of(pod.uid):
            return None
        key = Overlay, plan.kept, pod.priority
        return self.memos.bring(self.memos.view(key, lambda: Overlay(plan.beside_rows)))

    def _rejected_beside(
        self, rivals: RivalLoad, rows: RowArray, state: CycleState, pod: PodInfo, table: NodeTable
    ) -> list[RejectedNodes]:
        """Filter some rows with the pods nominated to them counted in."""
        found: list[RejectedNodes] = []
        # By column where there are many rows and the filters allow it; the rows that are left go node by node.
        if len(rows) > FEW_ROWS and self.memos.enabled and not self.checks_all_filters:
            what_if = self.what_if(state, pod)
            if what_if.is_possible:
                rows = self._overlay_by_column(found, rivals, what_if, rows, pod)
        for row in rows.tolist():
            there = self.rivals_on(table.names[row], pod)
            state.work.spend(WITH_NOMINATED, (2 + len(there)) * steps_to_filter(pod))
            status = self.run_filter_with(there, state, pod, table.view(row))
            if status is not None:
                found.append(RejectedNodes(status, np.array([row], dtype=np.intp)))
        return found

    def _overlay_by_column(
        self, found: list[RejectedNodes], rivals: RivalLoad, what_if: WhatIf, rows: RowArray, pod: PodInfo
    ) -> RowArray:
        """Add what can be computed by column to `found`; return the remaining rows.

        Those are the rows where a rival itself, and not only what it requests, affects some filter.
        """
        left: list[int] = []
        if what_if.looks_at_single_pods:
            names = self.table.names
            left = [row for row in rows.tolist() if any(map(what_if.is_affected_by, self.rivals_on(names[row], pod)))]
            rows = np.setdiff1d(rows, left)
        load = what_if.load(rows, rivals)
        filters = what_if.on(rows)
        refused = filters.refusals(load, ~filters.passing(load))
        # Limits alone tell whether a row passes, so the filters are asked for reasons only where it does not.
        found += [RejectedNodes(status, rows[positions]) for status, positions in refused]
        return np.array(left, dtype=np.intp)

    @property
    def table(self) -> NodeTable:
        """The nodes."""
        return self.memos.table

    def rivals(self, pod: PodInfo) -> RivalLoad | None:
        """Return what nominated pods of at least the pod's priority claim; None if no pod is nominated."""
        load = nominated_load(self.memos, self.nominator)
        return None if load is None else load.against(pod)

    def rivals_on(self, node_name: str, pod: PodInfo) -> list[PodInfo]:
        """Return the pods nominated to a node whose priority is at least the pod's own."""
        nominated = self.nominator.pods_on(node_name)
        return [other for other in nominated if other.priority >= pod.priority and other.uid != pod.uid]

    def run_filter_with(
        self, nominated: list[PodInfo], state: CycleState, pod: PodInfo, node: NodeView
    ) -> Status | None:
        """Ask about one node as if the nominated pods ran there too; return the first rejection."""
        # A clone, since the attempt goes on with the state as the node is without these pods.
        what_if = state.clone()
        for other in nominated:
            node = node.with_pod(other)
            status = self.run_add_pod(what_if, pod, other, node)
            if not is_success(status):
                return status
        return self.run_filter_on(what_if, pod, node)

    def run_filter_beside_nominated(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Ask about one node, with the nominated pods that count there, if any, and without them; return a
        rejection.
        """
        # With the nominated pods first, as in kube-scheduler: that rejection is the one reported.
        rivals = self.rivals_on(node.name, pod)
        status = self.run_filter_with(rivals, state, pod, node) if rivals else None
        if status is None:
            status = self.run_filter_on(state, pod, node)
        self.runner.asked("Filter", self.filters, state.skip_filter, status)
        return status

    def what_if(self, state: CycleState, pod: PodInfo, *, without: frozenset[str] = frozenset()) -> WhatIf:
        """Return the filters that did not skip, ready to be asked about many nodes as if other pods ran there.

        The caller answers for the plugins in `without`.
        """
        return WhatIf(self._filter_plan(state, pod, without), self.memos, state, pod)

    def basis(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return what the filters that did not skip depend on besides rows; None if one of them does not say."""
        plan = self._filter_plan(state, pod)
        if not self.memos.enabled or not plan.all_kept:
            return None
        self.memos.read()
        capacity = self.table.capacity
        return plan.kept, capacity, tuple([needs.counters(self.memos) for needs in plan.beside_rows])

    def answers_alike(self, state: CycleState, other: CycleState, pods: tuple[PodInfo, PodInfo]) -> bool:
        """Say whether all filters that did not skip answer by what they keep, the same for two pods as things are."""
        basis = self.basis(state, pods[0])
        if basis is None or basis != self.basis(other, pods[1]):
            return False
        return all(column.lasts() for column in self._filter_plan(state, pods[0]).kept)

    def run_filter_on(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Ask every Filter plugin that did not skip about one node; return the first rejection, or all as one."""
        rejections: list[Status] = []
        for runner in self.filters:
            if runner.name not in state.skip_filter:
                status = call_filter(runner.plain, state, pod, node)
                if status is not None:
                    rejections.append(status.by(runner.name))
                    if not self.checks_all_filters:
                        break
        return merged(rejections) if len(rejections) > 1 else next(iter(rejections), None)

    def run_add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Tell the states that PreFilter prepared that a pod was added to a node, in a what-if."""
        for plugin in self.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                status = plugin.add_pod(state, pod, added, node)
                if status is not None and not is_success(status):
                    return status.by(plugin.name)
        return None

    def run_remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Tell the states that PreFilter prepared that a pod was removed from a node, in a what-if."""
        for plugin in self.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                status = plugin.remove_pod(state, pod, removed, node)
                if status is not None and not is_success(status):
                    return status.by(plugin.name)
        return None

    @property
    def chooses(self) -> bool:
        """Say whether it matters which nodes are found: if plugins score them, or extenders filter or score them."""
        asked = any(extender.does("filter") or extender.does("prioritize") for extender in self.extenders)
        return bool(self.scorers) or asked

    def run_pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Run PreScore; a plugin that skips is left out of Score. Return the first error."""
        failure = self.runner.run("PreScore", self._pre_scored, state, pod, nodes)
        self.runner.asked("PreScore", self.pre_score, state.skip_score, failure)
        return failure

    def _pre_scored(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        if state.taken_out:
            force_setattr(state, "skip_score", state.skip_score | state.taken_out)
        prepared = (
            None
            if state.taken_out
            else self._prepared(
                Point.PRE_SCORE,
                self.pre_score,
                self._pre_score_promises,
                pod,
                lambda p: _pre_score(p, state, pod, nodes),
            )
        )
        if prepared is not None:
            force_setattr(state, "skip_score", state.skip_score | prepared.skipped)
        for plugin in _without(self.pre_score, state) if prepared is None else prepared.to_ask:
            status = _pre_score(plugin, state, pod, nodes)
            if status is None or is_success(status):
                continue
            if status.code is not Code.SKIP:
                return status.by(plugin.name)
            force_setattr(state, "skip_score", state.skip_score | {plugin.name})
            if prepared is not None:
                prepared.note_skip(plugin, pod)
        return None

    def run_score(
        self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes, source: MaskSource | None = None
    ) -> Scored | Status:
        """Score the feasible nodes; `source` is that of the verdicts, if nothing has narrowed the nodes since."""
        found = self.runner.run("Score", self._scored, state, pod, nodes, source)
        self.runner.asked("Score", self.scorers, state.skip_score, times=nodes.count)
        if self.promise_check is not None:
            plan = self._score_plan(state, pod)
            self.promise_check.scored(self.name, plan.runners, plan.columns, state, pod, nodes.table, nodes.row_array())
        return found

    def _scored(
        self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes, source: MaskSource | None
    ) -> Scored | Status:
        plan = self._score_plan(state, pod)
        scored = run_score(plan, self.memos, state, pod, nodes, source)
        view = None if isinstance(scored, Status) else scored.view
        self._latest = None if view is None else Standing(pod, state, plan.shares, plan.shares.epoch, view)
        return scored

    def best_of_ranking(self, pod: PodInfo) -> BestRows | None:
        """Return the best rows for a pod if its whole decision is the ranking that the last one came from.

        That is so for a pod of the same shape if no plugin has to be asked about each pod, and if the same columns
        count as they are. Then only the rows that have changed are worked out again.
        """
        latest, memos = self._latest, self.memos
        if (
            latest is None
            or latest.pod.shape is not pod.shape
            or len(self.nominator)
            or self.narrowing
            or self._optional
        ):
            return None
        memos.begin_turn()
        state, asking = latest.state, (latest.state, pod)
        if self._asks_about(pod) or not self.binds_plainly(state) or not self._filter_plan(state, pod).all_kept:
            return None
        if memos.bring(latest.shares, asking).epoch != latest.epoch:
            return None
        latest.ranked.bring_up_to_date(memos, asking)
        ranking: Ranking = latest.ranked.ranking
        rows = ranking.best_rows()
        return rows if ranking.highest() != UNRANKED else None

    def _asks_about(self, pod: PodInfo) -> bool:
        """Say whether any PreFilter or PreScore plugin is asked about each pod of a shape."""
        plans, at = pod.shape.plans, self.memos.version_beside_rows
        prepared = [plans.get((self.name, point)) for point in (Point.PRE_FILTER, Point.PRE_SCORE)]
        return any([known is None or known.asked_at(at) != () for known in prepared])  # noqa: C419 (a list is faster)

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run Reserve; return the first failure. The caller undoes with `run_unreserve`."""
        return self.runner.run("Reserve", self._reserved, state, pod, node_name)

    def _reserved(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for plugin in self.reserve(state):
            # A plugin may have reserved something before it rejected, so its columns count as stale in any case.
            status = ask("Reserve", plugin, plugin.reserve, state, pod, node_name)
            self.memos.note_reservation(plugin.name)
            if status is not None and not is_success(status):
                return blamed("Reserve", plugin.name, status)
        return None

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Run Unreserve of every Reserve plugin, in reverse order; whatever one of them raises is raised after the
        last.
        """
        self.runner.run("Unreserve", self._unreserved, state, pod, node_name)

    def _unreserved(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        bugs = self.unreserve(state, pod, node_name)
        if bugs:
            raise bugs[0]

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Exception]:
        """Do the same without timing it; return what plugins raised."""
        bugs: list[Exception] = []
        # Last first, including those whose Reserve was never reached, as upstream does.
        for plugin in reversed(self.reserve(state)):
            try:
                plugin.unreserve(state, pod, node_name)
            except BaseException as raised:  # the other plugins must still give back what they reserved
                bug = contained(raised)
                bugs.append(bug)
            self.memos.note_reservation(plugin.name)
        return bugs

    def run_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Permitted:
        """Run Permit: a rejection at once, else Wait if any plugin waits."""
        return self.runner.run("Permit", self._permitted, state, pod, node_name)

    def _permitted(self, state: CycleState, pod: PodInfo, node_name: str) -> Permitted:
        timeouts_s: dict[str, float] = {}
        reasons: list[str] = []
        words: dict[str, str] = {}
        for plugin in self.permit:
            status, timeout_s = ask("Permit", plugin, _permit, plugin, state, pod, node_name)
            if status is None or is_success(status):
                continue
            if status.code is Code.WAIT:
                timeouts_s[plugin.name] = min(timeout_s, MAX_PERMIT_TIMEOUT_S)
                reasons += status.reasons
                words[plugin.name] = status.message
            else:
                return Permitted(blamed("Permit", plugin.name, status), {})
        return Permitted(Status(Code.WAIT, tuple(reasons)) if timeouts_s else None, timeouts_s, words)

    def _prepared(
        self,
        point: Point,
        plugins: tuple[Present, ...],
        promised: Mapping[str, Promised],
        pod: PodInfo,
        ask: Callable[[Present], Answer],
    ) -> Preparation[Present] | None:
        """Return which PreFilter or PreScore plugins have to be asked about this pod; None for all.

        If pods of its family were seen before, only plugins that look at something in which these may differ are asked.
        """
        if not self.memos.enabled:
            return None
        key, family = (self.name, point), cast("PodFamily | None", pod.shape)
        while family is not None:
            # For the first pod of a shape or family all plugins are asked: preparing would not pay for a pod like no
            # other.
            if key in family.plans:
                prepared: Preparation[Present] | None = family.plans.get(key)
                if prepared is None:
                    prepared = family.plans[key] = Preparation(plugins, promised, pod, ask, family.ignored)
                return prepared.for_pod(pod, self.memos.version_beside_rows)
            family.plans[key] = None
            family = family.wider
        return None

    def _filter_plan(self, state: CycleState, pod: PodInfo, without: frozenset[str] = frozenset()) -> FilterPlan:
        # Pods of one shape may be skipped by different plugins, since that also depends on what exists in the cluster.
        skipped = state.skip_filter | without if without else state.skip_filter
        key = (self.name, Point.FILTER, skipped)
        plan: FilterPlan | None = pod.shape.plans.get(key) if self.memos.enabled else None
        if plan is None:
            plan = FilterPlan(self.memos, self.filters, skipped, pod)
            if self.memos.enabled:
                pod.shape.plans[key] = plan
        return plan

    def _score_plan(self, state: CycleState, pod: PodInfo) -> ScorePlan:
        key = (self.name, Point.SCORE, state.skip_score)
        plan: ScorePlan | None = pod.shape.plans.get(key) if self.memos.enabled else None
        if plan is None:
            plan = ScorePlan(self.memos, self.scorers, state.skip_score, pod)
            if self.memos.enabled:
                pod.shape.plans[key] = plan
        return plan


def _pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: PodInfo) -> Answer:
    try:  # not `ask`: this runs for every pod, and a plain `try` costs nothing while nothing is raised
        return plugin.pre_filter(state, pod)
    except BaseException as raised:
        bug = contained(raised)
        raise PluginBrokenError("PreFilter", plugin.name, bug) from bug


def _pre_score(plugin: PreScorePlugin, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
    try:
        return plugin.pre_score(state, pod, nodes)
    except BaseException as raised:
        bug = contained(raised)
        raise PluginBrokenError("PreScore", plugin.name, bug) from bug


def _permit(plugin: PermitPlugin, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
    answer = plugin.permit(state, pod, node_name)
    if answer is None:
        return None, 0.0
    status, timeout_s = answer  # here, so that what cannot be taken apart is the plugin's bug
    return status, timeout_s


def _nothing_left(narrowing: list[str]) -> Status:
    plugins = ", ".join(narrowing) if len(narrowing) == 1 else f"[{' '.join(narrowing)}]"
    if len(narrowing) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins}").by(narrowing[0])
    return unresolvable(f"node(s) didn't satisfy plugin(s) {plugins} simultaneously")


def searched_rows(table: NodeTable, node_names: frozenset[str] | None) -> Mask:
    """Return a mask of the rows to look at: all nodes, or those of these names that exist."""
    if node_names is None:
        return table.valid
    mask: Mask = np.zeros(table.capacity, dtype=np.bool_)
    for name in node_names:
        row = table.row_of.get(name)
        # A name may have a row without a node: pods whose node is gone, or not yet known, are counted there.
        if row is not None and table.valid[row]:
            mask[row] = True
    return mask
