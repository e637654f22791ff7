"""A heap of the queued pods of several tenants, for QueueSort plugins that say which tenant's turn it is.

A static order cannot share fairly, since the turn changes with each pod that gets a node. So the heap knows the first
pod of each tenant besides the order of all pods, and asks the plugin at each pop. Everything else (peeking, removing
pods, the order shown to people) goes by the keys, as in any `PodHeap`.
"""

import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any

from berth.framework.blame import contained
from berth.framework.interface import TenantSortPlugin
from berth.queue.heap import Entry, PodHeap
from berth.queue.sort_key import QueueOrder
from berth.state.queued_pod import QueuedPod


class TenantHeap(PodHeap):
    """A `PodHeap` that pops the first pod of the tenant that the plugin names."""

    __slots__ = ("_entries_of", "_filed", "_plugin")

    def __init__(
        self,
        key: Callable[[QueuedPod], Any],
        plugin: TenantSortPlugin,
        tokens: "count[int] | None" = None,
        order: QueueOrder | None = None,
    ) -> None:
        super().__init__(key, tokens, order)
        self._plugin = plugin
        self._entries_of: dict[Hashable, list[Entry]] = {}
        """The entries of the heap again, by tenant, each list a heap. Stale ones are dropped when they come up."""
        self._filed = 0
        """How many entries there are by tenant, stale ones included."""

    def pop(self) -> QueuedPod | None:
        """Take the first pod of the tenant whose turn it is; a pod without a place in the order comes before all."""
        first = self.peek()
        if first is not None and first.sort_error is not None:
            return super().pop()
        heads = self._heads()
        if not heads:
            return None
        try:
            queued = heads.get(self._plugin.next_tenant(heads))
        except BaseException as raised:
            contained(raised)  # the guard has reported it; pods must go on being tried, whatever the plugin's bug
            queued = None
        return super().pop() if queued is None else self.remove(queued.pod.uid)

    def _file(self, entry: Entry) -> None:
        super()._file(entry)
        try:
            tenant = self._plugin.tenant_of(entry[2])
        except BaseException as raised:
            contained(raised)
            tenant = None
        heapq.heappush(self._entries_of.setdefault(tenant, []), entry)
        self._filed += 1

    def _heads(self) -> dict[Hashable, QueuedPod]:
        """Return the first pod of each tenant that has any."""
        self._renew()
        heads: dict[Hashable, QueuedPod] = {}
        for tenant, entries in tuple(self._entries_of.items()):
            while entries and not self._is_live(entries[0]):
                heapq.heappop(entries)
                self._filed -= 1
            if entries:
                heads[tenant] = entries[0][2]
            else:
                del self._entries_of[tenant]
        return heads

    def _build(self) -> None:
        super()._build()
        for entries in self._entries_of.values():
            heapq.heapify(entries)

    def _drop_stale(self) -> None:
        super()._drop_stale()
        if self._filed > 64 + 2 * len(self):
            live = {tenant: list(filter(self._is_live, entries)) for tenant, entries in self._entries_of.items()}
            self._entries_of = {tenant: entries for tenant, entries in live.items() if entries}
            for entries in self._entries_of.values():
                heapq.heapify(entries)
            self._filed = len(self)
