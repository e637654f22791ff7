"""A transport that addresses objects in the version that the server serves, converting their shape.

The scheduler uses kinds in the version of `RESOURCES`, whose shape the structs of `berth.api` have. Servers may serve a
different one (`berth.api.conversion`). The runtime wraps the transport for effects in this, and asks informers which
version was found.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from berth.api.conversion import SCHEDULED, is_converted, to_served, to_structs
from berth.api.resources import RESOURCES, Resource
from berth.api.untrusted import UNREADABLE, read_deep
from berth.kube.transport import Transport

Served = Callable[[str], Resource]
Known = Callable[[str, str, str], Any | None]


class ServedTransport:
    """Passes everything on, converting objects of other versions on their way there and back."""

    __slots__ = ("_inner", "_known", "_served", "bind", "close", "list", "read", "watch")

    def __init__(self, inner: Transport, served: Served, known: Known = lambda _kind, _namespace, _name: None) -> None:
        """`served` says in which version a kind is served, `known` how an object was last seen."""
        self._inner = inner
        self._served = served
        self._known = known
        self.bind, self.close, self.read = inner.bind, inner.close, inner.read
        self.list, self.watch = inner.list, inner.watch

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object."""
        there = self._at(resource)
        return _answer(there, await self._inner.get(there, namespace, name))

    async def create(
        self, resource: Resource, namespace: str, body: bytes, *, name: str = "", subresource: str = ""
    ) -> bytes:
        """POST."""
        there = self._at(resource)
        body = _body(there, body)
        return _answer(there, await self._inner.create(there, namespace, body, name=name, subresource=subresource))

    async def update(
        self, resource: Resource, namespace: str, name: str, body: bytes, *, subresource: str = ""
    ) -> bytes:
        """PUT the whole object."""
        there = self._at(resource)
        answer = await self._inner.update(there, namespace, name, _body(there, body), subresource=subresource)
        return _answer(there, answer)

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
        """PATCH with a merge patch; a JSON Patch addresses fields by their place, and is not converted."""
        there = self._at(resource)
        if self._is_over(there, namespace, name):
            return b""
        body = _body(there, body)
        answer = await self._inner.patch(there, namespace, name, body, content_type, subresource=subresource)
        return _answer(there, answer)

    async def delete(self, resource: Resource, namespace: str, name: str, body: bytes = b"") -> bytes:
        """DELETE."""
        return await self._inner.delete(self._at(resource), namespace, name, body)

    def _at(self, resource: Resource) -> Resource:
        """Return the resource in the version served; one that was asked for in a version of its own stays as it is."""
        return self._served(resource.kind) if RESOURCES.get(resource.kind) == resource else resource

    def _is_over(self, resource: Resource, namespace: str, name: str) -> bool:
        """Say whether a group's condition has come to its end: since v1.37 one that is True stays so."""
        if resource.kind != "PodGroup" or not is_converted(resource):
            return False
        group = self._known("PodGroup", namespace, name)
        conditions = () if group is None else group.status.conditions
        return any((each.type, each.status) == (SCHEDULED, "True") for each in conditions)


def _body(resource: Resource, body: bytes) -> bytes:
    return msgspec.json.encode(to_served(resource, msgspec.json.decode(body))) if is_converted(resource) else body


def _answer(resource: Resource, answer: bytes) -> bytes:
    if not is_converted(resource) or not answer:
        return answer
    try:
        document = read_deep(msgspec.json.decode, answer)
    except UNREADABLE:
        return answer  # for the reader to complain about
    return msgspec.json.encode(to_structs(resource, document)) if isinstance(document, dict) else answer
