"""Asks an API server what it serves: the versions of a group, and the resources of a version.

Informers ask before they follow a kind that exists in several versions, and whenever a list is answered with 404. Only
discovery can distinguish a resource that is not served from one hidden by a fault: a 404 alone may be a proxy's.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from berth.api.errors import ApiError, ConnectionLost
from berth.api.resources import Resource
from berth.api.untrusted import UNREADABLE, problem_of
from berth.kube.transport import Transport

Found = TypeVar("Found")


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct, frozen=True):
    versions: tuple[_Version, ...] = ()


class _Entry(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False


class _Entries(msgspec.Struct, frozen=True):
    resources: tuple[_Entry, ...] = ()


class ApiDiscovery:
    """Asks one server; every method raises `TransportError` if there is no answer."""

    __slots__ = ("_transport",)

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def first_served(self, candidates: Iterable[Resource]) -> Resource | None:
        """Return the first of these that is served, None for none; they are versions of one resource."""
        by_group: dict[str, tuple[str, ...]] = {}
        for resource in candidates:
            if resource.group not in by_group:
                by_group[resource.group] = await self._versions(resource.group)
            if resource.version in by_group[resource.group] and await self.is_served(resource):
                return resource
        return None

    async def is_served(self, resource: Resource) -> bool:
        """Say whether the server lists this resource in this version."""
        return any(entry.name == resource.plural for entry in await self._entries(resource.group, resource.version))

    async def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return a resource as the server describes it; an empty version stands for the one that it prefers."""
        versions = (version,) if version else await self._versions(group)
        for each in versions:
            for entry in await self._entries(group, each):
                if entry.name == plural:
                    return Resource(group, each, plural, entry.kind, entry.namespaced)
        return None

    async def _versions(self, group: str) -> tuple[str, ...]:
        if not group:
            return ("v1",)
        body = await self._read(f"/apis/{group}")
        return () if body is None else tuple(each.version for each in _decoded(body, _Group, group).versions)

    async def _entries(self, group: str, version: str) -> tuple[_Entry, ...]:
        body = await self._read(f"/apis/{group}/{version}" if group else f"/api/{version}")
        return () if body is None else _decoded(body, _Entries, f"{group}/{version}").resources

    async def _read(self, path: str) -> bytes | None:
        try:
            return await self._transport.read(path)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise


def _decoded(body: bytes, struct: type[Found], what: str) -> Found:
    try:
        return msgspec.json.decode(body, type=struct)
    except UNREADABLE as error:
        raise ConnectionLost(f"what the server says about {what} cannot be read: {problem_of(error)}") from error
