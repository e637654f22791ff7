"""In which order a profile's QueueSort plugin would take the pods of a case, where that is not by priority alone.

A pod's creationTimestamp is when it came to the queue. A Less that is a strict total order on these pods is told as
their order, any other as who is Less than whom.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from berth.core.core import Core
from berth.framework.interface import QueueSortPlugin
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth_workbench.cases.cases import Json

STOCK = "PrioritySort"


def queue_order(core: Core, pods: Sequence[PodInfo]) -> Json:
    """Return `{"queueOrder": keys}` or `{"less": key → keys}`; nothing for the stock order, or without pods."""
    sorter = next(iter(core.profiles.values())).queue_sort
    if sorter is None or sorter.queue_sort is None or sorter.name == STOCK or not pods:
        return {}
    queued = [_queued(pod) for pod in pods]
    before = {each.pod.key: _after(sorter.queue_sort, each, queued) for each in queued}
    ordered = sorted(before, key=lambda key: -len(before[key]))
    # In a strict total order each pod is Less than exactly those that come after it.
    if all(before[key] == sorted(ordered[place + 1 :]) for place, key in enumerate(ordered)):
        return {"queueOrder": ordered}
    return {"less": {key: after for key, after in before.items() if after}}


def _after(sorter: QueueSortPlugin, one: QueuedPod, queued: Sequence[QueuedPod]) -> list[str]:
    return sorted(other.pod.key for other in queued if other is not one and sorter.less(one, other))


def _queued(pod: PodInfo) -> QueuedPod:
    queued = QueuedPod(pod, _seconds(pod.metadata.creation_timestamp))
    queued.initial_attempt = queued.timestamp
    return queued


def _seconds(timestamp: str | None) -> float:
    if timestamp is None:
        return 0.0
    read = datetime.fromisoformat(timestamp)
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
