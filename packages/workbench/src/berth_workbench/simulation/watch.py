"""How whoever waits for an answer hears how far it is, and how it hears that it has to end.

One `WorkWatch` goes through everything that takes a while: loading a cluster, placing its pods, asking failure after
failure. Each part says with `begin` what it does and how many steps that has, and tells of the steps that are done.
The end is asked for by a person, or comes by itself when the time is up that the answer may take; nobody has to know
which. What can be kept in part looks at `is_stopped` between two steps, and returns what it has; what cannot calls
`step`, which raises `StoppedError`, and whoever asked decides what is left then.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

SURE_AFTER_S = 1.0
"""Nobody is told how long it takes yet before so much has been seen of it."""

_T = TypeVar("_T")


class StoppedError(Exception):
    """An end in the middle of something: somebody has asked for it, or all the work is used up that it may take."""


class WorkWatch:
    """Counts the steps of one part of an answer, of how many, and knows whether it has to end."""

    __slots__ = (
        "_begun",
        "_clock",
        "_follows",
        "_is_stopped",
        "_jobs",
        "_until",
        "doing",
        "done",
        "is_awaited",
        "part",
        "total",
    )

    def __init__(self, until: float = math.inf, clock: Callable[[], float] = time.monotonic, *, jobs: int = 1) -> None:
        """`until` is when the time is up that the answer may take, by this clock."""
        self._jobs = jobs
        self._follows: Callable[[], bool] | None = None
        self._clock = clock
        self._until = until
        self._is_stopped = False
        self._begun = clock()
        self.doing = ""
        """What is being done, in a few words; empty where the question says it all."""
        self.done = 0
        self.total: int | None = None
        """How many steps this part has, as far as is known by now."""
        self.is_awaited = False
        """Whether somebody would like to see what is known so far; who offers it takes that back."""
        self.part: Any = None
        """The answer so far that was offered last, as if it had been stopped there; None as long as there is none."""

    @property
    def is_stopped(self) -> bool:
        """Whether it has to end, with what is done by then."""
        return self._is_stopped or self.is_late or (self._follows is not None and self._follows())

    @property
    def jobs(self) -> int:
        """How many processes may work at the answer."""
        return self._jobs

    @property
    def is_late(self) -> bool:
        """Whether the time is up that the answer may take."""
        return self._until < math.inf and self._clock() >= self._until

    @property
    def left_s(self) -> float | None:
        """How long this part will go on, if all its steps take as long as those that are done; None as yet."""
        now = self._clock()
        took = now - self._begun
        if not self.total or not 0 < self.done <= self.total or took < SURE_AFTER_S:
            return None
        return min(took / self.done * (self.total - self.done), max(self._until - now, 0.0))

    def begin(self, doing: str, total: int | None = None) -> None:
        """Say what is being done from now on, and how many steps that has."""
        self.doing, self.done, self.total, self._begun = doing, 0, total, self._clock()

    def advance(self, steps: int = 1) -> None:
        """Say that so many more steps are done; cheap enough for an inner loop."""
        self.done += steps

    def step(self, steps: int = 1) -> None:
        """The same, where what is under way cannot be kept in part. Raises `StoppedError`."""
        self.advance(steps)
        self.check()

    def over(self, things: Iterable[_T]) -> Iterator[_T]:
        """Yield things, each of which is a step that cannot be kept. Raises `StoppedError`."""
        for each in things:
            yield each
            self.step()

    def check(self) -> None:
        """Go on only if it need not end. Raises `StoppedError`."""
        if self.is_stopped:
            raise StoppedError

    def stop(self) -> None:
        """Ask for an end, with what is done by then."""
        self._is_stopped = True

    def offer(self, so_far: Callable[[], Any]) -> None:
        """Make the answer so far, if somebody waits for one; it costs nothing otherwise."""
        if self.is_awaited:
            self.part, self.is_awaited = so_far(), False

    def follow(self, is_ended: Callable[[], bool]) -> None:
        """In a process that works for another one, end when that says so. Nothing forks any further."""
        self._jobs, self._follows = 1, is_ended

    def within(self) -> "WorkWatch":
        """Return a watch for what is done within a single step: it hears of the end, and counts nothing."""
        return _Within(self)

    def in_words(self) -> str:
        """Say what is being done, how far of how much, and how long yet: `losing nodes: 57 of 2,000, 3 min to go`."""
        of = f" of {self.total:,}" if self.total and self.total >= self.done else ""
        left_s = self.left_s
        left = "" if left_s is None else f", {_about(left_s)} to go"
        return f"{self.doing or 'at work'}: {self.done:,}{of}{left}"


def _about(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds < 90 else f"{round(seconds / 60)} min"


class _Within(WorkWatch):
    """What is done within a step of another watch's."""

    __slots__ = ("_outer",)

    def __init__(self, outer: WorkWatch) -> None:
        super().__init__()
        self._outer = outer

    @property
    def is_stopped(self) -> bool:
        return self._outer.is_stopped

    @property
    def jobs(self) -> int:
        return self._outer.jobs

    def follow(self, is_ended: Callable[[], bool]) -> None:
        self._outer.follow(is_ended)


class _Unwatched(WorkWatch):
    """Nobody waits: nothing is counted, since all who are not watched share it."""

    __slots__ = ()

    def begin(self, doing: str, total: int | None = None) -> None:
        pass

    def advance(self, steps: int = 1) -> None:
        pass

    def stop(self) -> None:
        raise ValueError("who wants to stop something has to watch it")


UNWATCHED = _Unwatched()
