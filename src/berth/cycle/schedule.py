"""Find a node for one pod. Read `schedule_pod` from top to bottom: each step is a function below it.

It is a generator because extenders and PostFilter may need an answer from outside; whoever drives it sends that in.
"""

import random
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from berth.config.types import ExtensionPoint as Point
from berth.cycle.attempt import (
    BASIC_CHECKS_DONE,
    PRE_FILTER_DONE,
    PRE_SCORE_DONE,
    PREDICATES_DONE,
    PRIORITIZING_DONE,
    SNAPSHOT_DONE,
    Attempt,
)
from berth.cycle.extending import diagnose_extenders, filter_by_extenders, score_by_extenders
from berth.cycle.sampling import Sampled, feasible_nodes_to_find, sample
from berth.engine.profile import searched_rows
from berth.engine.sums import BestRows
from berth.engine.verdicts import Mask
from berth.framework.blame import PluginBrokenError
from berth.framework.cycle_policy import CyclePolicy
from berth.framework.diagnosis import Diagnosis
from berth.framework.interface import FeasibleNodes
from berth.framework.status import Code, Status, is_success, unresolvable
from berth.state.table import NodeTable

Steps = Generator[Any, Any, None]

NO_NODES = "no nodes available to schedule pods"


TieBreaker = Callable[[BestRows], int]
"""Returns one of the rows it is given, of which there is at least one."""


class DrawLots:
    """The tie breaker of kube-scheduler: among the best, each is as likely."""

    __slots__ = ("_rng",)

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, rows: BestRows) -> int:
        """Return one of the rows; a single one without drawing, so that the lots stay those of ties."""
        return int(rows[0]) if len(rows) == 1 else int(rows[self._rng.randrange(len(rows))])


class Search:
    """Where partial searches start, and how ties are broken: all that one decision leaves to the next."""

    __slots__ = ("break_tie", "policy", "score_single_node", "start_index", "table", "within")

    def __init__(
        self,
        table: NodeTable,
        break_tie: TieBreaker,
        *,
        score_single_node: bool = False,
        policy: CyclePolicy | None = None,
    ) -> None:
        self.table = table
        self.break_tie = break_tie
        self.score_single_node = score_single_node
        self.policy = policy or CyclePolicy()
        self.start_index = 0
        self.within: Mask | None = None
        """The only rows to look at, where a placement for a whole group is tried."""

    @property
    def node_count(self) -> int:
        """How many nodes there are to choose from."""
        return len(self.table) if self.within is None else int(np.count_nonzero(self.within))

    def narrowed(self, rows: Mask) -> Mask:
        """Return those of the rows that are to be looked at."""
        return rows if self.within is None else rows & self.within


def schedule_pod(search: Search, attempt: Attempt) -> Steps:
    """Fill in `attempt`: the chosen row, or why there is none."""
    attempt.lap(BASIC_CHECKS_DONE)  # the core's: is the pod still there, still unbound, still ours?
    attempt.lap(SNAPSHOT_DONE)  # nothing is written while a cycle is open, so there is nothing to copy
    if not len(search.table):
        attempt.diagnosis = Diagnosis(0, search.table.names.__getitem__)
        attempt.error = NO_NODES
        return
    find_nodes(search, attempt)
    if attempt.profile.extenders:
        yield from ask_filters(search, attempt)
    if attempt.error is not None:
        return
    if attempt.nodes is None or not attempt.nodes.count:
        yield from run_post_filter(attempt, tells=search.policy.tells_post_filter)
        return
    score_nodes(search, attempt)
    if attempt.profile.extenders and attempt.scored is not None and attempt.nodes.count > 1:
        yield from score_by_extenders(attempt)
    if attempt.error is None:
        attempt.chosen_row = select_node(search, attempt)


