"""The PodGroupScheduled condition of pod groups, written behind everything else.

`effects` puts in each `SetPodGroupCondition`. Of a group's conditions only the newest is written, one at a time, so
that an older one can never come after it.
"""

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec

from berth.api.errors import ApiError, TransportError
from berth.api.resources import RESOURCES
from berth.framework.effects import SetPodGroupCondition
from berth.kube.backoff import Backoff
from berth.kube.fence import WriteRefused
from berth.kube.transport import STRATEGIC_MERGE_PATCH, Transport
from berth.runtime.acting.worker_pool import WorkerPool
from berth.runtime.observing.work_queues import QueueWatch

WORKERS = 2
MAX_TRIES = 5
CONDITION = "PodGroupScheduled"

_POD_GROUP = RESOURCES["PodGroup"]


class GroupStatusPatcher:
    """Writes conditions, at most one at a time for each group."""

    __slots__ = ("_attended", "_clock", "_pool", "_report", "_rng", "_sleep", "_transport", "_waiting")

    def __init__(
        self,
        transport: Transport,
        *,
        report: Callable[[str], None],
        bug: Callable[[Exception], None],
        rng: random.Random,
        sleep: Callable[[float], Awaitable[None]],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        queue: QueueWatch | None = None,
    ) -> None:
        self._transport = transport
        self._report = report
        self._rng = rng
        self._clock = clock
        self._sleep = sleep
        self._pool: WorkerPool[str] = WorkerPool(WORKERS, self._work, bug, queue)
        self._waiting: dict[str, SetPodGroupCondition] = {}
        self._attended: set[str] = set()
        """Groups that a worker is busy with."""

    def __len__(self) -> int:
        """Groups with a condition to write."""
        return len(self._attended)

    def put(self, effect: SetPodGroupCondition) -> None:
        """Write this, in place of what still waits for the same group."""
        self._waiting[effect.uid] = effect
        if effect.uid not in self._attended:
            self._attended.add(effect.uid)
            self._pool.put(effect.uid)

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; False when time ran out."""
        return await self._pool.drain(timeout_s)

    async def stop(self) -> None:
        """Break off."""
        await self._pool.stop()

    async def _work(self, uid: str) -> None:
        """Write a group's conditions until none is waiting."""
        backoff = Backoff(self._rng)
        tries = 0
        try:
            while (effect := self._waiting.pop(uid, None)) is not None:
                tries += 1
                passing = await self._send(effect, is_last=tries >= MAX_TRIES)
                if passing is None:
                    tries = 0
                    continue
                self._waiting.setdefault(uid, effect)
                await self._sleep(backoff.delay_after_s(passing))
        finally:
            self._attended.discard(uid)

    async def _send(self, effect: SetPodGroupCondition, *, is_last: bool) -> TransportError | None:
        """Send a condition; return the error after which to send it again. A group that is gone needs no condition."""
        body = condition_patch(effect, self._clock())
        place = (effect.namespace, effect.name)
        try:
            await self._transport.patch(_POD_GROUP, *place, body, STRATEGIC_MERGE_PATCH, subresource="status")
        except TransportError as error:
            if isinstance(error, WriteRefused):
                return None  # the scheduler that holds the lease now tells the group how it stands
            refused = isinstance(error, ApiError) and not error.is_retryable
            if not (refused or is_last):
                return error
            if not (isinstance(error, ApiError) and (error.is_not_found or error.is_conflict)):
                remedy = "; the RBAC role needs patch on podgroups/status"
                is_forbidden = isinstance(error, ApiError) and error.status == 403
                said = f"status of pod group {effect.namespace}/{effect.name} not written: {error}"
                self._report(said + (remedy if is_forbidden else ""))
        return None


def condition_patch(effect: SetPodGroupCondition, now: datetime) -> bytes:
    """A strategic merge patch; its uid makes the server refuse it for a later group of the same name."""
    condition = {
        "type": CONDITION,
        "status": effect.condition_status,
        "observedGeneration": effect.observed_generation,
        "reason": effect.reason,
        "message": effect.message,
    }
    if effect.has_changed:
        condition["lastTransitionTime"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return msgspec.json.encode({"metadata": {"uid": effect.uid}, "status": {"conditions": [condition]}})
