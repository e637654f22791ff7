"""Asks a core about a pod: where it fits and why not elsewhere, where it would go, what a whole attempt would decide.

The pod need not be in the cluster, and asking changes nothing. Each question goes further than the one before:

| question | runs |
| --- | --- |
| `judge`, `find` | PreFilter and Filter, over all nodes, with what is nominated counted in |
| `choose` | the scores besides, and lots among equals |
| `decide` | the whole scheduling cycle, with its extenders and PostFilter, answered by the caller |
| `Trial` | Reserve and Permit as well: pods take their places, and give them back at the end |

No cycle of the core may be open meanwhile. Used by the workbench, the extender server and test checks; the core's own
cycles (`berth.core.core`, `berth.cycle.groups`) make their attempts themselves.
"""

from collections.abc import Callable, Generator
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.core.core import Core
from berth.cycle.attempt import UNDECIDED, Attempt
from berth.cycle.binding_cycle import Reservations
from berth.cycle.decision import Decision
from berth.cycle.schedule import Search, choose_node, find_nodes, schedule_pod, score_nodes
from berth.engine.profile import Profile
from berth.engine.scores import Scored
from berth.engine.verdicts import Mask
from berth.extender.in_process import AnswerCall, answered
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Answer, CallExtenders
from berth.state.pod_info import PodInfo

Result = TypeVar("Result")

Answering = Callable[[Any], Answer | None]
"""Answers a cycle's requests to the outside; None if there is no answer, which ends the cycle there."""
Wording = Callable[[BaseException], str]
"""Turns a plugin's bug that ended an attempt into its error, or raises it again."""


def unanswered(_effect: object) -> None:
    """Answer nothing."""


def raised_again(bug: BaseException) -> NoReturn:
    """Raise a bug again, for the caller to handle."""
    raise bug


def granting(answer_call: AnswerCall) -> Answering:
    """Return an answerer that answers extender calls by a function, and grants every API request."""

    def answer(effect: object) -> Answer:
        return answered(0, effect, answer_call) if isinstance(effect, CallExtenders) else Answer(0)

    return answer


def profile_of(core: Core, pod: Pod | PodInfo) -> Profile:
    """Return the profile that schedules a pod, or the first one if none does."""
    info = pod if isinstance(pod, PodInfo) else core.intake.info(pod)
    return core.profiles.get(info.profile_name) or next(iter(core.profiles.values()))


def attempt_for(
    core: Core,
    pod: Pod | PodInfo,
    *,
    profile: Profile | None = None,
    state: CycleState | None = None,
    within: Mask | None = None,
) -> Attempt:
    """Return a fresh attempt at a pod, with its own profile or the given one.

    `within` has the only rows to look at, if some are to be left out.
    """
    info = pod if isinstance(pod, PodInfo) else core.intake.info(pod)
    return Attempt(profile or profile_of(core, info), info, state=state, within=within)


def search_beside(core: Core) -> Search:
    """Return a search that takes the first of equals and begins where the core's own would, without affecting that."""
    search = Search(core.cache.table, lambda rows: int(rows[0]), policy=core.generation.cycle)
    search.begin_at(core.search.start_index)
    return search


def find(
    core: Core,
    pod: Pod | PodInfo,
    *,
    search: Search | None = None,
    on_bug: Wording = raised_again,
    within: Mask | None = None,
) -> Attempt:
    """Run a pod's filters. If they fail, the attempt's outcome says so; otherwise it is undecided.

    `search` is the core's own unless given, in all of these questions; `within` has the only rows to look at.
    """
    attempt = attempt_for(core, pod, within=within)
    try:
        attempt.outcome = find_nodes(search or core.search, attempt) or UNDECIDED
    except BaseException as raised:
        attempt.outcome = attempt.outcome.failed(on_bug(raised))
        attempt.found.release_columns()  # half an answer is none
    return attempt


def score(core: Core, attempt: Attempt, *, search: Search | None = None) -> Scored | None:
    """Score the nodes that were found; None if a single one needs no score, none was found, or scoring failed."""
    nodes = attempt.found.nodes
    if nodes is None or not nodes.count:
        return None
    attempt.outcome = score_nodes(search or core.search, attempt) or attempt.outcome
    return attempt.found.scored


