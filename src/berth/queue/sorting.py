"""A sort key out of a QueueSort plugin, whichever of `sort_key` and `less` it has."""

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from berth.state.queued_pod import QueuedPod


def sort_key_of(plugin: Any) -> Callable[[QueuedPod], Any]:
    """Return a key by which pods sort as the plugin wants them."""
    if hasattr(plugin, "sort_key"):
        return plugin.sort_key  # type: ignore[no-any-return]

    def compare(a: QueuedPod, b: QueuedPod) -> int:
        if plugin.less(a, b):
            return -1
        return 1 if plugin.less(b, a) else 0

    return cmp_to_key(compare)
