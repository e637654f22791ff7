"""The DaemonSet controller: a pod on each node that the template fits, made from the present template in the end.

Driven by changes of DaemonSets, their pods and nodes, and by time. The pods are bound by the scheduler, to which a node
affinity by `metadata.name` leaves one node. The rules are those of `berth_workloads.daemon_sets`. Upstream:
pkg/controller/daemon.
"""

import logging
from typing import NamedTuple

from berth.api import codec
from berth.api.node import Node
from berth.api.pod import Pod
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    generation_of,
    int_of,
    is_being_deleted,
    key_of,
    labels_of,
    parse_time,
    uid_of,
)
from berth_cluster.apimachinery.selection import node_matches
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.decoding import decoded
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import available_at, is_terminal, node_of, phase_of, pod_from_template, ready_since
from berth_cluster.controllers.workloads.controller_revisions import RevisionHistory
from berth_cluster.controllers.workloads.workload import WorkloadController
from berth_cluster.strategies.workloads import TEMPLATE_GENERATION
from berth_workloads.daemon_sets import (
    DaemonPod,
    nodes_to_surge,
    pods_to_replace,
    should_continue,
    should_run,
    surplus_pods,
    with_daemon_tolerations,
)
from berth_workloads.int_or_percent import scaled
from berth_workloads.stateful_sets import REVISION_LABEL

logger = logging.getLogger(__name__)

NAME_FIELD = "metadata.name"
GENERATION_LABEL = "pod-template-generation"
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 900.0


class NodeVerdict(NamedTuple):
    """What a DaemonSet has to do with a node."""

    runs: bool
    continues: bool


Verdicts = dict[str, NodeVerdict]
PodsByNode = dict[str, list[DaemonPod]]
NOTHING = NodeVerdict(False, False)


class NodeVerdicts:
    """What one DaemonSet has to do with each node, as long as its spec stays the same."""

    __slots__ = ("_pod", "_tolerations", "generation", "of")

    def __init__(self, daemon_set: Object) -> None:
        self.generation = generation_of(daemon_set)
        self._pod: Pod = codec.decode("Pod", _pod_of(daemon_set))
        spec = self._pod.spec
        self._tolerations = with_daemon_tolerations(spec.tolerations, host_network=spec.host_network)
        self.of: Verdicts = {}

    def judge(self, node: Node) -> bool:
        """Judge a node that is new or has changed; whether the verdict is another one now."""
        name, taints = node.metadata.name, node.spec.taints
        matches = self._pod.spec.node_name in ("", name) and node_matches(self._pod, node)
        runs = should_run(taints, self._tolerations, matches=matches)
        before = self.of.get(name)
        self.of[name] = NodeVerdict(runs, should_continue(taints, self._tolerations, matches=matches))
        return before != self.of[name]


