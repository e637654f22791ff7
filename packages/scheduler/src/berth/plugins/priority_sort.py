"""PrioritySort: pods of higher priority first, those of equal priority in the order they became ready to be tried.

Upstream plugin `PrioritySort`, v1.36.
"""

from typing import ClassVar, final

from berth.framework.handle import Handle
from berth.framework.interface import QueueSortPlugin, SortKeyPlugin
from berth.state.queued_pod import QueuedPod


@final
class PrioritySort(QueueSortPlugin, SortKeyPlugin):
    """QueueSort."""

    name: ClassVar[str] = "PrioritySort"

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Say whether `a` comes before `b`."""
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Return what orders as `less` does."""
        return (-queued.pod.priority, queued.timestamp)
