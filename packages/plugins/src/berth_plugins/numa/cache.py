"""What is known of the topology of each node, in one of three ways.

- `TopologyCache`: what the node's agent has reported last, and nothing else.
- `DiscardReserved`: the same, but a node for which a pod was just chosen is not used until the pod is bound there.
- `OverReserve`: what a pod takes is taken from every zone of its node, as nobody knows which the kubelet will choose,
  until a report is known to include the pod. Reports have a fingerprint of the pods that they include. A report counts
  from when that is the fingerprint of the pods that run on the node; until then the one before it does, less what is
  reserved. Pods of other schedulers make a node unusable until then.

Nothing here waits: a report and the pods of its node are compared when either changes. So what is known of a node is a
matter of what was told, not of when, and everything that may change it is an event that pods can be woken by.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec

from berth.plugin import CustomObjects, CustomResource, ObjectMeta, PodInfo, QosClass, Quantity
from berth_plugins.numa.fingerprint import (
    ANNOTATION,
    ATTRIBUTE,
    METHOD_ATTRIBUTE,
    WITH_EXCLUSIVE_RESOURCES,
    fingerprint,
)
from berth_plugins.numa.requests import ask_of, has_exclusive_resources
from berth_plugins.numa.topology import NodeResourceTopology, Topology, topology_of

ALL, NONE, ONLY_EXCLUSIVE, AUTODETECT = "All", "None", "OnlyExclusiveResources", "Autodetect"
ONLY_RESOURCES, SHARED, DEDICATED = "OnlyResources", "Shared", "Dedicated"


class Known(NamedTuple):
    """What is known of a node: its topology, None where nobody reports one, and whether that can be relied on."""

    topology: Topology | None
    is_fresh: bool = True


class TopologyCache:
    """Goes by the last report."""

    follows_pods: ClassVar[bool] = False
    """Whether it matters which pods there are."""
    watches_pods: bool = False
    """Whether it hears of pods by a watch of its own."""

    def __init__(self, reports: CustomObjects) -> None:
        self._reports = reports
        self._read: dict[str, tuple[NodeResourceTopology, Topology]] = {}
        self._touched: set[str] = set()

    def known(self, node_name: str) -> Known:
        """Return what is known of a node."""
        return Known(self._reported(node_name))

    def reserved_on(self, node_name: str) -> int:
        """Return for how many pods something is reserved on a node."""
        return 0

    def why_stale(self, node_name: str) -> str:
        """Say why a node cannot be relied on, where that is so."""
        return ""

    def take_touched(self) -> set[str]:
        """Return the nodes that pods, or what is reserved for them, may have changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def reserve(self, node_name: str, pod: PodInfo) -> None:
        """Note that a node was chosen for a pod."""

    def unreserve(self, node_name: str, pod: PodInfo) -> None:
        """Note that the pod will not go there."""

    def pod_seen(self, pod: PodInfo) -> None:
        """Note how the API server has a pod."""

    def pod_gone(self, pod: PodInfo) -> None:
        """Note that a pod is gone or has finished."""

    def _reported(self, node_name: str) -> Topology | None:
        """Return what the last report says."""
        report: NodeResourceTopology | None = self._reports.get(node_name)
        if report is None:
            self._read.pop(node_name, None)
            return None
        known = self._read.get(node_name)
        if known is None or known[0] is not report:
            known = self._read[node_name] = report, topology_of(report)
        return known[1]


class DiscardReserved(TopologyCache):
    """Goes by the last report, and avoids nodes with a pod that is not bound yet.

    A pod is bound when the API server says so. Upstream asks no more than that the binding was accepted.
    """

    follows_pods: ClassVar[bool] = True

    def __init__(self, reports: CustomObjects) -> None:
        super().__init__(reports)
        self._reserved: dict[str, set[str]] = {}
        """The pods that are not bound yet, by node and uid."""

    def known(self, node_name: str) -> Known:
        """Return what is known of a node."""
        return super().known(node_name)._replace(is_fresh=node_name not in self._reserved)

    def reserved_on(self, node_name: str) -> int:
        """Return how many pods are on their way to a node."""
        return len(self._reserved.get(node_name, ()))

    def why_stale(self, node_name: str) -> str:
        """Say why a node cannot be relied on, where that is so."""
        return "pods are on their way there that are not bound yet"

    def reserve(self, node_name: str, pod: PodInfo) -> None:
        """Note that a node was chosen for a pod."""
        self._reserved.setdefault(node_name, set()).add(pod.uid)
        self._touched.add(node_name)

    def unreserve(self, node_name: str, pod: PodInfo) -> None:
        """Note that the pod will not go there, or is there."""
        reserved = self._reserved.get(node_name)
        if reserved is not None and pod.uid in reserved:
            reserved.discard(pod.uid)
            if not reserved:
                del self._reserved[node_name]
            self._touched.add(node_name)

    def pod_seen(self, pod: PodInfo) -> None:
        """Note that a pod is bound."""
        if pod.node_name:
            self.unreserve(pod.node_name, pod)

    def pod_gone(self, pod: PodInfo) -> None:
        """Note that a pod is gone, which the API server may never have shown on a node."""
        for node_name in [name for name, uids in self._reserved.items() if pod.uid in uids]:
            self.unreserve(node_name, pod)


