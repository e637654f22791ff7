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

import msgspec

from berth.api import codec
from berth.api.pod import Pod
from berth.api.pod_resources import pod_requests
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object, annotations_of, int_of, is_being_deleted, key_of, parse_time, uid_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.decoding import decoded
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import is_terminal, node_of, phase_of
from berth_cluster.hollow import pod_status, resize
from berth_cluster.hollow.admission import Rejection
from berth_cluster.hollow.container_runs import ANNOTATIONS, ContainerRun, run_of, stop_s
from berth_cluster.hollow.hollow_node import HollowNode
from berth_cluster.hollow.pod_status import PodLife, Runs
from berth_cluster.hollow.template import is_hollow


class KubeletSettings(msgspec.Struct, frozen=True):
    """How quickly things happen on hollow nodes."""

    run_s: float = 2.0  # how long a container that is to end runs unless its pod says so itself
    max_grace_s: float = 1.0  # a pod being deleted is gone this long after its hooks, or after its grace period
    start_delay_s: float = 0.0  # from the binding to Running


class HollowKubelet(KeyedController):
    """The kubelet of all hollow nodes; it reports pods as running, but runs none."""

    __slots__ = ("_bound_s", "_nodes", "_revived", "_settings")

    name = "kubelet"
    kinds = frozenset({"Pod", "Node"})

    def __init__(self, client: Client, settings: KubeletSettings | None = None) -> None:
        super().__init__(client)
        self._settings = settings or KubeletSettings()
        self._nodes: dict[str, HollowNode] = {}
        self._bound_s: dict[str, float] = {}
        self._revived: set[str] = set()  # keys of pods whose node was down, and which others have marked meanwhile

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Follow the nodes, and look at pods that are bound to them."""
        if change.kind == "Node":
            self._handle_node(change)
        elif change.type == "DELETED":
            self._revived.discard(key_of(change.obj))
            self._release(change.obj)
        elif node_of(change.obj) in self._nodes:
            self.look_at(change.obj)

    def _handle_node(self, change: ObjectChange) -> None:
        name = change.obj["metadata"]["name"]
        if change.type == "DELETED" or not is_hollow(change.obj):
            self._nodes.pop(name, None)
            return
        node = decoded("Node", change.obj)
        if node is None:
            return
        hollow_node = self._nodes.get(name)
        if hollow_node is not None:
            was_down = hollow_node.is_down
            hollow_node.refresh(node, change.obj)
            self._retry_deferred(hollow_node)
            if was_down <= hollow_node.is_down:
                return
            self._revived.update(map(key_of, self.index.on_node(name)))
        else:
            self._nodes[name] = HollowNode(node, change.obj)
        for pod in self.index.on_node(name):
            self.look_at(pod)

    def _release(self, pod: Object) -> None:
        """Give back what a pod has of its node, which may have gone before it."""
        self._bound_s.pop(uid_of(pod), None)
        hollow_node = self._nodes.get(node_of(pod))
        if hollow_node is not None:
            hollow_node.remove(uid_of(pod))
            hollow_node.files.forget(uid_of(pod))
            self._retry_deferred(hollow_node)

    # --- one pod ---------------------------------------------------------------------------------------------

    def sync(self, obj: Object, now_s: float) -> None:
        """Do what is next for one pod."""
        hollow_node = self._nodes.get(node_of(obj))
        if hollow_node is None or hollow_node.is_down:
            return
        if is_being_deleted(obj):
            self._terminate(obj, hollow_node, now_s)
        elif is_terminal(obj):
            self._release(obj)
        elif uid_of(obj) not in hollow_node.pods:
            self._start(obj, hollow_node, now_s)
        elif not self._resize(obj, hollow_node, now_s):  # else the status just written has the pod looked at again
            self._watch_over(obj, hollow_node, now_s)

    def _start(self, pod: Object, hollow_node: HollowNode, now_s: float) -> None:
        """Admit a pod that is new here, once the delay is over that starting takes."""
        start_s = self._bound_s.setdefault(uid_of(pod), now_s) + self._settings.start_delay_s
        if now_s < start_s:
            self.look_at(pod, start_s)
            if not (pod.get("status") or {}).get("containerStatuses"):
                self.client.set_status(pod, pod_status.waiting(pod, hollow_node.host_ip, now_s))
            return
        try:
            read: Pod = codec.decode("Pod", pod)
        except codec.ObjectError as error:
            self._reject(pod, Rejection("UnexpectedAdmissionError", str(error)), now_s)
            return
        requests, pod_ip = pod_requests(read), ""
        if phase_of(pod) == "Running":  # it ran before this kubelet began to watch
            pod_ip = (pod.get("status") or {}).get("podIP", "")
        elif rejection := hollow_node.check(read, (pod["spec"].get("os") or {}).get("name", ""), requests):
            self._reject(pod, rejection, now_s)
            return
        hollow_node.add(read, requests, resize.container_resources(pod["spec"]), pod_ip)
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
        read: Pod = codec.decode("Pod", {name: value for name, value in pod.items() if name != "status"})
        requests = pod_requests(read)
        refused = resize.refusal(requests, hollow_node.allocatable, hollow_node.used_by_others(uid))
        hollow_node.deferred.discard(key)
        if refused is None:
            hollow_node.remove(uid)
            hollow_node.add(read, requests, wanted, held.pod_ip)
            self._retry_deferred(hollow_node)
        elif refused.reason == resize.DEFERRED:
            hollow_node.deferred.add(key)
        resources = wanted if refused is None else held.resources
        return self.client.set_status(pod, resize.resized_status(pod, resources, refused, now_s)) is not pod

    def _retry_deferred(self, hollow_node: HollowNode) -> None:
        for key in hollow_node.deferred:
            self.look_up("Pod", key)

    def _reject(self, pod: Object, rejection: Rejection, now_s: float) -> None:
        self.tell(pod, *rejection, now_s, warns=True)
        self.client.set_status(pod, pod_status.rejected(pod, *rejection, now_s))

    def _watch_over(self, pod: Object, hollow_node: HollowNode, now_s: float) -> None:
        """Take a pod's containers as far as they have come, and come back when they will have come further."""
        due_s = self._deadline(pod)
        if now_s >= due_s:
            message = "Pod was active on the node longer than the specified deadline"
            self.client.set_status(pod, pod_status.killed(pod, now_s, "DeadlineExceeded", message))
            return
        if not _stays_as_it_is(pod) or key_of(pod) in self._revived:
            self._revived.discard(key_of(pod))
            pod_ip = hollow_node.pods[uid_of(pod)].pod_ip
            life = PodLife(pod, self._runs_of(pod, hollow_node), now_s, pod_ip, hollow_node.host_ip)
            if self.client.set_status(pod, life.status) is not pod:
                return  # the write has the pod looked at again
            due_s = min(due_s, life.due_s)
        if due_s < float("inf"):
            self.look_at(pod, due_s)

    def _runs_of(self, pod: Object, hollow_node: HollowNode) -> Runs:
        def runs(container: Object, restarts: int, is_init: bool) -> ContainerRun:
            files, default_s = hollow_node.files, self._settings.run_s
            return run_of(pod, container, restarts, files, is_init=is_init, default_s=default_s)

        return runs

    def _deadline(self, pod: Object) -> float:
        limit_s = pod["spec"].get("activeDeadlineSeconds")
        started = (pod.get("status") or {}).get("startTime")
        return parse_time(started) + float(limit_s) if limit_s is not None and started else float("inf")

    def _terminate(self, pod: Object, hollow_node: HollowNode, now_s: float) -> None:
        """End a pod that is being deleted once its time is over; then let go of it."""
        if uid_of(pod) in hollow_node.pods and not is_terminal(pod):
            gone_s = self._gone_at(pod, hollow_node)
            if now_s < gone_s:
                self.look_at(pod, gone_s)
                return
            self.client.set_status(pod, pod_status.killed(pod, now_s))
        self._release(pod)
        if int_of(pod["metadata"], "deletionGracePeriodSeconds", 1) > 0:  # else only finalizers keep the object
            self.client.pod_removed(pod)

    def _gone_at(self, pod: Object, hollow_node: HollowNode) -> float:
        grace_s = float(int_of(pod["metadata"], "deletionGracePeriodSeconds"))
        asked_s = parse_time(pod["metadata"]["deletionTimestamp"]) - grace_s
        return asked_s + min(grace_s, stop_s(pod, hollow_node.files) + self._settings.max_grace_s)


def _stays_as_it_is(pod: Object) -> bool:
    """A running pod of which nothing is said that could change it by and by; most are, and cost no closer look.

    What others write into the status of such a pod stays: so one can be made to look as if it were not ready.
    """
    spec = pod["spec"]
    return (
        spec.get("restartPolicy", "Always") == "Always"
        and phase_of(pod) == "Running"
        and not any(spec.get(name) for name in ("ephemeralContainers", "initContainers", "readinessGates"))
        and not any(each.get(name) for each in spec["containers"] for name in ("command", "args", "restartPolicy"))
        and not any(name in ANNOTATIONS for name in annotations_of(pod))
    )
