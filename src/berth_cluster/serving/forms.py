"""The three forms in which objects leave the server: whole, as table rows, or as metadata only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.serving.responses import encode, metadata_only
from berth_cluster.serving.tables.table import make_table
from berth_cluster.serving.watching import Liner, plain_line
from berth_cluster.storage.watch import Entry, WatchEvent

Query = Mapping[str, str]
Clock = Callable[[], datetime]
SLICE = 200  # objects that are encoded before others have their turn


class ResponseForm(Protocol):
    """One form of answers: how single objects, lists and the events of watches are encoded."""

    def one(self, kind: ResourceType, entry: Entry, query: Query, now: datetime) -> bytes:
        """A single object."""
        ...

    def many(
        self, kind: ResourceType, entries: Sequence[Entry], meta: dict[str, Any], query: Query, now: datetime
    ) -> Iterator[bytes]:
        """A list, in pieces each of which is soon made."""
        ...

    def liner(self, kind: ResourceType, query: Query, clock: Clock) -> Liner:
        """A function that encodes the events of one watch."""
        ...

    def bookmark(self, kind: ResourceType) -> Object:
        """The object of a bookmark, all but its metadata."""
        ...


class _Whole:
    def one(self, _kind: ResourceType, entry: Entry, _query: Query, _now: datetime) -> bytes:
        return entry.encoded

    def many(
        self, kind: ResourceType, entries: Sequence[Entry], meta: dict[str, Any], _query: Query, _now: datetime
    ) -> Iterator[bytes]:
        head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta}
        return in_slices(head, "items", entries, lambda part: [_item(kind, entry) for entry in part])

    def liner(self, _kind: ResourceType, _query: Query, _clock: Clock) -> Liner:
        return plain_line

    def bookmark(self, kind: ResourceType) -> Object:
        return {"kind": kind.kind, "apiVersion": kind.api_version}


class _Table:
    def one(self, kind: ResourceType, entry: Entry, query: Query, now: datetime) -> bytes:
        meta = {"resourceVersion": entry.obj["metadata"].get("resourceVersion", "")}
        return b"".join(self.many(kind, (entry,), meta, query, now))

    def many(
        self, kind: ResourceType, entries: Sequence[Entry], meta: dict[str, Any], query: Query, now: datetime
    ) -> Iterator[bytes]:
        include = query.get("includeObject", "")

        def rows(part: Sequence[Entry]) -> list[bytes]:
            return [encode(row) for row in make_table(kind, [entry.obj for entry in part], meta, include, now)["rows"]]

        head = make_table(kind, [], meta, include, now)
        del head["rows"]
        return in_slices(head, "rows", entries, rows)

    def liner(self, kind: ResourceType, query: Query, clock: Clock) -> Liner:
        include = query.get("includeObject", "")
        with_columns = True

        def line(event: WatchEvent) -> bytes:
            # Only the first event of a watch defines the columns, as upstream.
            nonlocal with_columns
            meta = {"resourceVersion": event.object["metadata"]["resourceVersion"]}
            table = make_table(kind, [event.object], meta, include, clock())
            if not with_columns:
                table["columnDefinitions"] = None
            with_columns = False
            return encode({"type": event.type, "object": table})

        return line

    def bookmark(self, _kind: ResourceType) -> Object:
        return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": []}


class _MetadataOnly:
    def _encoded(self, obj: Object) -> bytes:
        return encode(metadata_only(obj["metadata"]))

    def one(self, _kind: ResourceType, entry: Entry, _query: Query, _now: datetime) -> bytes:
        return self._encoded(entry.obj)

    def many(
        self, _kind: ResourceType, entries: Sequence[Entry], meta: dict[str, Any], _query: Query, _now: datetime
    ) -> Iterator[bytes]:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return in_slices(
            head, "items", entries, lambda part: [encode(metadata_only(entry.obj["metadata"])) for entry in part]
        )

    def liner(self, _kind: ResourceType, _query: Query, _clock: Clock) -> Liner:
        return lambda event: encode({"type": event.type, "object": metadata_only(event.object["metadata"])})

    def bookmark(self, _kind: ResourceType) -> Object:
        return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


def _item(kind: ResourceType, entry: Entry) -> bytes:
    return entry.listed if kind.custom is None else entry.encoded  # which say in lists, too, of what kind they are


def in_slices(
    head: Object, field: str, entries: Sequence[Entry], encoded: Callable[[Sequence[Entry]], list[bytes]]
) -> Iterator[bytes]:
    """`head` as JSON, with a further field that lists what `encoded` makes of a slice of entries at a time."""
    yield b'%s,"%s":[' % (encode(head)[:-1], field.encode())
    for start in range(0, len(entries), SLICE):
        part = b",".join(encoded(entries[start : start + SLICE]))
        yield b"," + part if start else part
    yield b"]}"


FORMS: Mapping[str, ResponseForm] = MappingProxyType(
    {"object": _Whole(), "Table": _Table(), "PartialObjectMetadata": _MetadataOnly()}
)
