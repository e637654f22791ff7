"""Judges what another scheduler did with a pod: would the same have happened here, in a state that it could have seen?

The other scheduler decides on a cache. That is a little behind the API server, and ahead of it by assumed pods, whose
bindings arrive a little later and sometimes in a different order. So the decision is compared in several states:

1. the state at its binding: what is bound by then, with the pods that the queue's order has had before this one though
   their bindings came later, without those that it has had after it, and without what happened elsewhere within the
   moment that a binding takes on its way;
2. earlier ones, change by change, back to when the pod came or was last tried;
3. states in which one pod, of which the order of the queue says nothing, was decided about before or after this one.

The pod is judged by the first state in which the two agree. Judging a pod costs at most `MOST_STATES` questions, and a
single one in nearly all cases.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, islice, takewhile
from math import isqrt
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from berth.agreement.moments import CountedOtherwise, Moment, NotedChange, Shift, standing_in
from berth.agreement.results import (
    FailureResult,
    JudgedFailure,
    JudgedPreemption,
    Judgement,
    ObservedDecision,
    Result,
    Weighing,
)
from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.questions import choose, decide, find, unanswered
from berth.cycle.attempt import Attempt, Outcome
from berth.cycle.difference import rejected_by, strongest_first
from berth.cycle.node_sample import feasible_nodes_to_find, fewest_beside
from berth.cycle.schedule import Search
from berth.engine.sums import BestRows
from berth.engine.verdicts import Mask
from berth.framework.blame import contained, status_of
from berth.plugins.preemption.budgets import Budgets, concerning, split_by_violation
from berth.plugins.preemption.choice import Candidate, Cost, by_importance, cost
from berth.state.pod_info import PodInfo

MOST_STATES: Final = 48
MOST_STATES_SAMPLED: Final = 3
"""If sampling can explain why a node is not the best, only this many states are tried, and those within a binding's
travel time: among older ones there would by chance be one in which it is the best.
"""
ON_THE_WAY_S: Final = 0.025
"""How long a binding may be on its way: the decision may have seen the state this long before it."""
FIRST_STEPS_BACK: Final = 4
"""How many earlier states are tried before single pods are moved to the other side of this one."""
MOST_NEIGHBOURS: Final = 12
"""How many pods, bound right before or after this one, are tried on the other side of it."""
MOMENT_REVISIONS: Final = 3
"""How long a binding is on its way, in revisions: what happened this shortly before it was hardly seen by then."""

Answered = TypeVar("Answered")


class Pending(NamedTuple):
    """What is remembered about a pod without a node."""

    pod: Pod
    since: Moment
    """When it came."""
    tried: Moment | None
    """When it was last said to fit nowhere: anything since then was decided later."""
    waits: bool
    """Whether it has waited for something since it came, so that its place in the queue is unknown."""
    uid: str
    scheduler: str
    """Whose pod it is."""
    priority: int

    @classmethod
    def of(cls, pod: Pod, since: Moment, tried: Moment | None) -> "Pending":
        """Return what to remember about a pod as it is now."""
        status, spec = pod.status, pod.spec
        waits = bool(status.nominated_node_name) or any(each.type == "PodScheduled" for each in status.conditions)
        return cls(pod, since, tried, waits, pod.metadata.uid, spec.scheduler_name, spec.priority or 0)

    def goes_before(self, other: "Pending") -> bool:
        """Say whether a queue that holds both certainly pops this one first.

        A pod of higher priority that came later may have come too late, so for such pods it cannot be known.
        """
        if self.since.order >= other.since.order or self.priority < other.priority:
            return False
        return self.scheduler == other.scheduler and not (self.waits or other.waits)


class AskedPod(NamedTuple):
    """What another scheduler did with a pod, at the moment when the API server says so."""

    pod: PodInfo
    """As it was before."""
    pending: Pending
    moment: Moment
    node: str = ""
    """The node that it was bound to; empty if it was not bound."""
    told: str = ""
    """The message of its condition, if it fits nowhere."""
    nominated: str = ""
    """The node that it was newly nominated to."""
    victims: tuple[PodInfo, ...] = ()
    """The pods there that may have had to go for it, the likeliest first."""


class State(NamedTuple):
    """A state in which a scheduler may have decided."""

    shifts: tuple[Shift, ...]
    is_present: bool
    """Whether it is the present state."""
    at: float
    """When that was, in the order of the API server."""


class Past:
    """What the judge reads: the latest changes, the latest bindings, and those not yet taken in."""

    def __init__(self, keep: int) -> None:
        self.changes: deque[NotedChange] = deque(maxlen=keep)
        self.bindings: deque[AskedPod] = deque()
        self._keep = keep
        self._by_arrival: list[tuple[int, AskedPod]] = []
        """The bindings by when their pods came: those before which a pod may have been decided about are the last."""
        self._pending_of: dict[str, Pending] = {}
        """What is remembered about the bound pods, by uid."""
        self.coming: dict[str, AskedPod] = {}
        """The bindings that have arrived but are not yet taken in, by uid."""

    def note_binding(self, bound: AskedPod) -> None:
        """Note that a pod was bound, and forget the oldest bindings."""
        if len(self.bindings) == self._keep:
            oldest = self.bindings.popleft()
            del self._by_arrival[bisect_left(self._by_arrival, oldest.pending.since.order, key=_first_of)]
            self._pending_of.pop(oldest.pending.uid, None)
        self.bindings.append(bound)
        insort(self._by_arrival, (bound.pending.since.order, bound), key=_first_of)
        self._pending_of[bound.pending.uid] = bound.pending

    def states(self, question: AskedPod, moment_s: float) -> Iterator[State]:
        """Yield the states in which a pod may have been decided about, likeliest first.

        `moment_s` is the longest time that a binding is on its way.
        """
        pending, now = question.pending, question.moment
        order = tuple(self._in_order(question))
        unseen = () if pending.waits else self._unseen(pending, now, moment_s)
        yield State((*order, *unseen), True, now.at)
        if unseen:
            yield State(order, True, now.at)
        if order:
            yield State((), True, now.at)
        changes = list(self._since(pending))
        others = [change for change in changes if not self._was_assumed(change, pending)]
        back = _back(others, order)
        yield from islice(back, FIRST_STEPS_BACK)
        for moment, shift in self._either_side(question, order):
            yield State((*order, *unseen, shift), False, moment.at)
            if unseen:
                yield State((*order, shift), False, moment.at)
        yield from back
        yield from _back(changes, ())

    def _since(self, pending: Pending) -> Iterator[NotedChange]:
        """Yield what has changed since a pod came or was last tried, the last first."""
        since = (pending.tried or pending.since).order
        return takewhile(lambda change: change.moment.order > since, reversed(self.changes))

    def _unseen(self, pending: Pending, now: Moment, moment_s: float) -> tuple[Shift, ...]:
        """Return what takes back the changes that were too recent to be seen, except bindings."""
        near = takewhile(lambda change: _is_within(change.moment, now, moment_s), self._since(pending))
        return tuple(change.undone for change in near if not change.bound)

    def _in_order(self, question: AskedPod) -> Iterator[CountedOtherwise]:
        """Yield shifts that leave out the pods that were bound before this one although the queue had them after it."""
        pending = question.pending
        since = pending.since.order
        later = bisect_right(self._by_arrival, since, key=_first_of)
        for _, bound in reversed(self._by_arrival[later:]):
            if pending.goes_before(bound.pending):
                yield CountedOtherwise(bound.pending.uid)

    def _bound_since(self, moment: Moment) -> Iterator[AskedPod]:
        """Yield the pods that were bound after a moment, the last first."""
        for bound in reversed(self.bindings):
            if bound.moment.order <= moment.order:
                return
            yield bound

    def _was_assumed(self, change: NotedChange, pending: Pending) -> bool:
        """Say whether a change is a binding that the pod's scheduler knew about before the API server.

        For a pod that has waited, any binding before its own counts as one, as long as that may explain the decision.
        """
        if not change.bound or pending.waits:
            return bool(change.bound)
        bound = self._pending_of.get(change.bound)
        return bound is not None and (bound.goes_before(pending) or pending.goes_before(bound))

    def _either_side(self, question: AskedPod, order: Sequence[CountedOtherwise]) -> Iterator[tuple[Moment, Shift]]:
        """Yield shifts of single pods to the other side of this one, where the queue's order leaves that open.

        A pod that came after this one's binding was reported was decided about later, whatever its priority.
        """
        pending = question.pending
        settled = {pending.uid, *(shift.uid for shift in order)}
        coming = (
            each
            for each in self.coming.values()
            if each.pending.uid not in settled
            and each.pending.since.order < question.moment.order
            and not pending.goes_before(each.pending)
        )
        for after in islice(coming, MOST_NEIGHBOURS):
            yield question.moment, CountedOtherwise(after.pending.uid, after.pod, after.node)
        bound = (
            each
            for each in self._bound_since(pending.since)
            if each.pending.uid not in settled and not each.pending.goes_before(pending)
        )
        for before in islice(bound, MOST_NEIGHBOURS):
            yield before.moment, CountedOtherwise(before.pending.uid)


def _first_of(entry: tuple[int, AskedPod]) -> int:
    return entry[0]


def _back(changes: Sequence[NotedChange], order: tuple[Shift, ...]) -> Iterator[State]:
    """Yield earlier and earlier states."""
    shifts = order
    for change in changes:
        shifts = (*shifts, change.undone)
        yield State(shifts, False, change.moment.at)


def _is_within(then: Moment, now: Moment, moment_s: float) -> bool:
    """Say whether a binding that is visible now was still on its way then."""
    is_near = not then.revision or not now.revision or now.revision - then.revision <= MOMENT_REVISIONS
    return is_near and now.at - then.at <= moment_s


class StateAnswer(NamedTuple):
    """What is decided in one state."""

    attempt: Attempt
    best: BestRows
    fits: bool
    """Whether the pod fits on the node that it was bound to…"""
    is_best: bool
    """…and whether that is among the best."""


class Missed(NamedTuple):
    """A state in which sampling explains that a pod's node is not the best."""

    question: AskedPod
    state: State
    is_better: Mask
    """The rows of the nodes that the other scheduler must have missed…"""
    better: int
    """…and how many they are."""
    is_by_row: bool
    """Whether a node's score depends on the node and its pods alone."""

    def may_be_otherwise_in(self, other: State, core: Core) -> bool:
        """Say whether the node may be among the best in another state.

        For that, either this node or all better ones must have changed since; or, if scores depend on pods elsewhere, a
        pod of its own kind must have.
        """
        pod, nodes = self.question.pod, set[str]()
        for shift in {*other.shifts} ^ {*self.state.shifts}:
            moved, touched = shift.touches(core)
            if not self.is_by_row and moved is not None and moved.label_key == pod.label_key:
                return True
            nodes.update(touched)
        if self.question.node in nodes:
            return True
        rows = {core.cache.table.row_of.get(name) for name in nodes} if len(nodes) >= self.better else ()
        return self.better <= sum(row is not None and bool(self.is_better[row]) for row in rows)


