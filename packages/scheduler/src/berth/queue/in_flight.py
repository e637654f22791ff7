"""Which pods are being scheduled right now, and what happened meanwhile, so that no wake-up is lost.

An event that comes while a pod is out of all queues cannot wake it; it is kept until every pod that was in flight when
it came is done, and consulted when such a pod comes back as unschedulable. A pod is done as soon as it can no longer
come back that way: once Permit has let it through, before PreBind (which may take minutes).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from berth.framework.events import ClusterEvent
from berth.state.pod_info import PodInfo


class InFlightEvent(NamedTuple):
    """An event with the object before and after. A wildcard event with a pod as `new` concerns that pod alone."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods in flight by uid, and the events since the oldest of them left the queue."""

    __slots__ = ("_dropped", "_events", "_pods", "_started")

    def __init__(self) -> None:
        # A pod's start is a position among all events ever kept, of which the first `_dropped` have left the list. They
        # left only once every pod that had started before them was done, so no pod in flight misses one.
        self._started: dict[str, int] = {}
        self._pods: dict[str, PodInfo] = {}
        self._events: list[InFlightEvent] = []
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._started)

    def __contains__(self, uid: str) -> bool:
        return uid in self._started

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._started))

    @property
    def event_count(self) -> int:
        """How many events are kept."""
        return len(self._events)

    def counts(self) -> Counter[str]:
        """How many events of each label are kept."""
        return Counter(happened.event.label for happened in self._events)

    def pods(self) -> tuple[PodInfo, ...]:
        """Return the pods in flight, in the order in which they were popped."""
        return tuple(self._pods.values())

    def start(self, pod: PodInfo) -> None:
        """Note that a pod has left the queue to be scheduled."""
        self._started[pod.uid] = self._dropped + len(self._events)
        self._pods[pod.uid] = pod

    def note(self, happened: InFlightEvent) -> None:
        """Keep an event if anything is in flight."""
        if self._started:
            self._events.append(happened)

    def note_for(self, uid: str, event: ClusterEvent) -> None:
        """Keep an event that concerns this pod alone, if it is in flight."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._events.append(InFlightEvent(event, None, pod))

    def events_since_start(self, uid: str) -> Iterator[InFlightEvent]:
        """Yield what happened since a pod started; nothing if it is not in flight."""
        start = self._started.get(uid)
        if start is not None:
            yield from self._events[start - self._dropped :]

    def done(self, uid: str) -> None:
        """Forget a pod, and the events that were kept only for it."""
        if self._started.pop(uid, None) is None:
            return
        del self._pods[uid]
        if not self._started:
            self._dropped += len(self._events)
            self._events.clear()
            return
        # Insertion order is starting order, so the first one left started first.
        oldest = next(iter(self._started.values()))
        if oldest > self._dropped:
            del self._events[: oldest - self._dropped]
            self._dropped = oldest
