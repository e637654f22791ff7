"""Finds a node for one pod. Read `schedule_pod` from top to bottom: each step is a function below it.

It is a generator because extenders and PostFilter may need an answer from outside, which its caller sends in.
"""

import random
from collections.abc import Callable, Generator
from typing import NamedTuple

import numpy as np

from berth.cycle.attempt import (
    BASIC_CHECKS_DONE,
    PRE_FILTER_DONE,
    PRE_SCORE_DONE,
    PREDICATES_DONE,
    PRIORITIZING_DONE,
    SNAPSHOT_DONE,
    Attempt,
    Outcome,
)
from berth.cycle.dispatcher import THROWN_IN
from berth.cycle.extender_calls import diagnose_extenders, filter_by_extenders, score_by_extenders
from berth.cycle.node_sample import Sampled, feasible_nodes_to_find, sample
from berth.engine.profile import PreFiltered, searched_rows
from berth.engine.sums import BestRows
from berth.engine.verdicts import Mask, Verdicts
from berth.framework.blame import PluginBrokenError, contained
from berth.framework.cycle_policy import CyclePolicy
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Steps
from berth.framework.interface import FeasibleNodes
from berth.framework.status import Code, Status, is_success
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

NO_NODES = "no nodes available to schedule pods"


TieBreaker = Callable[[BestRows], int]
"""Returns one of the given rows; there is at least one."""


class DrawLots:
    """kube-scheduler's tie breaker: each of the best rows is equally likely."""

    __slots__ = ("_rng",)

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, rows: BestRows) -> int:
        """Return one of the rows."""
        # A single row draws no random number, so that the random sequence depends on ties alone.
        return int(rows[0]) if len(rows) == 1 else int(rows[self._rng.randrange(len(rows))])


class Search:
    """Where the next partial search starts, and how ties are broken: all that one attempt passes on to the next."""

    __slots__ = ("break_tie", "policy", "score_single_node", "start_index", "table")

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

    def begin_at(self, index: int) -> None:
        """Continue where another search ended."""
        self.start_index = index


def schedule_pod(search: Search, attempt: Attempt) -> Steps[None]:
    """Find a node for the attempt's pod: leave the chosen row, or the reason for having none, in `attempt.outcome`."""
    attempt.lap(BASIC_CHECKS_DONE)  # the core's: is the pod still there, still unbound, still ours?
    attempt.lap(SNAPSHOT_DONE)  # nothing is written while a cycle is open, so there is nothing to copy
    if not len(search.table):
        attempt.outcome = Outcome(diagnosis=Diagnosis(0, search.table.names.__getitem__), error=NO_NODES)
        return
    if attempt.profile.extenders:
        yield from _choose_with_extenders(search, attempt)
    else:
        choose_node(search, attempt)
    # After an error nobody knows whether the pod fits somewhere, so nothing is evicted for it.
    if attempt.outcome.diagnosis is not None and attempt.outcome.error is None:
        attempt.outcome = yield from run_post_filter(attempt, attempt.outcome, tells=search.policy.tells_post_filter)
    attempt.hold_to_budget()


def choose_node(search: Search, attempt: Attempt) -> None:
    """Filter, score and choose, as a cycle does that has no extenders to ask; leave the outcome in the attempt.

    Cycles, shadows, pod groups and questions all decide by this function.
    """
    failure = find_nodes(search, attempt) or score_nodes(search, attempt)
    attempt.outcome = failure or select_node(search, attempt)


def _choose_with_extenders(search: Search, attempt: Attempt) -> Steps[None]:
    """Do what `choose_node` does, and have extenders say what they think of the nodes found, and of their scores."""
    failure = find_nodes(search, attempt) or (yield from ask_filters(search, attempt)) or score_nodes(search, attempt)
    found = attempt.found
    if failure is None and found.scored is not None and found.nodes is not None and found.nodes.count > 1:
        found.scored = yield from score_by_extenders(attempt, found.nodes, found.scored)
    attempt.outcome = failure or select_node(search, attempt)


