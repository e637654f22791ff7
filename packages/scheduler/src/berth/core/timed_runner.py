"""Runs a profile if an instrument wants to know how long its points and plugins take.

Points are timed in every attempt, plugins, of which there are many, in one of ten, as upstream does
(pluginMetricsSamplePercent). A status is upstream's name for the code with which a point or plugin ended. Filter and
Score plugins are timed where they are asked: over all nodes at once, or over those that changed. Queueing hints are
few, and all are timed.

Evaluations are counted as upstream counts its calls (pkg/scheduler/framework/runtime, instrumented_plugins.go),
although a cached answer costs no call here: PreFilter and PreScore once for each attempt in which the plugin does not
skip, Filter once for each node that no earlier plugin has rejected, Score once for each feasible node. Additional calls
are not counted: the second look at nodes with nominated pods, and what preemption tries out.
"""

from collections.abc import Callable, Container, Generator, Iterable, Sequence, Set
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import force_setattr

from berth.cycle.attempt import Attempt, Outcome
from berth.cycle.instrument import Instrument, Times
from berth.engine.columns import RowForm
from berth.engine.point_runner import Arguments, PointRunner, Result
from berth.engine.scores import ScoreRunner
from berth.engine.verdicts import FilterRunner, Mask, Verdict, Verdicts
from berth.framework.blame import Named, contained
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Answer, Steps
from berth.framework.events import ClusterEvent, QueueingHint
from berth.framework.loaded import LoadedPlugin, Methods, replaced
from berth.framework.status import Code, Status
from berth.queue.hints import Registered, Strategy, WakeTable
from berth.queue.in_flight import InFlightEvent
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

EVERY = 10
"""Plugins are timed in one of this many attempts."""
SUCCESS, SKIP, ERROR = Code.SUCCESS.label, Code.SKIP.label, Code.ERROR.label
HINT_ERROR = "Error"
_TIMED = (
    "pre_enqueue", "pre_filter", "post_filter", "pre_score", "reserve", "permit", "pre_bind", "bind", "post_bind",
)  # fmt: skip


