"""What has arrived for the core but not been handed to it: changes, answers, shards that have come or gone.

Filled on the event loop, emptied in slices of the core's work: both ends of a deque are atomic.
"""

import asyncio
from collections import deque
from collections.abc import Iterable

from berth.api.pod import Pod
from berth.core.intake import ShardsHeld
from berth.framework.effects import Answer
from berth.kube.changes import Added, Change, InvalidObject, Synced


class Arrivals:
    """A queue of what arrives, and the events that wake the task that empties it.

    Most of what arrives in a busy cluster is a small change: a pod was bound or runs, a node is alive. That is not
    urgent: it may be handed over a few milliseconds later, with others, an answer, or the next new pod. The same goes
    for the answer to a Binding that succeeded, since the pod was counted when it was assumed.
    """

    __slots__ = ("_queue", "shards", "urgent", "wake")

    def __init__(self) -> None:
        self._queue: deque[Change | Answer | ShardsHeld] = deque()
        self.wake = asyncio.Event()
        """Set where there is something to do."""
        self.urgent = asyncio.Event()
        """Set where there is something that cannot wait for more to come."""
        self.shards: ShardsHeld | None = None
        """Which shards are ours, where there are any, as the core was told last."""

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, *arrivals: Change | Answer | ShardsHeld) -> None:
        """Keep what has arrived until the core's next slice."""
        self._queue.extend(arrivals)
        self.be_quick()

    def put_bound(self, answer: Answer) -> None:
        """Keep the answer to a Binding that succeeded."""
        self._queue.append(answer)
        self.wake.set()

    def be_quick(self) -> None:
        """Wake the core at once."""
        self.urgent.set()
        self.wake.set()

    def all_taken(self) -> None:
        """Note that the core is about to take in all that has arrived."""
        self.urgent.clear()
        self.wake.clear()

    def take_in(self, changes: Iterable[Change]) -> list[InvalidObject]:
        """Add changes from informers; return the objects that cannot be read, which the core does not get."""
        invalid: list[InvalidObject] = []
        for change in changes:
            if isinstance(change, InvalidObject):
                invalid.append(change)
            else:
                self._queue.append(change)
                if isinstance(change, Added | Synced):
                    self.urgent.set()
        self.wake.set()
        return invalid

    def hold_shards(self, held: frozenset[int]) -> None:
        """Note that shards have come or gone. The fence knows already; the core learns it before its next cycle."""
        self.shards = ShardsHeld(held)
        self.put(self.shards)

    def take(self) -> Change | Answer | ShardsHeld:
        """Return what has waited longest."""
        return self._queue.popleft()

    def take_placed(self, at_most: int) -> list[Pod]:
        """Return the pods that have waited longest, as long as they are new and have a node."""
        queue, pods = self._queue, list[Pod]()
        while len(pods) < at_most and isinstance(first := queue[0], Added) and isinstance(pod := first.object, Pod):
            if not pod.spec.node_name:
                break
            pods.append(pod)
            queue.popleft()
        return pods

    def clear(self) -> None:
        """Forget what has arrived."""
        self._queue.clear()