def find_nodes(search: Search, attempt: Attempt) -> Outcome | None:
    """PreFilter and Filter: leave the feasible nodes in `attempt.found`; return why there are none, or an error."""
    profile, pod, found = attempt.profile, attempt.pod, attempt.found
    found.pre_filtered = pre = profile.run_pre_filter(attempt.state, pod)
    attempt.lap(PRE_FILTER_DONE)
    if pre.status is not None:
        if not pre.status.code.is_rejection:
            return Outcome(error=f'running PreFilter plugin "{pre.status.plugin}": {pre.status.message}')
        return Outcome(diagnosis=_pre_filter_diagnosis(search, attempt, pre, pre.status))
    if attempt.alike is not None and (failure := _told_before(attempt, attempt.alike)) is not None:
        return failure
    searched = _searched(search, attempt, pre)
    if search.policy.nominated_node_first and _fits_where_promised(search, attempt, searched):
        return None
    return profile.runner.run("Filter", _look_everywhere, search, attempt, pre, searched)


def ask_filters(search: Search, attempt: Attempt) -> Steps[Outcome | None]:
    """Let extenders narrow down what was found; if they refuse the nominated node, or fail on it, all nodes are looked
    at.
    """
    found, pre = attempt.found, attempt.found.pre_filtered
    assert found.nodes is not None and pre is not None, "extenders come after Filter"
    found.nodes, found.left_out, problem = yield from filter_by_extenders(attempt, found.nodes)
    if found.verdicts is None and (problem is not None or not found.nodes.count):
        found.left_out = {}
        searched = _searched(search, attempt, pre)
        failure = attempt.profile.runner.run("Filter", _look_everywhere, search, attempt, pre, searched)
        if failure is not None:
            return failure
        found.nodes, found.left_out, problem = yield from filter_by_extenders(attempt, found.nodes)
    if problem is not None:
        return Outcome(error=problem)
    return None if found.nodes.count else _diagnose(search, attempt, pre)


def score_nodes(search: Search, attempt: Attempt) -> Outcome | None:
    """PreScore and Score: leave the scores of the nodes found in `attempt.found`; return an error, if there was one."""
    attempt.lap(PREDICATES_DONE)
    nodes, verdicts = attempt.found.nodes, attempt.found.verdicts
    assert nodes is not None, "a search that did not fail has found nodes"
    # As upstream: the only node is taken without a score, and PreScore is not run.
    if nodes.count == 1 and not search.score_single_node:
        return None
    profile, state, pod = attempt.profile, attempt.state, attempt.pod
    status = profile.run_pre_score(state, pod, nodes)
    attempt.lap(PRE_SCORE_DONE)
    if status is not None:
        return Outcome(error=f'running PreScore plugin "{status.plugin}": {status.message}')
    # The kept sums cover the rows that pass all filters, so they hold only where nothing has narrowed those rows since.
    as_it_stands = verdicts is not None and verdicts.feasible() is nodes.mask
    scored = profile.run_score(state, pod, nodes, verdicts.source if verdicts and as_it_stands else None)
    if isinstance(scored, Status):
        return Outcome(error=scored.message)
    attempt.found.scored = scored
    return None


def select_node(search: Search, attempt: Attempt) -> Outcome:
    """Choose the row with the highest total; among equals the tie breaker chooses."""
    nodes, scored = attempt.found.nodes, attempt.found.scored
    if scored is None:
        assert nodes is not None, "a search that did not fail has found nodes"
        return Outcome(chosen_row=int(nodes.row_array()[0]))
    attempt.lap(PRIORITIZING_DONE)
    return Outcome(chosen_row=search.break_tie(scored.best_rows()))


def run_post_filter(attempt: Attempt, failure: Outcome, *, tells: bool = True) -> Steps[Outcome]:
    """Let PostFilter plugins try to make room, up to the first success; with `tells` their refusals go into the
    message.
    """
    attempt.lap(PREDICATES_DONE)
    diagnosis = failure.diagnosis
    assert diagnosis is not None, "PostFilter runs after a search that found nothing"
    if attempt.state.skip_post_filter or not attempt.profile.post_filter:
        return failure
    steps = _post_filter(attempt, diagnosis)
    told, node_name, victims = yield from attempt.profile.runner.steps("PostFilter", steps, attempt.pod)
    if told is not None and tells and told.code is not Code.SUCCESS:
        diagnosis.post_filter_message = told.message
    return Outcome(diagnosis=diagnosis, post_filter_status=told, nominated_node_name=node_name, victims=victims)


