"""Changes as the store publishes them, and the queue from which one watcher reads those it asked for.

The store makes one `StoreChange` per write and offers it to every open `Watch` of the resource. A `Watch` keeps what
its selectors let through until its reader drains it with `events()`. An object is encoded at most once, however many
watchers there are: lists and events share the bytes of its `Entry`.

A watch that begins with the present objects holds references to their entries, which cost next to nothing, and makes
events of them as its reader asks. Only what comes after that is queued, and the queue is bounded: a reader that falls
behind is given what is queued, and then its watch ends (`overflowed`). It may resume from the last event that it has
read, as long as the history reaches back so far; upstream's watch cache ends slow watches in the same way.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import msgspec

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.protobuf_writing import message_of
from berth_cluster.apimachinery.resource_types import EVENTS, ResourceType
from berth_cluster.apimachinery.selection import Matcher

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

MAX_WATCH_EVENTS = 10_000  # that a watcher may lag behind; half of the history from which it can resume
MAX_WATCH_BYTES = 32 * 1024 * 1024  # of events that a watcher may lag behind
_UNLIMITED = 2**63

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode


class Entry:
    """One version of one object; never edited, only replaced."""

    __slots__ = ("_encoded", "_message", "_obj", "place", "revision")

    def __init__(self, obj: Object, revision: int, encoded: bytes | None = None) -> None:
        self._obj: Object | None = obj
        self.revision = revision
        meta = obj["metadata"]
        self.place: tuple[str, str] = (meta.get("namespace", ""), meta["name"])  # where lists show it
        self._encoded = encoded
        self._message: bytes | None = None

    @property
    def obj(self) -> Object:
        """The object; of an entry that was laid away each time another one."""
        return _decode(self.encoded) if self._obj is None else self._obj

    def lay_away(self) -> None:
        """Keep only the JSON, which takes a fifth of the memory that the decoded object does."""
        self._encoded, self._obj, self._message = self.encoded, None, None

    @property
    def message(self) -> bytes:
        """The object as a protobuf message, if its kind has one."""
        if self._message is None:
            self._message = message_of(self.obj)
        return self._message

    @property
    def encoded(self) -> bytes:
        """The object as JSON."""
        if self._encoded is None:
            self._encoded = _encode(self.obj)
        return self._encoded

    @property
    def listed(self) -> bytes:
        """The object as JSON lists have it: the list says of what kind its items are.

        Stored objects begin with their type, so that the text has it in front.
        """
        head = b'{"apiVersion":"%s","kind":"%s",' % (self.obj["apiVersion"].encode(), self.obj["kind"].encode())
        encoded = self.encoded
        return b"{" + encoded[len(head) :] if encoded.startswith(head) else encoded

    @property
    def size(self) -> int:
        """The object's size as JSON, in bytes."""
        return len(self.encoded)


EntryView = Callable[[Entry], Entry]


class WatchEvent:
    """One event as a watcher sees it; it is encoded once, and all watchers share the bytes."""

    __slots__ = ("_line", "entry", "type")

    def __init__(self, change_type: ChangeType, entry: Entry) -> None:
        self.type = change_type
        self.entry = entry
        self._line: bytes | None = None

    @property
    def object(self) -> Object:
        """The object after the change (for DELETED its last state); not to be edited."""
        return self.entry.obj

    @property
    def line(self) -> bytes:
        """The event as a watch sends it, without the newline."""
        if self._line is None:
            self._line = b'{"type":"%s","object":%s}' % (self.type.encode(), self.entry.encoded)
        return self._line


