"""A cluster with an API server for a workload of scheduler_perf, and whichever scheduler is at work on it.

Objects are created as upstream's benchmark does, with no limit but the server's own; what became of the pods is read
from a watch. All that was created is deleted afterwards.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from berth.api.errors import ApiError, ConnectionLost, api_error_from_body
from berth.api.resources import RESOURCES, Resource
from berth.kube.http.client import HttpTransport
from berth_workbench.scheduler_perf.documents import Document, PerfError
from berth_workbench.scheduler_perf.play import NotPlayedError, PlayedPod

AT_ONCE: Final = 32
"""How many requests are under way at a time."""
MOST_IDLE_S: Final = 120.0
"""So long without a pod that gets its node, and those that are waited for are taken to fit nowhere."""
LOOK_S: Final = 0.1
"""How often it is looked whether what is waited for has come; when pods got their nodes is known exactly."""
WATCH_S: Final = 3600.0
CONFLICT: Final = 409
FORBIDDEN: Final = 403
MERGE_PATCH: Final = "application/merge-patch+json"
POD: Final = RESOURCES["Pod"]
WITH_OWN_STATUS: Final = frozenset({"PersistentVolume", "PersistentVolumeClaim"})
"""Kinds whose status a server takes by itself only."""
AT_ONCE_GONE: Final = b'{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}'


class Live:
    """A `PlayGround` on a cluster."""

    def __init__(self, transport: HttpTransport) -> None:
        self.pods: dict[str, PlayedPod] = {}
        self.nodes: list[str] = []
        self.left_out: set[str] = set()
        self.on_bound: Callable[[str, PlayedPod], None] = lambda _key, _pod: None
        self.watching: asyncio.Task[None] | None = None
        """What follows the pods; it ends by a failure only."""
        self._transport = transport
        self._last_bound = 0.0
        self._background: list[asyncio.Task[None]] = []
        self._created: dict[tuple[str, str, str], Resource] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def create(self, documents: Iterable[Document]) -> None:
        """Create objects, several at a time, and leave out those that are there."""
        left = iter(documents)

        async def some() -> None:
            for document in left:
                await self._create(document)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    async def _create(self, document: Document) -> None:
        # To its end, whoever is cancelled meanwhile: an object whose creation is not heard of would be left behind.
        making = asyncio.create_task(self._make(document))
        self._under_way.add(making)
        making.add_done_callback(self._under_way.discard)
        await asyncio.shield(making)

    async def _make(self, document: Document) -> None:
        resource, namespace, name = _place(document)
        try:
            await self._transport.create(resource, namespace, json.dumps(document).encode())
        except ApiError as error:
            if error.status == FORBIDDEN and "because it is being terminated" in error.message:
                raise PerfError(f"the namespace {namespace} of an earlier run is still being deleted") from None
            if error.status != CONFLICT:
                raise
            return
        self._created[document["kind"], namespace, name] = resource
        if document["kind"] in WITH_OWN_STATUS and document.get("status"):
            await self._patch(document, "status", subresource="status")

    async def update(self, document: Document) -> None:
        """Put an object's spec, labels and status in place of those that it has."""
        await self._patch(document, "metadata", "spec")
        if document.get("status"):
            await self._patch(document, "status", subresource="status")

    async def _patch(self, document: Document, *fields: str, subresource: str = "") -> None:
        resource, namespace, name = _place(document)
        body = json.dumps({key: document[key] for key in fields if key in document}).encode()
        await self._transport.patch(resource, namespace, name, body, MERGE_PATCH, subresource=subresource)

    async def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; one that is gone is fine."""
        with suppress(ApiError):
            await self._transport.delete(RESOURCES[kind], namespace, name, AT_ONCE_GONE if kind == "Pod" else b"")
        self._created.pop((kind, namespace, name), None)

    async def allocate(self, namespace: str) -> None:
        """Refuse: nobody but a scheduler allocates claims. Raises `NotPlayedError`."""
        raise NotPlayedError("allocResourceClaims: on a cluster nobody but the scheduler gives claims their devices")

    async def until(self, done: Callable[[], bool], limit_s: float | None = None) -> bool:
        """Wait until something holds."""
        began = self._last_bound = time.monotonic()
        while not done():
            if self.watching is not None and self.watching.done():
                self.watching.result()
            now = time.monotonic()
            left = began + limit_s - now if limit_s is not None else self._last_bound + MOST_IDLE_S - now
            if left <= 0:
                return False
            await asyncio.sleep(min(left, LOOK_S))
        return True

    async def pause(self, seconds: float) -> None:
        """Wait, in an operation that goes on in the background."""
        await asyncio.sleep(seconds)

    def start(self, job: Coroutine[Any, Any, None]) -> None:
        """Have an operation go on in the background."""
        self._background.append(asyncio.create_task(job))

    def collecting(self) -> None:
        """Do nothing: the scheduler is somebody else's process."""

    def stopwatch(self) -> float:
        """Return the time."""
        return time.monotonic()

    async def clean_up(self) -> None:
        """End what goes on beside, and delete what was created, pods first."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await asyncio.gather(*self._under_way, return_exceptions=True)
        left = iter(sorted(self._created, key=lambda each: each[0] != "Pod"))

        async def some() -> None:
            for each in left:
                await self.delete(*each)

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))

    async def watch(self, started: asyncio.Event) -> None:
        """Follow the cluster's pods, until cancelled. A server ends watches that are read slowly: it goes on there."""
        version = json.loads(await self._transport.list(POD, limit=1))["metadata"]["resourceVersion"]
        started.set()
        while True:
            with suppress(ConnectionLost):
                async for line in self._transport.watch(POD, resource_version=version, timeout_s=WATCH_S):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise api_error_from_body(500, json.dumps(event["object"]).encode())
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._hear(event["type"], event["object"])
            await asyncio.sleep(LOOK_S)

    def _hear(self, type_: str, pod: Document) -> None:
        meta, key = pod["metadata"], f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}"
        if type_ not in ("ADDED", "MODIFIED"):
            self.pods.pop(key, None)
            return
        known = self.pods.setdefault(key, PlayedPod(meta["namespace"], meta.get("labels") or {}))
        conditions = (pod.get("status") or {}).get("conditions") or ()
        known.attempted = any(each["type"] == "PodScheduled" for each in conditions)
        if pod["spec"].get("nodeName") and not known.node:
            known.node = pod["spec"]["nodeName"]
            self._last_bound = time.monotonic()
            self.on_bound(key, known)


@asynccontextmanager
async def live(transport: HttpTransport) -> AsyncIterator[Live]:
    """Yield a site on a cluster, whose pods are followed meanwhile; it is left as it was."""
    site, started = Live(transport), asyncio.Event()
    site.watching = asyncio.create_task(site.watch(started))
    try:
        opening = asyncio.create_task(started.wait())
        await asyncio.wait({opening, site.watching}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        if site.watching.done():
            site.watching.result()
        yield site
    finally:
        site.watching.cancel()
        await asyncio.gather(site.watching, return_exceptions=True)
        await site.clean_up()


def _place(document: Document) -> tuple[Resource, str, str]:
    kind, meta = document["kind"], document["metadata"]
    if kind not in RESOURCES:
        raise NotPlayedError(f"objects of the kind {kind} cannot be created here")
    return RESOURCES[kind], meta.get("namespace", ""), meta["name"]
