"""Trials that take a while: one at a time, on a thread, with progress, and an end when somebody asks for one.

A person's next trial ends the one before, and a trial whose page was left makes way for anybody's. What nobody waits
for (`aside`) is done while no trial is under way, and makes way for any.

A trial works on a cluster in memory. Nothing that it does reaches the cluster that it was taken from. That of a file
does not change, so it is loaded once and kept for all trials (`Jobs.situation`).
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from berth.framework.setup import Setup
from berth_workbench.comparison.configurations import ConfigurationSource
from berth_workbench.simulation.kept import KeptCluster
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import Step
from berth_workbench.simulation.watch import StoppedError, WorkWatch
from berth_workbench.snapshot.snapshot import Snapshot

_T = TypeVar("_T")


class JobsBusy(Exception):  # noqa: N818 - it says what is the case
    """A trial that somebody is waiting for is under way."""


class Jobs:
    """Runs trials for the users of the page."""

    __slots__ = ("_aside", "_configuration", "_idle", "_is_awaited", "_kept", "_person", "_setup", "_watch")

    def __init__(self, *, keeps: bool = False) -> None:
        """`keeps` says whether trials are about one cluster that does not change."""
        self._kept = KeptCluster() if keeps else None
        self._configuration: ConfigurationSource | None = None
        self._setup: Setup | None = None
        self._watch = WorkWatch()
        self._person = ""
        self._is_awaited: Callable[[], bool] = lambda: True
        self._aside = WorkWatch()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_at_work(self) -> bool:
        """Whether a trial is under way."""
        return not self._idle.is_set()

    def situation(
        self, snapshot: Snapshot, configuration: ConfigurationSource, steps: tuple[Step, ...] = ()
    ) -> Situation:
        """Return what a trial is about; a configuration that is not the last one's is loaded. Raises `ConfigError`."""
        setup = self._setup
        if setup is None or configuration != self._configuration:
            setup = configuration.load()
            self._configuration, self._setup = configuration, setup
        return Situation(snapshot, setup, steps, kept=self._kept)

    def _lent(self, work: Callable[[WorkWatch], _T], watch: WorkWatch) -> _T:
        try:
            return work(watch)
        finally:
            if self._kept is not None:
                self._kept.take_back()

    def close(self) -> None:
        """Have everything end soon: whoever waited for it has gone."""
        self._watch.stop()
        self._aside.stop()

    async def run(
        self,
        work: Callable[[WorkWatch], _T],
        watch: WorkWatch,
        is_awaited: Callable[[], bool] = lambda: True,
        person: str = "",
    ) -> _T:
        """Run a trial; return what it returns, or raise what it raises. Raises `JobsBusy`, and `StoppedError` if it was
        stopped before its turn came.

        `watch` is the trial's own, by which whoever began it follows and stops it. It makes way for the next trial of
        the same `person`; for anybody's, once `is_awaited` says that nobody looks at it any more.
        """
        while self.is_at_work:
            if self._is_awaited() and not (person and person == self._person):
                raise JobsBusy("a question of somebody else is being answered; yours can be asked when that is done")
            self._watch.stop()
            await self._idle.wait()
        watch.check()
        self._watch, self._is_awaited, self._person = watch, is_awaited, person
        self._idle.clear()
        self._aside.stop()
        try:
            return await asyncio.to_thread(self._lent, work, watch)
        finally:
            self._idle.set()

    async def aside(self, work: Callable[[WorkWatch], _T]) -> _T:
        """Do background work, again if a trial came in between; results and exceptions are passed on."""
        while True:
            await self._idle.wait()
            self._aside = watch = WorkWatch()
            try:
                found = await asyncio.to_thread(self._lent, work, watch)
            except StoppedError:
                continue
            if not watch.is_stopped:
                return found
