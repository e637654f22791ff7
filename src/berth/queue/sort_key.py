"""A sort key out of a QueueSort plugin, whichever of `sort_key` and `less` it has."""

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from berth.framework.loaded import LoadedPlugin
from berth.state.queued_pod import QueuedPod


def sort_key_of(plugin: LoadedPlugin) -> Callable[[QueuedPod], Any]:
    """Return a key that sorts pods in the plugin's order."""
    if plugin.sort_key is not None:
        return plugin.sort_key.sort_key
    orders = plugin.queue_sort
    assert orders is not None, f"{plugin.name} is not a QueueSort plugin"

    def compare(a: QueuedPod, b: QueuedPod) -> int:
        if orders.less(a, b):
            return -1
        return 1 if orders.less(b, a) else 0

    return cmp_to_key(compare)
