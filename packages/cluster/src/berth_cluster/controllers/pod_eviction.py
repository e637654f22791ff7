"""Ending pods from outside when their time has come, and taking that back where the reason is gone before.

What the two controllers share that evict pods because of taints, of nodes and of devices.
"""

from berth_cluster.apimachinery.meta import Object, uid_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.pods import disrupted


class EvictingController(KeyedController):
    """Evicts pods, without asking disruption budgets."""

    __slots__ = ("threatened",)

    event = ""
    """The reason of the events on pods."""
    reason = ""
    message = ""
    """Reason and message of the condition that a pod ends with."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.threatened: dict[str, float] = {}
        """Since when pods are known to be evicted later, by uid."""

    def spare(self, pod: Object, message: str, now_s: float) -> None:
        """Nothing threatens a pod, or nothing does any more."""
        if self.threatened.pop(uid_of(pod), None) is not None:
            self.tell(pod, self.event, message, now_s)

    def evict_at(self, at_s: float, pod: Object, message: str, now_s: float) -> bool:
        """Evict a pod if its time has come, else come back then; True if it was evicted."""
        if now_s < at_s:
            self.threatened.setdefault(uid_of(pod), now_s)
            self.look_at(pod, at_s)
            return False
        self.tell(pod, self.event, message, now_s)
        marked = self.client.set_status(pod, disrupted(pod, self.reason, self.message, now_s))
        self.client.delete("Pod", marked)
        self.threatened.pop(uid_of(pod), None)
        return True
