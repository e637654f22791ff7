"""Asks the filters about a pod, or about a part of one. Each question counts; at the bound `StoppedError` is raised."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.api.selectors import SelectorError
from berth.core.questions import find, profile_of, run, unanswered
from berth.cycle.attempt import UNDECIDED, Attempt
from berth.cycle.schedule import run_post_filter
from berth.engine.profile import Profile
from berth.framework.blame import PluginBrokenError
from berth.framework.status import Code, Status
from berth.framework.work_budget import OutOfBudgetError
from berth.plugins.preemption.budgets import Budget, Budgets
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth_workbench.simulation.admission import with_priority
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

Json = dict[str, Any]
Mask = NDArray[np.bool_]

STEPS_OF_A_TRIAL = 10_000
"""A trial that spends so many steps of an attempt's budget of work counts as one more."""
NO_PROFILE = "no profile of this scheduler is called {}"


class FilterAnswer:
    """What the filters say of one pod on the cluster as it is during a trial."""

    __slots__ = ("_attempt", "_names", "_valid", "fits", "message", "refusal")

    def __init__(self, attempt: Attempt, valid: Mask, names: list[str], message: str, refusal: Status | None) -> None:
        nodes = attempt.found.nodes
        self._attempt = attempt
        self._valid = valid.copy()
        self._names = names
        self.refusal = refusal
        """What keeps the pod out of the queue, whatever the nodes."""
        self.message = message
        self.fits: Mask = np.zeros_like(valid)
        """The rows where the pod fits; none where it is kept out of the queue."""
        if nodes is not None and refusal is None and attempt.outcome.error is None:
            self.fits = nodes.mask.copy()

    @property
    def is_yes(self) -> bool:
        """Say whether the pod fits anywhere."""
        return bool(self.fits.any())

    @property
    def is_given_up(self) -> bool:
        """Say whether a plugin broke, or took too long, so that it is not known whether the pod fits."""
        return self._attempt.outcome.error is not None and bool(self._valid.any())  # without any node that is one, too

    @property
    def node_names(self) -> tuple[str, ...]:
        """The nodes where the pod fits, sorted."""
        return tuple(sorted(self._names[row] for row in np.flatnonzero(self.fits).tolist()))

    @property
    def pre_filter_status(self) -> Status | None:
        """What PreFilter said where it rejected the pod outright."""
        pre = self._attempt.found.pre_filtered
        return None if pre is None else pre.status

    @property
    def rejecting(self) -> dict[str, Mask]:
        """The rows that each plugin rejects, whatever the others say, as far as they were asked."""
        found: dict[str, Mask] = {}
        pre, verdicts = self._attempt.found.pre_filtered, self._attempt.found.verdicts
        if pre is not None and pre.status is not None:
            for name in [pre.status.plugin] if pre.status.plugin else pre.narrowing_plugins:
                found[name] = self._valid.copy()
        if pre is not None and pre.node_names is not None and verdicts is not None:
            named = np.array([name in pre.node_names for name in self._names], dtype=np.bool_)
            for name in pre.narrowing_plugins:
                found[name] = self._valid & ~named
        for verdict in verdicts.by_plugin if verdicts is not None else ():
            rejected = (verdict.codes != 0) & self._valid
            if rejected.any():
                found[verdict.plugin] = rejected | found.get(verdict.plugin, np.zeros_like(rejected))
        return found

    @property
    def attempt(self) -> Attempt:
        """The attempt itself; its columns are those of the cluster as it was during the trial."""
        return self._attempt

    def affects(self, other: PodInfo) -> bool:
        """Say whether the going of another pod may change more for this one than how much of a node is taken.

        Where PreFilter has ended the search nobody can say, nor where a selector cannot be read; then it does not.
        """
        attempt = self._attempt
        if attempt.found.verdicts is None:
            return False
        with suppress(SelectorError):
            return self._affects(other)
        return False

    def _affects(self, other: PodInfo) -> bool:
        attempt = self._attempt
        return any(
            plugin.is_affected_by(attempt.state, attempt.pod, other)
            for runner in attempt.profile.filters
            if runner.name not in attempt.state.skip_filter and (plugin := runner.plugin.filter_by_pods) is not None
        )

    def reasons(self) -> Iterator[tuple[Status, Mask]]:
        """Yield each status that a filter gave, with the rows."""
        verdicts = self._attempt.found.verdicts
        for verdict in verdicts.by_plugin if verdicts is not None else ():
            codes = verdict.codes
            for code in np.unique(codes[self._valid]).tolist():
                if code:
                    yield verdict.describe(code).by(verdict.plugin), (codes == code) & self._valid