class Judge:
    """Compares what another scheduler did with what a core decides."""

    def __init__(
        self,
        core: Core,
        past: Past,
        percentages: Mapping[str, int | None],
        *,
        keeps_totals: bool,
        moment_s: float,
    ) -> None:
        """`percentages` says for each profile which share of the nodes the other scheduler looks at.

        `moment_s` is the longest time that a binding is on its way, by a reliable clock. With `keeps_totals`,
        judgements have the totals of all nodes.
        """
        self._core = core
        self._past = past
        self._percentages = percentages
        self._keeps_totals = keeps_totals
        self._moment_s = moment_s
        self.on_decided: Callable[[Attempt], None] | None = None
        """Called with each attempt by which a pod is judged, while the cluster is in its state."""
        self.on_otherwise: Callable[[Core, PodInfo], None] | None = None
        """Called with each pod that was decided differently, while the core's cluster is in that state."""

    def judge(self, question: AskedPod) -> Judgement:
        """Judge a pod that is about to be counted as bound."""
        asked = 0
        first: State | None = None
        missed: Missed | None = None
        """Set once there is a state in which sampling explains why the node is not the best."""
        for tried, state in enumerate(islice(self._past.states(question, self._moment_s), MOST_STATES)):
            first = first or state
            if missed is not None:
                if tried >= MOST_STATES_SAMPLED and question.moment.at - state.at > ON_THE_WAY_S:
                    break
                if not missed.may_be_otherwise_in(state, self._core):
                    continue
            with standing_in(self._core, state.shifts):
                answer = self._ask(question)
                asked += 1
                if answer.is_best:
                    result: Result = "agrees" if state.is_present else "couldHaveSeen"
                    return self._judged(question, state, answer, result, asked)
                missed = missed or self._missed(question, state, answer)
        assert first is not None, "there is always the state at the moment of the question"
        state, result = (first, "otherwise") if missed is None else (missed.state, "sampled")
        with standing_in(self._core, state.shifts):
            judged = self._judged(question, state, self._ask(question), result, asked)
            if result == "otherwise" and self.on_otherwise is not None:
                self.on_otherwise(self._core, question.pod)
        return judged

    def judge_failure(self, question: AskedPod) -> JudgedFailure:
        """Judge a pod that was said to fit nowhere, and the room that was made for it, if any."""
        judged: JudgedFailure | None = None
        for state in islice(self._past.states(question, self._moment_s), MOST_STATES):
            with standing_in(self._core, state.shifts):
                attempt = decide(self._core, question.pod, unanswered, search=self._search(), on_bug=_worded)
                answer = self._failure(question, state, attempt)
                if judged is None or answer.result != "otherwise":
                    judged = answer
                    if self.on_decided is not None:
                        self.on_decided(attempt)
                if answer.result != "otherwise":
                    break
        assert judged is not None, "there is always the state at the moment of the question"
        if judged.result == "otherwise" and self.on_otherwise is not None:
            self.on_otherwise(self._core, question.pod)
        return judged

    def _search(self) -> Search:
        return Search(self._core.cache.table, _first, policy=self._core.generation.cycle, score_single_node=True)

    def _ask(self, question: AskedPod) -> StateAnswer:
        table = self._core.cache.table
        attempt = choose(self._core, question.pod, search=self._search(), on_bug=_worded)
        scored, nodes = attempt.found.scored, attempt.found.nodes
        row = table.row_of.get(question.node)
        if scored is None or nodes is None or attempt.outcome.error is not None:
            return StateAnswer(attempt, (), False, False)
        best = scored.best_rows()
        fits = row is not None and bool(nodes.mask[row])
        return StateAnswer(attempt, best, fits, fits and row in best)

    def _missed(self, question: AskedPod, state: State, answer: StateAnswer) -> Missed | None:
        """Return which nodes are better than this one, if a scheduler that looks at a part of the nodes may have chosen
        it.
        """
        attempt = answer.attempt
        nodes, scored = attempt.found.nodes, attempt.found.scored
        if not answer.fits or nodes is None or scored is None:
            return None
        enough = feasible_nodes_to_find(len(self._core.cache.table), self._percentages.get(attempt.profile.name))
        if nodes.count <= enough:
            return None
        table = self._core.cache.table
        rows = nodes.row_array()
        totals = scored.total(rows)
        is_better = np.zeros(table.capacity, dtype=np.bool_)
        is_better[rows] = totals > totals[np.searchsorted(rows, table.row_of[question.node])]
        better = int(np.count_nonzero(is_better))
        # It looked at enough nodes, and none of these was better.
        if better > nodes.count - enough:
            return None
        missed = isqrt(len(table))  # what its workers leave of their chunks once enough are found
        if better > missed:
            order = np.array([row for row in table.tree.order() if nodes.mask[row]], dtype=np.intp)
            at = int(np.flatnonzero(order == table.row_of[question.node])[0])
            if fewest_beside(is_better[order], at, enough) > missed:
                return None
        return Missed(question, state, is_better, better, scored.is_by_row)

    def _judged(self, question: AskedPod, state: State, answer: StateAnswer, result: Result, asked: int) -> Judgement:
        if self.on_decided is not None:
            row = self._core.cache.table.row_of.get(question.node)
            if answer.fits:  # the explanation is for where the pod went
                answer.attempt.outcome = Outcome(chosen_row=row)
            self.on_decided(answer.attempt)
        names = self._core.cache.table.names
        scored, nodes = answer.attempt.found.scored, answer.attempt.found.nodes
        totals: dict[str, int] = {}
        if self._keeps_totals and scored is not None and nodes is not None and len(answer.best):
            rows = nodes.row_array()
            totals = {names[row]: total for row, total in zip(rows.tolist(), scored.total(rows).tolist(), strict=True)}
        decision = ObservedDecision(
            question.pod.key,
            question.node,
            result,
            tuple(sorted(names[int(row)] for row in answer.best)) if self._keeps_totals or not answer.is_best else (),
            totals,
            _lag_ms(question, state),
        )
        judged = Judgement(decision, question.pending.uid, question.pending.scheduler, question.moment.at, asked)
        return judged if answer.is_best else self._weighed(judged, answer)

    def _weighed(self, judged: Judgement, answer: StateAnswer) -> Judgement:
        """Say how the two nodes differ."""
        attempt, table = answer.attempt, self._core.cache.table
        scored, row = attempt.found.scored, table.row_of.get(judged.decision.node)
        best = int(answer.best[0]) if len(answer.best) else None
        shares = {} if scored is None or best is None else scored.shares(best)
        ours = None if best is None else Weighing(table.names[best], shares)
        if not answer.fits or scored is None or row is None:
            said = {} if row is None else rejected_by(attempt, table, row)
            theirs = Weighing(judged.decision.node, {}, said)
            message = attempt.outcome.message
            return msgspec.structs.replace(judged, theirs=theirs, ours=ours, plugins=tuple(said), message=message)
        own = scored.shares(row)
        return msgspec.structs.replace(
            judged,
            theirs=Weighing(judged.decision.node, own),
            ours=ours,
            points=sum(shares.values()) - sum(own.values()),
            plugins=strongest_first({name: points - own.get(name, 0) for name, points in shares.items()}),
        )

    def _failure(self, question: AskedPod, state: State, attempt: Attempt) -> JudgedFailure:
        outcome, names = attempt.outcome, self._core.cache.table.names
        is_same = not outcome.fits and outcome.message == question.told
        preemption: JudgedPreemption | None = None
        if question.nominated:
            search = partial(find, self._core, question.pod, search=self._search(), on_bug=_worded)
            preemption = _preemption(self._core, question, attempt, search)
            is_same = not outcome.fits and (preemption.is_same or preemption.is_as_good)
        result: FailureResult = "otherwise"
        if is_same:
            result = "agrees" if state.is_present else "couldHaveSeen"
        return JudgedFailure(
            question.pod.key,
            question.pending.uid,
            result,
            question.moment.at,
            question.told,
            outcome.message,
            "" if outcome.chosen_row is None else names[outcome.chosen_row],
            preemption,
            _lag_ms(question, state),
            () if outcome.diagnosis is None else tuple(sorted(outcome.diagnosis.unschedulable_plugins)),
        )