# --- which pods run ---------------------------------------------------------------------------------------------------


class RunningPod(NamedTuple):
    """A pod that is on a node, as a fingerprint knows it."""

    uid: str
    namespace: str
    name: str
    is_guaranteed: bool
    containers: tuple[tuple[bool, Mapping[str, Quantity]], ...]
    """Whether each is there as long as the pod, and what it requests."""

    def has_exclusive_resources(self, in_zones: frozenset[str]) -> bool:
        """Say whether the pod has anything to itself, where zones have these resources."""
        return has_exclusive_resources(self.containers, in_zones, is_guaranteed=self.is_guaranteed)


class PodsOnNodes:
    """The pods that run, as the scheduler is told of them anyway (informerMode Shared)."""

    def __init__(self) -> None:
        self._running: dict[str, dict[str, Any]] = {}
        """By node and uid."""

    def put(self, pod: PodInfo) -> None:
        """Note how a pod is."""
        if pod.node_name and pod.status.phase == "Running":
            self._running.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            self.remove(pod)

    def remove(self, pod: PodInfo) -> None:
        """Forget a pod."""
        self._forget(pod.node_name, pod.uid)

    def changed_nodes(self) -> Iterable[str]:
        """Return the nodes of pods of which something was heard since the last call, other than by `put`."""
        return ()

    def on(self, node_name: str) -> list[RunningPod]:
        """Return the pods of a node."""
        return [_running(pod, pod.qos_class is QosClass.GUARANTEED) for pod in self._on(node_name)]

    def _on(self, node_name: str) -> Iterable[Any]:
        return self._running.get(node_name, {}).values()

    def _forget(self, node_name: str, uid: str) -> None:
        running = self._running.get(node_name, {})
        if running.pop(uid, None) is not None and not running:
            del self._running[node_name]


def _running(pod: Any, is_guaranteed: bool) -> RunningPod:
    meta, spec = pod.metadata, pod.spec
    inits = tuple((each.restart_policy == "Always", each.resources.requests) for each in spec.init_containers or ())
    containers = inits + tuple((True, each.resources.requests) for each in spec.containers or ())
    return RunningPod(meta.uid, meta.namespace, meta.name, is_guaranteed, containers)


class WatchedResources(msgspec.Struct, frozen=True):
    """What a container requests."""

    requests: dict[str, Quantity] = {}


class WatchedContainer(msgspec.Struct, frozen=True, rename="camel"):
    """A container of a pod."""

    resources: WatchedResources = WatchedResources()
    restart_policy: str = ""


class WatchedSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""
    containers: tuple[WatchedContainer, ...] | None = None
    init_containers: tuple[WatchedContainer, ...] | None = None


class WatchedStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a pod."""

    phase: str = ""
    qos_class: str = ""


class WatchedPod(msgspec.Struct, frozen=True):
    """A pod, as far as fingerprints depend on it."""

    metadata: ObjectMeta
    spec: WatchedSpec = WatchedSpec()
    status: WatchedStatus = WatchedStatus()


PODS = CustomResource("", "v1", "pods", "Pod", struct=WatchedPod)


class WatchedPods(PodsOnNodes):
    """The pods that run or have run, as a watch of its own tells (informerMode Dedicated).

    Some agents report finished pods for as long as their objects are there, and plugins are not told of these.
    """

    def __init__(self, pods: CustomObjects) -> None:
        super().__init__()
        self._pods = pods
        self._version = -1
        self._place_of: dict[str, tuple[str, str]] = {}
        """The node and the uid that a pod is counted under, by namespace and name."""

    def put(self, pod: PodInfo) -> None:
        """Pods are heard of by the watch."""

    def remove(self, pod: PodInfo) -> None:
        """Pods are heard of by the watch."""

    def changed_nodes(self) -> Iterable[str]:
        """Take in the pods that have changed; return their nodes."""
        if self._version == self._pods.version:
            return ()
        keys = self._pods.changed_since(self._version) if self._version >= 0 else None
        self._version = self._pods.version
        touched: set[str] = set()
        if keys is None:
            touched.update(self._running)
            self._running, self._place_of = {}, {}
            keys = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self._pods.list()]
        for key in dict.fromkeys(keys):
            touched.update(self._renewed(key))
        return touched

    def on(self, node_name: str) -> list[RunningPod]:
        """Return the pods of a node."""
        return [_running(pod, pod.status.qos_class == QosClass.GUARANTEED.value) for pod in self._on(node_name)]

    def _renewed(self, key: str) -> Iterator[str]:
        """Count a pod as it is now; yield the nodes that it was on and is on."""
        namespace, _, name = key.partition("/")
        place = self._place_of.pop(key, None)
        if place is not None:
            self._forget(*place)
            yield place[0]
        pod: WatchedPod | None = self._pods.get(name, namespace)
        if pod is not None and pod.spec.node_name and pod.status.phase != "Pending":
            self._place_of[key] = pod.spec.node_name, pod.metadata.uid
            self._running.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = pod
            yield pod.spec.node_name


# --- reserving everywhere ---------------------------------------------------------------------------------------------


GONE = ""


class Settings(NamedTuple):
    """How the over-reserving cache is kept, by the names of upstream's args."""

    foreign_pods_detect: str = ALL
    resync_method: str = AUTODETECT
    resync_scope: str = ALL


