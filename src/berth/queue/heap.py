"""A heap of queued pods that can also forget one, update one, and find one by uid."""

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from berth.state.queued_pod import QueuedPod

Entry = tuple[Any, int, QueuedPod]
"""A pod as it lies in a heap: its key, and the token that it was given with it."""


class PodHeap:
    """Smallest key first; equal keys in order of arrival."""

    __slots__ = ("_entries", "_key", "_pods", "_tokens")

    def __init__(self, key: Callable[[QueuedPod], Any], tokens: "count[int] | None" = None) -> None:
        self._key = key
        self._entries: list[Entry] = []
        self._pods: dict[str, QueuedPod] = {}
        self._tokens = tokens if tokens is not None else count(1)

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(tuple(self._pods.values()))

    def ordered(self) -> list[QueuedPod]:
        """Return all pods in the order in which they would be popped."""
        return [queued for _, _, queued in sorted(filter(self._is_live, self._entries), key=lambda entry: entry[:2])]

    def get(self, uid: str) -> QueuedPod | None:
        """Return the queued pod of this uid, or None."""
        return self._pods.get(uid)

    def push(self, queued: QueuedPod) -> None:
        """Add a pod, or move it to where its key belongs now."""
        key = self._key(queued)
        queued.token = next(self._tokens)
        self._pods[queued.pod.uid] = queued
        self._file((key, queued.token, queued))
        self._drop_stale()

    def peek(self) -> QueuedPod | None:
        """Return the first pod without taking it."""
        entries = self._entries
        while entries:
            if self._is_live(entries[0]):
                return entries[0][2]
            heapq.heappop(entries)
        return None

    def pop(self) -> QueuedPod | None:
        """Take the first pod."""
        queued = self.peek()
        if queued is not None:
            heapq.heappop(self._entries)
            del self._pods[queued.pod.uid]
        return queued

    def remove(self, uid: str) -> QueuedPod | None:
        """Take a pod out; return it, or None where it is not here."""
        queued = self._pods.pop(uid, None)
        self._drop_stale()
        return queued

    def _file(self, entry: Entry) -> None:
        heapq.heappush(self._entries, entry)

    def _drop_stale(self) -> None:
        # Stale entries are skipped where they come up, since finding one would cost as much as there are. They are
        # cleared out once they are the most, so each costs a constant part of that.
        if len(self._entries) > 64 + 2 * len(self._pods):
            self._entries = [entry for entry in self._entries if self._is_live(entry)]
            heapq.heapify(self._entries)

    def _is_live(self, entry: Entry) -> bool:
        _, token, queued = entry
        return queued.token == token and self._pods.get(queued.pod.uid) is queued
