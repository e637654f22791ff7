"""The taint eviction controller: ends pods on nodes with NoExecute taints that they do not tolerate, or no longer.

Driven by changes of pods and nodes, and by time (`tolerationSeconds` that run out). The seconds count from the moment
at which this controller first saw the pod on a node with such taints, whatever `timeAdded` says. If the taints or
tolerations change meanwhile, the new number of seconds counts from that same moment; only when nothing threatens the
pod any more is the moment forgotten (`_since`). Upstream: pkg/controller/tainteviction, v1.36.
"""

import logging
from collections.abc import Iterable

from berth.api import codec
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.taints import NO_EXECUTE, Taint, Toleration
from berth_cluster.apimachinery.meta import Object, is_being_deleted, key_of, uid_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import disrupted, is_active, node_of

logger = logging.getLogger(__name__)

COMPONENT = "taint-eviction-controller"
REASON = "TaintManagerEviction"
FOREVER = float("inf")


class TaintEviction(KeyedController):
    """Evicts pods, without asking disruption budgets. A queue key is a pod's."""

    __slots__ = ("_client", "_index", "_since")

    name = COMPONENT

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._since: dict[str, float] = {}  # when a pod was first seen to be threatened by a taint, by its uid

    def handle(self, change: ObjectChange) -> None:
        """Look at pods that get a node or other tolerations, and at all pods of a node whose taints change."""
        obj, old = change.obj, change.old
        if change.kind == "Pod":
            if change.type == "DELETED":
                self._since.pop(uid_of(obj), None)
            elif self._may_go(obj) and (old is None or _pod_view(old) != _pod_view(obj)):
                self.queue.add(key_of(obj))
        elif change.kind == "Node" and change.type != "DELETED" and _evicting(obj) != (_evicting(old) if old else []):
            for pod in self._index.on_node(obj["metadata"]["name"]):
                self.queue.add(key_of(pod))

    def _may_go(self, pod: Object) -> bool:
        """Whether the pod is worth a look: its node has such a taint, or it has been threatened by one before."""
        node = self._index.get("Node", node_of(pod)) if node_of(pod) else None
        return uid_of(pod) in self._since or (node is not None and bool(_evicting(node)))

    def sync(self, key: str, now_s: float) -> None:
        """Evict one pod if its time has come."""
        pod = self._index.get("Pod", key)
        node = self._index.get("Node", node_of(pod)) if pod is not None and node_of(pod) else None
        if pod is None or node is None or not is_active(pod) or is_being_deleted(pod):
            return
        uid = uid_of(pod)
        seconds = _tolerated_s(pod, node) if _evicting(node) else FOREVER
        if seconds == FOREVER:
            if self._since.pop(uid, None) is not None:
                self._tell(pod, f"Cancelling deletion of Pod {key}", now_s)
            return
        if seconds <= 0:
            self._evict(pod, now_s)
            return
        due_s = self._since.setdefault(uid, now_s) + seconds
        if now_s < due_s:
            self.queue.add_at(key, due_s)
        else:
            self._evict(pod, now_s)

    def _evict(self, pod: Object, now_s: float) -> None:
        self._tell(pod, f"Marking for deletion Pod {key_of(pod)}", now_s)
        why = "Taint manager: deleting due to NoExecute taint"
        marked = self._client.update_status("Pod", disrupted(pod, "DeletionByTaintManager", why, now_s))
        self._client.delete("Pod", marked)
        self._since.pop(uid_of(pod), None)

    def _tell(self, pod: Object, message: str, now_s: float) -> None:
        self._client.events.normal(COMPONENT, "Pod", pod, REASON, message, now_s)


def tolerated_s(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> float:
    """For how many seconds tolerations keep a pod on a node with these taints; infinite if no taint ever ends it.

    Each taint is matched with the first toleration that tolerates it; the shortest time among those matched decides.
    """
    tolerations = list(tolerations)
    shortest = FOREVER
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        used = next((one for one in tolerations if one.tolerates(taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            shortest = min(shortest, max(0.0, float(used.toleration_seconds)))
    return shortest


def _tolerated_s(pod: Object, node: Object) -> float:
    try:
        read_pod: Pod = codec.decode("Pod", pod)
        read_node: Node = codec.decode("Node", node)
    except codec.ObjectError as error:
        logger.warning("%s: set aside: %s", COMPONENT, error)
        return FOREVER
    return tolerated_s(read_node.spec.taints, read_pod.spec.tolerations)


def _pod_view(pod: Object) -> tuple[str, object]:
    return node_of(pod), pod["spec"].get("tolerations")


def _evicting(node: Object) -> list[Object]:
    """The taints of a node that evict pods."""
    return [one for one in (node.get("spec") or {}).get("taints") or [] if one.get("effect") == NO_EXECUTE]
