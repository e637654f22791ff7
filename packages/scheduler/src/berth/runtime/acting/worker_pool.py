"""Runs jobs alongside the event loop's main task: a limited number at a time, in the order in which they came.

The parts that carry out effects (`effects`, `status_patcher`) have a pool each, so that none can use up the
connections of another. A worker is a task that lives while there is work.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from berth.runtime.observing.work_queues import QueueWatch, WorkQueues

Job = TypeVar("Job")


class WorkerPool(Generic[Job]):
    """Up to `size` workers that do `work(job)` for each job."""

    __slots__ = ("_bug", "_jobs", "_queue", "_size", "_tasks", "_work", "_working", "is_called_off")

    def __init__(
        self,
        size: int,
        work: Callable[[Job], Awaitable[None]],
        bug: Callable[[Exception], None],
        queue: QueueWatch | None = None,
    ) -> None:
        """`bug` is called with what `work` raises, since no caller awaits a worker; `queue` counts the jobs."""
        self._queue = queue or WorkQueues().queue("")
        self._size = size
        self._work = work
        self._bug = bug
        self._jobs: deque[tuple[Job, float]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_called_off = False
        """Whether nothing is begun any more."""
        self._working = 0
        """Workers who will look for another job: a task stays in `_tasks` for a moment after its last look."""

    def __len__(self) -> int:
        """Jobs that wait, and an upper bound of those under way."""
        return len(self._jobs) + len(self._tasks)

    def put(self, job: Job) -> None:
        """Add a job; it is done at once if a worker is free."""
        if self.is_called_off:
            return
        self._jobs.append((job, self._queue.put()))
        if self._working < self._size:
            self._working += 1
            task = asyncio.get_running_loop().create_task(self._work_off())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def call_off(self) -> int:
        """Drop waiting jobs and any added from now on; return how many waited. Jobs under way go on."""
        self.is_called_off = True
        waiting = len(self._jobs)
        self._jobs.clear()
        self._queue.drop_waiting()
        return waiting

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is done; False when time ran out."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while self._tasks:
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return False
            await asyncio.wait(self._tasks, timeout=left_s)
        return True

    async def stop(self) -> int:
        """Drop waiting jobs, and break off those under way; return how many these were."""
        self.call_off()
        self.is_called_off = False
        tasks = list(self._tasks)
        broken_off = sum(not task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._working = 0  # of those that were cancelled before their first step none has counted itself out
        return broken_off

    async def _work_off(self) -> None:
        try:
            while self._jobs:
                job, put_at = self._jobs.popleft()
                number = self._queue.begin(put_at)
                try:
                    await self._work(job)
                except Exception as error:  # a bug must cost one job, not a worker
                    self._bug(error)
                finally:
                    self._queue.end(number)
        finally:  # at once with the last look: a job put in before the task's callback runs must find a free worker
            self._working -= 1
