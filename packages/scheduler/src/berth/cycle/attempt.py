"""One attempt to place a pod: its input, what the search has found, and how it ended.

Run by `schedule_pod`, read by the cycle, by `berth decide`, and by the trace that explains decisions.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from berth.cycle.node_sample import Sampled
from berth.engine.profile import PreFiltered, Profile
from berth.engine.scores import Scored
from berth.engine.verdicts import Mask, Verdicts
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis, RejectedNodes
from berth.framework.interface import FeasibleNodes
from berth.framework.status import Status
from berth.framework.work_budget import WorkBudget
from berth.state.pod_info import PodInfo

BASIC_CHECKS_DONE = "Basic checks done"
SNAPSHOT_DONE = "Snapshotting scheduler cache and node infos done"
PRE_FILTER_DONE = "Running prefilter plugins done"
PREDICATES_DONE = "Computing predicates done"
PRE_SCORE_DONE = "Running prescore plugins done"
PRIORITIZING_DONE = "Prioritizing done"
"""Upstream's names of the steps of a cycle (pkg/scheduler/core/generic_scheduler.go, Schedule)."""


def no_stopwatch() -> float:
    """The stopwatch of a core whose durations are not reported."""
    return 0.0


class LeftOut(NamedTuple):
    """A node that an extender ruled out; `is_silent` if it gave no reason, in which case upstream does not report the
    node.
    """

    extender: str
    status: Status
    is_silent: bool = False


class SearchResult:
    """What the search for a node has found so far. `release_columns` drops the parts whose size grows with the cluster.

    Only the steps of `berth.cycle.schedule.schedule_pod` write to it, each part by the step that finds it.
    """

    __slots__ = ("left_out", "narrowed", "nodes", "pre_filtered", "sampled", "scored", "verdicts")

    def __init__(self) -> None:
        self.pre_filtered: PreFiltered | None = None
        self.verdicts: Verdicts | None = None
        """What the Filter plugins say; None if only the node to which the pod was nominated was looked at."""
        self.sampled: Sampled | None = None
        """Which nodes were looked at, if not all were."""
        self.nodes: FeasibleNodes | None = None
        """The nodes left for scoring; None if PreFilter ended the search."""
        self.narrowed: tuple[RejectedNodes, ...] = ()
        """The nodes that pass all filters and that a plugin's `narrow` left out."""
        self.left_out: dict[int, LeftOut] = {}
        """The nodes that extenders ruled out, by row."""
        self.scored: Scored | None = None
        """None if nothing had to be scored."""

    def release_columns(self) -> None:
        """Drop everything that has an element for each node."""
        self.verdicts = self.sampled = self.nodes = self.scored = None
        self.narrowed = ()


class Outcome(msgspec.Struct, frozen=True):
    """How an attempt ended: a node, or the reason why there is none and what may be done about it."""

    chosen_row: int | None = None
    diagnosis: Diagnosis | None = None
    """Why the pod fits no node."""
    error: str | None = None
    """What went wrong; it is then unknown whether the pod fits anywhere."""
    post_filter_status: Status | None = None
    nominated_node_name: str | None = None
    """The node on which PostFilter can make room; "" if an earlier nomination must go, None if it stays."""
    victims: tuple[PodInfo, ...] = ()
    """The pods on the nominated node that have to go."""
    held_back: str = ""
    """Why a pod does not go to the node found for it: too few members of its group have one."""
    beside: tuple[tuple[str, PodInfo], ...] = ()
    """The members of its group that were held back like this, each with its node, if the pod itself has found none."""

    @property
    def fits(self) -> bool:
        """Say whether a node was chosen."""
        return self.chosen_row is not None

    @property
    def message(self) -> str:
        """Return why the pod was not placed, as its condition and event say it."""
        if self.error is not None:
            return self.error
        if self.held_back:
            return self.held_back
        return self.diagnosis.message() if self.diagnosis is not None else ""

    def failed(self, message: str) -> "Outcome":
        """Return the same outcome with a later error in it: no node is chosen."""
        return msgspec.structs.replace(self, error=message, chosen_row=None)


UNDECIDED = Outcome()


class Attempt:
    """One attempt at one pod: the input, what the search has found, and the outcome.

    The input (`profile`, `pod`, `within`, `started`) never changes. `found` grows while `schedule_pod` runs. `outcome`
    is only ever replaced as a whole: first by `schedule_pod`, then by a step that finds that it cannot be carried out
    (a plugin's bug, a refused eviction, a pod group that has too few places).
    """

    __slots__ = (
        "alike",
        "found",
        "laps",
        "outcome",
        "permit_words",
        "pod",
        "profile",
        "started",
        "state",
        "stopwatch",
        "within",
    )

    def __init__(
        self,
        profile: Profile,
        pod: PodInfo,
        stopwatch: Callable[[], float] = no_stopwatch,
        *,
        within: Mask | None = None,
        state: CycleState | None = None,
        work: WorkBudget | None = None,
    ) -> None:
        """`within` has the only rows to look at, if a placement for the pod's group is being tried.

        `work` is the attempt's budget; without one it gets its own, of the default size.
        """
        self.profile = profile
        self.pod = pod
        self.within = within
        self.stopwatch = stopwatch
        self.started = stopwatch()
        self.laps: list[tuple[str, float]] = []
        """The steps done so far, each with the stopwatch's reading at its end."""
        self.alike: Attempt | None = None
        """An attempt at a pod of the same shape that found no node, since which no pod was placed and no node changed:
        what it was told holds for this one, as far as all filters say which pods their answers are for.
        """
        self.state = state or CycleState(work or WorkBudget())
        """What plugins pass from one point to the next."""
        self.found = SearchResult()
        self.outcome = UNDECIDED
        self.permit_words: Mapping[str, str] = {}
        """The messages of the Permit plugins that hold the pod."""

    def hold_to_budget(self) -> None:
        """End the attempt in an error once the budget is used up, even if a plugin has swallowed the exception."""
        verdict = self.state.work.verdict
        if verdict and self.outcome.error is None:
            self.outcome = Outcome(error=verdict)

    def lap(self, step: str) -> None:
        """Note that a step is done; does nothing without a stopwatch."""
        if self.stopwatch is not no_stopwatch:
            self.laps.append((step, self.stopwatch()))
