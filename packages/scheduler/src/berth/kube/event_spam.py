"""How many events one object may cause: a token bucket for each object, as client-go's spam filter has it.

The event recorder asks before it begins a new series. An object that causes more different events than its bucket
allows has them dropped, so that one pod failing in ever new ways does not take anything from the others. Source:
k8s.io/client-go/tools/record, events_cache.go.
"""

from collections import OrderedDict
from datetime import datetime, timedelta

from berth.api.meta import ObjectReference

BURST = 25
"""How many events an object may cause at once."""
REFILL = timedelta(minutes=5)
"""How long it takes until it may cause one more."""
MAX_OBJECTS = 4096
"""At most this many objects are remembered; the one asked about least recently is forgotten, its bucket full again."""


class EventSpamFilter:
    """Says which events are too many for the object that they are about."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: OrderedDict[ObjectReference, tuple[float, datetime]] = OrderedDict()
        """By object: the tokens that were left, and when that was."""

    def allows(self, regarding: ObjectReference, now: datetime) -> bool:
        """Say whether there may be another event about an object, and count it if so."""
        tokens, since = self._buckets.get(regarding, (float(BURST), now))
        # Refilled on demand, so that nothing has to run in between.
        tokens = min(float(BURST), tokens + (now - since) / REFILL)
        is_allowed = tokens >= 1
        self._buckets[regarding] = tokens - 1 if is_allowed else tokens, now
        self._buckets.move_to_end(regarding)
        if len(self._buckets) > MAX_OBJECTS:
            self._buckets.popitem(last=False)
        return is_allowed
