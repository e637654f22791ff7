"""The pod garbage collector: removes pods whose node no longer exists.

There is no kubelet left to end such pods. The node gets some time to come back under its name; then its pods are marked
as failed and deleted at once. Driven by changes of nodes and pods, and by time. Upstream: pkg/controller/podgc.
"""

from berth_cluster.apimachinery.meta import Object
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import disrupted, is_terminal, node_of

QUARANTINE_S = 40.0


class PodGarbageCollector(KeyedController):
    """Deletes pods of deleted nodes. What it looks at are nodes that are not there."""

    __slots__ = ("_missed_since",)

    name = "pod-garbage-collector-controller"
    kinds = frozenset({"Node", "Pod"})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._missed_since: dict[str, float] = {}

    def handle(self, change: ObjectChange) -> None:
        """Look at nodes that are deleted, and at missing nodes to which a pod is bound."""
        if change.kind == "Node":
            if change.type == "DELETED":
                self.look_at(change.obj)
        elif change.type != "DELETED":
            node_name = node_of(change.obj)
            if node_name and self.index.get("Node", node_name) is None:
                self.look_up("Node", node_name)

    def sync(self, obj: Object, now_s: float) -> None:
        """Leave the pods of a node that has come back to it."""
        self._missed_since.pop(obj["metadata"]["name"], None)

    def sync_gone(self, kind: str, key: str, now_s: float) -> None:
        """Remove the pods of a node that has been missing for long enough."""
        pods = self.index.on_node(key)
        if not pods:
            self._missed_since.pop(key, None)
            return
        due_s = self._missed_since.setdefault(key, now_s) + QUARANTINE_S
        if now_s < due_s:
            self.look_up(kind, key, due_s)
            return
        for pod in pods:
            self._remove(pod, now_s)

    def _remove(self, pod: Object, now_s: float) -> None:
        if not is_terminal(pod):
            status = disrupted(pod, "DeletionByPodGC", "PodGC: node no longer exists", now_s)
            pod = self.client.set_status(pod, {**status, "phase": "Failed"})
        self.client.pod_removed(pod)
