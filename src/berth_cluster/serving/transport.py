"""The embedded cluster as an API server without sockets: the transport protocol straight over the store.

Used by the scheduler inside `berth up`, by simulations and tests. The protocol itself (`Transport`) is defined where
the clients are; this class satisfies it without importing it. Bodies are JSON bytes and refusals are `ApiError`, as
over HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from berth.api.errors import ApiError
from berth.api.resources import Resource
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.releases import release
from berth_cluster.apimachinery.resource_types import PODS, ResourceType
from berth_cluster.serving import responses
from berth_cluster.serving.discovery import Discovery
from berth_cluster.serving.listing import Listing
from berth_cluster.serving.requests import list_options
from berth_cluster.serving.responses import encode, encoded_list, list_meta
from berth_cluster.serving.watching import INITIAL_EVENTS_END
from berth_cluster.storage.store import Store

Result = TypeVar("Result")

SUCCESS: Mapping[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""The answer to a Binding or an eviction."""


class StoreTransport:
    """One client of a store; safe to use beside the HTTP server in the same event loop."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        metadata_only: bool = False,
        protobuf: bool = False,
    ) -> bytes:
        """One page of a list, as JSON in any case."""

        def page() -> bytes:
            kind = self._store.addressed(resource)
            query = {
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
                "limit": str(limit),
                "continue": continue_token,
                "resourceVersion": resource_version,
            }
            found = Listing(self._store, kind, namespace, list_options(query)).whole()
            meta = list_meta(found.revision, found.continue_token)
            if metadata_only:
                items = [responses.metadata_only(entry.obj["metadata"]) for entry in found.entries]
                return encode({"metadata": meta, "items": items})
            return encoded_list(kind, meta, (entry.encoded for entry in found.entries))

        return _call(page)

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str,
        allow_bookmarks: bool = True,
        send_initial_events: bool = False,
        protobuf: bool = False,
        timeout_s: float,
    ) -> AsyncIterator[bytes]:
        """The changes after a version, one event per item, until the timeout; the last item is a bookmark."""
        kind = _call(lambda: self._store.addressed(resource))
        watch = _call(lambda: self._store.watch(kind, namespace, label_selector, field_selector, resource_version))
        wake = asyncio.Event()
        watch.wake = wake.set
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            while True:
                for event in watch.events():
                    yield event.line
                if send_initial_events:
                    send_initial_events = False
                    yield self._bookmark(kind, watch.start_revision, {INITIAL_EVENTS_END: "true"})
                if watch.overflowed or not await _woken(wake, deadline):
                    break
            if allow_bookmarks and not watch.overflowed:
                yield self._bookmark(kind, self._store.revision)
        finally:
            watch.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object."""
        return _call(lambda: self._store.shown_entry(self._store.addressed(resource), namespace, name).encoded)

    async def read(self, path: str) -> bytes:
        """What discovery says at `/version`, `/api/VERSION`, `/apis/GROUP` and `/apis/GROUP/VERSION`."""
        if path == "/version":
            return encode(Discovery(self._store.custom.beside(release())).version_info())
        root, *parts = path.strip("/").split("/")
        group, rest = ("", parts) if root == "api" else (parts[0], parts[1:])
        discovery = Discovery(self._store.custom.beside(release()))
        has_group = bool(discovery.versions_of(group))
        found = discovery.resource_list(group, rest[0]) if rest else discovery.api_group(group) if has_group else None
        if found is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return encode(found)

    async def create(
        self, resource: Resource, namespace: str, body: bytes, *, name: str = "", subresource: str = ""
    ) -> bytes:
        """A new object, or a POST to a pod's `binding` or `eviction`."""
        obj = _decoded(body)
        if not subresource:
            return _call(lambda: encode(self._store.create(self._store.addressed(resource), namespace, obj)))
        if _call(lambda: self._store.addressed(resource)) is not PODS or subresource not in ("binding", "eviction"):
            raise ApiError(404, "NotFound", f"{resource.plural} have no subresource {subresource!r} to create")
        act = self._store.bind if subresource == "binding" else self._store.evict
        _call(lambda: act(namespace, name, obj))
        return encode(SUCCESS)

    async def update(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, subresource: str = ""
    ) -> bytes:
        """The object after it was replaced."""
        obj = _decoded(body)
        store = self._store
        return _call(lambda: encode(store.update(store.addressed(resource), namespace, name, obj, subresource)))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: bytes,
        content_type: str,
        *,
        subresource: str = "",
    ) -> bytes:
        """The object after the patch."""
        patch = _decoded(body)
        return _call(
            lambda: encode(
                self._store.patch(self._store.addressed(resource), namespace, name, patch, content_type, subresource)
            )
        )

    async def delete(self, resource: Resource, namespace: str, name: str, body: bytes = b"") -> bytes:
        """The last state of the object, or the one in which it waits to be deleted."""
        options = _decoded(body) if body else None
        return _call(lambda: encode(self._store.delete(self._store.addressed(resource), namespace, name, options)))

    async def bind(self, namespace: str, name: str, body: bytes) -> bytes:
        """Assign a pod to a node."""
        binding = _decoded(body)
        _call(lambda: self._store.bind(namespace, name, binding))
        return encode(SUCCESS)

    async def close(self) -> None:
        """Nothing has to be released."""

    def _bookmark(self, kind: ResourceType, revision: int, annotations: dict[str, str] | None = None) -> bytes:
        meta: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        obj: Object = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": obj})


async def _woken(wake: asyncio.Event, deadline: float) -> bool:
    """Wait for the next event; False at the deadline, when none has come."""
    try:
        async with asyncio.timeout_at(deadline):
            await wake.wait()
    except TimeoutError:
        if not wake.is_set():
            return False
    wake.clear()
    return True


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ApiError(400, "BadRequest", f"the body cannot be read as JSON: {error}") from None


def _call(act: Callable[[], Result]) -> Result:
    """Carry out one request, with refusals in the transport's own kind of error."""
    try:
        return act()
    except StoreError as error:
        retry_after_s = (error.details or {}).get("retryAfterSeconds")
        raise ApiError(error.status_code, error.reason, error.message, retry_after_s) from None
