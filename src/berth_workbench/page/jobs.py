"""Trials that take a while: one at a time, on a thread, with progress, and an end when somebody asks for one.

What nobody waits for (`aside`) is done while no trial is under way, and makes way for the next one.

A trial works on a cluster in memory. Nothing that it does reaches the cluster that it was taken from.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from berth_workbench.simulation.watch import StoppedError, WorkWatch

_T = TypeVar("_T")


class JobsBusy(Exception):  # noqa: N818 - it says what is the case
    """Somebody else's trial is under way."""


class Jobs:
    """Runs trials for the users of the page."""

    __slots__ = ("_aside", "_idle", "_watch", "is_at_work")

    def __init__(self) -> None:
        self.is_at_work = False
        """Whether a trial is under way."""
        self._watch = WorkWatch()
        self._aside = WorkWatch()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def watch(self) -> WorkWatch:
        """How far the trial under way is, or the last one."""
        return self._watch

    def stop(self) -> None:
        """Have the trial under way end soon, with what is done."""
        self._watch.stop()

    def close(self) -> None:
        """Have everything end soon: whoever waited for it has gone."""
        self._watch.stop()
        self._aside.stop()

    async def run(self, work: Callable[[WorkWatch], _T]) -> _T:
        """Run a trial; return what it returns, or raise what it raises. Raises `JobsBusy`."""
        if self.is_at_work:
            raise JobsBusy("another trial is under way; try again when it has ended")
        self.is_at_work, self._watch = True, WorkWatch()
        self._idle.clear()
        self._aside.stop()
        try:
            return await asyncio.to_thread(work, self._watch)
        finally:
            self.is_at_work = False
            self._idle.set()

    async def aside(self, work: Callable[[WorkWatch], _T]) -> _T:
        """Do what nobody waits for, anew where a trial came in between; the same for what is returned and raised."""
        while True:
            await self._idle.wait()
            self._aside = watch = WorkWatch()
            try:
                found = await asyncio.to_thread(work, watch)
            except StoppedError:
                continue
            if not watch.is_stopped:
                return found
