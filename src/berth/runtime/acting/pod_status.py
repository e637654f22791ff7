"""Pod status patches: the PodScheduled condition and nominatedNodeName, written behind everything else.

`effects` puts in each `PatchPodStatus`; a pod's patches are merged while they wait (newest wins), so that however
often pods fail there is at most one patch a pod to write. Bindings come first: a patch that waits is dropped when the
pod is being bound, and one under way is awaited, so that none can land on the bound pod.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from berth.api.errors import ApiError, TransportError
from berth.api.pod import Pod
from berth.api.resources import RESOURCES
from berth.framework.effects import PatchPodStatus, PodRef
from berth.kube.backoff import Backoff
from berth.kube.fence import WriteRefused
from berth.kube.transport import STRATEGIC_MERGE_PATCH, Transport
from berth.runtime.acting.worker_pool import WorkerPool
from berth.runtime.observing.call_timer import STATUS_PATCH, CallTimer
from berth.runtime.observing.work_queues import QueueWatch

WORKERS = 4
MAX_TRIES = 5
CONDITION = "PodScheduled"

_POD = RESOURCES["Pod"]

Lookup = Callable[[PodRef], Pod | None]
"""A pod as the watch last showed it."""


class StatusPatcher:
    """Writes status patches, at most one at a time for each pod."""

    __slots__ = (
        "_attended",
        "_clock",
        "_lookup",
        "_pool",
        "_report",
        "_rng",
        "_sleep",
        "_timer",
        "_transport",
        "_under_way",
        "_waiting",
        "_withdrawn",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        *,
        lookup: Lookup,
        report: Callable[[str], None],
        bug: Callable[[Exception], None],
        rng: random.Random,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        timer: CallTimer | None = None,
        queue: QueueWatch | None = None,
    ) -> None:
        self._transport = transport
        self._lookup = lookup
        self._report = report
        self._rng = rng
        self._clock = clock
        self._sleep = sleep
        self._timer = timer or CallTimer()
        self._pool: WorkerPool[str] = WorkerPool(WORKERS, self._work, bug, queue)
        self._waiting: dict[str, PatchPodStatus] = {}
        self._under_way: dict[str, asyncio.Event] = {}
        self._attended: set[str] = set()
        """Pods that a worker is busy with."""
        self._withdrawn: set[str] = set()
        """Pods with a request under way that must not be repeated."""

    def __len__(self) -> int:
        """Pods with a patch to write."""
        return len(self._waiting.keys() | self._under_way.keys())

    def put(self, patch: PatchPodStatus) -> None:
        """Write this, over what still waits for the same pod."""
        uid = patch.pod.uid
        known = self._waiting.get(uid)
        self._waiting[uid] = patch if known is None else merged(known, patch)
        if uid not in self._attended:
            self._attended.add(uid)
            self._pool.put(uid)

    def withdraw(self, uid: str) -> Awaitable[Any] | None:
        """Drop what waits for a pod; return what to await where a request about it is under way."""
        self._waiting.pop(uid, None)
        self._withdrawn.update({uid} & self._under_way.keys())
        done = self._under_way.get(uid)
        return done.wait() if done is not None else None

    async def drain(self, timeout_s: float) -> bool:
        """Wait until everything is written; False when time ran out."""
        return await self._pool.drain(timeout_s)

    async def stop(self) -> None:
        """Break off."""
        await self._pool.stop()

    async def _work(self, uid: str) -> None:
        """Write a pod's patches until none is waiting."""
        backoff = Backoff(self._rng)
        tries = 0
        try:
            while (patch := self._waiting.pop(uid, None)) is not None:
                tries += 1
                passing = await self._write(patch, is_last=tries >= MAX_TRIES)
                if passing is None:
                    tries = 0
                    continue
                if uid not in self._withdrawn:
                    # Back among the waiting, so that a newer patch can be merged in and a binding can withdraw it.
                    self._waiting[uid] = merged(patch, self._waiting[uid]) if uid in self._waiting else patch
                    await self._sleep(backoff.delay_after_s(passing))
        finally:
            self._attended.discard(uid)
            self._withdrawn.discard(uid)

    async def _write(self, patch: PatchPodStatus, *, is_last: bool) -> TransportError | None:
        """Send one patch; return the error after which it should be sent again."""
        pod = patch.pod
        body = patch_body(patch, self._lookup(pod), self._clock())
        done = self._under_way[pod.uid] = asyncio.Event()
        started, has_failed = self._timer.now(), True
        try:
            await self._transport.patch(
                _POD, pod.namespace, pod.name, body, STRATEGIC_MERGE_PATCH, subresource="status"
            )
            has_failed = False
        except TransportError as error:
            return None if self._is_over(pod, error, is_last=is_last) else error
        finally:
            del self._under_way[pod.uid]
            done.set()
            self._timer.over(STATUS_PATCH, started, has_failed=has_failed)
        return None

    def _is_over(self, pod: PodRef, error: TransportError, *, is_last: bool) -> bool:
        """Whether to give the patch up. The failure is reported unless the pod is gone or another has its name."""
        if isinstance(error, WriteRefused):
            return True  # the scheduler that holds the lease now tells the pod how it stands
        refused = isinstance(error, ApiError) and not error.is_retryable
        if not (refused or is_last):
            return False
        if not (isinstance(error, ApiError) and (error.is_not_found or error.is_conflict)):
            remedy = "; the RBAC role needs patch on pods/status" if _is_forbidden(error) else ""
            self._report(f"status of pod {pod.key} not written: {error}{remedy}")
        return True


def merged(older: PatchPodStatus, newer: PatchPodStatus) -> PatchPodStatus:
    """Both patches as one: what the newer one says stands."""
    condition = newer if newer.condition_status is not None else older
    nominated = newer.nominated_node_name if newer.nominated_node_name is not None else older.nominated_node_name
    return PatchPodStatus(
        newer.pod,
        condition.condition_status,
        condition.reason,
        condition.message,
        nominated,
        condition.observed_generation,
    )


def patch_body(patch: PatchPodStatus, known: Pod | None, now: datetime) -> bytes:
    """A strategic merge patch; its uid makes the server refuse it for a later pod of the same name."""
    status: dict[str, Any] = {}
    if patch.condition_status is not None:
        condition: dict[str, Any] = {
            "type": CONDITION,
            "status": patch.condition_status,
            "reason": patch.reason,
            "message": patch.message,
        }
        if patch.observed_generation:
            condition["observedGeneration"] = patch.observed_generation
        if known is None or _condition_status(known) != patch.condition_status:
            condition["lastTransitionTime"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        status["conditions"] = [condition]
    if patch.nominated_node_name is not None:
        status["nominatedNodeName"] = patch.nominated_node_name or None
    return msgspec.json.encode({"metadata": {"uid": patch.pod.uid}, "status": status})


def _condition_status(pod: Pod) -> str:
    return next((condition.status for condition in pod.status.conditions if condition.type == CONDITION), "")


def _is_forbidden(error: TransportError) -> bool:
    return isinstance(error, ApiError) and error.status == 403
