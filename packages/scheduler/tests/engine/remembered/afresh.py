"""What should come of asking about a pod, from the plain forms of the profile's plugins alone: nothing is remembered.

Every plugin is asked about every node, in the order of the profile, as kube-scheduler does. Which nodes are looked at
first, and how ties are broken, is not told here.
"""

from typing import Any, NamedTuple

import numpy as np

from berth.core import questions
from berth.core.core import Core
from berth.engine.profile import Profile
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.interface import FeasibleNodes, PreFilterResult
from berth.framework.status import Code, Status, is_success, merged, unresolvable
from berth.state.pod_info import PodInfo


class Afresh(NamedTuple):
    """What is to be said of a pod."""

    error: str | None
    """Why the attempt ends; then the rest is not told."""
    rejected: dict[str, Status]
    """What counts for each node that was looked at and does not fit."""
    feasible: list[int]
    """The rows of the nodes that are left for scoring."""
    scores: dict[str, list[int]]
    """What each plugin gives these rows, normalized and weighted."""
    totals: list[int]
    best: list[int]
    message: str

    def leaders(self, count: int, chosen: int) -> list[tuple[int, int]]:
        order = sorted(zip(self.feasible, self.totals, strict=True), key=lambda e: (-e[1], e[0] != chosen, e[0]))
        return order[:count]


NOTHING = Afresh(None, {}, [], {}, [], [], "")


def asked_afresh(core: Core, pod: PodInfo) -> Afresh:
    """Ask all plugins of the pod's profile about all nodes."""
    profile, state, table = questions.profile_of(core, pod), CycleState(), core.cache.table
    rows = table.rows().tolist()
    diagnosis = Diagnosis(len(rows), table.names.__getitem__)
    skipped, names, narrowing, rejection = _before(profile, state, pod)
    if rejection is not None and not rejection.code.is_rejection:
        return NOTHING._replace(error=f'running PreFilter plugin "{rejection.plugin}": {rejection.message}')
    if rejection is not None:
        diagnosis.pre_filter_status = rejection
        return NOTHING._replace(message=diagnosis.message())
    searched = [row for row in rows if names is None or table.names[row] in names]
    said = {row: _first_rejection(core, profile, state, pod, row, skipped) for row in searched}
    rejected = {row: status for row, status in said.items() if status is not None}
    feasible = [row for row in searched if said[row] is None]
    promised = table.row_of.get(core.nominator.node_of(pod.uid) or pod.status.nominated_node_name)
    if promised in feasible and core.generation.cycle.nominated_node_first:
        rejected, feasible = {}, [promised]
    else:
        feasible = _narrowed(profile, state, pod, table, feasible)
    for status in dict.fromkeys(rejected.values()):
        diagnosis.add(status, np.array([row for row in rejected if rejected[row] == status], dtype=np.intp))
    if names is not None:
        diagnosis.absent_status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing))}]")
    found = NOTHING._replace(rejected={table.names[row]: status for row, status in rejected.items()}, feasible=feasible)
    if not feasible:
        errors = [row for row in table.tree.order() if row in rejected and rejected[row].code is Code.ERROR]
        if errors:
            return found._replace(
                error=core.generation.cycle.filter_error.format(
                    plugin=rejected[errors[0]].plugin, message=rejected[errors[0]].message, pod=pod.name
                )
            )
        return found._replace(message=diagnosis.message())
    return _scored(profile, state, pod, table, found)


def _before(
    profile: Profile, state: CycleState, pod: PodInfo
) -> tuple[set[str], frozenset[str] | None, list[str], Status | None]:
    """Run PreFilter: who skips, which nodes are to be looked at, who says so, and the rejection, if there is one."""
    skipped: set[str] = set()
    names: frozenset[str] | None = None
    narrowing: list[str] = []
    rejection: Status | None = None
    for plugin in profile.pre_filter:
        answer = plugin.pre_filter(state, pod)
        if isinstance(answer, PreFilterResult):
            if answer.node_names is not None:
                narrowing.append(plugin.name)
                names = answer.node_names if names is None else names & answer.node_names
                if not names:
                    return skipped, names, narrowing, unresolvable(_nothing_left(sorted(narrowing)))
        elif answer is not None and answer.code is Code.SKIP:
            skipped.add(plugin.name)
        elif answer is not None and not is_success(answer):
            rejection = answer.by(plugin.name)
            if rejection.code is not Code.UNSCHEDULABLE:
                break
    return skipped, names, narrowing, rejection