def _preemption(
    core: Core, question: AskedPod, attempt: Attempt, find_again: Callable[[], Attempt]
) -> JudgedPreemption:
    """Compare the room that was made for a pod with what is decided here, in the core's current state.

    Other victims are as good if evicting them costs the same and the pod then fits there.
    """
    table, outcome = core.cache.table, attempt.outcome
    node, ours = outcome.nominated_node_name or "", outcome.victims
    row = table.row_of.get(question.nominated)
    there = {} if row is None else table.view(row).pods
    theirs = [each for each in question.victims if each.uid in there]
    is_same = node == question.nominated and bool(ours) and {each.uid for each in ours} <= {each.uid for each in theirs}
    taken = ours if is_same else tuple(theirs)
    is_as_good = is_same
    if ours and row is not None and not is_same:
        price = _cost(core, question.pod, table.row_of[node], ours)
        for chosen in combinations(theirs, len(ours)):
            if _cost(core, question.pod, row, chosen) == price:
                with standing_in(core, [CountedOtherwise(each.uid) for each in chosen]):
                    nodes = find_again().found.nodes
                if nodes is not None and nodes.mask[row]:
                    is_as_good, taken = True, chosen
                    break
    return JudgedPreemption(
        question.nominated,
        tuple(sorted(each.key for each in taken)),
        node,
        tuple(sorted(each.key for each in ours)),
        is_same,
        is_as_good,
    )


def _cost(core: Core, pod: PodInfo, row: int, victims: Sequence[PodInfo]) -> Cost:
    """Return the cost of making room for a pod, by upstream's criteria."""
    lower = by_importance(other for other in core.cache.table.view(row).pods.values() if other.priority < pod.priority)
    breaking, _ = split_by_violation(lower, concerning(lower, Budgets(core.objects).all()))
    uids = {each.uid for each in victims}
    return cost(Candidate(row, tuple(victims), sum(each.uid in uids for each in breaking)))


def _lag_ms(question: AskedPod, state: State) -> int:
    return max(0, round((question.moment.at - state.at) * 1000))


def _first(rows: BestRows) -> int:
    return int(rows[0])


def _worded(bug: BaseException) -> str:
    return status_of(contained(bug)).message
