"""Reads watch events as kubectl prints them, from files or standard input, or from a record of them.

`kubectl get pods -A --watch --output-watch-events -o json` prints documents `{"type": …, "object": …}` one after the
other, each on a line or over several. kubectl watches one kind at a time, so there may be several files; they are put
together by `resourceVersion`, which is one count over all kinds. What `kubectl get -o json` prints without `--watch`, a
list, is taken for what was there before. A record begins with a line that has `configuration` and `objects`, and may
have other lines, which are passed over. Any of this may be compressed with gzip.

Objects have times in whole seconds. Between two of them revisions are taken to be evenly spaced, so that milliseconds
are an estimate.
"""

import contextlib
import gzip
import heapq
import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import msgspec

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.untrusted import UNREADABLE, problem_of
from berth.api.user_error import UserError
from berth.core.intake import ObjectEvent

GZIP = b"\x1f\x8b"
MAX_DOCUMENT: Final = 256 << 20
"""A list of all pods of a large cluster is one document; no single object comes near this size."""
MOST_IN_ONE_SECOND: Final = 100_000
"""How many events are held until one of the next second tells how they were spread; more are taken as they come."""
MOST_LATE: Final = 64
"""By how many events one may be late in a file written by several watches."""
CLOSED = b"}"


class StreamError(UserError, ValueError):
    """A stream that cannot be read; the message says which file, where, and why."""


class Arrived(NamedTuple):
    """An event, and when it happened, in seconds since 1970; 0 while no object has a time."""

    event: ObjectEvent
    at: float


class StreamHeader(NamedTuple):
    """What a record has before its events: the configuration, and the objects that existed."""

    configuration: Mapping[str, Any]
    objects: tuple[ObjectEvent, ...]


