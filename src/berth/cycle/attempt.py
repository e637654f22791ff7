"""Everything that one attempt to place a pod has found out.

Filled in by `schedule_pod`, read by the cycle, by `berth decide`, and by the trace that explains decisions.
"""

from collections.abc import Callable
from typing import NamedTuple

from berth.cycle.sampling import Sampled
from berth.engine.profile import PreFiltered, Profile
from berth.engine.scores import Scored
from berth.engine.verdicts import Mask, Verdicts
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.interface import FeasibleNodes
from berth.framework.status import Status
from berth.state.pod_info import PodInfo

BASIC_CHECKS_DONE = "Basic checks done"
SNAPSHOT_DONE = "Snapshotting scheduler cache and node infos done"
PRE_FILTER_DONE = "Running prefilter plugins done"
PREDICATES_DONE = "Computing predicates done"
PRE_SCORE_DONE = "Running prescore plugins done"
PRIORITIZING_DONE = "Prioritizing done"
"""Upstream's names of the steps of a cycle (pkg/scheduler/core/generic_scheduler.go, Schedule)."""


def _no_time() -> float:
    return 0.0


class LeftOut(NamedTuple):
    """A node that an extender ruled out; `is_silent` where it does not say why, which upstream tells nobody."""

    extender: str
    status: Status
    is_silent: bool = False


class Attempt:
    """One pod, one profile, and what came of it: a node, a diagnosis, or an error."""

    __slots__ = (
        "chosen_row",
        "diagnosis",
        "error",
        "held_back",
        "laps",
        "left_out",
        "nodes",
        "nominated_node_name",
        "pod",
        "post_filter_status",
        "pre_filtered",
        "profile",
        "sampled",
        "scored",
        "started",
        "state",
        "stopwatch",
        "verdicts",
        "victims",
        "within",
    )

    def __init__(self, profile: Profile, pod: PodInfo, stopwatch: Callable[[], float] = _no_time) -> None:
        self.profile = profile
        self.pod = pod
        self.stopwatch = stopwatch
        self.started = stopwatch()
        self.laps: list[tuple[str, float]] = []
        """The steps that are done, and what the stopwatch showed then."""
        self.state = CycleState()
        self.pre_filtered: PreFiltered | None = None
        self.verdicts: Verdicts | None = None
        self.sampled: Sampled | None = None
        self.nodes: FeasibleNodes | None = None
        self.left_out: dict[int, LeftOut] = {}
        """The nodes that extenders ruled out, by row."""
        self.scored: Scored | None = None
        self.chosen_row: int | None = None
        self.diagnosis: Diagnosis | None = None
        self.post_filter_status: Status | None = None
        self.nominated_node_name: str | None = None
        self.victims: tuple[PodInfo, ...] = ()
        """The pods on the nominated node that have to go."""
        self.within: Mask | None = None
        """The rows of the placement that is tried for the pod's group, where only those were looked at."""
        self.error: str | None = None
        self.held_back = ""
        """Why a pod that a node was found for does not go there: its group has too few that do."""

    def lap(self, step: str) -> None:
        """Note that a step is done."""
        self.laps.append((step, self.stopwatch()))

    @property
    def fits(self) -> bool:
        """Say whether a node was chosen."""
        return self.chosen_row is not None

    def release_columns(self) -> None:
        """Let go of everything that is as long as there are nodes: an attempt may wait long to be bound."""
        self.verdicts = self.sampled = self.nodes = self.scored = None

    @property
    def message(self) -> str:
        """Return why the pod was not placed, as its condition and event say it."""
        if self.error is not None:
            return self.error
        if self.held_back:
            return self.held_back
        return self.diagnosis.message() if self.diagnosis is not None else ""
