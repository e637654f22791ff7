"""Profiles that time their extension points: made for an instrument that wants to know, not otherwise.

One attempt in ten is timed, so that looking costs next to nothing. A point's status is upstream's name of the code
that it ended with.
"""

from collections.abc import Callable
from itertools import cycle
from typing import Any, TypeVar

from berth.framework.instrument import Instrument
from berth.framework.profile import Permitted, PreFiltered, Profile
from berth.framework.scores import Scored
from berth.framework.status import Status
from berth.framework.verdicts import Verdicts

EVERY = 10
"""One attempt in so many is timed."""
SUCCESS = "Success"

Result = TypeVar("Result")


class TimedProfile(Profile):
    """A profile that tells an instrument how long its points take."""

    def __init__(self, profile: Profile, instrument: Instrument, stopwatch: Callable[[], float]) -> None:
        """The same profile, with the same plugins, timed."""
        vars(self).update(vars(profile))
        self._instrument = instrument
        self._stopwatch = stopwatch
        self._turns = cycle([True] + [False] * (EVERY - 1))
        self._is_timed = False

    def run_pre_filter(self, *args: Any) -> PreFiltered:
        """The first point of an attempt decides whether it is timed."""
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

    def _timed(self, point: str, run: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        if not self._is_timed:
            return run(*args)
        started = self._stopwatch()
        result = run(*args)
        self._instrument.extension_point(self.name, point, status_of(result), self._stopwatch() - started)
        return result


def status_of(result: Any) -> str:
    """The status that the result of a point stands for."""
    status = result if isinstance(result, Status) else getattr(result, "status", None)
    return status.code.label if isinstance(status, Status) else SUCCESS
