"""Trials that take a while: one at a time, on a thread, with progress, and an end when somebody asks for one.

A trial works on a cluster in memory. Nothing that it does reaches the cluster that it was taken from.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

Watch = Callable[[int], bool]
"""Is told how many steps were done since it was told last, and says whether to stop."""


class JobsBusy(Exception):  # noqa: N818 - it says what is the case
    """Somebody else's trial is under way."""


class Jobs:
    """Runs trials for the users of the page."""

    __slots__ = ("_is_at_work", "_is_stopped", "steps")

    def __init__(self) -> None:
        self._is_at_work = False
        self._is_stopped = False
        self.steps = 0
        """How many steps the trial under way has done."""

    @property
    def is_at_work(self) -> bool:
        """Whether a trial is under way."""
        return self._is_at_work

    def stop(self) -> None:
        """Have the trial under way end soon, with what is done."""
        self._is_stopped = True

    async def run(self, work: Callable[[Watch], _T]) -> _T:
        """Run a trial; return what it returns, or raise what it raises. Raises `JobsBusy`."""
        if self._is_at_work:
            raise JobsBusy("another trial is under way; try again when it has ended")
        self._is_at_work, self._is_stopped, self.steps = True, False, 0
        try:
            return await asyncio.to_thread(work, self._watch)
        finally:
            self._is_at_work = False

    def _watch(self, steps: int) -> bool:
        self.steps += steps
        return self._is_stopped
