"""Changes as the store publishes them, and the queue from which one watcher reads those it asked for.

The store makes one `StoreChange` per write and offers it to every open `Watch` of the resource. A `Watch` keeps what
its selectors let through until its reader drains it with `events()`. An object is encoded at most once, however many
watchers there are: lists and events share the bytes of its `Entry`.
"""

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.selection import Matcher

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

_encode = msgspec.json.Encoder().encode


class Entry:
    """One version of one object; never edited, only replaced."""

    __slots__ = ("_encoded", "obj", "revision")

    def __init__(self, obj: Object, revision: int) -> None:
        self.obj = obj
        self.revision = revision
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The object as JSON."""
        if self._encoded is None:
            self._encoded = _encode(self.obj)
        return self._encoded


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

    def _departure(self) -> WatchEvent:
        # Those whose filter the object has left get its last state that matched. It carries the resourceVersion of the
        # write by which it left: a client that resumes from there must not be sent this event again.
        if self._left is None:
            assert self.old is not None
            meta = {**self.old.obj["metadata"], "resourceVersion": str(self.entry.revision)}
            self._left = WatchEvent("DELETED", Entry({**self.old.obj, "metadata": meta}, self.entry.revision))
        return self._left


class Watch:
    """The changes that one watcher asked for; `wake` is called when the first one arrives in an empty queue."""

    __slots__ = ("_close", "_limit", "_matches", "_namespace", "_queue", "_view", "overflowed", "wake")

    def __init__(
        self,
        namespace: str,
        matches: Matcher | None,
        limit: int,
        close: Callable[["Watch"], None],
        view: EntryView | None = None,
    ) -> None:
        self._namespace = namespace
        self._matches = matches
        self._queue: deque[WatchEvent] = deque()
        self._limit = limit
        self._close = close
        self._view = view  # shows stored objects in another version of the API
        self.overflowed = False  # the reader was too slow: the watch has ended, and the reader has to list again
        self.wake: Callable[[], None] | None = None

    def offer(self, change: StoreChange) -> None:
        """Take a change if it passes the filter; called by the store."""
        if self._namespace and change.entry.obj["metadata"].get("namespace") != self._namespace:
            return
        event = change.seen_through(self._matches)
        if event is not None:
            self.push(event)

    def push(self, event: WatchEvent) -> None:
        """Queue one event for the reader."""
        if self._view is not None:
            event = WatchEvent(event.type, self._view(event.entry))
        if len(self._queue) >= self._limit:
            self.overflowed = True
            self._queue.clear()
            self.close()
        else:
            self._queue.append(event)
        if self.wake is not None and (self.overflowed or len(self._queue) == 1):
            self.wake()

    def events(self) -> list[WatchEvent]:
        """Everything that has come since the last call."""
        drained = list(self._queue)
        self._queue.clear()
        return drained

    def close(self) -> None:
        """Stop receiving."""
        self._close(self)
