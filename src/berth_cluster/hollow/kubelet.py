"""One kubelet for all hollow nodes: admits the pods bound to them, "runs" them, ends them, removes them.

Driven by changes of pods and nodes, and by time; writes pod statuses. Each `sync` looks at one pod and takes the next
step:

    bound ──admit──▶ Pending ──▶ Running ──▶ Succeeded / Failed      (see `pod_status`)
      │
      └─rejected──▶ Failed (OutOfcpu, NodeAffinity, …)
    being deleted ──grace over──▶ ended ──▶ gone
    Running, resources changed ──room──▶ Running with them, else PodResizePending   (see `resize`)

A node is hollow when it carries the annotation `berth.dev/hollow: "true"`. While it also says `berth.dev/down-since`,
nothing happens to the pods on it.
"""

import logging

import msgspec

from berth.api import codec
from berth.api.pod import Pod
from berth.api.pod_resources import pod_requests
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    int_of,
    is_being_deleted,
    key_of,
    parse_time,
    uid_of,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal, node_of, phase_of
from berth_cluster.hollow import pod_status, resize
from berth_cluster.hollow.container_runs import ANNOTATIONS, ContainerRun, run_of
from berth_cluster.hollow.hollow_node import HollowNode
from berth_cluster.hollow.pod_status import PodLife, Runs
from berth_cluster.hollow.template import is_hollow

logger = logging.getLogger(__name__)

COMPONENT = "kubelet"


class KubeletSettings(msgspec.Struct, frozen=True):
    """How quickly things happen on hollow nodes."""

    run_s: float = 2.0  # how long a container that is to end runs unless its pod says so itself
    max_grace_s: float = 1.0  # a pod being deleted is gone after its grace period, or this if shorter
    start_delay_s: float = 0.0  # from the binding to Running