class PostFiltered(NamedTuple):
    """The final answer of PostFilter, and the room that it can make."""

    status: Status | None
    node_name: str | None
    victims: tuple[PodInfo, ...]


def _post_filter(attempt: Attempt, diagnosis: Diagnosis) -> Steps[PostFiltered]:
    reasons: list[str] = []
    refused_by = ""
    node_name: str | None = None
    victims: tuple[PodInfo, ...] = ()
    told: Status | None = None
    for plugin in attempt.profile.post_filter:
        try:
            answer = plugin.post_filter(attempt.state, attempt.pod, diagnosis)
            result, status = (yield from answer) if isinstance(answer, Generator) else answer
        except BaseException as raised:
            bug = contained(raised, THROWN_IN)
            raise PluginBrokenError("PostFilter", plugin.name, bug) from bug
        # A plugin may name a node without success ("" clears the nomination); that stays until another plugin names
        # one.
        if result is not None:
            node_name, victims = result.nominated_node_name, result.victims
        if status is None or is_success(status):
            return PostFiltered(Status(Code.SUCCESS), node_name, victims)
        # Only Unschedulable passes on to the next plugin; any other status ends PostFilter.
        if status.code is not Code.UNSCHEDULABLE:
            told = status.by(plugin.name)
            break
        reasons += status.reasons
        refused_by = refused_by or plugin.name
    else:
        told = Status(Code.UNSCHEDULABLE, tuple(reasons), refused_by) if refused_by else None
    return PostFiltered(told, node_name, victims)


def _node_count(search: Search, attempt: Attempt) -> int:
    """How many nodes could be chosen."""
    return len(search.table) if attempt.within is None else int(np.count_nonzero(attempt.within))


def _searched(search: Search, attempt: Attempt, pre: PreFiltered) -> Mask:
    """Return the rows worth looking at: those that PreFilter left, within the placement being tried, if any."""
    rows = searched_rows(search.table, pre.node_names)
    return rows if attempt.within is None else rows & attempt.within


def _pre_filter_diagnosis(search: Search, attempt: Attempt, pre: PreFiltered, status: Status) -> Diagnosis:
    diagnosis = Diagnosis(_node_count(search, attempt), search.table.names.__getitem__)
    diagnosis.absent_status = status
    if not search.policy.pre_filter_counts_nodes:
        diagnosis.pre_filter_status = status
    # If no node remains of those that plugins name, the status belongs to all of them together and names none of them.
    diagnosis.unschedulable_plugins.update(pre.narrowing_plugins)
    diagnosis.note_plugin(status)
    return diagnosis


def _told_before(attempt: Attempt, alike: Attempt) -> Outcome | None:
    """Return what the filters said about another pod when no node was feasible, if they would say it again.

    Nominations differ from pod to pod, and so do answers that are not kept. A partial search is made in any case, since
    the next one starts where it ends, and so is one that extenders narrow.
    """
    profile, found, before = attempt.profile, attempt.found, alike.found
    diagnosis, pods = alike.outcome.diagnosis, (attempt.pod, alike.pod)
    if diagnosis is None or before.verdicts is None or alike.outcome.error is not None:
        return None
    if profile.extenders or profile.percentage_of_nodes_to_score is not None:
        return None
    if any(profile.nominator.node_of(pod.uid) or pod.status.nominated_node_name for pod in pods):
        return None
    if found.pre_filtered != before.pre_filtered or not profile.answers_alike(attempt.state, alike.state, pods):
        return None
    found.verdicts, found.nodes = before.verdicts, before.nodes
    return Outcome(diagnosis=diagnosis.again())


