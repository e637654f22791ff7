"""A controller's work queue: keys to look at now, keys to look at later, and back-off for those that failed.

A key that is put in several times before it is taken out comes out once, in the order of its first addition. Times are
seconds since the epoch and are passed in. Used by `controller.KeyedController`.
"""

import heapq
from collections import deque

FIRST_RETRY_S = 0.005
LAST_RETRY_S = 30.0


class WorkQueue:
    """First in, first out, without duplicates; delayed keys enter when their time has come."""

    __slots__ = ("_delayed", "_due", "_failures", "_ready", "_waiting")

    def __init__(self) -> None:
        self._ready: deque[str] = deque()
        self._waiting: set[str] = set()
        self._delayed: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def add(self, key: str) -> None:
        """Look at `key` as soon as possible."""
        if key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)

    def add_at(self, key: str, due_s: float) -> None:
        """Look at `key` at the given time; of several times the earliest counts.

        `_due` holds the time that counts for each key. An entry of the heap with another time is stale and is skipped
        when it comes up, which is cheaper than to search the heap for it now.
        """
        known = self._due.get(key)
        if known is None or due_s < known:
            self._due[key] = due_s
            heapq.heappush(self._delayed, (due_s, key))

    def retry(self, key: str, now_s: float) -> float:
        """Look at a key that failed again after a delay that doubles each time; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay_s = float(min(FIRST_RETRY_S * 2 ** min(failures, 20), LAST_RETRY_S))
        self.add_at(key, now_s + delay_s)
        return delay_s

    def forget(self, key: str) -> None:
        """The key has been handled without an error: its next failure starts with the shortest delay again."""
        self._failures.pop(key, None)

    def pop(self, now_s: float) -> str | None:
        """The next key to look at, or None."""
        self._wake(now_s)
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._waiting.discard(key)
        return key

    def ready_count(self, now_s: float) -> int:
        """How many keys wait to be looked at now."""
        self._wake(now_s)
        return len(self._ready)

    def next_deadline(self) -> float | None:
        """When the next delayed key is due; 0.0 if a key is ready now, None if the queue is empty."""
        if self._ready:
            return 0.0
        self._drop_stale()
        return self._delayed[0][0] if self._delayed else None

    def _wake(self, now_s: float) -> None:
        while self._delayed and self._delayed[0][0] <= now_s:
            due_s, key = heapq.heappop(self._delayed)
            if self._due.get(key) == due_s:
                del self._due[key]
                self.add(key)

    def _drop_stale(self) -> None:
        while self._delayed and self._due.get(self._delayed[0][1]) != self._delayed[0][0]:
            heapq.heappop(self._delayed)
