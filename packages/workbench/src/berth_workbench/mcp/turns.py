"""Works out answers on a thread, one at a time, with progress, until they are there or whoever asked has cancelled.

The cluster of a state is loaded once and kept for those that ask about the same state (`KeptCluster`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from berth_workbench.mcp.refusals import CallRefused
from berth_workbench.simulation.kept import KeptCluster
from berth_workbench.simulation.watch import WorkWatch

PROGRESS_S = 0.5
MAX_WAITING = 16
"""So many calls may wait for their turn, beside the one that is answered."""

_T = TypeVar("_T")
Tell = Callable[[float, float | None, str], Awaitable[None]]
"""Tells of progress: how many steps are done, of how many, and what is being done, in words."""


class AnswerTurns:
    """Lets one answer at a time be worked out. Make it inside the event loop."""

    __slots__ = ("_turn", "_waiting", "kept")

    def __init__(self) -> None:
        self._turn = anyio.Lock()
        self._waiting = 0
        self.kept = KeptCluster()

    async def take(self, work: Callable[[WorkWatch], _T], seconds: float, tell: Tell) -> _T:
        """Return what the work returns, or raise what it raises. Raises `CallRefused`."""
        if self._waiting > MAX_WAITING:
            raise CallRefused("busy", f"{self._waiting} calls are being answered or wait for their turn already")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._worked_out(work, WorkWatch(time.monotonic() + seconds), tell)
        finally:
            self._waiting -= 1

    async def _worked_out(self, work: Callable[[WorkWatch], _T], watch: WorkWatch, tell: Tell) -> _T:
        answer = asyncio.ensure_future(asyncio.to_thread(self._lent, work, watch))
        before, last = 0, 0
        try:
            while not (await asyncio.wait({answer}, timeout=PROGRESS_S))[0]:
                if watch.done < last:  # another part has begun, which counts from zero
                    before += last
                if watch.done != last:
                    last = watch.done
                    total = None if watch.total is None else before + watch.total
                    await tell(before + last, total, watch.in_words())
        except BaseException:
            watch.stop()
            with anyio.CancelScope(shield=True):  # the next one needs the cluster, put back as it was
                await asyncio.wait({answer})
            answer.exception()  # nobody else will ask for it
            raise
        return answer.result()

    def _lent(self, work: Callable[[WorkWatch], _T], watch: WorkWatch) -> _T:
        try:
            return work(watch)
        finally:
            self.kept.take_back()
