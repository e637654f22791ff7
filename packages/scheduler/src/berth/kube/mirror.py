"""A reflector's knowledge: the objects of one kind as last seen, and what each new sighting changes.

`berth.kube.reflector` feeds it raw objects from lists and watches, and gets back the changes to hand on. It is plain
synchronous code: the caller decides when the changes are handed on.
"""

from typing import Any, NamedTuple

import msgspec

from berth.api.codec import ObjectError
from berth.api.conversion import Reader, reader_of
from berth.api.meta import Struct
from berth.api.quantity import QuantityError
from berth.api.resources import Resource
from berth.api.shared_parts import sharing_of
from berth.api.untrusted import read_deep
from berth.kube.changes import Added, Change, Deleted, InvalidObject, Modified
from berth.kube.wire import ProtobufPod, WireReader

MANAGED_FIELDS = b'"managedFields"'

Key = tuple[str, str]
"""Namespace and name."""


class ObservedObject(NamedTuple):
    """One raw object: who it is, at which version, and what that changes."""

    key: Key
    resource_version: str
    changes: list[Change]


class Mirror:
    """The known objects of one resource, by namespace and name."""

    __slots__ = ("_keeps_raw", "_read", "_reader", "_resource", "_share", "invalid", "objects", "raw")

    def __init__(
        self, resource: Resource, reader: WireReader, *, keep_raw: bool = False, read: Reader | None = None
    ) -> None:
        """`read` reads an object of a resource that has no struct of ours."""
        self._resource = resource
        self._read = read or reader_of(resource)
        self._share = sharing_of(resource.kind)
        self._reader = reader
        self.objects: dict[Key, Any] = {}
        """The last state of each object that could be read."""
        self._keeps_raw = keep_raw
        self.raw: dict[Key, bytes] = {}
        """The same as JSON without managedFields, if asked for: extenders are sent more than the structs hold."""
        self.invalid: dict[Key, InvalidObject] = {}
        """The objects whose latest state could not be read."""

    def switch(self, resource: Resource, reader: WireReader) -> None:
        """Read the objects of another version of the same kind from now on."""
        self._resource, self._reader = resource, reader
        self._read = reader_of(resource)

    def upsert(self, found: Any) -> ObservedObject:
        """Take in that an object exists in this state, given as a fresh struct or raw; raises `MalformedError`."""
        raw = found
        try:
            if isinstance(found, Struct):
                self._share(found)
            elif isinstance(found, ProtobufPod):
                found = self._reader.pod(found)
            else:
                found = self._read(raw)
                self._share(found)
        except ObjectError as error:
            return self._set_aside(self._reader.identity(raw), error.reason)
        except QuantityError as error:
            return self._set_aside(self._reader.identity(raw), str(error))
        meta = found.metadata
        key = (meta.namespace, meta.name)
        if self.invalid:
            self.invalid.pop(key, None)
        old = self.objects.get(key)
        self.objects[key] = found
        if self._keeps_raw:
            self.raw[key] = without_managed_fields(raw)
        return ObservedObject(key, meta.resource_version, _difference(old, found))

    def remove(self, raw: Any) -> ObservedObject:
        """Take in that an object is gone, or no longer selected; raises `MalformedError`."""
        identity = self._reader.identity(raw)
        key = (identity.namespace, identity.name)
        # With the state that the consumer knows, not the last one: a pod that leaves the selection because it has
        # finished is given up as the running pod that was counted.
        return ObservedObject(key, identity.resource_version, self._forget(key))

    def retain(self, seen: set[Key]) -> list[Change]:
        """Take in that a full list showed exactly these, so that everything else is gone."""
        gone = [key for key in self.objects if key not in seen]
        # An object that cannot be read may have a good state as well, and is given up once.
        gone += [key for key in self.invalid if key not in seen and key not in self.objects]
        return [change for key in gone for change in self._forget(key)]

    def _forget(self, key: Key) -> list[Change]:
        self.invalid.pop(key, None)
        old = self.objects.pop(key, None)
        self.raw.pop(key, None)
        return [] if old is None else [Deleted(old)]

    def _set_aside(self, identity: Any, problem: str) -> ObservedObject:
        """Set an unreadable object aside; its last good state stays in force, unless that was another object's."""
        key = (identity.namespace, identity.name)
        told = self.invalid.get(key)
        old = self.objects.get(key)
        changes: list[Change] = []
        if old is not None and old.metadata.uid != identity.uid:
            changes.append(Deleted(self.objects.pop(key)))
            self.raw.pop(key, None)
            old = told = None
        found = InvalidObject(
            self._resource, identity.namespace, identity.name, identity.uid, problem, old, identity.resource_version
        )
        self.invalid[key] = found
        # Each problem once, and not with every update of the object that still has it.
        if told is None or told.problem != problem or told.uid != identity.uid:
            changes.append(found)
        return ObservedObject(key, identity.resource_version, changes)


def without_managed_fields(raw: msgspec.Raw) -> bytes:
    """Return an object without managedFields, which take up much of it and are never read here.

    Always a copy: raw JSON is a view into the page or line that it came in, which would be kept alive.
    """
    # The name may also be part of some text; then the object is merely decoded in vain.
    if MANAGED_FIELDS not in bytes(raw):
        return bytes(raw)
    fields = read_deep(msgspec.json.decode, raw, type=dict[str, msgspec.Raw])
    metadata = read_deep(msgspec.json.decode, fields["metadata"], type=dict[str, msgspec.Raw])
    metadata.pop("managedFields", None)
    fields["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(fields)


def _difference(old: Any, new: Any) -> list[Change]:
    """Return what is new about an object."""
    if old is None:
        return [Added(new)]
    before, after = old.metadata, new.metadata
    # Another object of the same name: its predecessor is given up first.
    if before.uid != after.uid:
        return [Deleted(old), Added(new)]
    # Seen again, as in a list after a watch. The states are compared even so: where a server has come back without its
    # history, the same version may stand for another one.
    if before.resource_version == after.resource_version and after.resource_version and old == new:
        return []
    return [Modified(new, old)]