class DaemonSetController(WorkloadController):
    """Pods for DaemonSets."""

    __slots__ = ("_backoff", "_nodes", "_revisions", "_verdicts")

    name = "daemonset-controller"
    kind = "DaemonSet"
    also_hears = ("Node",)

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._revisions = RevisionHistory(client)
        self._nodes: dict[str, Node] = {}
        self._verdicts: dict[str, NodeVerdicts] = {}  # by uid of the DaemonSet
        self._backoff: dict[tuple[str, str], tuple[float, float]] = {}  # (uid, node) -> delay, and when it is over

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at changed DaemonSets, at those of changed pods, and at all of them when a node comes or changes."""
        super().handle(change)
        if change.kind == "Node" and (change.type == "DELETED" or change.old is None or _differs(change)):
            self._handle_node(change)

    def forget(self, workload: Object) -> None:
        """Drop what is known of a DaemonSet that is gone."""
        uid = uid_of(workload)
        self._verdicts.pop(uid, None)
        self._backoff = {key: known for key, known in self._backoff.items() if key[0] != uid}

    def _handle_node(self, change: ObjectChange) -> None:
        """Look at the DaemonSets that want something else of a node than before."""
        name = change.obj["metadata"]["name"]
        self._nodes.pop(name, None)
        node = decoded("Node", change.obj) if change.type != "DELETED" else None
        if node is not None:
            self._nodes[name] = node
        for daemon_set in self.index.all_of(self.kind):
            verdicts = self._verdicts.get(uid_of(daemon_set))
            if verdicts is None or node is None or verdicts.judge(node):
                self.look_at(daemon_set)
            if verdicts is not None and node is None:
                verdicts.of.pop(name, None)

    # --- one DaemonSet ---------------------------------------------------------------------------------------

    def sync(self, obj: Object, now_s: float) -> None:
        """Bring one DaemonSet's pods and status up to date."""
        revision = self._revisions.ensure(obj)
        digest = labels_of(revision)[REVISION_LABEL]
        try:
            verdicts = self._verdicts_of(obj)
        except codec.ObjectError as error:
            logger.warning("%s: its template cannot be read: %s", key_of(obj), error)
            return
        if not is_being_deleted(obj):
            self.claim(obj, self.owned(obj))
            by_node = self._by_node(obj, digest, now_s)
            steps = [self._manage]
            if (obj["spec"].get("updateStrategy") or {}).get("type") != "OnDelete":
                steps.append(self._roll)
            for step in steps:
                version = self.client.store.revision
                step(obj, verdicts, by_node, digest, now_s)
                if self.client.store.revision != version:
                    by_node = self._by_node(obj, digest, now_s)
            self.client.set_status(obj, daemon_set_status(obj, verdicts, by_node))
        kept = {f"{obj['metadata']['name']}-{labels_of(pod).get(REVISION_LABEL)}" for pod in self.owned(obj)}
        self._revisions.truncate(obj, {*kept, revision["metadata"]["name"]})

    def _verdicts_of(self, daemon_set: Object) -> Verdicts:
        """What the DaemonSet has to do with each node; kept until it or the node changes."""
        verdicts = self._verdicts.get(uid_of(daemon_set))
        if verdicts is None or verdicts.generation != generation_of(daemon_set):
            verdicts = self._verdicts[uid_of(daemon_set)] = NodeVerdicts(daemon_set)
            for node in self._nodes.values():
                verdicts.judge(node)
        return verdicts.of

    def _by_node(self, daemon_set: Object, digest: str, now_s: float) -> PodsByNode:
        """The DaemonSet's pods by the node that they are on, or are made for."""
        found: dict[str, list[DaemonPod]] = {}
        for pod in self.owned(daemon_set):
            if not (is_terminal(pod) and is_being_deleted(pod)):
                found.setdefault(made_for(pod), []).append(self._facts(daemon_set, pod, digest, now_s))
        return found

    def _facts(self, daemon_set: Object, pod: Object, digest: str, now_s: float) -> DaemonPod:
        available_s = available_at(daemon_set, pod)
        if now_s < available_s < float("inf"):
            self.look_at(daemon_set, available_s)
        return DaemonPod(
            name=pod["metadata"]["name"],
            created_s=parse_time(pod["metadata"].get("creationTimestamp")),
            is_new=labels_of(pod).get(REVISION_LABEL) == digest,
            is_ready=ready_since(pod) is not None,
            is_available=available_s <= now_s,
            is_going=is_being_deleted(pod),
            has_ended=is_terminal(pod),
        )

    def _manage(self, daemon_set: Object, verdicts: Verdicts, by_node: PodsByNode, digest: str, now_s: float) -> None:
        """A pod on each node that should have one, and no others."""
        surge = _share(daemon_set, "maxSurge", len(verdicts)) > 0
        for node in sorted(set(by_node) | set(verdicts)):
            pods, verdict = by_node.get(node, []), verdicts.get(node, NOTHING)
            if not verdict.continues:
                self._delete(daemon_set, [pod for pod in pods if not pod.is_going], now_s)
                continue
            self._delete(daemon_set, surplus_pods(pods, surge=surge), now_s)
            for pod in pods:
                if pod.has_ended:
                    self._replace(daemon_set, node, pod, now_s)
            if verdict.runs and (not pods or (surge and all(pod.is_going for pod in pods))):
                self._create(daemon_set, node, digest, now_s)

    def _roll(self, daemon_set: Object, verdicts: Verdicts, by_node: PodsByNode, digest: str, now_s: float) -> None:
        """Take the next step of a rolling update: delete old pods, or with a surge create new ones beside them."""
        nodes = {name: by_node.get(name, []) for name in sorted(verdicts) if verdicts[name].runs}
        surge = _share(daemon_set, "maxSurge", len(nodes))
        if surge > 0:
            for node in nodes_to_surge(nodes, surge):
                self._create(daemon_set, node, digest, now_s)
        else:
            unavailable = _share(daemon_set, "maxUnavailable", len(nodes)) or 1
            self._delete(daemon_set, pods_to_replace(nodes.values(), unavailable), now_s)

    # --- pods ------------------------------------------------------------------------------------------------

    def _create(self, daemon_set: Object, node: str, digest: str, now_s: float) -> None:
        self.create_children(daemon_set, [new_pod(daemon_set, node, digest)], now_s)

    def _delete(self, daemon_set: Object, pods: list[DaemonPod], now_s: float) -> None:
        self.delete_children(daemon_set, filter(None, (self._found(daemon_set, pod) for pod in pods)), now_s)

    def _found(self, daemon_set: Object, pod: DaemonPod) -> Object | None:
        return self.index.get("Pod", f"{daemon_set['metadata']['namespace']}/{pod.name}")

    def _replace(self, daemon_set: Object, node: str, pod: DaemonPod, now_s: float) -> None:
        """Delete a pod that has ended; one that failed after a delay that doubles each time."""
        key, found = (uid_of(daemon_set), node), self._found(daemon_set, pod)
        delay_s, over_s = self._backoff.get(key, (0.0, 0.0))
        if found is None or pod.is_going:
            return
        failed = phase_of(found) == "Failed"
        if failed and now_s < over_s:
            self.look_at(daemon_set, over_s)
            return
        if failed:
            forgotten = now_s - over_s > 2 * LONGEST_BACKOFF_S
            delay_s = FIRST_BACKOFF_S if forgotten or not delay_s else min(2 * delay_s, LONGEST_BACKOFF_S)
            self._backoff[key] = (delay_s, now_s + delay_s)
        verb, reason = ("failed", "FailedDaemonPod") if failed else ("succeeded", "SucceededDaemonPod")
        why = f"Found {verb} daemon pod {key_of(found)} on node {node}, will try to {'kill' if failed else 'delete'} it"
        self.tell(daemon_set, reason, why, now_s, warns=failed)
        self.delete_children(daemon_set, [found], now_s)


