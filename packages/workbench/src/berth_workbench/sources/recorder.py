"""Samples queue and throughput while the page is served or the terminal is open."""

import asyncio
import contextlib

from berth_workbench.sources.levels import LevelHistory
from berth_workbench.sources.model import QueueHistory
from berth_workbench.sources.source import Source, SourceError

EVERY_S = 2.0
LEVELS_EVERY = 5
"""Every which sample the nodes are sampled, too."""


class HistoryRecorder:
    """Asks a source for samples in a task of its own."""

    __slots__ = ("_source", "_taken", "_task", "history", "levels", "problem")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._task: asyncio.Task[None] | None = None
        self._taken = 0
        self.history = QueueHistory()
        self.levels = LevelHistory()
        self.problem = ""
        """Why the latest sample could not be had; empty where it could."""

    async def take(self) -> None:
        """Take one sample; if there is none, remember why."""
        try:
            sample = await self._source.sample()
            self.history.add(sample)
            if self._taken % LEVELS_EVERY == 0:
                self.levels.add(sample.at_s, await self._source.nodes())
            self._taken += 1
            self.problem = ""
        except SourceError as error:
            self.problem = str(error)

    def start(self, every_s: float = EVERY_S) -> None:
        """Start sampling if the source is live; otherwise take a single sample."""
        self._task = asyncio.create_task(self._run(every_s), name="queue-history")

    async def _run(self, every_s: float) -> None:
        await self.take()
        while self._source.is_live:
            await asyncio.sleep(every_s)
            await self.take()

    async def stop(self) -> None:
        """End; safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
