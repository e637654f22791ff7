"""The order of the queue: keys from a QueueSort plugin, whether it has `sort_key` or `less`.

Out-of-tree plugins may raise, or return keys that do not compare. Comparing two `PodKey`s never raises, since a heap
whose comparison does can lose the pod that it was moving. Instead one of the two pods is marked as having no place in
the order. That pod comes before all others, so that it is popped soon, and the core ends its attempt with the
exception.

Invariant: the result of comparing two keys changes only together with `QueueOrder.revision`, and a heap that was built
under another revision is rebuilt before anything is read from it (`PodHeap`). Each pod is marked at most once each time
it is queued, so this ends.
"""

from collections.abc import Callable
from typing import Any

from berth.framework.blame import PluginBrokenError, contained, is_in_tree, place_of, place_of_function
from berth.framework.loaded import LoadedPlugin
from berth.state.queued_pod import QueuedPod

Report = Callable[[str, str, Exception], None]
"""`report(plugin, method, bug)`: a plugin failed in a way that the guard around its methods cannot see."""


def sort_key_of(plugin: LoadedPlugin, report: Report = lambda _plugin, _method, _bug: None) -> Callable[..., Any]:
    """Return a function that makes keys in the plugin's order: a `QueueOrder`, unless the plugin is in-tree."""
    if plugin.sort_key is not None and is_in_tree(type(plugin.plugin).__module__):
        return plugin.sort_key.sort_key
    return QueueOrder(plugin, report)


class QueueOrder:
    """The order of a plugin that may raise."""

    __slots__ = ("_key", "_less", "_report", "name", "revision")

    def __init__(self, plugin: LoadedPlugin, report: Report = lambda _plugin, _method, _bug: None) -> None:
        assert plugin.queue_sort is not None, f"{plugin.name} is not a QueueSort plugin"
        self.name = plugin.name
        self.revision = 0
        """Grows whenever a pod that lies in a heap turns out to have no place in the order."""
        self._key = None if plugin.sort_key is None else plugin.sort_key.sort_key
        self._less = plugin.queue_sort.less
        self._report = report

    def __call__(self, queued: QueuedPod) -> "PodKey":
        """Return the key of a pod under its current token; a pod without a place in the order is marked."""
        queued.sort_error = None
        key = PodKey(self, queued)
        try:
            if self._key is not None:
                key.value = self._key(queued)
            else:
                # A pod that cannot be compared with itself is at fault, not the one it is compared with.
                self._less(queued, queued)
        except BaseException as raised:
            self._mark(key, contained(raised))
        return key

    def is_before(self, a: "PodKey", b: "PodKey") -> bool:
        """Say whether `a` comes before `b`. Never raises; if the plugin does, one of the pods is marked."""
        if a.is_broken or b.is_broken:
            return (not a.is_broken, a.token) < (not b.is_broken, b.token)
        try:
            if self._key is None:
                return self._less(a.queued, b.queued) or (a.token < b.token and not self._less(b.queued, a.queued))
            return a.token < b.token if a.value == b.value else bool(a.value < b.value)
        except BaseException as raised:
            bug = contained(raised)
            # Of the two, the one that has left the heap, or the later one: the others compare well.
            culprit = a if a.is_stale or (a.token > b.token and not b.is_stale) else b
            if self._key is not None:
                bug = self._incomparable(culprit, b if culprit is a else a, bug)
            self._mark(culprit, bug)
            return self.is_before(a, b)

    def _mark(self, key: "PodKey", bug: Exception) -> None:
        key.is_broken = True
        self.revision += 1
        if not key.is_stale:
            key.queued.sort_error = PluginBrokenError("QueueSort", self.name, bug)

    def _incomparable(self, one: "PodKey", other: "PodKey", raised: Exception) -> Exception:
        """Return the bug that two keys do not compare, located where the plugin makes them."""
        place = place_of(raised) or (place_of_function(self._key) if self._key is not None else "")
        pods = f"what sort_key returns of pod {one.queued.pod.key} does not compare with that of {other.queued.pod.key}"
        bug = TypeError(f"{raised}: {pods}" + (f" ({place})" if place else ""))
        self._report(self.name, "sort_key", bug)
        return bug


class PodKey:
    """One pod's position in the order, fixed when it is queued. Ties are broken by token."""

    __slots__ = ("_order", "is_broken", "queued", "token", "value")

    def __init__(self, order: QueueOrder, queued: QueuedPod) -> None:
        self._order = order
        self.queued = queued
        self.token = queued.token
        self.value: Any = None
        self.is_broken = False

    def __lt__(self, other: "PodKey") -> bool:
        return self._order.is_before(self, other)

    @property
    def is_stale(self) -> bool:
        """Say whether the pod has left the heap, or has been queued again since."""
        return self.queued.token != self.token