def daemon_set_status(daemon_set: Object, verdicts: Verdicts, by_node: PodsByNode) -> Object:
    """The status for these pods."""
    wanted = [name for name, verdict in verdicts.items() if verdict.runs]
    oldest = [min(by_node[name], key=lambda pod: pod.created_s) for name in wanted if by_node.get(name)]
    available = sum(pod.is_available for pod in oldest)
    optional = {
        "updatedNumberScheduled": sum(pod.is_new for pod in oldest),
        "numberAvailable": available,
        "numberUnavailable": len(wanted) - available,
        "collisionCount": int_of(daemon_set.get("status") or {}, "collisionCount"),
    }
    return {
        "currentNumberScheduled": len(oldest),
        "numberMisscheduled": sum(bool(by_node.get(name)) for name in verdicts if not verdicts[name].runs),
        "desiredNumberScheduled": len(wanted),
        "numberReady": sum(pod.is_ready for pod in oldest),
        "observedGeneration": generation_of(daemon_set),
    } | {name: count for name, count in optional.items() if count}


def _share(daemon_set: Object, field: str, nodes: int) -> int:
    """maxSurge or maxUnavailable as a number of nodes."""
    given = (daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return scaled(given.get(field) or 0, nodes, round_up=True)


def _differs(change: ObjectChange) -> bool:
    """Whether what a DaemonSet reads of a node has changed."""
    old, new = change.old or {}, change.obj
    return old.get("spec") != new.get("spec") or old["metadata"].get("labels") != new["metadata"].get("labels")


def _pod_of(daemon_set: Object) -> Object:
    return pod_from_template(daemon_set, daemon_set["spec"]["template"])


def new_pod(daemon_set: Object, node: str, digest: str) -> Object:
    """The DaemonSet's pod for a node."""
    made = _pod_of(daemon_set)
    pod: Pod = codec.decode("Pod", made)
    own, given = pod.spec.tolerations, made["spec"].get("tolerations") or []
    all_of_them = with_daemon_tolerations(own, host_network=pod.spec.host_network)
    kept = [given[number] for number, each in enumerate(own) if each in all_of_them]
    added = [{"key": one.key, "operator": "Exists", "effect": one.effect} for one in all_of_them if one not in own]
    affinity = made["spec"].get("affinity") or {}
    term = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    affinity = {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}}
    generation = annotations_of(daemon_set).get(TEMPLATE_GENERATION, "")
    own_labels = {REVISION_LABEL: digest, **({GENERATION_LABEL: generation} if generation else {})}
    made["metadata"]["labels"] = {**made["metadata"].get("labels", {}), **own_labels}
    made["spec"] = {**made["spec"], "affinity": affinity, "tolerations": kept + added}
    return made


def made_for(pod: Object) -> str:
    """The node that a pod is on, or that its affinity names."""
    if node_of(pod):
        return node_of(pod)
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    fields = (each for term in terms for each in term.get("matchFields") or [])
    return next((str(each["values"][0]) for each in fields if each.get("values")), "")