class StoreChange:
    """One write: what it made of the object and what the object was before."""

    __slots__ = ("_left", "entry", "event", "old", "resource", "type")

    def __init__(self, resource: ResourceType, change_type: ChangeType, entry: Entry, old: Entry | None) -> None:
        self.resource = resource
        self.type = change_type
        self.entry = entry
        self.old = old
        self.event = WatchEvent(change_type, entry)
        self._left: WatchEvent | None = None

    def seen_through(self, matches: Matcher | None) -> WatchEvent | None:
        """The event for a watcher with this filter, or None if the change is not in its view.

        A filtered watch has to look as if nothing else existed. So an object that begins to match is ADDED and one that
        no longer matches is DELETED, whatever the write was.
        """
        if matches is None:
            return self.event
        is_in = self.type != "DELETED" and matches(self.entry.obj)
        was_in = self.old is not None and matches(self.old.obj)
        if is_in:
            return self.event if was_in or self.type == "ADDED" else WatchEvent("ADDED", self.entry)
        if not was_in:
            return None
        return self.event if self.type == "DELETED" else self._departure()

    def lay_away(self) -> None:
        """Keep what hardly anybody asks for any more as JSON, and what can be made again not at all."""
        self._left = None
        self.event = WatchEvent(self.type, self.entry)
        if self.old is not None:
            self.old.lay_away()
        if self.type == "DELETED" or self.resource is EVENTS:  # which are many, and which nobody inside reads
            self.entry.lay_away()

    def _departure(self) -> WatchEvent:
        # Those whose filter the object has left get its last state that matched. It carries the resourceVersion of the
        # write by which it left: a client that resumes from there must not be sent this event again.
        if self._left is None:
            assert self.old is not None
            meta = {**self.old.obj["metadata"], "resourceVersion": str(self.entry.revision)}
            self._left = WatchEvent("DELETED", Entry({**self.old.obj, "metadata": meta}, self.entry.revision))
        return self._left


class WatchLimits(msgspec.Struct, frozen=True):
    """How far a watcher may lag behind before its watch is ended."""

    events: int = MAX_WATCH_EVENTS
    size: int = MAX_WATCH_BYTES  # of the queued objects as JSON


@dataclass(slots=True, eq=False, repr=False)
class Watch:
    """The changes that one watcher asked for; `wake` is called when the first one arrives in an empty queue."""

    _namespace: str
    _matches: Matcher | None
    _limits: WatchLimits
    _close: Callable[["Watch"], None]
    start_revision: int
    """Of the store when the watch was opened."""
    _view: EntryView | None = None
    """Shows stored objects in another version of the API."""
    _initial: Iterator[WatchEvent] = field(default_factory=lambda: iter(()), init=False)
    _queue: deque[WatchEvent] = field(default_factory=deque, init=False)
    _queued_bytes: int = field(default=0, init=False)
    overflowed: bool = field(default=False, init=False)
    """The reader was too slow, or the resource has changed: after what is queued the watch has ended."""
    wake: Callable[[], None] | None = field(default=None, init=False)

    def begin_with(self, entries: list[Entry]) -> None:
        """Show these objects first, those of them that match, as ADDED."""
        self._initial = self._matching(entries)

    def catch_up(self, missed: Iterable[StoreChange]) -> None:
        """Take the changes that the watcher has missed.

        They are not limited, since the history that they come from is, and a watch that could not even be resumed
        would never get anywhere.
        """
        limits, self._limits = self._limits, WatchLimits(_UNLIMITED, _UNLIMITED)
        for change in missed:
            self.offer(change)
        self._limits = limits

    def offer(self, change: StoreChange) -> None:
        """Take a change if it passes the filter; called by the store."""
        if self._namespace and change.entry.place[0] != self._namespace:
            return
        event = change.seen_through(self._matches)
        if event is not None:
            self._push(event)

    def _push(self, event: WatchEvent) -> None:
        size = event.entry.size
        if self._queue and (len(self._queue) >= self._limits.events or self._queued_bytes + size > self._limits.size):
            self.overflowed = True
            self.close()
        else:
            self._queue.append(event)
            self._queued_bytes += size
        if self.wake is not None and (self.overflowed or len(self._queue) == 1):
            self.wake()

    def initial_events(self, at_most: int | None = None) -> list[WatchEvent]:
        """The next objects that were there when the watch was opened; an empty list when all have been shown."""
        return list(islice(self._initial, at_most))

    def events(self, at_most: int | None = None) -> list[WatchEvent]:
        """The next events, all that there are unless told otherwise; an empty list when there are none now."""
        found, view = self.initial_events(at_most), self._view
        while self._queue and len(found) != at_most:
            event = self._queue.popleft()
            self._queued_bytes -= event.entry.size
            found.append(event if view is None else WatchEvent(event.type, view(event.entry)))
        return found

    def _matching(self, entries: list[Entry]) -> Iterator[WatchEvent]:
        matches, view = self._matches, self._view
        for entry in entries:
            if matches is None or matches(entry.obj):
                yield WatchEvent("ADDED", entry if view is None else view(entry))

    def end(self) -> None:
        """Receive nothing more; the reader is given what is queued, and may begin again."""
        self.overflowed = True
        self.close()
        if self.wake is not None:
            self.wake()

    def close(self) -> None:
        """Stop receiving."""
        self._close(self)
