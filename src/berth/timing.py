"""Profiles that time their extension points; made only for an instrument that asks for durations.

One attempt in ten is timed, so that timing costs next to nothing. A point's status is upstream's name of the code
that it ended with. Of single plugins those of Filter and Score are timed, where they are asked: over all nodes at
once, or over those that changed. Queueing hints are few, and all timed.
"""

from collections.abc import Callable
from itertools import cycle
from typing import Any, TypeVar

from berth.cycle.instrument import Instrument
from berth.engine.memo import Compute
from berth.engine.profile import Permitted, PreFiltered, Profile
from berth.engine.scores import Scored, ScoreRunner
from berth.engine.verdicts import FilterRunner, Verdicts
from berth.framework.events import ClusterEvent, QueueingHint
from berth.framework.status import Status
from berth.queue.waking import Registered, WakeTable
from berth.state.pod_info import PodInfo

EVERY = 10
"""One attempt in so many is timed."""
SUCCESS = "Success"
HINT_ERROR = "Error"

Result = TypeVar("Result")
RowForm = Callable[..., int]


class TimedProfile(Profile):
    """A profile that tells an instrument how long its points take."""

    def __init__(self, *args: Any, instrument: Instrument, stopwatch: Callable[[], float], **options: Any) -> None:
        """Take a profile's arguments, the instrument to report to, and the stopwatch to measure with."""
        super().__init__(*args, **options)
        self._instrument = instrument
        self._stopwatch = stopwatch
        self._turns = cycle([True] + [False] * (EVERY - 1))
        self._is_timed = False
        self.filters = [_TimedFilter(runner, self) for runner in self.filters]
        self.scorers = [_TimedScore(runner, self) for runner in self.scorers]

    def run_pre_filter(self, *args: Any) -> PreFiltered:
        """PreFilter. It is an attempt's first point, so it decides whether the attempt is timed."""
        self._is_timed = next(self._turns)
        return self._timed("PreFilter", super().run_pre_filter, args)

    def run_filter(self, *args: Any) -> Verdicts:
        """Filter over all nodes."""
        return self._timed("Filter", super().run_filter, args)

    def run_pre_score(self, *args: Any) -> Status | None:
        """PreScore."""
        return self._timed("PreScore", super().run_pre_score, args)

    def run_score(self, *args: Any) -> Scored | Status:
        """Score and NormalizeScore."""
        return self._timed("Score", super().run_score, args)

    def run_reserve(self, *args: Any) -> Status | None:
        """Reserve."""
        return self._timed("Reserve", super().run_reserve, args)

    def run_permit(self, *args: Any) -> Permitted:
        """Permit."""
        return self._timed("Permit", super().run_permit, args)

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

    def _timed(self, point: str, run: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        if not self._is_timed:
            return run(*args)
        started = self._stopwatch()
        result = run(*args)
        self._instrument.extension_point(self.name, point, status_of(result), self._stopwatch() - started)
        return result


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
    """One Score plugin, timed where it works out its raw scores."""

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
            except Exception as error:
                self._instrument.hint_broke(pod, plugin, event, error)
                raise
            finally:
                self._instrument.hinted(plugin, event, said, self._stopwatch() - started)
            return answer

        return registered._replace(hint=asked)


def status_of(result: Any) -> str:
    """The status that the result of a point stands for."""
    status = result if isinstance(result, Status) else getattr(result, "status", None)
    return status.code.label if isinstance(status, Status) else SUCCESS