def find_nodes(search: Search, attempt: Attempt) -> None:
    """PreFilter and Filter: leave the feasible nodes, or a diagnosis where there are none."""
    table, profile, pod = search.table, attempt.profile, attempt.pod
    attempt.pre_filtered = pre = profile.run_pre_filter(attempt.state, pod)
    attempt.lap(PRE_FILTER_DONE)
    if pre.status is not None:
        if not pre.status.code.is_rejection:
            attempt.error = f'running PreFilter plugin "{pre.status.plugin}": {pre.status.message}'
            return
        attempt.diagnosis = _pre_filter_diagnosis(search, pre.status)
        return
    attempt.within = search.within
    searched = search.narrowed(searched_rows(table, pre.node_names))
    promised = search.policy.nominated_node_first and _fits_where_promised(search, attempt, searched)
    if not promised:
        _look_everywhere(search, attempt, searched)


def ask_filters(search: Search, attempt: Attempt) -> Steps:
    """Have extenders narrow what was found; where they refuse the promised node, or fail, all nodes are looked at."""
    if attempt.error is not None or attempt.nodes is None or not attempt.nodes.count:
        return
    yield from filter_by_extenders(attempt)
    if attempt.verdicts is None and (attempt.error is not None or not attempt.nodes.count):
        attempt.error, attempt.left_out = None, {}
        assert attempt.pre_filtered is not None
        searched = searched_rows(search.table, attempt.pre_filtered.node_names)
        _look_everywhere(search, attempt, search.narrowed(searched))
        yield from filter_by_extenders(attempt)
    if attempt.error is None and attempt.diagnosis is None and not attempt.nodes.count:
        _diagnose(search, attempt)


def score_nodes(search: Search, attempt: Attempt) -> None:
    """PreScore and Score; a single feasible node needs no score unless somebody wants to see it."""
    attempt.lap(PREDICATES_DONE)
    nodes = attempt.nodes
    if nodes is None or (nodes.count == 1 and not search.score_single_node):
        return
    profile, state, pod = attempt.profile, attempt.state, attempt.pod
    status = profile.run_pre_score(state, pod, nodes)
    attempt.lap(PRE_SCORE_DONE)
    if status is not None:
        attempt.error = f'running PreScore plugin "{status.plugin}": {status.message}'
        return
    verdicts = attempt.verdicts
    as_it_stands = verdicts is not None and verdicts.feasible() is nodes.mask and verdicts.sum_key is not None
    scored = profile.run_score(state, pod, nodes, verdicts.sum_key if verdicts and as_it_stands else None)
    if isinstance(scored, Status):
        attempt.error = scored.message
    else:
        attempt.scored = scored


def select_node(search: Search, attempt: Attempt) -> int:
    """Return the row with the highest total; among equals the tie breaker chooses."""
    nodes, scored = attempt.nodes, attempt.scored
    assert nodes is not None and nodes.count, "select_node is called with feasible nodes only"
    if scored is None:
        return int(nodes.row_array()[0])
    attempt.lap(PRIORITIZING_DONE)
    return search.break_tie(scored.best_rows())


def run_post_filter(attempt: Attempt, *, tells: bool = True) -> Steps:
    """Let PostFilter plugins try to make room; the first success ends it, refusals add up, and are told if `tells`."""
    attempt.lap(PREDICATES_DONE)
    diagnosis = attempt.diagnosis
    assert diagnosis is not None, "PostFilter runs after a search that found nothing"
    if attempt.state.skip_post_filter:
        return
    reasons: list[str] = []
    refused_by = ""
    for plugin in attempt.profile.at(Point.POST_FILTER):
        try:
            answer = plugin.post_filter(attempt.state, attempt.pod, diagnosis)
            result, status = (yield from answer) if isinstance(answer, Generator) else answer
        except Exception as bug:
            raise PluginBrokenError("PostFilter", plugin.name, bug) from bug
        if result is not None:
            attempt.nominated_node_name, attempt.victims = result.nominated_node_name, result.victims
        if is_success(status):
            attempt.post_filter_status = Status(Code.SUCCESS)
            return
        if status.code is not Code.UNSCHEDULABLE:
            attempt.post_filter_status = status.by(plugin.name)
            break
        reasons += status.reasons
        refused_by = refused_by or plugin.name
    else:
        if not refused_by:
            return
        attempt.post_filter_status = Status(Code.UNSCHEDULABLE, tuple(reasons), refused_by)
    if tells:
        diagnosis.post_filter_message = attempt.post_filter_status.message


