"""The order of the queue: keys out of a QueueSort plugin, whichever of `sort_key` and `less` it has.

Other people's plugins may raise, and return keys that do not compare. Comparing two `PodKey`s never raises, since a
heap whose comparison does can lose the pod that it was moving. Instead one of the two pods is marked as having no place
in the order. It comes before all others, so that it is popped soon, and the core ends its attempt with what was raised.

Invariant: what two keys compare to changes only together with `QueueOrder.revision`, and a heap that was built under
another revision is built again before anything is read off it (`PodHeap`). Each pod is marked at most once for each
time that it is queued, so this ends.
"""

from collections.abc import Callable
from typing import Any

from berth.framework.blame import PluginBrokenError, contained, is_in_tree, place_of, place_of_function
from berth.framework.loaded import LoadedPlugin
from berth.state.queued_pod import QueuedPod

Report = Callable[[str, str, Exception], None]
"""`report(plugin, method, bug)`: a plugin broke in a way that the guard of its methods does not see."""


def sort_key_of(plugin: LoadedPlugin, report: Report = lambda _plugin, _method, _bug: None) -> Callable[..., Any]:
    """Return what makes keys that sort pods in the plugin's order, a `QueueOrder` unless the plugin is in-tree."""
    if plugin.sort_key is not None and is_in_tree(type(plugin.plugin).__module__):
        return plugin.sort_key.sort_key
    return QueueOrder(plugin, report)


class QueueOrder:
    """The order of a plugin that may break."""

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
        """Return the key of a pod under its present token; one without a place in the order is marked."""
        queued.sort_error = None
        key = PodKey(self, queued)
        try:
            if self._key is not None:
                key.value = self._key(queued)
            else:
                # Who cannot be compared with himself is at fault, and not the pod that he would be compared with.
                self._less(queued, queued)
        except BaseException as raised:
            self._mark(key, contained(raised))
        return key

    def is_before(self, a: "PodKey", b: "PodKey") -> bool:
        """Say whether `a` comes before `b`. Never raises, but marks one of them where the plugin does."""
        if a.is_broken or b.is_broken:
            return (not a.is_broken, a.token) < (not b.is_broken, b.token)
        try:
            if self._key is None:
                return self._less(a.queued, b.queued) or (a.token < b.token and not self._less(b.queued, a.queued))
            return a.token < b.token if a.value == b.value else bool(a.value < b.value)
        except BaseException as raised:
            bug = contained(raised)
            # Of two, the one that is not in the heap any more, or the one that came later: the others do go together.
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
        """Return the bug that two keys do not compare, which is told where the plugin makes them."""
        place = place_of(raised) or (place_of_function(self._key) if self._key is not None else "")
        pods = f"what sort_key returns of pod {one.queued.pod.key} does not compare with that of {other.queued.pod.key}"
        bug = TypeError(f"{raised}: {pods}" + (f" ({place})" if place else ""))
        self._report(self.name, "sort_key", bug)
        return bug


class PodKey:
    """Where one pod stands in the order, from when it was queued. Equal keys go by their tokens."""

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
