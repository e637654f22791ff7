"""Which events are to go: those that nobody has written to for an hour, and the oldest when there are too many.

A queue of all writes in their order is enough, since all events live equally long. An entry of the queue whose event
has been written again, or is gone, means nothing; such entries are thrown out before they outnumber the others.
"""

from collections import deque
from typing import NamedTuple

from berth_cluster.storage.collection import Collection, Place
from berth_cluster.storage.watch import Entry

EVENT_TTL_S = 3600.0  # upstream's --event-ttl
MAX_EVENTS = 20_000
_SLACK = 1000


class _Written(NamedTuple):
    due_s: float
    place: Place
    revision: int


class EventExpiry:
    """Used by the store, for its collection of events."""

    __slots__ = ("_max_events", "_ttl_s", "_writes")

    def __init__(self, ttl_s: float, max_events: int) -> None:
        self._ttl_s = ttl_s
        self._max_events = max_events
        self._writes: deque[_Written] = deque()

    def __len__(self) -> int:
        return len(self._writes)

    def written(self, entry: Entry, now_s: float) -> None:
        """An event has been created or changed."""
        self._writes.append(_Written(now_s + self._ttl_s, entry.place, entry.revision))

    def due(self, events: Collection, now_s: float, at_most: int) -> list[Entry]:
        """The next events that are to go."""
        if len(self._writes) > 2 * len(events) + _SLACK:
            self._writes = deque(write for write in self._writes if _present(events, write) is not None)
        found: list[Entry] = []
        while self._writes and len(found) < at_most:
            if self._writes[0].due_s > now_s and len(events) - len(found) <= self._max_events:
                break
            entry = _present(events, self._writes.popleft())
            if entry is not None:
                found.append(entry)
        return found


def _present(events: Collection, write: _Written) -> Entry | None:
    """The event as that write left it; None if it has been written again or is gone."""
    entry = events.find(*write.place)
    return entry if entry is not None and entry.revision == write.revision else None