class _Document(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw()
    kind: str = ""
    configuration: dict[str, Any] | None = None
    objects: tuple[msgspec.Raw, ...] = ()
    items: tuple[msgspec.Raw, ...] = ()


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    creation_timestamp: str | None = None
    resource_version: str = ""


class _Outline(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: Any = None
    message: str = ""


class _Read(NamedTuple):
    """An event as it was read."""

    event: ObjectEvent
    revision: int
    second: float
    """Its time in whole seconds; 0 if it has none."""
    is_listed: bool
    """Whether it is about an object that existed when the watch began."""


class EventStream:
    """The events of some files, in their order."""

    def __init__(self, paths: Sequence[str], on_cut: Callable[[StreamError], None] | None = None) -> None:
        """Read what precedes the events; `-` is standard input. Raises `StreamError`.

        `on_cut`, if given, is told where a watch ended with an error or within a document, as happens when kubectl is
        stopped; the events before and after are used.
        """
        self._files = [_File(path, on_cut) for path in paths]
        self.header = next((each.header for each in self._files if each.header is not None), None)

    def __iter__(self) -> Iterator[Arrived]:
        """Yield the events. Raises `StreamError`."""
        if len(self._files) == 1:
            return _timed(_nearly_sorted(self._files[0]))
        return _timed(heapq.merge(*map(_nearly_sorted, map(_sorted_start, self._files)), key=_by_revision))


def _by_revision(read: _Read) -> int:
    return read.revision


def _nearly_sorted(events: Iterable[_Read]) -> Iterator[_Read]:
    """Yield in order of revision what several watches wrote into one file, each a little late."""
    held: list[tuple[int, int, _Read]] = []
    for number, read in enumerate(events):
        if len(held) == MOST_LATE:
            yield heapq.heappushpop(held, (read.revision, number, read))[-1]
        else:
            heapq.heappush(held, (read.revision, number, read))
    while held:
        yield heapq.heappop(held)[-1]


def _sorted_start(file: Iterable[_Read]) -> Iterator[_Read]:
    """Yield a file's events, with the initial objects in order of revision, since lists are sorted by name."""
    events = iter(file)
    first: list[_Read] = []
    for read in events:
        if not read.is_listed:
            yield from sorted(first, key=_by_revision)
            yield read
            yield from events
            return
        first.append(read)
    yield from sorted(first, key=_by_revision)


class _File:
    """The documents of one file, the first of which has been read."""

    def __init__(self, path: str, on_cut: Callable[[StreamError], None] | None) -> None:
        self._path = path
        self._on_cut = on_cut
        self._documents = _documents(path, on_cut)
        self._first = next(self._documents, None)
        self.header: StreamHeader | None = None
        if self._first is not None:
            where, text = self._first
            document = self._parsed(where, text)
            if document.configuration is not None or document.objects:
                self._first = None
                known = tuple(self._plain(where, raw) for raw in document.objects)
                self.header = StreamHeader(document.configuration or {}, tuple(each for each in known if each))

    def __iter__(self) -> Iterator[_Read]:
        if self._first is not None:
            first, self._first = self._first, None
            yield from self._events(*first)
        for where, text in self._documents:
            yield from self._events(where, text)

    def _events(self, where: int, text: bytes) -> Iterator[_Read]:
        document = self._parsed(where, text)
        if document.items or document.kind.endswith("List"):
            for raw in document.items:
                if (read := self._read(where, "ADDED", raw, document.kind.removesuffix("List"))) is not None:
                    yield read
        elif document.type in ("ADDED", "MODIFIED", "DELETED"):
            if (read := self._read(where, document.type, document.object)) is not None:
                yield read
        elif document.type == "ERROR":
            said = msgspec.json.decode(document.object, type=_Outline).message
            error = StreamError(
                f"{self._path}:{where}: the watch ended with an error: {said or 'it does not say which'}"
            )
            if self._on_cut is None:
                raise error
            self._on_cut(error)
        elif document.kind and not document.type:
            raise StreamError(
                f"{self._path}:{where}: a {document.kind} without the type of its event; "
                "print them with kubectl get --watch --output-watch-events -o json"
            )

    def _parsed(self, where: int, text: bytes) -> _Document:
        try:
            return msgspec.json.decode(text, type=_Document)
        except UNREADABLE as error:
            raise StreamError(f"{self._path}:{where}: {problem_of(error)}") from None

    def _plain(self, where: int, raw: msgspec.Raw) -> ObjectEvent | None:
        read = self._read(where, "ADDED", raw)
        return None if read is None else read.event

    def _read(self, where: int, type_: str, raw: msgspec.Raw, kind: str = "") -> _Read | None:
        """Return an event; None if decisions cannot depend on its object."""
        try:
            outline = msgspec.json.decode(raw, type=_Outline)
            kind = outline.kind or kind
            if kind not in KINDS:
                return None
            obj = decode(kind, bytes(raw))
        except (*UNREADABLE, ObjectError) as error:
            raise StreamError(f"{self._path}:{where}: {problem_of(error)}") from None
        revision = outline.metadata.resource_version
        event = ObjectEvent(cast("Any", type_), kind, obj)
        return _Read(event, int(revision) if revision.isdigit() else 0, _second_of(event, outline), type_ == "ADDED")


def _second_of(event: ObjectEvent, outline: _Outline) -> float:
    """Return when the API server did what an event reports, to the second, if the object says so."""
    if event.type == "ADDED":
        return _seconds(outline.metadata.creation_timestamp)
    if event.type == "MODIFIED" and event.kind == "Pod" and isinstance(outline.status, dict):
        for condition in outline.status.get("conditions") or ():
            if condition.get("type") == "PodScheduled":
                return _seconds(condition.get("lastTransitionTime"))
    return 0.0


def _seconds(text: str | None) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0


def _timed(events: Iterator[_Read]) -> Iterator[Arrived]:
    """Spread the events of a second over it, by their revisions."""
    held: list[_Read] = []
    now = 0.0
    for read in events:
        if read.second > now and held:
            yield from _spread(held, now, min(read.second, now + 1.0) if now else read.second, read.revision)
            held.clear()
        now = max(now, read.second)
        held.append(read)
        if len(held) >= MOST_IN_ONE_SECOND:
            yield from _spread(held, now, now, 0)
            held.clear()
    yield from _spread(held, now, now, 0)


def _spread(events: Sequence[_Read], start: float, end: float, next_revision: int) -> Iterator[Arrived]:
    first = events[0].revision if events else 0
    span = next_revision - first
    for event, revision, _, _ in events:
        part = min(max((revision - first) / span, 0.0), 1.0) if span > 0 else 0.0
        yield Arrived(event, start + (end - start) * part)


def _documents(path: str, on_cut: Callable[[StreamError], None] | None) -> Iterator[tuple[int, bytes]]:
    """Yield the JSON documents of a file, each with the line where it begins: one per line, or over several lines."""
    parts: list[bytes] = []
    size = begins = number = 0
    with _opened(path) as file:
        lines = enumerate(file, start=1)
        while True:
            try:
                number, line = next(lines)
            except StopIteration:
                break
            except (EOFError, zlib.error, OSError) as error:
                _cut(path, number, str(error), on_cut if isinstance(error, EOFError) else None)
                return
            if not parts:
                if not line.strip():
                    continue
                begins = number
                if _is_whole(line):
                    yield number, line
                    continue
            parts.append(line)
            size += len(line)
            if size > MAX_DOCUMENT:
                raise StreamError(f"{path}:{begins}: a document of more than {MAX_DOCUMENT >> 20} MiB")
            if line.rstrip() == CLOSED:
                yield begins, b"".join(parts)
                parts.clear()
                size = 0
    if parts:
        _cut(path, begins, "the document that begins here does not end", on_cut if begins > 1 else None)


def _cut(path: str, where: int, why: str, on_cut: Callable[[StreamError], None] | None) -> None:
    """Report that a file ends here."""
    error = StreamError(f"{path}:{where}: {why}")
    if on_cut is None:
        raise error from None
    on_cut(error)


def _is_whole(line: bytes) -> bool:
    """Say whether a document that begins on a line also ends on it."""
    text = line.rstrip()
    # kubectl opens a document over several lines with a brace that stands alone.
    return text.endswith(CLOSED) and text != b"{"


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
            is_compressed = cast("io.BufferedReader", file).peek(2)[:2] == GZIP
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if is_compressed else file
    except OSError as error:
        raise StreamError(f"{path}: {error.strerror or error}") from None