def _pre_filter_diagnosis(search: Search, status: Status) -> Diagnosis:
    diagnosis = Diagnosis(search.node_count, search.table.names.__getitem__)
    diagnosis.absent_status = status
    if not search.policy.pre_filter_counts_nodes:
        diagnosis.pre_filter_status = status
    diagnosis.note_plugin(status)
    return diagnosis


def _look_everywhere(search: Search, attempt: Attempt, searched: Mask) -> None:
    """Filter: all nodes that are worth looking at."""
    attempt.sampled = None
    attempt.verdicts = attempt.profile.run_filter(attempt.state, attempt.pod, search.table, searched)
    feasible = _sampled(search, attempt, attempt.verdicts.feasible())
    attempt.nodes = FeasibleNodes(search.table, feasible)
    if not attempt.nodes.count or search.policy.error_ends_search:
        _diagnose(search, attempt)


def _sampled(search: Search, attempt: Attempt, feasible: Mask) -> Mask:
    """Keep only as many feasible nodes as the profile's percentage asks for."""
    table, verdicts = search.table, attempt.verdicts
    assert verdicts is not None
    percentage = attempt.profile.percentage_of_nodes_to_score
    if percentage is None:
        return feasible
    searched = verdicts.searched
    order = np.array([row for row in table.tree.order() if searched[row]], dtype=np.intp)
    enough = feasible_nodes_to_find(len(order), percentage)
    if search.policy.one_node_without_scores and not attempt.profile.chooses:
        enough = min(enough, 1)
    found = sample(order, search.start_index, feasible, enough, len(table))
    search.start_index = found.next_start
    return _only(attempt, found, feasible)


def _fits_where_promised(search: Search, attempt: Attempt, searched: Mask) -> bool:
    """Look at the node that the pod is nominated to, if it is; where it fits there, no other is looked at."""
    pod, profile, table = attempt.pod, attempt.profile, search.table
    name = profile.nominator.node_of(pod.uid) or pod.status.nominated_node_name
    row = table.row_of.get(name) if name else None
    if row is None or not searched[row]:
        return False
    if profile.run_filter_beside_nominated(attempt.state, pod, table.view(row)) is not None:
        return False
    rows = np.array([row], dtype=np.intp)
    start = search.start_index
    attempt.nodes = FeasibleNodes(table, _only(attempt, Sampled(start, rows, rows[:0], start), searched))
    return True


def _only(attempt: Attempt, found: Sampled, feasible: Mask) -> Mask:
    attempt.sampled = found
    kept: Mask = np.zeros_like(feasible)
    kept[found.feasible] = True
    return kept


def _diagnose(search: Search, attempt: Attempt) -> None:
    """Say of each node why not; a node that errs makes the whole attempt an error."""
    table, pre, verdicts = search.table, attempt.pre_filtered, attempt.verdicts
    assert pre is not None and verdicts is not None
    diagnosis = Diagnosis(search.node_count, table.names.__getitem__)
    errors: dict[int, Status] = {}
    for status, rows in verdicts.groups():
        if status.code is Code.ERROR:
            errors.update(dict.fromkeys(rows.tolist(), status))
        diagnosis.add(status, rows)
    if errors:
        first = next(row for row in table.tree.order() if row in errors)
        broken = errors[first]
        message = search.policy.filter_error
        attempt.error = message.format(plugin=broken.plugin, message=broken.message, pod=attempt.pod.name)
    if not errors and attempt.nodes is not None and attempt.nodes.count:
        return
    attempt.diagnosis = diagnosis
    if pre.node_names is not None:
        narrowed = f"node(s) didn't satisfy plugin(s) [{' '.join(pre.narrowing_plugins)}]"
        diagnosis.absent_status = unresolvable(narrowed)
        diagnosis.unschedulable_plugins.update(pre.narrowing_plugins)
    diagnose_extenders(attempt)
