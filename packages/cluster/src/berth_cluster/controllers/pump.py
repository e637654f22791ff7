"""Drives the controllers of a live process from its event loop.

Changes in the store wake the pump. It lets the controllers work in short slices, between which the event loop answers
requests, and pauses after each round for a time in proportion to the work, so that many small changes are handled
together. Used by `berth_cluster.embedded`.
"""

import asyncio
import contextlib
import logging
from time import perf_counter

from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.storage.store import Store

logger = logging.getLogger(__name__)

SLICE_S = 0.01
LONGEST_WORK_S = 0.05
SHORTEST_REST_S = 0.005
REST_PER_WORK = 0.5


class ControllerPump:
    """One task that runs a controller manager in real time."""

    __slots__ = ("_awake", "_manager", "_store", "_task")

    def __init__(self, store: Store, manager: ControllerManager) -> None:
        self._store = store
        self._manager = manager
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        store.subscribe(lambda *_: self._awake.set())

    def start(self) -> None:
        """Begin to pump."""
        self._awake.set()
        self._task = asyncio.create_task(self._run(), name="controllers")

    async def stop(self) -> None:
        """End after the present step."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._wait()
            self._awake.clear()
            worked_s = await self._work()
            await asyncio.sleep(max(SHORTEST_REST_S, worked_s * REST_PER_WORK))

    async def _wait(self) -> None:
        """Wait until something changes or a deadline is reached."""
        deadline_s = self._manager.next_deadline()
        timeout_s = None if deadline_s is None else max(0.0, deadline_s - self._now_s())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):  # wait_for of Python 3.11 may lose the cancellation by `stop`
                await self._awake.wait()

    async def _work(self) -> float:
        """Let the controllers work until they are done or a pause is due; returns the seconds that they worked."""
        total_s, started_s = 0.0, perf_counter()
        while self._step():
            worked_s = perf_counter() - started_s
            if worked_s > SLICE_S:
                total_s += worked_s
                if total_s > LONGEST_WORK_S:
                    return total_s
                await asyncio.sleep(0)
                started_s = perf_counter()
        return total_s + perf_counter() - started_s

    def _step(self) -> bool:
        try:
            return self._manager.step(self._now_s())
        except Exception:  # a bug in one controller must not stop the cluster; the next change tries again
            logger.exception("a controller failed")
            return True

    def _now_s(self) -> float:
        return self._store.clock().timestamp()