def choose(
    core: Core,
    pod: Pod | PodInfo,
    *,
    search: Search | None = None,
    on_bug: Wording = raised_again,
    within: Mask | None = None,
) -> Attempt:
    """Run a pod's filters and scores and choose a node, as a cycle does that has no extenders to ask."""
    attempt = attempt_for(core, pod, within=within)
    try:
        choose_node(search or core.search, attempt)
    except BaseException as raised:
        attempt.outcome = attempt.outcome.failed(on_bug(raised))
        # Half an answer of the filters is none; where it is scoring that failed, theirs is whole.
        if attempt.found.nodes is None or not attempt.found.nodes.count:
            attempt.found.release_columns()
    return attempt


def decide(
    core: Core,
    pod: Pod | PodInfo,
    answer: Answering,
    *,
    profile: Profile | None = None,
    search: Search | None = None,
    on_bug: Wording = raised_again,
) -> Attempt:
    """Run a whole scheduling cycle for a pod, up to the chosen node; `search` is the core's own unless given."""
    attempt = attempt_for(core, pod, profile=profile)
    try:
        run(schedule_pod(search or core.search, attempt), answer)
        attempt.hold_to_budget()  # where something remained unanswered, the cycle has not come to that
    except BaseException as raised:
        attempt.outcome = attempt.outcome.failed(on_bug(raised))
    return attempt


def run(steps: Generator[Any, Any, Result], answer: Answering) -> Result | None:
    """Run a part of a cycle to its end and return its result; None if something remained unanswered."""
    given: Answer | None = None
    while True:
        try:
            effect = steps.send(given)
        except StopIteration as end:
            result: Result = end.value
            return result
        given = answer(effect)
        if given is None:  # what is closed here must not go on when it is collected, whenever that is
            steps.close()
            return None


def decision_of(core: Core, attempt: Attempt) -> Decision:
    """Return an attempt as a decision that can be explained. To be called while the nodes are still those of the
    attempt.
    """
    table = core.cache.table
    names = tuple(name if ok else "" for name, ok in zip(table.names, table.valid, strict=True))
    return Decision(attempt, names, len(table), core.now, 0)


class FilterOutcome:
    """What the filters say about one pod. Holds its own copies, so that it stays as it is when the cluster changes."""

    __slots__ = ("attempt", "decision", "fits")

    def __init__(self, core: Core, attempt: Attempt) -> None:
        nodes, table = attempt.found.nodes, core.cache.table
        self.attempt = attempt
        self.fits: Mask = nodes.mask.copy() if nodes is not None else np.zeros(table.capacity, dtype=np.bool_)
        """The rows of the nodes on which the pod fits."""
        self.decision = decision_of(core, attempt)

    @property
    def message(self) -> str:
        """Why it fits nowhere, in the words of its condition; empty if it fits."""
        return self.attempt.outcome.message

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the nodes on which the pod fits, ascending."""
        return np.flatnonzero(self.fits)

    @property
    def node_names(self) -> list[str]:
        """The names of these nodes, sorted."""
        return sorted(self.decision.names[row] for row in self.rows.tolist())


def judge(core: Core, pod: Pod | PodInfo, within: Mask | None = None) -> FilterOutcome:
    """Run a pod's filters; `within` has the only rows to look at."""
    return FilterOutcome(core, find(core, pod, within=within))


class Trial(Reservations):
    """Places pods one after the other as the scheduler would, and takes all of it back at the end.

    While it is open the core must not be used otherwise. What a Permit plugin would hold back counts as placed.
    """

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        super().__init__(core.cache)
        self._core = core

    def place(self, pod: Pod | PodInfo, within: Mask | None = None) -> tuple[str | None, str]:
        """Place a pod that has no node; return its node, one of those `within`, or None and why it fits nowhere."""
        attempt = choose(self._core, pod, within=within)
        row = attempt.outcome.chosen_row
        if row is None:
            return None, attempt.outcome.message
        node_name = self._core.cache.table.names[row]
        attempt.found.release_columns()
        status = self.add(attempt, node_name)
        return (node_name, "") if status is None else (None, status.message)
