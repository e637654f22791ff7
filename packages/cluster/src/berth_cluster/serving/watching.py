"""Streams the changes of a resource to one client, a line of JSON or a message per event, until one of them ends it.

The lines come ready-made from the store's watch. This module adds bookmarks and timeouts. A client that is too slow is
sent what is queued for it, and its watch ends like any other: it may begin again with the last event that it has read.

With `sendInitialEvents` a watch serves as a list: the present objects come first, in slices between which others have
their turn, then a bookmark that says so and carries the revision at which the objects were taken, and then the changes
after that revision.
"""

import asyncio
import random
from dataclasses import dataclass, field

from aiohttp import web

from berth_cluster.serving.forms import ResponseForm
from berth_cluster.serving.requests import ListOptions
from berth_cluster.serving.responses import begin_chunks
from berth_cluster.storage.object_file import ObjectFileError
from berth_cluster.storage.store import Store
from berth_cluster.storage.watch import Watch, WatchEvent

BOOKMARK_PERIOD_S = 60.0
MIN_TIMEOUT_S = 1800.0
SLICE = 200  # events that are encoded and written before others have their turn


@dataclass(slots=True, eq=False, repr=False)
class WatchStream:
    """One watch request being answered."""

    _watch: Watch
    _options: ListOptions
    _request: web.BaseRequest
    _store: Store  # up to whose revision everything has been offered to the watch
    _form: ResponseForm
    _stopping: bool = field(default=False, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _response: web.StreamResponse = field(init=False)

    def __post_init__(self) -> None:
        self._response = web.StreamResponse(headers={"Content-Type": self._form.media_type_of_watches})
        self._watch.wake = self._wake.set

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
            await self._bookmark(self._watch.start_revision, is_initial=True)
        next_bookmark = loop.time() + BOOKMARK_PERIOD_S
        while not self._stopping and loop.time() < deadline:
            if events := self._watch.events(SLICE):
                await self._send(events)
            elif self._watch.overflowed:
                return
            elif not await woken(self._wake, min(deadline, next_bookmark)) and loop.time() < deadline:
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

    async def _send(self, events: list[WatchEvent]) -> None:
        line, between = self._form.line, self._form.between
        self._store.flush()
        await self._response.write(b"".join([line(event) + between for event in events]))
        if len(events) == SLICE:
            await asyncio.sleep(0)  # a reader that keeps up never makes `write` wait

    async def _bookmark(self, revision: int, *, is_initial: bool = False) -> None:
        if self._options.allow_bookmarks:
            self._store.flush()
            form = self._form
            await self._response.write(form.bookmark(revision, is_initial=is_initial) + form.between)


async def woken(wake: asyncio.Event, deadline: float) -> bool:
    """Wait for events; False when none have come by then, so that everything up to now has been told."""
    try:
        async with asyncio.timeout_at(deadline):
            await wake.wait()
    except TimeoutError:
        if not wake.is_set():
            return False
    wake.clear()
    return True
