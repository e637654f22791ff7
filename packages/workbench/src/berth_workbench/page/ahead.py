"""Answers that are there before anybody asks for them: worked out in the background, one after the other, and kept.

They are about one state of the cluster: its nodes and what is pending. Once that has changed they are worked out anew,
a minute after the last time at the earliest, and until then those of before are shown. What is worked out keeps within
bounds of its own (`attention`), and makes way for whoever tries something (`Jobs.aside`).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from berth_workbench.page.attention import TOLD_AS, WORKS
from berth_workbench.page.jobs import Jobs
from berth_workbench.page.refusals import REFUSALS, mistake_in_words
from berth_workbench.showing.words import listed
from berth_workbench.simulation.situation import Situation
from berth_workbench.sources.source import Source

AGAIN_S = 60.0
_log = logging.getLogger("berth_workbench.page")


class Ahead:
    """What is known ahead of one cluster."""

    __slots__ = (
        "_begun_at",
        "_clock",
        "_done",
        "_jobs",
        "_known",
        "_problems",
        "_situation",
        "_source",
        "_state",
        "_task",
        "_wanted",
    )

    def __init__(self, source: Source, jobs: Jobs, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._jobs = jobs
        self._clock = clock
        self._state: object = None
        self._situation: Situation | None = None
        self._begun_at = 0.0
        self._known: dict[str, Any] = {}
        self._done: set[str] = set()
        """What is known of the state as it is."""
        self._wanted: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._problems: dict[str, str] = {}
        """Why something is not known of the last state that was looked at."""

    @property
    def problem(self) -> str:
        """What could not be worked out, and why, in sentences; empty if nothing went wrong."""
        alike: dict[str, list[str]] = {}
        for name, why in self._problems.items():
            alike.setdefault(why, []).append(TOLD_AS[name])
        told = (f"{listed(names)} could not be worked out: {why}." for why, names in alike.items())
        return " ".join(each[:1].upper() + each[1:] for each in told)

    @property
    def is_at_work(self) -> bool:
        """Whether something is still to come."""
        return bool(self._wanted)

    def get(self, name: str, state: object) -> Any:
        """Work something out if it is not known for this state; return what is known so far, or None."""
        if state != self._state and not self._wanted and (self._state is None or self._is_due()):
            self._state, self._begun_at, self._done = state, self._clock(), set()
        if name not in self._done and name not in self._wanted:
            self._wanted.append(name)
            if self._task is None:
                self._task = asyncio.create_task(self._work(), name="ahead")
        return self.known(name)

    def known(self, name: str) -> Any:
        """Return what is known by now, or None."""
        return self._known.get(name)

    def _is_due(self) -> bool:
        return self._clock() >= self._begun_at + AGAIN_S

    async def _work(self) -> None:
        while self._wanted:
            name = self._wanted[0]
            self._problems.pop(name, None)
            try:
                await self._work_out(name)
            except REFUSALS as error:  # the page goes on without it; it is tried again once the state has changed
                self._failed(name, str(error))
            except Exception as bug:
                _log.exception("%s cannot be worked out ahead", name)
                self._failed(name, mistake_in_words(bug))
            self._done.add(self._wanted.pop(0))
        self._situation = self._task = None

    def _failed(self, name: str, why: str) -> None:
        """Go on without something; it is tried again once the state has changed, and what was known is out of date."""
        self._known.pop(name, None)
        self._problems[name] = why.rstrip(".")

    async def _work_out(self, name: str) -> None:
        if self._situation is None:
            snapshot, configuration = await self._source.snapshot(), await self._source.configuration()
            self._situation = await asyncio.to_thread(self._jobs.situation, snapshot, configuration)
        situation = self._situation
        self._known[name] = await self._jobs.aside(lambda watch: WORKS[name](situation, watch))

    def close(self) -> None:
        """Have all that is under way end."""
        if self._task is not None:
            self._task.cancel()
        self._jobs.close()
