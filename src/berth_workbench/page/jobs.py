"""Trials that take a while: one at a time, on a thread, with progress, and an end when somebody asks for one.

A trial works on a cluster in memory. Nothing that it does reaches the cluster that it was taken from.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from berth_workbench.simulation.watch import WorkWatch

_T = TypeVar("_T")


class JobsBusy(Exception):  # noqa: N818 - it says what is the case
    """Somebody else's trial is under way."""


class Jobs:
    """Runs trials for the users of the page."""

    __slots__ = ("_watch", "is_at_work")

    def __init__(self) -> None:
        self.is_at_work = False
        """Whether a trial is under way."""
        self._watch = WorkWatch()

    @property
    def watch(self) -> WorkWatch:
        """How far the trial under way is, or the last one."""
        return self._watch

    def stop(self) -> None:
        """Have the trial under way end soon, with what is done."""
        self._watch.stop()

    async def run(self, work: Callable[[WorkWatch], _T]) -> _T:
        """Run a trial; return what it returns, or raise what it raises. Raises `JobsBusy`."""
        if self.is_at_work:
            raise JobsBusy("another trial is under way; try again when it has ended")
        self.is_at_work, self._watch = True, WorkWatch()
        try:
            return await asyncio.to_thread(work, self._watch)
        finally:
            self.is_at_work = False
