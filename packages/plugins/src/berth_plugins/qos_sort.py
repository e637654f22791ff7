"""QOSSort: the queue by priority, then by quality of service, then by time.

Upstream plugin `QOSSort`: among pods of one priority the Guaranteed ones come first, then the Burstable, and BestEffort
last; among those the pod that came to the queue first.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, final

from berth.plugin import Handle, QosClass, QueuedPod, QueueSortPlugin, SortKeyPlugin

RANK: Mapping[QosClass, int] = MappingProxyType(
    {QosClass.GUARANTEED: 0, QosClass.BURSTABLE: 1, QosClass.BEST_EFFORT: 2}
)
"""Which comes first."""


@final
class QOSSort(QueueSortPlugin, SortKeyPlugin):
    """QueueSort."""

    name: ClassVar[str] = "QOSSort"

    def __init__(self, args: None, handle: Handle) -> None:
        """Take no args."""

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Say whether a pod comes before another."""
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, float]:
        """Return the key: priority, the highest first; quality of service; time."""
        return -queued.pod.priority, RANK[queued.pod.qos_class], queued.timestamp
