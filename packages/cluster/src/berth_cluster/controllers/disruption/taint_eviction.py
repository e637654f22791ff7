"""The taint eviction controller: ends pods on nodes with NoExecute taints that they do not tolerate, or no longer.

Driven by changes of pods and nodes, and by time (`tolerationSeconds` that run out). The seconds count from the moment
at which this controller first saw the pod on a node with such taints, whatever `timeAdded` says. If the taints or
tolerations change meanwhile, the new number of seconds counts from that same moment; only when nothing threatens the
pod any more is the moment forgotten (`threatened`). Upstream: pkg/controller/tainteviction, v1.36.
"""

from collections.abc import Iterable

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.taints import NO_EXECUTE, Taint, Toleration
from berth_cluster.apimachinery.meta import Object, key_of, uid_of
from berth_cluster.controllers.decoding import decoded
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pod_eviction import EvictingController
from berth_cluster.controllers.pods import is_active, node_of

FOREVER = float("inf")


class TaintEviction(EvictingController):
    """Evicts pods from tainted nodes."""

    __slots__ = ()

    name = "taint-eviction-controller"
    kinds = frozenset({"Pod", "Node"})
    event = "TaintManagerEviction"
    reason = "DeletionByTaintManager"
    message = "Taint manager: deleting due to NoExecute taint"

    def handle(self, change: ObjectChange) -> None:
        """Look at pods that get a node or other tolerations, and at all pods of a node whose taints change."""
        obj, old = change.obj, change.old
        if change.kind == "Pod":
            if change.type == "DELETED":
                self.threatened.pop(uid_of(obj), None)
            elif self._may_go(obj) and (old is None or _pod_view(old) != _pod_view(obj)):
                self.look_at(obj)
        elif change.type != "DELETED" and _evicting(obj) != (_evicting(old) if old else []):
            for pod in self.index.on_node(obj["metadata"]["name"]):
                self.look_at(pod)

    def _may_go(self, pod: Object) -> bool:
        """Whether the pod is worth a look: its node has such a taint, or it has been threatened by one before."""
        node = self.index.get("Node", node_of(pod)) if node_of(pod) else None
        return uid_of(pod) in self.threatened or (node is not None and bool(_evicting(node)))

    def sync(self, obj: Object, now_s: float) -> None:
        """Evict one pod if its time has come."""
        node = self.index.get("Node", node_of(obj)) if node_of(obj) else None
        if node is None or not is_active(obj):
            return
        seconds = _tolerated_s(obj, node) if _evicting(node) else FOREVER
        if seconds == FOREVER:
            self.spare(obj, f"Cancelling deletion of Pod {key_of(obj)}", now_s)
        else:
            at_s = self.threatened.get(uid_of(obj), now_s) + seconds if seconds else now_s
            self.evict_at(at_s, obj, f"Marking for deletion Pod {key_of(obj)}", now_s)


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
    read_pod: Pod | None = decoded("Pod", pod)
    read_node: Node | None = decoded("Node", node)
    if read_pod is None or read_node is None:
        return FOREVER
    return tolerated_s(read_node.spec.taints, read_pod.spec.tolerations)


def _pod_view(pod: Object) -> tuple[str, object]:
    return node_of(pod), pod["spec"].get("tolerations")


def _evicting(node: Object) -> list[Object]:
    """The taints of a node that evict pods."""
    return [one for one in (node.get("spec") or {}).get("taints") or [] if one.get("effect") == NO_EXECUTE]