class TimedRunner(PointRunner):
    """Runs the points and plugins of one profile, and tells an instrument how long they take."""

    __slots__ = (
        "_counted", "_enqueue_turns", "_filtered", "_instrument", "_is_timed", "_left", "_profile", "_stopwatch",
        "_turns",
    )  # fmt: skip

    def __init__(self, profile: str, instrument: Instrument, stopwatch: Callable[[], float]) -> None:
        """Take the name of the profile, the instrument to report to, and the stopwatch to measure with."""
        self._profile = profile
        self._instrument = instrument
        self._stopwatch = stopwatch
        self._turns = cycle([True] + [False] * (EVERY - 1))
        self._enqueue_turns = cycle([True] + [False] * (EVERY - 1))
        self._is_timed = False
        self._left: dict[str, _Left] = {}
        self._counted: dict[tuple[str, frozenset[str], str], Times] = {}
        self._filtered: dict[str, Times] = {}

    # -- points --------------------------------------------------------------------------------------------

    def pre_enqueue_begins(self) -> None:
        """Decide whether PreEnqueue's plugins are timed; they are sampled separately, since there is no attempt yet."""
        self._is_timed = next(self._enqueue_turns)

    def attempt_begins(self, state: CycleState) -> None:
        """Decide whether the attempt's plugins are timed."""
        self._is_timed = next(self._turns)
        force_setattr(state, "is_timed", self._is_timed)

    def run(self, point: str, method: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a point, and report how long it took."""
        started = self._stopwatch()
        result = method(*args)
        self._instrument.extension_point(self._profile, point, status_of(result), self._stopwatch() - started)
        return result

    def steps(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Run the steps of a point, and report how long they took, waiting included."""
        started = self._stopwatch()
        result = yield from steps
        self._instrument.extension_point(self._profile, point, status_of(result), self._stopwatch() - started)
        return result

    # -- plugins -------------------------------------------------------------------------------------------

    def time_plugin(self, name: str, point: str, run: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        """Run one plugin, and report how long it took if this attempt is timed."""
        if not self._is_timed:
            return run(*args)
        started = self._stopwatch()
        result = run(*args)
        self._instrument.plugin_run(name, point, status_of(result), self._stopwatch() - started)
        return result

    def timed_row_form(self, name: str, point: str, row_form: RowForm | None) -> RowForm | None:
        """Return a plugin's row form, timed in the same way."""
        if row_form is None:
            return None
        return lambda *args: self.time_plugin(name, point, row_form, args)

    def timed_method(self, name: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a plugin's method, timed in timed attempts; it may answer with steps that wait."""

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

    def observed(self, plugin: LoadedPlugin) -> LoadedPlugin:
        """Return the plugin with its forms timed, except those that are asked about many nodes at once."""
        return replaced(plugin, _TIMED, lambda methods: _TimedForm(plugin.name, methods, self))

    def filter_runner(self, plugin: LoadedPlugin) -> FilterRunner:
        """Return the runner of a Filter plugin, timed."""
        self._filtered[plugin.name] = self._instrument.evaluations(self._profile, "Filter", (plugin.name,))
        return _TimedFilter(plugin, self)

    def score_runner(self, plugin: LoadedPlugin, weight: int) -> ScoreRunner:
        """Return the runner of a Score plugin, timed."""
        return _TimedScore(plugin, weight, self)

    # -- how often who was asked ---------------------------------------------------------------------------

    def asked(
        self, point: str, plugins: Sequence[Named], skipped: Set[str], ended: Status | None = None, times: int = 1
    ) -> None:
        """Count the evaluations of the plugins: of those that did not skip, up to the one that ended the point, if
        any.
        """
        stopper = "" if ended is None else ended.plugin
        key = (point, frozenset(skipped), stopper)
        found = self._counted.get(key)
        if found is None:
            names = [plugin.name for plugin in plugins if plugin.name not in skipped]
            upto = names.index(stopper) + 1 if stopper in names else len(names)
            found = self._counted[key] = self._instrument.evaluations(self._profile, point, tuple(names[:upto]))
        found.count += times

    def asked_about_nodes(self, verdicts: Verdicts, nodes: int) -> None:
        """Count for how many nodes each Filter plugin was evaluated: those that no earlier plugin rejected.

        `nodes` is the position in the log of nodes, which tells whether cached masks are about the same nodes.
        """
        left = verdicts.searched
        reached, passing = int(np.count_nonzero(left)), int(np.count_nonzero(verdicts.passing))
        for verdict in verdicts.by_plugin:
            self._filtered[verdict.plugin].count += reached
            if reached != passing:  # else nobody from here on rejects a node that is left
                left, reached = self._left_after(verdict, left, reached, nodes)

    def _left_after(self, verdict: Verdict, before: Mask, reached: int, nodes: int) -> tuple[Mask, int]:
        """Return the nodes of a mask that pass one plugin, and how many there are.

        Most columns stay the same from one attempt to the next. A verdict is a new object as soon as its column has
        changed, and masks returned from here are never written to, so the same objects mean the same answer. The first
        mask may be the table's own, which is written to in place, but only when nodes come or go.
        """
        kept = self._left.get(verdict.plugin)
        if kept is None or kept.verdict is not verdict or kept.before is not before or kept.nodes != nodes:
            passes = verdict.codes == 0
            left = passes & before
            count = int(np.count_nonzero(left))
            kept = _Left(verdict, before, nodes, before if count == reached else left, count)
            self._left[verdict.plugin] = kept
        return kept.left, kept.many


class TracedRunner(TimedRunner):
    """A timed runner that also reports what is run for some pods, and what that waits for: for traces of pods."""

    __slots__ = ("_followed",)

    def __init__(
        self, profile: str, instrument: Instrument, stopwatch: Callable[[], float], followed: Container[str]
    ) -> None:
        """Take what a timed runner takes, and the uids of the traced pods, which change as pods come and go."""
        super().__init__(profile, instrument, stopwatch)
        self._followed = followed

    def run(self, point: str, method: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
        """Run a point, and report it if it is for a traced pod."""
        pod = pod_among(args)
        if pod is None or pod.uid not in self._followed:
            return super().run(point, method, *args)
        started = self._stopwatch()
        result = super().run(point, method, *args)
        self._instrument.point_run(pod, point, status_of(result), self._stopwatch() - started)
        return result

    def steps(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Return the steps of a point; for a traced pod, their waits and their end are reported."""
        if pod.uid not in self._followed:
            return super().steps(point, steps, pod)
        return self._told(point, steps, pod)

    def _told(self, point: str, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        started = self._stopwatch()
        result = yield from super().steps(point, self._watched(steps, pod), pod)
        self._instrument.point_run(pod, point, status_of(result), self._stopwatch() - started)
        return result

    def _watched(self, steps: Steps[Result], pod: PodInfo) -> Steps[Result]:
        """Do what `yield from` does, and report the answer to every request."""
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
    """Return the pod among a point's arguments, or that of the attempt among them; None if there is neither."""
    for argument in arguments:
        if type(argument) is PodInfo:
            return argument
        if type(argument) is Attempt:
            return argument.pod
    return None


class _Left(NamedTuple):
    """What one plugin left of a mask, and what that was computed from."""

    verdict: Verdict
    before: Mask
    nodes: int
    left: Mask
    many: int


class _TimedForm:
    """A plugin as seen at one or two points: its name, and its methods there, timed."""

    def __init__(self, name: str, methods: Methods, runner: TimedRunner) -> None:
        self.name = name
        for called, method in methods.items():
            setattr(self, called, runner.timed_method(name, called.title().replace("_", ""), method))


class _TimedFilter(FilterRunner):
    """One Filter plugin, timed."""

    __slots__ = ("_runner",)

    def __init__(self, plugin: LoadedPlugin, runner: TimedRunner) -> None:
        super().__init__(plugin)
        self._runner = runner
        self.row_form = runner.timed_row_form(self.name, "Filter", self.row_form)

    def ask(self, *args: Any) -> Any:
        return self._runner.time_plugin(self.name, "Filter", super().ask, args)

    def over_domains(self, *args: Any) -> Any:
        return self._runner.time_plugin(self.name, "Filter", super().over_domains, args)


class _TimedScore(ScoreRunner):
    """One Score plugin, timed where it computes raw scores."""

    __slots__ = ("_runner",)

    def __init__(self, plugin: LoadedPlugin, weight: int, runner: TimedRunner) -> None:
        super().__init__(plugin, weight)
        self._runner = runner
        self.row_form = runner.timed_row_form(self.name, "Score", self.row_form)

    def ask(self, *args: Any) -> Any:
        return self._runner.time_plugin(self.name, "Score", super().ask, args)

    def over_domains(self, *args: Any) -> Any:
        if self.domain_form is None:
            return None
        return self._runner.time_plugin(self.name, "Score", super().over_domains, args)

    def _raw(self, *args: Any) -> Any:
        return self._runner.time_plugin(self.name, "Score", super()._raw, args)

    def _fill(self, *args: Any) -> Any:
        return self._runner.time_plugin(self.name, "Score", super()._fill, args)


class TimedWakeTable(WakeTable):
    """A wake table that reports each hint's answer, event and duration to an instrument."""

    __slots__ = ("_answers", "_instrument", "_stopwatch")

    def __init__(self, table: WakeTable, instrument: Instrument, stopwatch: Callable[[], float]) -> None:
        """Take over the registrations in `table`."""
        super().__init__(table.registered, table.makes_room)
        self._instrument = instrument
        self._stopwatch = stopwatch
        self._answers: list[tuple[str, str]] | None = None
        """While one pod answers for others: the plugins that were asked about it, with their answers."""

    def concerned(self, event: ClusterEvent) -> tuple[Registered, ...]:
        """Return the registrations that cover this event, with their hints timed under its name."""
        found = self._by_event.get(event)
        if found is None:
            found = tuple(self._timed(registered, event.label) for registered in super().concerned(event))
            self._by_event[event] = found
        return found

    def strategy_of_all(self, pods: Sequence[QueuedPod], happened: InFlightEvent) -> Strategy:
        """Report that the others got the same answers as the first; if a hint raised, they are asked themselves."""
        answers = self._answers = []
        how = super().strategy_of_all(pods, happened)
        self._answers = None
        if any(said == HINT_ERROR for _, said in answers):
            for queued in pods[1:]:
                super().strategy_of_all((queued,), happened)
            return how
        others = [queued.pod for queued in pods[1:]]
        for plugin, said in answers if others else ():
            self._instrument.hinted_alike(others, plugin, happened.event.label, said)
        return how

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
                self._instrument.hinted(pod, plugin, event, said, self._stopwatch() - started)
                if self._answers is not None:
                    self._answers.append((plugin, said))
            return answer

        return registered._replace(hint=asked)


def status_of(result: Any) -> str:
    """Return the status that the result of a point or plugin stands for; a plain False means that no plugin had
    work.
    """
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