class FilterQuestions:
    """A cluster whose filters are asked about pods; it is as it was after each question."""

    __slots__ = ("_used", "_watch", "budgets", "cluster", "core", "limit", "trials", "within")

    def __init__(self, cluster: SimulatedCluster, limit: int, watch: WorkWatch = UNWATCHED) -> None:
        """`watch` is told of each question; once it is stopped, no more may be asked."""
        self._watch = watch
        self.cluster = cluster
        self.core = cluster.core
        self.budgets: tuple[Budget, ...] = Budgets(self.core.objects).all()
        """The disruption budgets as the cluster has them, before anything is tried."""
        self.limit = limit
        self.trials = 0
        """How often the filters were asked."""
        self.within: Mask | None = None
        """The rows that count, where a gang has to keep to a part of the cluster; None for all."""
        self._used = 0
        """How much of the limit is used: more than one of it for a question that takes long."""

    @property
    def table(self) -> NodeTable:
        """The nodes."""
        found: NodeTable = self.core.cache.table
        return found

    @property
    def valid(self) -> Mask:
        """The rows of the nodes that count."""
        valid: Mask = self.table.valid
        return valid if self.within is None else valid & self.within

    def info(self, pod: Pod) -> PodInfo:
        """Return a pod as plugins see it, with the priority of its class."""
        return self.core.intake.info(with_priority(pod, self.cluster.priority_classes))

    def profile(self, pod: PodInfo) -> Profile:
        """Return the profile that would schedule a pod."""
        return profile_of(self.core, pod)

    def ask(self, pod: Pod | PodInfo, *, is_whole: bool = True) -> FilterAnswer:
        """Ask whether a pod fits; without `is_whole` only its filters count, for a part of a pod.

        A plugin that breaks, or works too long, ends this search only, as it would in a cycle.
        """
        self._count()
        info = pod if isinstance(pod, PodInfo) else self.info(pod)
        refusal = self._refusal(info) if is_whole else None
        with self.search_as_it_was():
            attempt = find(self.core, info, on_bug=_told, within=self.within)
        self._used += attempt.state.work.spent // STEPS_OF_A_TRIAL
        message = refusal.message if refusal is not None else attempt.outcome.message
        return FilterAnswer(attempt, self.valid, list(self.table.names), message, refusal)

    def preempts(self, pod: Pod) -> tuple[str, tuple[str, ...]] | None:
        """Return the node that preemption would free for a pod, and the victims; None where it would free none."""
        self._count()
        with self.search_as_it_was():
            attempt = find(self.core, self.info(pod), on_bug=_told)
            failure = attempt.outcome
            if failure is UNDECIDED or failure.error is not None or attempt.profile.extenders:
                return None
            try:
                outcome = run(run_post_filter(attempt, failure), unanswered)
            except (PluginBrokenError, OutOfBudgetError):
                return None
        if outcome is None:  # a plugin asks the API server; what would come of it cannot be said here
            return None
        self._used += attempt.state.work.spent // STEPS_OF_A_TRIAL
        if not outcome.nominated_node_name:
            return None
        return outcome.nominated_node_name, tuple(victim.key for victim in outcome.victims)

    def _refusal(self, info: PodInfo) -> Status | None:
        name = info.spec.scheduler_name
        if name not in self.core.profiles:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_PROFILE.format(name),))
        return self.profile(info).run_pre_enqueue(info)

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants the search to end."""
        return self._watch.is_stopped

    def _count(self) -> None:
        if self._used >= self.limit or self.is_stopped:
            raise StoppedError
        self.trials += 1
        self._used += 1
        self._watch.advance()

    @contextmanager
    def search_as_it_was(self) -> Iterator[None]:
        """Leave no trace in what one attempt hands to the next: where to start, and the random numbers."""
        search, rng = self.core.search, self.cluster.rng
        start, state = search.start_index, rng.getstate()
        try:
            yield
        finally:
            search.start_index = start
            rng.setstate(state)

    @contextmanager
    def without(self, keys: Iterable[str]) -> Iterator[None]:
        """Have pods gone, by `namespace/name`, for the length of a block."""
        self.cluster.begin()
        try:
            for key in keys:
                self.cluster.delete("Pod", key)
            yield
        finally:
            self.cluster.undo()


def _told(bug: BaseException) -> str:
    if isinstance(bug, PluginBrokenError | OutOfBudgetError):
        return str(bug)
    raise bug
