"""How Berth reaches a cluster: a small protocol over raw bytes, JSON unless a caller can handle protobuf.

Behind it are HTTP to any Kubernetes API server (`berth.kube.http`), the in-process store of the embedded cluster, and
recordings. Bodies go in and come out as JSON bytes, so that each caller decodes only what it reads, and an object that
it cannot decode still has a name. Every method raises `ApiError` if the server refused, and `ConnectionLost` if no
answer came (both in `berth.api.errors`).
"""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from berth.api.resources import Resource

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


Wanted = Callable[[], bool]


def always() -> bool:
    """Say yes."""
    return True


class Transport(Protocol):
    """Requests to one cluster; an empty namespace means all namespaces, or a cluster-scoped resource."""

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
        """One page of a list: the `<Kind>List` object; `limit` 0 means everything in one answer.

        With `metadata_only` the items have nothing else (a `PartialObjectMetadataList`). With `protobuf` the answer may
        be in Kubernetes' protobuf format, which its first bytes say (`berth.api.protobuf_pods.MAGIC`).
        """
        ...

    def watch(
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
        """Changes after `resource_version`, one `{"type", "object"}` event an item, until the server ends it.

        With `send_initial_events` and no version it is a streaming list: everything that exists comes first, as ADDED,
        and then a bookmark that says so (`berth.kube.wire.INITIAL_EVENTS_END`). Servers may refuse that.

        An item is one line as the server sent it, without the newline; a last line that broke off is yielded
        as it came, so that the reader can report it. With `protobuf` it may be a `WatchEvent` message instead, without
        its length; no JSON begins as one does. The server is asked for `timeout_s`; a clean end raises
        nothing. An iterator that has more lines at hand must not yield to the event loop between them.
        Close the iterator (`aclose`) to give the connection back.
        """
        ...

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object."""
        ...

    async def read(self, path: str) -> bytes:
        """GET a path that is no resource's: discovery (`/apis/GROUP`, `/apis/GROUP/VERSION`, `/api/v1`)."""
        ...

    async def create(
        self, resource: Resource, namespace: str, body: bytes, *, name: str = "", subresource: str = ""
    ) -> bytes:
        """POST; `name` and `subresource` only for subresources such as a pod's `eviction`."""
        ...

    async def update(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, subresource: str = ""
    ) -> bytes:
        """PUT the whole object; the server refuses with 409 when its resourceVersion is not the latest."""
        ...

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
        """PATCH with one of the content types above."""
        ...

    async def delete(self, resource: Resource, namespace: str, name: str, body: bytes = b"") -> bytes:
        """DELETE; `body` is an optional DeleteOptions (preconditions, grace period, propagation)."""
        ...

    async def bind(self, namespace: str, name: str, body: bytes, *, wanted: Wanted = always) -> bytes:
        """POST a Binding to the pod's `binding` subresource; after `ConnectionLost` read the pod to know.

        It may wait for its turn. If it is no longer `wanted` by then, it raises `CalledOff`, unsent.

        The answer is a `Status`. One that says anything but `Success` confirms nothing, whatever its HTTP status.
        """
        ...

    async def close(self) -> None:
        """Give up every connection; further calls are a bug."""
        ...
