"""Streams the changes of a resource to one client, one line of JSON per event, until one of the two ends it.

The lines come ready-made from the store's watch. This module adds bookmarks, timeouts, and the ERROR event that tells a
client which was too slow to list again.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from aiohttp import web

from berth_cluster.apimachinery.errors import expired
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.serving.requests import ListOptions
from berth_cluster.serving.responses import encode
from berth_cluster.storage.watch import Watch, WatchEvent

BOOKMARK_PERIOD_S = 60.0
MIN_TIMEOUT_S = 1800.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Liner = Callable[[WatchEvent], bytes]


def plain_line(event: WatchEvent) -> bytes:
    """The event with the object as it is."""
    return event.line


class WatchStream:
    """One watch request being answered."""

    __slots__ = (
        "_kind",
        "_liner",
        "_now",
        "_options",
        "_request",
        "_response",
        "_stopping",
        "_table",
        "_wake",
        "_watch",
    )

    def __init__(
        self,
        kind: ResourceType,
        watch: Watch,
        options: ListOptions,
        request: web.BaseRequest,
        now: Callable[[], int],
        liner: Liner = plain_line,
        table: bool = False,
    ) -> None:
        self._kind = kind
        self._watch = watch
        self._options = options
        self._request = request
        self._now = now  # the store's revision, up to which everything has been offered to the watch
        self._stopping = False
        self._liner = liner
        self._table = table
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
        response.enable_chunked_encoding()
        try:
            await response.prepare(self._request)
            await self._pump()
            await response.write_eof()
        except ConnectionError:
            pass  # the client went away, which is how most watches end
        finally:
            self._watch.close()
        return response

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        timeout_s = self._options.timeout_s or random.uniform(MIN_TIMEOUT_S, 2 * MIN_TIMEOUT_S)
        deadline = loop.time() + timeout_s
        await self._send_waiting()
        if self._options.send_initial_events:
            await self._bookmark({INITIAL_EVENTS_END: "true"})
        while not self._stopping:
            if await self._woken(min(deadline - loop.time(), BOOKMARK_PERIOD_S)):
                if not await self._send_waiting():
                    return
            elif loop.time() >= deadline:
                break
            else:
                await self._bookmark()
        await self._bookmark()

    async def _woken(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True

    async def _send_waiting(self) -> bool:
        """Send what has come; False when the watch is over because the client was too slow."""
        events = self._watch.events()
        if events:
            liner = self._liner
            await self._response.write(b"".join([liner(event) + b"\n" for event in events]))
        if self._watch.overflowed:
            error = expired("the watch fell too far behind; list again")
            await self._write({"type": "ERROR", "object": error.to_status()})
            return False
        return True

    async def _bookmark(self, annotations: dict[str, str] | None = None) -> None:
        if not self._options.allow_bookmarks or self._watch.overflowed:
            return
        meta: dict[str, Any] = {"resourceVersion": str(self._now()), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        obj: Object = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": meta}
        if self._table:
            obj = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "columnDefinitions": [],
                "rows": [],
            }
        await self._write({"type": "BOOKMARK", "object": obj})

    async def _write(self, event: Object) -> None:
        await self._response.write(encode(event) + b"\n")