def _nothing_left(narrowing: list[str]) -> str:
    if len(narrowing) == 1:
        return f"node(s) didn't satisfy plugin {narrowing[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(narrowing)}] simultaneously"


def _first_rejection(
    core: Core, profile: Profile, state: CycleState, pod: PodInfo, row: int, skipped: set[str]
) -> Status | None:
    """Ask about one node: beside the pods nominated to it that count, if there are any, and as it is."""
    view, what_if = core.cache.table.view(row), state.clone()
    rivals = [
        other for other in core.nominator.pods_on(view.name) if other.priority >= pod.priority and other.uid != pod.uid
    ]
    if rivals:
        beside = view
        for other in rivals:
            beside = beside.with_pod(other)
            for plugin in profile.pre_filter_extensions:
                if plugin.name not in skipped:
                    plugin.add_pod(what_if, pod, other, beside)
        status = rejection_on(profile, what_if, pod, beside, skipped)
        if status is not None:
            return status
    return rejection_on(profile, state, pod, view, skipped)


def rejection_on(profile: Profile, state: CycleState, pod: PodInfo, view: Any, skipped: Any) -> Status | None:
    """Ask about a node as it is given."""
    said = []
    for runner in profile.filters:
        if runner.name in skipped:
            continue
        status = runner.plain.filter(state, pod, view)
        if status is not None and not is_success(status):
            said.append(status.by(runner.name))
            if not profile.checks_all_filters:
                break
    return merged(said) if len(said) > 1 else said[0] if said else None


def _narrowed(profile: Profile, state: CycleState, pod: PodInfo, table: Any, feasible: list[int]) -> list[int]:
    for plugin in profile.narrowing:
        mask = np.zeros(table.capacity, dtype=np.bool_)
        mask[feasible] = True
        answer = plugin.narrow(state, pod, FeasibleNodes(table, mask)) if feasible else None
        left = feasible if answer is None else [row for row in feasible if answer.mask[row]]
        feasible = left or feasible
    return feasible


def _scored(profile: Profile, state: CycleState, pod: PodInfo, table: Any, found: Afresh) -> Afresh:
    rows = found.feasible
    mask = np.zeros(table.capacity, dtype=np.bool_)
    mask[rows] = True
    nodes, skipped = FeasibleNodes(table, mask), set()
    for plugin in profile.pre_score:
        status = plugin.pre_score(state, pod, nodes)
        if status is not None and status.code is Code.SKIP:
            skipped.add(plugin.name)
    scores: dict[str, list[int]] = {}
    for runner in profile.scorers:
        plugin = runner.plugin
        if runner.name in skipped:
            if plugin.promises.score_when_skipped is not None:
                scores[runner.name] = [plugin.promises.score_when_skipped * runner.weight] * len(rows)
            continue
    for runner in profile.scorers:
        plugin = runner.plugin
        if runner.name in skipped:
            continue
        if plugin.score is not None:
            given = np.array([plugin.score.score(state, pod, table.view(row)) for row in rows], dtype=np.int64)
        else:
            given = plugin.score_columns.score_columns(state, pod, table, np.array(rows, dtype=np.intp))
        if plugin.normalize_score is not None:
            given = plugin.normalize_score.normalize_score(state, pod, given)
        wrong = [score for score in given.tolist() if not 0 <= score <= 100]
        if wrong:
            return found._replace(
                error=f'applying score defaultWeights on Score plugins: plugin "{runner.name}" '
                f"returns an invalid score {wrong[0]}, it should in the range of [0, 100] after normalizing"
            )
        scores[runner.name] = [score * runner.weight for score in given.tolist()]
    totals = [sum(each) for each in zip(*scores.values(), strict=True)] or [0 if profile.scorers else 1] * len(rows)
    highest = max(totals)
    best = [row for row, total in zip(rows, totals, strict=True) if total == highest]
    return found._replace(scores=scores, totals=totals, best=best)
