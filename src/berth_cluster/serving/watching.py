"""Streams the changes of a resource to one client, one line of JSON per event, until one of the two ends it.

The lines come ready-made from the store's watch. This module adds bookmarks and timeouts. A client that is too slow is
sent what is queued for it, and its watch ends like any other: it may begin again with the last event that it has read.

With `sendInitialEvents` a watch serves as a list: the present objects come first, in slices between which others have
their turn, then a bookmark that says so and carries the revision at which the objects were taken, and then the changes
after that revision.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from aiohttp import web

from berth_cluster.apimachinery.meta import Object
from berth_cluster.serving.requests import ListOptions
from berth_cluster.serving.responses import begin_chunks, encode
from berth_cluster.storage.object_file import ObjectFileError
from berth_cluster.storage.store import Store
from berth_cluster.storage.watch import Watch, WatchEvent

BOOKMARK_PERIOD_S = 60.0
MIN_TIMEOUT_S = 1800.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
SLICE = 200  # events that are encoded and written before others have their turn

Liner = Callable[[WatchEvent], bytes]


def plain_line(event: WatchEvent) -> bytes:
    """The event with the object as it is."""
    return event.line


class WatchStream:
    """One watch request being answered."""

    __slots__ = ("_bookmarked", "_liner", "_options", "_request", "_response", "_stopping", "_store", "_wake", "_watch")

    def __init__(
        self,
        watch: Watch,
        options: ListOptions,
        request: web.BaseRequest,
        store: Store,
        liner: Liner,
        bookmarked: Object,
    ) -> None:
        self._watch = watch
        self._options = options
        self._request = request
        self._store = store  # up to whose revision everything has been offered to the watch
        self._stopping = False
        self._liner = liner
        self._bookmarked = bookmarked  # the object of a bookmark, all but its metadata
        self._wake = asyncio.Event()
        self._response = web.StreamResponse(headers={"Content-Type": "application/json"})
        watch.wake = self._wake.set

    def stop(self) -> None:
        """End the stream cleanly; the server is going down."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> web.StreamResponse:
        """Send events until the timeout, the client's departure, or the server's end."""
        response = self._response
        begin_chunks(response, self._request)
        try:
            await response.prepare(self._request)
            await self._pump()
            await response.write_eof()
        except (ConnectionError, ObjectFileError):
            pass  # the client went away, which is how most watches end; or nothing may be told any more
        finally:
            self._watch.close()
        return response

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        timeout_s = self._options.timeout_s or random.uniform(MIN_TIMEOUT_S, 2 * MIN_TIMEOUT_S)
        deadline = loop.time() + timeout_s
        while not self._stopping and (present := self._watch.initial_events(SLICE)):
            await self._send(present)
            if loop.time() >= deadline:
                return
        if self._options.send_initial_events:
            await self._bookmark(self._watch.start_revision, {INITIAL_EVENTS_END: "true"})
        next_bookmark = loop.time() + BOOKMARK_PERIOD_S
        while not self._stopping and loop.time() < deadline:
            if events := self._watch.events(SLICE):
                await self._send(events)
            elif self._watch.overflowed:
                return
            elif not await self._woken(min(deadline, next_bookmark) - loop.time()) and loop.time() < deadline:
                await self._bookmark(self._store.revision)
                next_bookmark = loop.time() + BOOKMARK_PERIOD_S
        await self._end()

    async def _end(self) -> None:
        """Send what is queued, and say up to where the client has now seen everything."""
        now = self._store.revision
        self._watch.close()
        while events := self._watch.events(SLICE):
            await self._send(events)
        if not self._watch.overflowed:
            await self._bookmark(now)

    async def _woken(self, timeout_s: float) -> bool:
        """Wait for events; False when none have come, so that everything up to the present revision has been sent."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            if not self._wake.is_set():
                return False
        self._wake.clear()
        return True

    async def _send(self, events: list[WatchEvent]) -> None:
        liner = self._liner
        self._store.flush()
        await self._response.write(b"".join([liner(event) + b"\n" for event in events]))
        if len(events) == SLICE:
            await asyncio.sleep(0)  # a reader that keeps up never makes `write` wait

    async def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> None:
        if not self._options.allow_bookmarks:
            return
        meta: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        self._store.flush()
        event = {"type": "BOOKMARK", "object": {**self._bookmarked, "metadata": meta}}
        await self._response.write(encode(event) + b"\n")