class _Node:
    """What is kept of one node."""

    __slots__ = ("known", "reserved", "topology")

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        """What was reported when the reports and the pods last agreed."""
        self.reserved: dict[str, Mapping[str, int]] = {}
        """What pods take that the report need not include, by uid."""
        self.known: Known | None = None
        """What follows from these; None where it has to be worked out."""

    def take_from_all(self) -> Topology:
        """Return the topology less all that is reserved."""
        taken: dict[str, int] = {}
        for amounts in self.reserved.values():
            for name, amount in amounts.items():
                taken[name] = taken.get(name, 0) + amount
        return self.topology.less(taken)


class OverReserve(TopologyCache):
    """Takes what is reserved from every zone, until a report includes it.

    Invariant: a node that is not in `_stale` is as `_sync` would leave it.
    """

    follows_pods: ClassVar[bool] = True

    def __init__(
        self, reports: CustomObjects, pods: PodsOnNodes, settings: Settings, is_own: Callable[[str], bool]
    ) -> None:
        """`is_own` says whether the scheduler of this name is the one that reserves here."""
        super().__init__(reports)
        self._version = -1
        self._pods = pods
        self.watches_pods = isinstance(pods, WatchedPods)
        self._settings = settings
        self._is_own = is_own
        self._nodes: dict[str, _Node] = {}
        self._foreign: dict[str, set[str]] = {}
        """The nodes where pods of other schedulers have come, changed or gone, which no report is known to include.

        By node, the pods by uid; `GONE` stands for all that are gone.
        """
        self._undecided: dict[str, dict[str, PodInfo]] = {}
        """Pods of which only a report will tell whether they count as foreign, by node and uid."""
        self._stale: set[str] = set()

    def known(self, node_name: str) -> Known:
        """Return what is known of a node."""
        self._renew()
        node = self._nodes.get(node_name)
        if node is None:
            return Known(None)
        if node.known is None:
            node.known = Known(node.take_from_all(), node_name not in self._foreign)
        return node.known

    def reserved_on(self, node_name: str) -> int:
        """Return of how many pods what they ask for is taken from every zone of a node."""
        node = self._nodes.get(node_name)
        return 0 if node is None else len(node.reserved)

    def why_stale(self, node_name: str) -> str:
        """Say why a node cannot be relied on, where that is so."""
        return "pods of other schedulers have come or gone, and no report is known to include that"

    def reserve(self, node_name: str, pod: PodInfo) -> None:
        """Take what the pod asks for from every zone."""
        self._renew()
        node = self._nodes.get(node_name)
        if node is not None:
            node.reserved[pod.uid] = dict(ask_of(pod).whole)
            self._touch(node_name)

    def unreserve(self, node_name: str, pod: PodInfo) -> None:
        """Give it back."""
        node = self._nodes.get(node_name)
        if node is not None and node.reserved.pop(pod.uid, None) is not None:
            self._touch(node_name)
            self._stale.add(node_name)

    def pod_seen(self, pod: PodInfo) -> None:
        """Note how the API server has a pod."""
        if pod.node_name:
            self._pods.put(pod)
            self._look_at(pod, pod.uid)

    def pod_gone(self, pod: PodInfo) -> None:
        """Note that a pod is gone, and give back what it had reserved, wherever that was."""
        self._pods.remove(pod)
        if pod.node_name:
            self._undecided.get(pod.node_name, {}).pop(pod.uid, None)
            self.unreserve(pod.node_name, pod)
            self._look_at(pod, GONE)
        else:
            for node_name in [name for name, node in self._nodes.items() if pod.uid in node.reserved]:
                self.unreserve(node_name, pod)

    def _look_at(self, pod: PodInfo, mark: str) -> None:
        """Have the node of a pod looked at again, which can be relied on no longer if the pod is foreign."""
        if self._is_foreign(pod):
            self._mark(pod.node_name, mark)
            if mark == GONE:
                self._foreign[pod.node_name].discard(pod.uid)
        self._stale.add(pod.node_name)

    def _mark(self, node_name: str, mark: str) -> None:
        """Note that a node has a foreign pod, or had one."""
        if node_name not in self._foreign:
            self._foreign[node_name] = set()
            self._touch(node_name)
        self._foreign[node_name].add(mark)

    def _is_foreign(self, pod: PodInfo) -> bool:
        detect = self._settings.foreign_pods_detect
        if detect == NONE or self._is_own(pod.spec.scheduler_name):
            return False
        if detect != ONLY_EXCLUSIVE:
            return True
        node = self._nodes.get(pod.node_name)
        if node is None:
            self._undecided.setdefault(pod.node_name, {})[pod.uid] = pod
            return False
        return _has_exclusive(pod, node.topology)

    def take_touched(self) -> set[str]:
        """Return the nodes that pods, or what is reserved for them, may have changed since the last call."""
        self._renew()
        return super().take_touched()

    def _renew(self) -> None:
        """Take in what has changed of reports and pods."""
        if self._version != self._reports.version:
            changed = self._reports.changed_since(self._version) if self._version >= 0 else None
            if changed is None:
                changed = [*(report.metadata.name for report in self._reports.list()), *self._read]
            self._version = self._reports.version
            self._stale.update(changed)
        self._stale.update(self._pods.changed_nodes())
        while self._stale:
            self._sync(self._stale.pop())

    def _touch(self, node_name: str) -> None:
        """Have what is known of a node worked out again."""
        node = self._nodes.get(node_name)
        if node is not None:
            node.known = None
        self._touched.add(node_name)

    def _sync(self, node_name: str) -> None:
        """Take the last report over, if it is known to include all that was reserved; else its alignment alone."""
        reported = self._reported(node_name)
        node = self._nodes.get(node_name)
        if reported is None:
            if node is not None:
                del self._nodes[node_name]
                self._touch(node_name)
            return
        if node is None:
            node = self._nodes[node_name] = _Node(reported)
            self._touch(node_name)
            for pod in self._undecided.pop(node_name, {}).values():
                if _has_exclusive(pod, reported):
                    self._mark(node_name, pod.uid)
        if not node.reserved and node_name not in self._foreign:
            self._take_over(node_name, node, reported)
        elif (included := self._included(node_name, node)) is not None:
            # What is known of pods that do not run yet stays: no fingerprint can have told of them.
            node.reserved = {uid: taken for uid, taken in node.reserved.items() if uid not in included}
            foreign = self._foreign.get(node_name, set()) - included - {GONE}
            if foreign:
                self._foreign[node_name] = foreign
            else:
                self._foreign.pop(node_name, None)
            node.topology = reported
            self._touch(node_name)
        elif self._settings.resync_scope != ONLY_RESOURCES:
            self._take_over(node_name, node, node.topology._replace(alignment=reported.alignment))

    def _take_over(self, node_name: str, node: _Node, topology: Topology) -> None:
        if node.topology != topology:
            node.topology = topology
            self._touch(node_name)

    def _included(self, node_name: str, node: _Node) -> frozenset[str] | None:
        """Return the pods that run on a node, by uid, if the last report includes just these; else None."""
        report: NodeResourceTopology | None = self._reports.get(node_name)
        expected, only_exclusive = ("", False) if report is None else self._expected(report)
        if not expected:
            return None
        running = self._pods.on(node_name)
        in_zones = _resources_of(node.topology)
        told = [pod for pod in running if not only_exclusive or pod.has_exclusive_resources(in_zones)]
        if fingerprint((pod.namespace, pod.name) for pod in told) != expected:
            return None
        return frozenset(pod.uid for pod in running)

    def _expected(self, report: NodeResourceTopology) -> tuple[str, bool]:
        """Return the fingerprint of a report, and whether only pods with exclusive resources are in it."""
        found, method = report.attribute(ATTRIBUTE), self._settings.resync_method
        if found is None:
            return report.metadata.annotations.get(ANNOTATION, ""), False
        if method == AUTODETECT:
            return found, report.attribute(METHOD_ATTRIBUTE) == WITH_EXCLUSIVE_RESOURCES
        return found, method == ONLY_EXCLUSIVE


def _has_exclusive(pod: PodInfo, topology: Topology) -> bool:
    running = _running(pod, pod.qos_class is QosClass.GUARANTEED)
    return running.has_exclusive_resources(_resources_of(topology))


def _resources_of(topology: Topology) -> frozenset[str]:
    return frozenset(name for zone in topology.zones for name in zone.free)
