"""A heap of queued pods that can also remove, update and find a pod by uid.

If out-of-tree code orders the pods, a heap is rebuilt whenever a pod turns out to have no place in that order
(`berth.queue.sort_key`).
"""

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from berth.queue.sort_key import QueueOrder
from berth.state.queued_pod import QueuedPod

Entry = tuple[Any, int, QueuedPod]
"""An entry of a heap: a pod with its key and the token that came with the key."""


class PodHeap:
    """Smallest key first; equal keys in order of arrival."""

    __slots__ = ("_entries", "_key", "_order", "_pods", "_revision", "_tokens")

    def __init__(
        self, key: Callable[[QueuedPod], Any], tokens: "count[int] | None" = None, order: QueueOrder | None = None
    ) -> None:
        """`order` is what makes the keys, if it may raise."""
        self._key = key
        self._order = order
        self._revision = 0
        """The revision of the order under which the entries are a heap."""
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
        while True:
            self._renew()
            entries = sorted(filter(self._is_live, self._entries), key=lambda entry: entry[:2])
            if self._is_in_order:
                return [queued for _, _, queued in entries]

    def get(self, uid: str) -> QueuedPod | None:
        """Return the queued pod of this uid, or None."""
        return self._pods.get(uid)

    def push(self, queued: QueuedPod) -> None:
        """Add a pod, or move it to where its key now belongs."""
        queued.token = next(self._tokens)
        key = self._key(queued)
        self._pods[queued.pod.uid] = queued
        self._file((key, queued.token, queued))
        self._drop_stale()

    def peek(self) -> QueuedPod | None:
        """Return the first pod without taking it."""
        while self._entries:
            self._renew()
            if self._is_live(self._entries[0]):
                return self._entries[0][2]
            heapq.heappop(self._entries)
        return None

    def pop(self) -> QueuedPod | None:
        """Take the first pod."""
        queued = self.peek()
        if queued is not None:
            heapq.heappop(self._entries)
            del self._pods[queued.pod.uid]
            queued.token = 0
        return queued

    def remove(self, uid: str) -> QueuedPod | None:
        """Take a pod out; return it, or None if it is not here."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            queued.token = 0
        self._drop_stale()
        return queued

    def _file(self, entry: Entry) -> None:
        heapq.heappush(self._entries, entry)

    @property
    def _is_in_order(self) -> bool:
        return self._order is None or self._revision == self._order.revision

    def _renew(self) -> None:
        """Rebuild the heap if a pod has turned out to have no place in the order."""
        while self._order is not None and self._revision != self._order.revision:
            self._revision = self._order.revision  # before, as building it anew compares, which may mark another pod
            self._build()

    def _build(self) -> None:
        heapq.heapify(self._entries)

    def _drop_stale(self) -> None:
        # Stale entries are skipped when they come up, since finding one takes a search of all entries. They are cleared
        # out once they are the majority, so each costs a constant share of that.
        if len(self._entries) > 64 + 2 * len(self._pods):
            self._entries = [entry for entry in self._entries if self._is_live(entry)]
            heapq.heapify(self._entries)

    def _is_live(self, entry: Entry) -> bool:
        _, token, queued = entry
        return queued.token == token and self._pods.get(queued.pod.uid) is queued
