"""Keeps the decision log of a live scheduler: collects the notes between cycles, and has a thread write them.

Runs on the event loop alongside the scheduler. The details of decisions about pods without a node are read here, for a
few milliseconds in each period while pods keep coming. The rest waits, or is written without details once too much is
waiting.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol

from berth.cycle.decision import Decision
from berth.decisions import stories
from berth.decisions.collector import DETAILS_AT_MOST, PODS_AT_MOST, DecisionCollector, Note, shortened, step_of
from berth.decisions.decision_log import DecisionLog
from berth.decisions.stories import LogEntry, Story, StoryStep, condensed
from berth.framework.blame import described

if TYPE_CHECKING:
    from berth.core.core import Core
    from berth.state.table import NodeTable

_log = logging.getLogger("berth.scheduler")

PERIOD_S = 0.25
DETAILS_S = 0.0025
"""How long details are read at a time: a hundredth of the period."""
LAST_DETAILS_S = 0.5
"""The same at the end."""
IDLE_S = 0.005
"""The pause between two rounds of reading details while no pod has to be scheduled."""
WAITING_AT_MOST = 4 * DETAILS_AT_MOST
"""How many notes may wait for details to be read."""
PAUSE_AFTER_BUG_S = 30.0
"""How long the decision log pauses after a bug of its own, so that a recurring one does not fill the scheduler's
log.
"""
WAIT_S = 0.1
"""How long to wait for the core."""


class Scheduling(Protocol):
    """The part of the live scheduler that is needed."""

    synced: asyncio.Event

    def between_cycles(self, timeout_s: float) -> contextlib.AbstractAsyncContextManager["Core"]:
        """Hold the core. May raise RuntimeError if it is busy."""


class LogKeeper:
    """Writes what a collector has noted to a log."""

    __slots__ = ("_collector", "_is_idle", "_last", "_stopwatch", "_taking", "_waiting", "_was_told", "log")

    def __init__(
        self, log: DecisionLog, collector: DecisionCollector, stopwatch: Callable[[], float] = time.perf_counter
    ) -> None:
        self.log = log
        self._collector = collector
        self._stopwatch = stopwatch
        self._waiting: deque[Note] = deque()
        """The notes that are not written yet because details have to be read."""
        self._last: dict[str, str] = {}
        """The last details of each pending pod, so that the same details are not written again."""
        self._taking = asyncio.Lock()
        self._is_idle = False
        self._was_told = False

    async def run(self, scheduler: Scheduling) -> None:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(IDLE_S if self._waiting and self._is_idle else PERIOD_S)
            try:
                await self._keep_up(scheduler)
            except Exception as bug:
                _log.error("the decision log broke; going on without what it was about", exc_info=bug)
                await asyncio.sleep(PAUSE_AFTER_BUG_S)

    async def _keep_up(self, scheduler: Scheduling) -> None:
        if not self._collector.noted and not self._waiting:
            return
        await self.flush(scheduler, DETAILS_S)
        if self._collector.was_full and not self._was_told:
            self._was_told = True
            _log.warning("more happened to pods than could be written to the decision log; some of it is lost")
        if scheduler.synced.is_set() and await asyncio.to_thread(self.log.is_full):
            async with _held(scheduler) as core:
                living = None if core is None else frozenset(pod.uid for pod in core.intake.pods)
            if living is not None:
                await asyncio.to_thread(self.log.make_room, living)

    async def stop(self, scheduler: Scheduling) -> None:
        """Write what is left, and close the log."""
        await self.flush(scheduler)
        await asyncio.to_thread(self.log.close)

    async def flush(self, scheduler: Scheduling, details_s: float = float("inf")) -> None:
        """Write the notes. Those whose details could not be read in time wait, unless everything has to be written."""
        async with self._taking:
            async with _held(scheduler) as core:
                if core is not None:
                    self._waiting += self._collector.take()
                    self._is_idle = not core.has_work
                steps = self._read(core.cache.table if core is not None else None, min(details_s, LAST_DETAILS_S))
            if details_s == float("inf"):
                steps += self._rest(0)
            else:
                steps += self._rest(WAITING_AT_MOST)
            if steps:
                await asyncio.to_thread(self.log.write, _entries_of(steps))

    async def lives(self, scheduler: Scheduling, key: str) -> list[Story]:
        """Return what is known about a pod, for each of its lives, latest last, including what is not written yet."""
        fresh: dict[str, list[StoryStep]] = {}
        async with self._taking:
            async with _held(scheduler) as core:
                table = None
                if core is not None:
                    self._waiting += self._collector.take()
                    table = core.cache.table
                for note in self._waiting:
                    if note[2].key == key:
                        fresh.setdefault(note[2].uid, []).append(_read(note, table))
            written = {story.uid: story for story in await asyncio.to_thread(self.log.find, key)}
        for uid, steps in fresh.items():
            known = written.get(uid)
            written[uid] = Story(key, uid, condensed((*known.steps, *steps) if known is not None else steps))
        return sorted(written.values(), key=lambda story: story.steps[0].at)

    def told(self, uid: str) -> str:
        """Return why a pending pod was not placed when it was last tried; empty if unknown."""
        return self._last.get(uid, "")

    def not_helping(self, uid: str) -> StoryStep | None:
        """Return which events did not help a pod since its last step; None if there were none."""
        events = dict(self._collector.not_helping(uid))
        return StoryStep(time.time(), stories.NOT_WOKEN, events=events) if events else None

    def _read(self, table: "NodeTable | None", within_s: float) -> list[tuple[Note, StoryStep]]:
        """Make steps of the waiting notes, in order, until the time is up."""
        steps: list[tuple[Note, StoryStep]] = []
        until = self._stopwatch() + within_s
        while self._waiting and (table is not None or not isinstance(self._waiting[0][3], Decision)):
            note = self._waiting.popleft()
            steps.append((note, self._step(note, table)))
            if self._stopwatch() >= until:
                break
        return steps

    def _rest(self, at_most: int) -> list[tuple[Note, StoryStep]]:
        """Make steps, without details, of the waiting notes beyond a number."""
        steps = []
        while len(self._waiting) > at_most:
            at, what, pod, more = self._waiting.popleft()
            note = (at, what, pod, shortened(more) if isinstance(more, Decision) else more)
            steps.append((note, self._step(note, None)))
        return steps

    def _step(self, note: Note, table: "NodeTable | None") -> StoryStep:
        at, what, pod, more = note
        if what == stories.DECIDED and not more.chosen and isinstance(more, Decision):
            if self._last.get(pod.uid) == more.message:
                return step_of((at, what, pod, shortened(more)))
            if len(self._last) >= PODS_AT_MOST:
                self._last.clear()
            self._last[pod.uid] = more.message
        elif what in (stories.BOUND, stories.LEFT, stories.GONE):
            self._last.pop(pod.uid, None)
        return _read(note, table)


def _read(note: Note, table: "NodeTable | None") -> StoryStep:
    """Make a step of a note; without details if there is no table, or if a plugin cannot describe its codes."""
    at, what, pod, more = note
    if isinstance(more, Decision):
        if table is not None:
            try:
                return step_of(note, table)
            except Exception as bug:
                _log.warning("the decision about pod %s cannot be explained: %s", pod.key, described(bug))
        return step_of((at, what, pod, shortened(more)))
    return step_of(note)


@contextlib.asynccontextmanager
async def _held(scheduler: Scheduling) -> AsyncIterator["Core | None"]:
    """Hold the core between two cycles; None if it is busy for too long."""
    async with contextlib.AsyncExitStack() as stack:
        core = None
        with contextlib.suppress(RuntimeError):
            core = await stack.enter_async_context(scheduler.between_cycles(WAIT_S))
        yield core


def _entries_of(steps: list[tuple[Note, StoryStep]]) -> list[LogEntry]:
    """Return the steps by pod, each pod's together."""
    by_pod: dict[str, LogEntry] = {}
    for (_, _, pod, _), step in steps:
        entry = by_pod.get(pod.uid)
        if entry is None:
            entry = by_pod[pod.uid] = LogEntry(pod.key, pod.uid, [])
        entry.steps.append(step)
    return list(by_pod.values())
