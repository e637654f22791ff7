"""Profiles that tell an instrument how long their points and plugins take: made for one that wants to know.

Points are timed in every attempt, plugins in one of ten, as upstream does it (pluginMetricsSamplePercent): there are
many of them. A status is upstream's name of the code that a point or plugin ended with. Filter and Score plugins are
timed where they are asked, which is over all nodes at once, or over those that changed. Queueing hints are few, and all
timed.

Which plugins have their say is counted as upstream counts its calls (pkg/scheduler/framework/runtime,
instrumented_plugins.go), although an answer that is kept costs no call here: PreFilter and PreScore once for each
attempt in which the plugin does not skip, Filter once for each node that no plugin before it has rejected, Score once
for each feasible node. Not counted are calls on top of that: the second look at nodes that pods are nominated to, and
what preemption tries out.
"""

from collections.abc import Callable, Container, Generator, Iterable, Mapping
from itertools import cycle
from typing import Any, NamedTuple, TypeVar, TypeVarTuple

import numpy as np

from berth.cycle.attempt import Attempt, Outcome
from berth.cycle.instrument import Instrument, Times
from berth.engine.memo import Compute, RowForm
from berth.engine.profile import Permitted, PreFiltered, Profile, Rota
from berth.engine.scores import Scored, ScoreRunner
from berth.engine.verdicts import FilterRunner, Mask, Verdict, Verdicts
from berth.framework.blame import Named, contained
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Answer
from berth.framework.events import ClusterEvent, QueueingHint
from berth.framework.interface import FeasibleNodes, Plugin
from berth.framework.status import Code, Status
from berth.queue.waking import Registered, WakeTable
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

EVERY = 10
"""In one attempt of so many the plugins are timed."""
SUCCESS, SKIP, ERROR = Code.SUCCESS.label, Code.SKIP.label, Code.ERROR.label
HINT_ERROR = "Error"

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
Steps = Generator[Any, Any, Result]
Form = TypeVar("Form", bound=Plugin)
Methods = Mapping[str, Callable[..., Any]]
"""A plugin's methods by their names, which are those of their points in snake case."""