class HollowKubelet(KeyedController):
    """The kubelet of all hollow nodes; it reports pods as running, but runs none. A queue key is a pod's."""

    __slots__ = ("_bound_s", "_client", "_index", "_nodes", "_revived", "_settings")

    name = COMPONENT

    def __init__(self, client: Client, settings: KubeletSettings | None = None) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._settings = settings or KubeletSettings()
        self._nodes: dict[str, HollowNode] = {}
        self._bound_s: dict[str, float] = {}
        self._revived: set[str] = set()  # keys of pods whose node was down, and which others have marked meanwhile

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Follow the nodes, and look at pods that are bound to them."""
        if change.kind == "Pod":
            self._handle_pod(change)
        elif change.kind == "Node":
            self._handle_node(change)

    def _handle_pod(self, change: ObjectChange) -> None:
        node_name = node_of(change.obj)
        if change.type == "DELETED":
            self._bound_s.pop(uid_of(change.obj), None)  # even if its node went before it
            self._revived.discard(key_of(change.obj))
        if not node_name or node_name not in self._nodes:
            return
        if change.type == "DELETED":
            self._release(node_name, uid_of(change.obj))
        else:
            self.queue.add(key_of(change.obj))

    def _handle_node(self, change: ObjectChange) -> None:
        name = change.obj["metadata"]["name"]
        if change.type == "DELETED" or not is_hollow(change.obj):
            self._nodes.pop(name, None)
            return
        try:
            node = codec.decode("Node", change.obj)
        except codec.ObjectError as error:
            logger.warning("hollow node set aside: %s", error)
            return
        hollow_node = self._nodes.get(name)
        if hollow_node is not None:
            was_down = hollow_node.is_down
            hollow_node.refresh(node, change.obj)
            self._retry_deferred(hollow_node)
            if was_down <= hollow_node.is_down:
                return
            self._revived.update(map(key_of, self._index.on_node(name)))
        else:
            self._nodes[name] = HollowNode(node, change.obj)
        for pod in self._index.on_node(name):
            self.queue.add(key_of(pod))

    def _release(self, node_name: str, uid: str) -> None:
        self._bound_s.pop(uid, None)
        hollow_node = self._nodes.get(node_name)
        if hollow_node is not None:
            hollow_node.remove(uid)
            self._retry_deferred(hollow_node)

    # --- one pod ---------------------------------------------------------------------------------------------

    def sync(self, key: str, now_s: float) -> None:
        """Do what is next for one pod."""
        pod = self._index.get("Pod", key)
        hollow_node = self._nodes.get(node_of(pod)) if pod is not None else None
        if pod is None or hollow_node is None or hollow_node.is_down:
            return
        if is_being_deleted(pod):
            self._terminate(pod, hollow_node, now_s)
        elif is_terminal(pod):
            self._release(node_of(pod), uid_of(pod))
        elif uid_of(pod) not in hollow_node.pods:
            self._start(pod, hollow_node, now_s)
        else:
            has_resized = self._resize(pod, hollow_node, now_s)
            if not has_resized:  # else the status just written has the pod looked at again
                self._watch_over(pod, hollow_node, now_s)

    def _start(self, pod: Object, hollow_node: HollowNode, now_s: float) -> None:
        """Admit a pod that is new here, once the delay is over that starting takes."""
        start_s = self._bound_s.setdefault(uid_of(pod), now_s) + self._settings.start_delay_s
        if now_s < start_s:
            self.queue.add_at(key_of(pod), start_s)
            if not (pod.get("status") or {}).get("containerStatuses"):
                self._write(pod, pod_status.waiting(pod, hollow_node.host_ip, now_s))
            return
        try:
            decoded: Pod = codec.decode("Pod", pod)
        except codec.ObjectError as error:
            self._reject(pod, "UnexpectedAdmissionError", str(error), now_s)
            return
        if phase_of(pod) == "Running":  # it ran before this kubelet began to watch
            pod_ip = (pod.get("status") or {}).get("podIP", "")
            hollow_node.add(decoded, pod_requests(decoded), resize.container_resources(pod["spec"]), pod_ip)
            self._watch_over(pod, hollow_node, now_s)
        else:
            self._admit(pod, decoded, hollow_node, now_s)

    def _admit(self, pod: Object, decoded: Pod, hollow_node: HollowNode, now_s: float) -> None:
        requests = pod_requests(decoded)
        rejection = hollow_node.check(decoded, (pod["spec"].get("os") or {}).get("name", ""), requests)
        if rejection is not None:
            self._reject(pod, rejection.reason, rejection.message, now_s)
            return
        hollow_node.add(decoded, requests, resize.container_resources(pod["spec"]))
        try:
            self._watch_over(pod, hollow_node, now_s)
        except StoreError:
            hollow_node.remove(uid_of(pod))  # the status says nothing of it yet, so the next try begins anew
            raise

    def _resize(self, pod: Object, hollow_node: HollowNode, now_s: float) -> bool:
        """Give a pod the resources that its spec asks for now, if the node has them; True if its status was written."""
        uid, key, wanted = uid_of(pod), key_of(pod), resize.container_resources(pod["spec"])
        held = hollow_node.pods[uid]
        if wanted == held.resources and not resize.is_pending(pod):
            return False
        decoded: Pod = codec.decode("Pod", {name: value for name, value in pod.items() if name != "status"})
        requests = pod_requests(decoded)
        refused = resize.refusal(requests, hollow_node.allocatable, hollow_node.used_by_others(uid))
        hollow_node.deferred.discard(key)
        if refused is None:
            hollow_node.remove(uid)
            hollow_node.add(decoded, requests, wanted, held.pod_ip)
            self._retry_deferred(hollow_node)
        elif refused.reason == resize.DEFERRED:
            hollow_node.deferred.add(key)
        resources = wanted if refused is None else held.resources
        status = resize.resized_status(pod, resources, refused, now_s)
        if status == pod.get("status"):
            return False
        self._write(pod, status)
        return True

    def _retry_deferred(self, hollow_node: HollowNode) -> None:
        for key in hollow_node.deferred:
            self.queue.add(key)

    def _reject(self, pod: Object, reason: str, message: str, now_s: float) -> None:
        self._client.events.warning(COMPONENT, "Pod", pod, reason, message, now_s)
        self._write(pod, pod_status.rejected(pod, reason, message, now_s))

    def _watch_over(self, pod: Object, hollow_node: HollowNode, now_s: float) -> None:
        """Take a pod's containers as far as they have come, and come back when they will have come further."""
        deadline_s = self._deadline(pod)
        if now_s >= deadline_s:
            message = "Pod was active on the node longer than the specified deadline"
            self._write(pod, pod_status.killed(pod, now_s, "DeadlineExceeded", message))
            return
        due_s = deadline_s
        if not _stays_as_it_is(pod) or key_of(pod) in self._revived:
            self._revived.discard(key_of(pod))
            pod_ip = hollow_node.pods[uid_of(pod)].pod_ip
            life = PodLife(pod, self._runs_of(pod), now_s, pod_ip, hollow_node.host_ip)
            if life.status != pod.get("status"):
                self._write(pod, life.status)  # which has the pod looked at again
                return
            due_s = min(deadline_s, life.due_s)
        if due_s < float("inf"):
            self.queue.add_at(key_of(pod), due_s)

    def _runs_of(self, pod: Object) -> Runs:
        def runs(container: Object, restarts: int, is_init: bool) -> ContainerRun:
            return run_of(pod, container, restarts, is_init=is_init, default_s=self._settings.run_s)

        return runs

    def _deadline(self, pod: Object) -> float:
        limit_s = pod["spec"].get("activeDeadlineSeconds")
        started = (pod.get("status") or {}).get("startTime")
        return parse_time(started) + float(limit_s) if limit_s is not None and started else float("inf")

    def _terminate(self, pod: Object, hollow_node: HollowNode, now_s: float) -> None:
        """End a pod that is being deleted once its grace period, or `max_grace_s`, is over; then let go of it."""
        if uid_of(pod) in hollow_node.pods and not is_terminal(pod):
            gone_s = self._gone_at(pod)
            if now_s < gone_s:
                self.queue.add_at(key_of(pod), gone_s)
                return
            self._write(pod, pod_status.killed(pod, now_s))
        self._release(node_of(pod), uid_of(pod))
        if not _is_confirmed_gone(pod):
            self._client.pod_removed(pod)

    def _gone_at(self, pod: Object) -> float:
        grace_s = float(int_of(pod["metadata"], "deletionGracePeriodSeconds"))
        asked_s = parse_time(pod["metadata"]["deletionTimestamp"]) - grace_s
        return asked_s + min(grace_s, self._settings.max_grace_s)

    def _write(self, pod: Object, status: Object) -> None:
        self._client.update_status("Pod", {**pod, "status": status})


def _is_confirmed_gone(pod: Object) -> bool:
    """The kubelet has already reported the pod's end; only finalizers keep the object."""
    return int_of(pod["metadata"], "deletionGracePeriodSeconds", 1) == 0


def _stays_as_it_is(pod: Object) -> bool:
    """A running pod of which nothing is said that could change it by and by; most are, and cost no closer look.

    What others write into the status of such a pod stays: so one can be made to look as if it were not ready.
    """
    spec = pod["spec"]
    return (
        spec.get("restartPolicy", "Always") == "Always"
        and phase_of(pod) == "Running"
        and not any(spec.get(name) for name in ("initContainers", "readinessGates"))
        and not any(each.get(name) for each in spec["containers"] for name in ("command", "args", "restartPolicy"))
        and not any(name in ANNOTATIONS for name in annotations_of(pod))
    )
