"""The forms in which objects leave the server: whole, as table rows, or as metadata only; in JSON or in protobuf."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.protobuf_writing import (
    in_envelope,
    list_message,
    message_of,
    metadata_message,
    watch_event,
)
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.serving.negotiation import PROTOBUF
from berth_cluster.serving.responses import encode, metadata_only
from berth_cluster.serving.tables.table import make_table
from berth_cluster.storage.watch import Entry, WatchEvent

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
SLICE = 200  # objects that are encoded before others have their turn


class ResponseForm:
    """The form of one answer: how its objects, its lists and the events of its watch are encoded. Here, whole."""

    __slots__ = ("_clock", "_include", "_kind")

    media_type = "application/json"
    media_type_of_watches = media_type
    between = b"\n"  # what ends each event of a watch

    def __init__(self, kind: ResourceType, query: Mapping[str, str], clock: Callable[[], datetime]) -> None:
        self._kind = kind
        self._include = query.get("includeObject", "")
        self._clock = clock

    def one(self, entry: Entry) -> bytes:
        """A single object."""
        return entry.encoded

    def many(self, entries: Sequence[Entry], meta: dict[str, Any]) -> Iterator[bytes]:
        """A list, in pieces each of which is soon made."""
        head = {"kind": self._kind.list_kind, "apiVersion": self._kind.api_version, "metadata": meta}
        # Custom objects say in lists, too, of what kind they are.
        encoded = attrgetter("listed" if not self._kind.is_custom else "encoded")
        return _in_slices(head, "items", entries, lambda part: map(encoded, part))

    def line(self, event: WatchEvent) -> bytes:
        """The next event of a watch."""
        return event.line

    def bookmark(self, revision: int, *, is_initial: bool = False) -> bytes:
        """What says that a watch has seen everything up to a revision, or all that was there in the beginning."""
        meta: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if is_initial:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        return self._event("BOOKMARK", {**self._nothing(), "metadata": meta})

    def _event(self, change_type: str, obj: Object) -> bytes:
        return encode({"type": change_type, "object": obj})

    def _nothing(self) -> Object:
        """The object of a bookmark, all but its metadata."""
        return {"kind": self._kind.kind, "apiVersion": self._kind.api_version}


class _Table(ResponseForm):
    __slots__ = ("_columns_told",)

    def __init__(self, kind: ResourceType, query: Mapping[str, str], clock: Callable[[], datetime]) -> None:
        super().__init__(kind, query, clock)
        self._columns_told = False

    def one(self, entry: Entry) -> bytes:
        return b"".join(self.many((entry,), {"resourceVersion": entry.obj["metadata"].get("resourceVersion", "")}))

    def many(self, entries: Sequence[Entry], meta: dict[str, Any]) -> Iterator[bytes]:
        def rows(part: Sequence[Entry]) -> Iterator[bytes]:
            return map(encode, self._table([entry.obj for entry in part], meta)["rows"])

        head = self._table([], meta)
        del head["rows"]
        return _in_slices(head, "rows", entries, rows)

    def line(self, event: WatchEvent) -> bytes:
        table = self._table([event.object], {"resourceVersion": event.object["metadata"]["resourceVersion"]})
        if self._columns_told:  # only the first event of a watch defines the columns, as upstream
            table["columnDefinitions"] = None
        self._columns_told = True
        return self._event(event.type, table)

    def _nothing(self) -> Object:
        return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []}

    def _table(self, objects: list[Object], meta: dict[str, Any]) -> dict[str, Any]:
        return make_table(self._kind, objects, meta, self._include, self._clock())


class _MetadataOnly(ResponseForm):
    __slots__ = ()

    def one(self, entry: Entry) -> bytes:
        return encode(metadata_only(entry.obj["metadata"]))

    def many(self, entries: Sequence[Entry], meta: dict[str, Any]) -> Iterator[bytes]:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return _in_slices(head, "items", entries, lambda part: map(self.one, part))

    def line(self, event: WatchEvent) -> bytes:
        return self._event(event.type, metadata_only(event.object["metadata"]))

    def _nothing(self) -> Object:
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


class _Protobuf(ResponseForm):
    __slots__ = ()

    media_type = PROTOBUF
    media_type_of_watches = f"{PROTOBUF};stream=watch"
    between = b""

    def one(self, entry: Entry) -> bytes:
        return self._wrapped("", self._message(entry))

    def many(self, entries: Sequence[Entry], meta: dict[str, Any]) -> Iterator[bytes]:
        items: list[bytes] = []
        for start in range(0, len(entries), SLICE):  # all of them, since a list says first how long it is
            items += map(self._message, entries[start : start + SLICE])
            yield b""
        yield self._wrapped("List", list_message(meta, items))

    def line(self, event: WatchEvent) -> bytes:
        return watch_event(event.type, self.one(event.entry))

    def _event(self, change_type: str, obj: Object) -> bytes:
        return watch_event(change_type, self._wrapped("", message_of(obj)))

    def _message(self, entry: Entry) -> bytes:
        return entry.message

    def _wrapped(self, suffix: str, message: bytes) -> bytes:
        return in_envelope(self._kind.api_version, self._kind.kind + suffix, message)


class _MetadataInProtobuf(_Protobuf):
    __slots__ = ()

    def _event(self, change_type: str, obj: Object) -> bytes:
        return watch_event(change_type, self._wrapped("", metadata_message(obj["metadata"])))

    def _message(self, entry: Entry) -> bytes:
        return metadata_message(entry.obj["metadata"])

    def _wrapped(self, suffix: str, message: bytes) -> bytes:
        return in_envelope("meta.k8s.io/v1", f"PartialObjectMetadata{suffix}", message)


def _in_slices(
    head: Object, field: str, entries: Sequence[Entry], encoded: Callable[[Sequence[Entry]], Iterator[bytes]]
) -> Iterator[bytes]:
    """`head` as JSON, with a further field that lists what `encoded` makes of a slice of entries at a time."""
    yield b'%s,"%s":[' % (encode(head)[:-1], field.encode())
    for start in range(0, len(entries), SLICE):
        part = b",".join(encoded(entries[start : start + SLICE]))
        yield b"," + part if start else part
    yield b"]}"


FORMS: Mapping[str, type[ResponseForm]] = MappingProxyType(
    {
        "object": ResponseForm,
        "Table": _Table,
        "PartialObjectMetadata": _MetadataOnly,
        "protobuf": _Protobuf,
        "PartialObjectMetadata in protobuf": _MetadataInProtobuf,
    }
)
