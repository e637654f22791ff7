"""The embedded cluster as an API server without sockets: the transport protocol straight over the store.

Used by the scheduler inside `berth up`, by simulations and tests. The protocol itself (`Transport`) is defined where
the clients are; this class satisfies it without importing it. Bodies are JSON bytes and refusals are `ApiError`, as
over HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from berth.api.errors import ApiError, CalledOff
from berth.api.resources import RESOURCES, Resource
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.releases import release
from berth_cluster.apimachinery.resource_types import PODS
from berth_cluster.serving.discovery import Discovery
from berth_cluster.serving.forms import FORMS, ResponseForm
from berth_cluster.serving.listing import Listing
from berth_cluster.serving.requests import list_options
from berth_cluster.serving.responses import encode, list_meta
from berth_cluster.serving.watching import woken
from berth_cluster.storage.store import Store

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

        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit),
            "continue": continue_token,
            "resourceVersion": resource_version,
        }
        with _told():
            kind = self._store.addressed(resource)
            found = Listing(self._store, kind, namespace, list_options(query)).whole()
            form = FORMS["PartialObjectMetadata" if metadata_only else "object"](kind, {}, self._store.clock)
            return b"".join(form.many(found.entries, list_meta(found.revision, found.continue_token)))

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
        with _told():
            kind = self._store.addressed(resource)
            watch = self._store.watch(kind, namespace, label_selector, field_selector, resource_version)
        form, wake = ResponseForm(kind, {}, self._store.clock), asyncio.Event()
        watch.wake = wake.set
        deadline = asyncio.get_running_loop().time() + timeout_s
        try:
            while True:
                for event in watch.events():
                    yield event.line
                if send_initial_events:
                    send_initial_events = False
                    yield form.bookmark(watch.start_revision, is_initial=True)
                if watch.overflowed or not await woken(wake, deadline):
                    break
            if allow_bookmarks and not watch.overflowed:
                yield form.bookmark(self._store.revision)
        finally:
            watch.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object."""
        with _told():
            return self._store.shown_entry(self._store.addressed(resource), namespace, name).encoded

    async def read(self, path: str) -> bytes:
        """What discovery says at `/version`, `/api/VERSION`, `/apis/GROUP` and `/apis/GROUP/VERSION`."""
        discovery = Discovery(self._store.custom.beside(release()))
        if path == "/version":
            return encode(discovery.version_info())
        root, *parts = path.strip("/").split("/")
        group, rest = ("", parts) if root == "api" else (parts[0], parts[1:])
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
        with _told():
            kind = self._store.addressed(resource)
            if not subresource:
                return encode(self._store.create(kind, namespace, obj))
            if kind is not PODS or subresource not in ("binding", "eviction"):
                raise ApiError(404, "NotFound", f"{resource.plural} have no subresource {subresource!r} to create")
            act = self._store.bind if subresource == "binding" else self._store.evict
            act(namespace, name, obj)
            return encode(SUCCESS)

    async def update(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, subresource: str = ""
    ) -> bytes:
        """The object after it was replaced."""
        obj = _decoded(body)
        with _told():
            return encode(self._store.update(self._store.addressed(resource), namespace, name, obj, subresource))

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
        with _told():
            kind = self._store.addressed(resource)
            return encode(self._store.patch(kind, namespace, name, patch, content_type, subresource))

    async def delete(self, resource: Resource, namespace: str, name: str, body: bytes = b"") -> bytes:
        """The last state of the object, or the one in which it waits to be deleted."""
        options = _decoded(body) if body else None
        with _told():
            return encode(self._store.delete(self._store.addressed(resource), namespace, name, options))

    async def bind(self, namespace: str, name: str, body: bytes, *, wanted: Callable[[], bool] = lambda: True) -> bytes:
        """Assign a pod to a node."""
        if not wanted():
            raise CalledOff(f"not sent: not wanted any more (bind {namespace}/{name})")
        return await self.create(RESOURCES["Pod"], namespace, body, name=name, subresource="binding")

    async def close(self) -> None:
        """Nothing has to be released."""


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ApiError(400, "BadRequest", f"the body cannot be read as JSON: {error}") from None


@contextmanager
def _told() -> Iterator[None]:
    """Whatever is refused inside is told in the transport's own kind of error."""
    try:
        yield
    except StoreError as error:
        retry_after_s = (error.details or {}).get("retryAfterSeconds")
        raise ApiError(error.status_code, error.reason, error.message, retry_after_s) from None
