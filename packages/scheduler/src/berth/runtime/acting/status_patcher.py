"""Patches the status of objects, after everything else, at most one at a time for each object.

`effects` adds the status that the core wants pods (`pod_status`) and pod groups (`group_status`) to have. Patches
waiting for the same object are merged, so that however often pods fail there is at most one patch per object to write,
and an older one can never follow it.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

from berth.api.errors import ApiError, CalledOff, TransportError
from berth.api.resources import Resource
from berth.framework.effects import PodRef, SetPodGroupCondition
from berth.kube.backoff import Backoff
from berth.kube.fence import WriteRefused
from berth.kube.pauses import Pauses
from berth.kube.transport import STRATEGIC_MERGE_PATCH, Transport
from berth.runtime.acting.worker_pool import WorkerPool
from berth.runtime.observing.call_timer import STATUS_PATCH, CallTimer
from berth.runtime.observing.work_queues import QueueWatch

MAX_TRIES = 5

Patch = TypeVar("Patch")


class StatusPatcher(Generic[Patch]):
    """Writes the status of one kind of object; the subclass says of which, and what a patch contains."""

    resource: ClassVar[Resource]
    noun: ClassVar[str]
    workers: ClassVar[int]

    def __init__(
        self,
        transport: Transport,
        *,
        report: Callable[[str], None],
        bug: Callable[[Exception], None],
        rng: random.Random,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timer: CallTimer | None = None,
        queue: QueueWatch | None = None,
    ) -> None:
        self.clock = clock
        self._transport = transport
        self._report = report
        self._rng = rng
        self._pauses = Pauses(sleep)
        self._timer = timer or CallTimer()
        self._pool: WorkerPool[str] = WorkerPool(self.workers, self._work, bug, queue)
        self._waiting: dict[str, Patch] = {}
        self._under_way: dict[str, asyncio.Event] = {}
        self._attended: set[str] = set()
        """Objects that a worker is busy with."""
        self._withdrawn: set[str] = set()
        """Objects with a request under way that must not be repeated."""

    def target(self, patch: Patch) -> PodRef | SetPodGroupCondition:
        """What has the namespace, name and uid of the object."""
        raise NotImplementedError

    @staticmethod
    def merged(_older: Patch, newer: Patch) -> Patch:
        """Both patches as one."""
        return newer

    def body(self, patch: Patch) -> bytes:
        """The strategic merge patch; its uid makes the server refuse it for a later object of the same name."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Objects with a patch to write."""
        return len(self._waiting.keys() | self._under_way.keys())

    def put(self, patch: Patch) -> None:
        """Write a patch, overriding what still waits for the same object."""
        if self._pool.is_called_off:
            return
        uid = self.target(patch).uid
        known = self._waiting.get(uid)
        self._waiting[uid] = patch if known is None else self.merged(known, patch)
        if uid not in self._attended:
            self._attended.add(uid)
            self._pool.put(uid)

    def withdraw(self, uid: str) -> Awaitable[Any] | None:
        """Drop what waits for an object; return what to await if a request about it is under way."""
        self._waiting.pop(uid, None)
        self._withdrawn.update({uid} & self._under_way.keys())
        done = self._under_way.get(uid)
        return done.wait() if done is not None else None

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; False when time ran out."""
        return await self._pool.drain(timeout_s)

    def call_off(self) -> None:
        """Start nothing more: the next leader will write the status."""
        self._pool.call_off()
        self._waiting.clear()
        self._pauses.end()

    async def stop(self) -> None:
        """Break off."""
        await self._pool.stop()

    async def _work(self, uid: str) -> None:
        """Write an object's patches until none is waiting."""
        backoff = Backoff(self._rng)
        tries = 0
        try:
            while not self._pool.is_called_off and (patch := self._waiting.pop(uid, None)) is not None:
                tries += 1
                passing = await self._write(patch, is_last=tries >= MAX_TRIES)
                if passing is None:
                    tries = 0
                    continue
                if uid not in self._withdrawn:
                    # Put back among the waiting, so that a newer patch can be merged in and a binding can withdraw it.
                    self._waiting[uid] = self.merged(patch, self._waiting[uid]) if uid in self._waiting else patch
                    await self._pauses.wait(backoff.delay_after_s(passing))
        finally:
            self._attended.discard(uid)
            self._withdrawn.discard(uid)

    async def _write(self, patch: Patch, *, is_last: bool) -> TransportError | None:
        """Send one patch; return the error after which it should be sent again."""
        target, body = self.target(patch), self.body(patch)
        done = self._under_way[target.uid] = asyncio.Event()
        started, has_failed = self._timer.now(), True
        try:
            place = (target.namespace, target.name)
            await self._transport.patch(self.resource, *place, body, STRATEGIC_MERGE_PATCH, subresource="status")
            has_failed = False
        except TransportError as error:
            return None if self._is_over(place, error, is_last=is_last) else error
        finally:
            del self._under_way[target.uid]
            done.set()
            self._timer.over(STATUS_PATCH, started, has_failed=has_failed)
        return None

    def _is_over(self, place: tuple[str, str], error: TransportError, *, is_last: bool) -> bool:
        """Whether to give the patch up. The failure is reported unless the object is gone or another has its name."""
        if isinstance(error, WriteRefused | CalledOff):
            return True  # the scheduler that holds the lease now tells the object how it stands
        refused = isinstance(error, ApiError) and not error.is_retryable
        if not (refused or is_last):
            return False
        if not (isinstance(error, ApiError) and (error.is_not_found or error.is_conflict)):
            is_forbidden = isinstance(error, ApiError) and error.is_forbidden
            remedy = f"; the RBAC role needs patch on {self.resource.plural}/status" if is_forbidden else ""
            self._report(f"status of {self.noun} {'/'.join(place)} not written: {error}{remedy}")
        return True
