"""One answer for all viewers: a scheduler is asked no more often for many of them than for one.

What does not change by itself, a cluster in a file, is asked about once. So whoever gets the very same object again has
no need to work out anew what is made of it.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from berth.decisions.pending import PendingReport
from berth.decisions.placements import PodColumns
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.source import Source

EVERYTHING = "/"
"""What the name of every pod has in it: those of all nodes, or as many as a scheduler tells."""
FRESH_S = 1.0
"""How long an answer is shown to others, too."""

_T = TypeVar("_T")


class SharedAnswer(Generic[_T]):
    """The latest answer to one question; callers that ask while it is on its way wait for the same answer."""

    __slots__ = ("_ask", "_clock", "_fresh_s", "_fresh_until", "_task")

    def __init__(self, ask: Callable[[], Awaitable[_T]], clock: Callable[[], float], fresh_s: float = FRESH_S) -> None:
        self._ask = ask
        self._fresh_s = fresh_s
        self._clock = clock
        self._fresh_until = 0.0
        self._task: asyncio.Task[_T] | None = None

    async def get(self) -> _T:
        """Return it, asking again if it is too old or failed; raises what asking raises."""
        task = self._task
        if task is None or (task.done() and self._clock() >= self._fresh_until):
            task = self._task = asyncio.create_task(self._asked(), name="shared-answer")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # somebody else may tell it
        return await asyncio.shield(task)

    async def _asked(self) -> _T:
        self._fresh_until = 0.0
        found = await self._ask()
        self._fresh_until = self._clock() + self._fresh_s
        return found


class SharedSource:
    """A source whose answers about the whole cluster are shared; everything else is asked as it comes."""

    def __init__(self, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        self.title, self.taken, self.is_live = source.title, source.taken, source.is_live
        fresh_s = FRESH_S if source.is_live else math.inf
        self.nodes = SharedAnswer(source.nodes, clock, fresh_s).get
        self.plugins = SharedAnswer(source.plugins, clock, fresh_s).get
        self.recent = SharedAnswer(source.recent, clock, fresh_s).get
        self.node, self.story, self.fit = source.node, source.story, source.fit
        self.sample, self.configuration, self._snapshot = source.sample, source.configuration, source.snapshot
        self.noticed: Callable[[Snapshot], None] = lambda _: None
        """Is called with every snapshot that is taken for anybody, and keeps none."""
        self._pending, self._of_one = SharedAnswer(source.pending, clock, fresh_s), source.pending
        self._pods, self._found = SharedAnswer(source.pods, clock, fresh_s), source.pods
        self._everything = SharedAnswer(lambda: source.pods(EVERYTHING), clock, fresh_s)

    async def snapshot(self) -> Snapshot:
        """The cluster as documents."""
        found = await self._snapshot()
        self.noticed(found)
        return found

    async def pods(self, find: str = "") -> PodColumns:
        """The pods that are on nodes; those of a name are asked for as it comes."""
        if find == EVERYTHING:
            return await self._everything.get()
        return await (self._found(find) if find else self._pods.get())

    async def pending(self, namespace: str = "") -> PendingReport:
        """Pending pods by reason; those of one namespace are asked for as it comes."""
        return await (self._of_one(namespace) if namespace else self._pending.get())