class TimedProfile(Profile):
    """A profile that tells an instrument how long its points take."""

    def __init__(self, *args: Any, instrument: Instrument, stopwatch: Callable[[], float], **options: Any) -> None:
        """Take a profile's arguments, the instrument to report to, and the stopwatch to measure with."""
        super().__init__(*args, **options)
        self._instrument = instrument
        self._stopwatch = stopwatch
        self._turns = cycle([True] + [False] * (EVERY - 1))
        self._enqueue_turns = cycle([True] + [False] * (EVERY - 1))
        self._is_timed = False
        self._left: dict[str, _Left] = {}
        self._counted: dict[tuple[str, frozenset[str], str], Times] = {}
        self._filtered = {
            runner.name: instrument.evaluations(self.name, "Filter", (runner.name,)) for runner in self.filters
        }
        self.filters = [_TimedFilter(runner, self) for runner in self.filters]
        self.scorers = [_TimedScore(runner, self) for runner in self.scorers]
        self.pre_enqueue = self._timed_forms(self.pre_enqueue, lambda p: {"pre_enqueue": p.pre_enqueue})
        self.pre_filter = self._timed_forms(self.pre_filter, lambda p: {"pre_filter": p.pre_filter})
        self.post_filter = self._timed_forms(self.post_filter, lambda p: {"post_filter": p.post_filter})
        self.pre_score = self._timed_forms(self.pre_score, lambda p: {"pre_score": p.pre_score})
        self._reserve = self._timed_rota(self._reserve, lambda p: {"reserve": p.reserve, "unreserve": p.unreserve})
        self.permit = self._timed_forms(self.permit, lambda p: {"permit": p.permit})
        self._pre_bind = self._timed_rota(self._pre_bind, lambda p: {"pre_bind": p.pre_bind})
        self.bind = self._timed_forms(self.bind, lambda p: {"bind": p.bind})
        self.post_bind = self._timed_forms(self.post_bind, lambda p: {"post_bind": p.post_bind})

    # -- points --------------------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: PodInfo, first: str = "") -> Status | None:
        """PreEnqueue; its plugins take turns of their own, since there is no attempt yet."""
        self._is_timed = next(self._enqueue_turns)
        return self.at_point("PreEnqueue", super().run_pre_enqueue, pod, first)

    def run_pre_filter(self, state: CycleState, pod: PodInfo) -> PreFiltered:
        """PreFilter, the first point of an attempt: whether its plugins are timed is decided here."""
        state.is_timed = self._is_timed = next(self._turns)
        found = self.at_point("PreFilter", super().run_pre_filter, state, pod)
        rejection = found.status
        stopper = rejection.plugin if rejection is not None and rejection.code is not Code.UNSCHEDULABLE else ""
        self._count("PreFilter", self.pre_filter, state.skip_filter, stopper)
        return found

    def run_filter(self, state: CycleState, pod: PodInfo, table: NodeTable, searched: Mask) -> Verdicts:
        """Filter over all nodes, which `berth.cycle.schedule` times with what it makes of the verdicts."""
        found = super().run_filter(state, pod, table, searched)
        self._count_nodes(found, table.node_log.position)
        return found

    def run_filter_beside_nominated(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Filter on the one node that was promised to the pod."""
        found = super().run_filter_beside_nominated(state, pod, node)
        self._count("Filter", self.filters, state.skip_filter, "" if found is None else found.plugin)
        return found

    def run_pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """PreScore."""
        found = self.at_point("PreScore", super().run_pre_score, state, pod, nodes)
        self._count("PreScore", self.pre_score, state.skip_score, "" if found is None else found.plugin)
        return found

    def run_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes, *more: Any) -> Scored | Status:
        """Score and NormalizeScore."""
        found = self.at_point("Score", super().run_score, state, pod, nodes, *more)
        self._count("Score", self.scorers, state.skip_score, times=nodes.count)
        return found

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reserve."""
        return self.at_point("Reserve", super().run_reserve, state, pod, node_name)

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Unreserve."""
        self.at_point("Unreserve", super().run_unreserve, state, pod, node_name)

    def run_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> Permitted:
        """Permit."""
        return self.at_point("Permit", super().run_permit, state, pod, node_name)

    def at_point(self, point: str, run: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a point, and tell how long it took."""
        started = self._stopwatch()
        result = run(*args)
        self._instrument.extension_point(self.name, point, status_of(result), self._stopwatch() - started)
        return result

    def steps_at_point(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Take the steps of a point, and tell how long they took, with whatever they waited for."""
        started = self._stopwatch()
        result = yield from steps
        self._instrument.extension_point(self.name, point, status_of(result), self._stopwatch() - started)
        return result

    # -- plugins -------------------------------------------------------------------------------------------

    def time_plugin(self, name: str, point: str, run: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        """Run one plugin, and tell how long it took if this attempt is timed."""
        if not self._is_timed:
            return run(*args)
        started = self._stopwatch()
        result = run(*args)
        self._instrument.plugin_run(name, point, status_of(result), self._stopwatch() - started)
        return result

    def timed_row_form(self, name: str, point: str, row_form: RowForm | None) -> RowForm | None:
        """Return what asks one plugin about a row, timed in the same way."""
        if row_form is None:
            return None
        return lambda *args: self.time_plugin(name, point, row_form, args)

    def timed_method(self, name: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a plugin's method, timed in attempts that are; it may answer with steps that wait."""

        def timed(state: Any, *args: Any) -> Any:
            if not (state.is_timed if isinstance(state, CycleState) else self._is_timed):
                return method(state, *args)
            started = self._stopwatch()
            result = method(state, *args)
            if isinstance(result, Generator):
                return self._timed_steps(name, point, result, started)
            self._instrument.plugin_run(name, point, status_of(result), self._stopwatch() - started)
            return result

        return timed

    def _timed_steps(self, name: str, point: str, steps: Steps[Any], started: float) -> Steps[Any]:
        result = yield from steps
        self._instrument.plugin_run(name, point, status_of(result), self._stopwatch() - started)
        return result

    def _timed_forms(self, plugins: Iterable[Form], methods: Callable[[Form], Methods]) -> tuple[Any, ...]:
        return tuple(_TimedForm(plugin.name, methods(plugin), self) for plugin in plugins)

    def _timed_rota(self, rota: Rota[Form], methods: Callable[[Form], Methods]) -> Rota[Any]:
        return Rota(self._timed_forms(rota.plugins, methods), rota.idle_after_skip)

    # -- how often who was asked ---------------------------------------------------------------------------

    def _count(
        self, point: str, plugins: Iterable[Named], skipped: set[str], stopper: str = "", times: int = 1
    ) -> None:
        """Tell which plugins had their say: those that did not skip, up to the one that ended it, if any did."""
        key = (point, frozenset(skipped), stopper)
        found = self._counted.get(key)
        if found is None:
            asked = [plugin.name for plugin in plugins if plugin.name not in skipped]
            upto = asked.index(stopper) + 1 if stopper in asked else len(asked)
            found = self._counted[key] = self._instrument.evaluations(self.name, point, tuple(asked[:upto]))
        found.count += times

    def _count_nodes(self, verdicts: Verdicts, nodes: int) -> None:
        """Tell about how many nodes each Filter plugin had its say: those that no plugin before it rejected.

        `nodes` is the position in the log of nodes, by which kept masks are known to be of the same nodes.
        """
        left = verdicts.searched
        reached, passing = int(np.count_nonzero(left)), int(np.count_nonzero(verdicts.passing))
        for verdict in verdicts.by_plugin:
            self._filtered[verdict.plugin].count += reached
            if reached != passing:  # else nobody from here on rejects a node that is left
                left, reached = self._left_after(verdict, left, reached, nodes)

    def _left_after(self, verdict: Verdict, before: Mask, reached: int, nodes: int) -> tuple[Mask, int]:
        """Return the nodes of a mask that one plugin passes, and how many they are.

        Most columns stay as they are from one attempt to the next. A verdict is another object as soon as its column
        has changed, and the masks that come out of here are never written to, so the same objects mean the same answer.
        The first mask may be the table's own, which is written to in place, but only when nodes come or go.
        """
        kept = self._left.get(verdict.plugin)
        if kept is None or kept.verdict is not verdict or kept.before is not before or kept.nodes != nodes:
            passes = verdict.codes == 0
            left = passes & before
            count = int(np.count_nonzero(left))
            kept = _Left(verdict, before, nodes, before if count == reached else left, count)
            self._left[verdict.plugin] = kept
        return kept.left, kept.many


class TracedProfile(TimedProfile):
    """A timed profile that also tells what is run for some pods, and what that waits for: made for traces of pods."""

    def __init__(self, *args: Any, followed: Container[str], **options: Any) -> None:
        """Take a timed profile's arguments, and the uids of the pods to tell of, which change as pods come and go."""
        super().__init__(*args, **options)
        self._followed = followed

    def at_point(self, point: str, run: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a point, and tell of it if it is for a pod that is followed."""
        pod = pod_among(args)
        if pod is None or pod.uid not in self._followed:
            return super().at_point(point, run, *args)
        started = self._stopwatch()
        result = super().at_point(point, run, *args)
        self._instrument.point_run(pod, point, status_of(result), self._stopwatch() - started)
        return result

    def steps_at_point(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Return the steps of a point; for a pod that is followed, what they wait for is told, and their end."""
        if pod.uid not in self._followed:
            return super().steps_at_point(point, steps, pod)
        return self._told(point, steps, pod)

    def _told(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        started = self._stopwatch()
        result = yield from super().steps_at_point(point, self._watched(steps, pod), pod)
        self._instrument.point_run(pod, point, status_of(result), self._stopwatch() - started)
        return result

    def _watched(self, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Do what `yield from` does, and tell what came of everything that was asked for."""
        answer: Any = None
        interruption: BaseException | None = None
        while True:
            try:
                asked = steps.send(answer) if interruption is None else steps.throw(interruption)
            except StopIteration as end:
                found: Result = end.value
                return found
            started, answer, interruption = self._stopwatch(), None, None
            try:
                answer = yield asked
            except BaseException as thrown:  # handed to the steps, which clean up and end
                interruption = thrown
            error = answer.error if isinstance(answer, Answer) else ""
            if interruption is not None:
                error = str(interruption)
            self._instrument.answered(pod, asked, error, self._stopwatch() - started)


def pod_among(arguments: Iterable[Any]) -> PodInfo | None:
    """Return the pod among a point's arguments, or that of the attempt among them; None where there is neither."""
    for argument in arguments:
        if type(argument) is PodInfo:
            return argument
        if type(argument) is Attempt:
            return argument.pod
    return None


class _Left(NamedTuple):
    """What one plugin left of a mask, and what that was worked out from."""

    verdict: Verdict
    before: Mask
    nodes: int
    left: Mask
    many: int


class _TimedForm:
    """A plugin as what it is at one point or two: its name, and its methods there, timed."""

    def __init__(self, name: str, methods: Methods, profile: TimedProfile) -> None:
        self.name = name
        for called, method in methods.items():
            setattr(self, called, profile.timed_method(name, called.title().replace("_", ""), method))


class _TimedFilter(FilterRunner):
    """One Filter plugin, timed."""

    __slots__ = ("_profile",)

    def __init__(self, runner: FilterRunner, profile: TimedProfile) -> None:
        super().__init__(runner.plugin)
        self._profile = profile
        self.row_form = profile.timed_row_form(self.name, "Filter", self.row_form)

    def compute(self, *args: Any) -> Compute:
        ask = super().compute(*args)
        return lambda rows: self._profile.time_plugin(self.name, "Filter", ask, (rows,))


class _TimedScore(ScoreRunner):
    """One Score plugin, timed where it computes its raw scores."""

    __slots__ = ("_profile",)

    def __init__(self, runner: ScoreRunner, profile: TimedProfile) -> None:
        super().__init__(runner.plugin, runner.weight)
        self._profile = profile
        self.row_form = profile.timed_row_form(self.name, "Score", self.row_form)

    def compute(self, *args: Any) -> Compute:
        ask = super().compute(*args)
        return lambda rows: self._profile.time_plugin(self.name, "Score", ask, (rows,))

    def _raw(self, *args: Any) -> Any:
        return self._profile.time_plugin(self.name, "Score", super()._raw, args)


class TimedWakeTable(WakeTable):
    """A wake table that reports to an instrument what each hint answered, to which event, and how long it took."""

    __slots__ = ("_instrument", "_stopwatch")

    def __init__(self, table: WakeTable, instrument: Instrument, stopwatch: Callable[[], float]) -> None:
        """Take over what is registered in `table`."""
        super().__init__(table.registered, table.makes_room)
        self._instrument = instrument
        self._stopwatch = stopwatch

    def concerned(self, event: ClusterEvent) -> tuple[Registered, ...]:
        """Return what was registered that covers this event, with hints that are timed under its name."""
        found = self._by_event.get(event)
        if found is None:
            found = tuple(self._timed(registered, event.label) for registered in super().concerned(event))
            self._by_event[event] = found
        return found

    def _timed(self, registered: Registered, event: str) -> Registered:
        plugin, hint = registered.plugin, registered.hint

        def asked(pod: PodInfo, old: Any, new: Any) -> QueueingHint:
            said = HINT_ERROR
            started = self._stopwatch()
            try:
                answer = QueueingHint.QUEUE if hint is None else hint(pod, old, new)
                said = answer.value
            except BaseException as raised:
                error = contained(raised)
                self._instrument.hint_broke(pod, plugin, event, error)
                raise
            finally:
                self._instrument.hinted(plugin, event, said, self._stopwatch() - started)
                self._instrument.hint_answered(pod, plugin, event, said)
            return answer

        return registered._replace(hint=asked)


def status_of(result: Any) -> str:
    """The status that the result of a point or plugin stands for; a plain False is a point that nobody had work for."""
    if result is None:
        return SUCCESS
    if result is False:
        return SKIP
    if isinstance(result, Status):
        return result.code.label
    if isinstance(result, tuple):
        status = next((part for part in result if isinstance(part, Status)), None)
    elif isinstance(result, Outcome):
        return SUCCESS if result.error is None else ERROR
    else:
        status = getattr(result, "status", None)
    return status.code.label if isinstance(status, Status) else SUCCESS