def _look_everywhere(search: Search, attempt: Attempt, pre: PreFiltered, searched: Mask) -> Outcome | None:
    """Filter all nodes worth looking at."""
    found = attempt.found
    found.sampled, found.narrowed = None, ()
    found.verdicts = attempt.profile.run_filter(attempt.state, attempt.pod, search.table, searched)
    feasible = _sampled(search, attempt, found.verdicts)
    found.nodes = FeasibleNodes(search.table, feasible)
    # In v1.20 an error on one node ends the attempt even if others fit. So each node's status is checked, and
    # `_diagnose` returns None if none is an error.
    if found.nodes.count and not search.policy.error_ends_search:
        return None
    return _diagnose(search, attempt, pre)


def _sampled(search: Search, attempt: Attempt, verdicts: Verdicts) -> Mask:
    """Of the nodes that plugins leave, keep only as many as the profile's percentage asks for."""
    table = search.table
    feasible, attempt.found.narrowed = attempt.profile.run_narrow(attempt.state, attempt.pod, verdicts.feasible())
    percentage = attempt.profile.percentage_of_nodes_to_score
    if percentage is None:
        return feasible
    searched = verdicts.searched
    # Zones take turns, so that a part of the nodes covers part of every zone.
    order = np.array([row for row in table.tree.order() if searched[row]], dtype=np.intp)
    enough = feasible_nodes_to_find(len(order), percentage)
    if search.policy.one_node_without_scores and not attempt.profile.chooses:
        enough = min(enough, 1)
    attempt.found.sampled = sample(order, search.start_index, feasible, enough, len(table))
    # The next search continues from there, or the first nodes would get all the pods.
    search.start_index = attempt.found.sampled.next_start
    return _only(attempt.found.sampled, feasible)


def _fits_where_promised(search: Search, attempt: Attempt, searched: Mask) -> bool:
    """Look at the node to which the pod is nominated, if any; if it fits there, no other is looked at."""
    pod, profile, table = attempt.pod, attempt.profile, search.table
    # The nominator first: the status patch may still be on its way.
    name = profile.nominator.node_of(pod.uid) or pod.status.nominated_node_name
    row = table.row_of.get(name) if name else None
    if row is None or not searched[row]:
        return False
    if profile.run_filter_beside_nominated(attempt.state, pod, table.view(row)) is not None:
        return False
    rows = np.array([row], dtype=np.intp)
    # No other node was visited, so the next search starts where this one would have.
    attempt.found.sampled = Sampled(search.start_index, rows, rows[:0], search.start_index)
    attempt.found.nodes = FeasibleNodes(table, _only(attempt.found.sampled, searched))
    return True


def _only(sampled: Sampled, feasible: Mask) -> Mask:
    kept: Mask = np.zeros_like(feasible)
    kept[sampled.feasible] = True
    return kept


def _diagnose(search: Search, attempt: Attempt, pre: PreFiltered) -> Outcome | None:
    """Say for each node why not; an error on one node makes the whole attempt an error. None if there are nodes
    left.
    """
    table, found = search.table, attempt.found
    assert found.verdicts is not None, "a diagnosis comes after Filter"
    counted = found.verdicts.counted()
    diagnosis = Diagnosis(_node_count(search, attempt), table.names.__getitem__, counted)
    errors: dict[int, Status] = {}
    for status, rows in found.verdicts.rejected() if counted is None else counted.errors:
        if status.code is Code.ERROR:
            errors.update(dict.fromkeys(rows.tolist(), status))
        if counted is None:
            diagnosis.add(status, rows)
    message: str | None = None
    if errors:
        # The first in the order in which nodes are visited: the row of a node must not decide what is reported.
        first = next(row for row in table.tree.order() if row in errors)
        broken = errors[first]
        wording = search.policy.filter_error
        message = wording.format(plugin=broken.plugin, message=broken.message, pod=attempt.pod.name)
    elif found.nodes is not None and found.nodes.count:
        return None
    diagnosis.absent_status = pre.absent_status
    diagnosis.unschedulable_plugins.update(pre.narrowing_plugins)
    diagnose_extenders(diagnosis, found.left_out)
    return Outcome(diagnosis=diagnosis, error=message)
