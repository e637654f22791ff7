"""Follows all pods and the objects of status controllers through an API server, and writes the status that these
return.

`berth.controller` runs one against a cluster, `berth up` one beside its own. No leader is elected: a status depends
only on what is in the cluster, so several processes write the same, and each patch names the version it is based on, so
a process that is behind is refused and looks again.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from berth.api.custom import CustomResource
from berth.api.errors import ApiError, TransportError
from berth.api.pod import Pod
from berth.api.resources import Resource
from berth.api.status_controllers import FollowedStatuses, Place, StatusController
from berth.kube.backoff import Backoff
from berth.kube.changes import Added, Change, Deleted, Modified
from berth.kube.informers import InformerSet
from berth.kube.transport import MERGE_PATCH, Transport
from berth.kube.trouble import Report, log_trouble

_log = logging.getLogger("berth.controllers")

PODS = CustomResource("", "v1", "pods", "Pod", struct=Pod)
"""All pods, also those that have finished, which the scheduler's own informer leaves out."""


class StatusWriter:
    """Status controllers at work; make it inside the event loop that runs it."""

    __slots__ = ("_backoff", "_informers", "_retrying", "_sleep", "_statuses", "_transport", "_wake")

    def __init__(
        self,
        transport: Transport,
        controllers: Sequence[StatusController],
        *,
        report: Report = log_trouble,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Raises ValueError where two controllers write the status of one resource."""
        rng = rng or random.Random()
        self._transport = transport
        self._sleep = sleep
        self._backoff = Backoff(rng, clock=clock)
        self._wake = asyncio.Event()
        self._retrying: set[asyncio.Task[None]] = set()
        self._statuses = [FollowedStatuses(controller) for controller in controllers]
        self._informers = InformerSet(transport, report=report, rng=rng, clock=clock, sleep=sleep)
        self._informers.add(PODS.resource, sink=self._take_pods, read=PODS.read, is_required=True)
        for each in self._statuses:
            resource = each.controller.resource
            self._informers.add(resource.resource, sink=partial(self._take, each), read=resource.read)

    def ask_again(self) -> None:
        """Ask at once for the resources that were not served."""
        self._informers.ask_again()

    async def run(self) -> None:
        """Write until cancelled; raises only bugs. What cannot be written is reported, and tried again."""
        following = asyncio.create_task(self._informers.run(), name="status informers")
        try:
            await self._informers.wait_until_settled(self._informers.informers)
            writing = asyncio.create_task(self._write(), name="statuses")
            try:
                await asyncio.wait({following, writing}, return_when=asyncio.FIRST_COMPLETED)
                for task in (following, writing):
                    if task.done():
                        task.result()
            finally:
                await _cancelled(writing)
        finally:
            await _cancelled(following, *self._retrying)

    def _take(self, statuses: FollowedStatuses, changes: list[Change]) -> None:
        for change in changes:
            if isinstance(change, Added | Modified):
                statuses.take(change.object)
            elif isinstance(change, Deleted):
                statuses.drop(change.object)
        self._wake.set()

    def _take_pods(self, changes: list[Change]) -> None:
        for change in changes:
            for statuses in self._statuses:
                if isinstance(change, Added | Modified):
                    statuses.take_pod(change.object)
                elif isinstance(change, Deleted):
                    statuses.drop_pod(change.object)
        self._wake.set()

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            for statuses in self._statuses:
                while statuses.due:
                    place = next(iter(statuses.due))
                    del statuses.due[place]
                    await self._look_at(statuses, place)
            await self._wake.wait()

    async def _look_at(self, statuses: FollowedStatuses, place: Place) -> None:
        patch = statuses.next_patch(place)
        if patch is None:
            return
        resource = statuses.controller.resource.resource
        try:
            await self._patch(resource, place, msgspec.json.encode(patch))
        except TransportError as error:
            if isinstance(error, ApiError) and error.is_not_found:
                return  # it is gone, and the watch will say so
            delay_s = self._backoff.delay_after_s(error)
            where = "/".join(each for each in place if each)
            # What was refused as out of date is routine: somebody was faster, and the watch brings what they wrote.
            level = logging.DEBUG if isinstance(error, ApiError) and error.status == 409 else logging.WARNING
            _log.log(level, "status of %s %s: %s; trying again in %.1f s", resource.plural, where, error, delay_s)
            self._try_later(statuses, place, delay_s)
        else:
            self._backoff.reset()
            _log.info("status of %s %s/%s written: %s", resource.plural, *place, patch["status"])

    async def _patch(self, resource: Resource, place: Place, body: bytes) -> None:
        """Patch the subresource, or the object if its definition has none."""
        try:
            await self._transport.patch(resource, *place, body, MERGE_PATCH, subresource="status")
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._transport.patch(resource, *place, body, MERGE_PATCH)

    def _try_later(self, statuses: FollowedStatuses, place: Place, delay_s: float) -> None:
        async def later() -> None:
            await self._sleep(delay_s)
            if statuses.has(place):
                statuses.due[place] = None
                self._wake.set()

        task = asyncio.create_task(later())
        self._retrying.add(task)
        task.add_done_callback(self._retrying.discard)


async def _cancelled(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
