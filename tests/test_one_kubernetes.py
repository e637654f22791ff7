"""The simulation and the embedded cluster play the same Kubernetes: after the same changes, both have the same pods.

A history is drawn from a seed: manifests of workloads with budgets and volumes, then changes. It is lived twice. One
cluster is a store with the embedded cluster's controllers and hollow kubelets, in virtual time, where a core schedules
what the store tells it; the other is a `SimulatedCluster`. Each workload has nodes of its own. Which of several equal
nodes the scheduler takes is chance, and so is which of several equal pods a controller deletes; so changes name a node
by how many pods it has, and what must be equal is how many pods each workload has on how many nodes.
"""

import random
from typing import NamedTuple

import msgspec
import pytest

from berth.api.codec import decode
from berth.core.virtual_cluster import VirtualCluster
from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.embedded import create_nodes
from berth_cluster.hollow.kubelet import KubeletSettings
from berth_cluster.hollow.template import NodeTemplate
from berth_workbench.simulation.changes import AddTaint, Cordon, Drain, Scale, Uncordon
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.operations import carry_out
from berth_workbench.simulation.rollouts import apply
from berth_workbench.simulation.site import DRAIN_BLOCKED, Site
from berth_workbench.snapshot.documents import Document
from packages.cluster.tests.controllers import world as manifests

HISTORIES = 12
CHANGES = 10
NODES = 3
SCARCE, AMPLE = "4", "32"
"""CPUs of a node, of which each pod takes one. Where pods have an identity, there is room for all on one node."""
KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet")
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
BUDGETS = ({"minAvailable": 2}, {"minAvailable": "50%"}, {"maxUnavailable": 1}, {"maxUnavailable": "30%"}, None)
SCHEDULED = ("Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode")
"""The kinds that the embedded cluster's scheduler hears of."""


class PodFound(NamedTuple):
    """A pod of either cluster."""

    name: str
    workload: str
    owner_kind: str
    node: str
    index: str


class Embedded(manifests.World):
    """Store, controllers and kubelets, with a core that schedules; a pod that is deleted is gone at once."""

    def __init__(self):
        self._core, self._changes, self._bindings = Scheduling(), [], []
        super().__init__(nodes=0, kubelet=KubeletSettings(run_s=1e9, max_grace_s=0.0))
        for kind in SCHEDULED:
            self._changes += [("ADDED", kind, obj) for obj in self.all(kind)]
        self.store.subscribe(lambda event, resource, obj, _old: self._changes.append((event, resource.kind, obj)))

    def _bind_pending(self):
        """Tell the core what has changed, and carry out what it decides."""
        changes, self._changes = self._changes, []
        self._core.now = self.now_s
        for event, kind, obj in changes:
            if kind in SCHEDULED:
                self._core.hear(event, kind, decode(kind, obj))
        self._core.run()
        bindings, self._core.bindings = self._core.bindings, []
        for pod in bindings:
            self.store.bind(
                pod.metadata.namespace,
                pod.metadata.name,
                {"metadata": {"name": pod.metadata.name}, "target": {"kind": "Node", "name": pod.spec.node_name}},
            )
        return len(changes) + len(bindings)

    def settle(self):
        """Let a Job's longest backoff pass, in which no evicted pod stays counted as such, and the scheduler's."""
        for seconds in (11.0, 600.0, 11.0):
            self.run(seconds)

    def apply(self, manifest):
        self.create(manifest)
        self.settle()

    def scale_to(self, kind, name, replicas):
        field = "parallelism" if kind == "Job" else "replicas"
        self.patch(kind, name, {"spec": {field: replicas}})
        self.settle()

    def lose(self, pod):
        self.delete("Pod", pod.name)
        self.settle()

    def cordon(self, node, unschedulable=True):
        key = "node.kubernetes.io/unschedulable"
        others = [one for one in self.get("Node", node, "")["spec"].get("taints", []) if one["key"] != key]
        taints = [*others, *([{"key": key, "effect": "NoSchedule"}] if unschedulable else [])]
        self.patch("Node", node, {"spec": {"unschedulable": unschedulable, "taints": taints}}, namespace="")
        self.settle()

    def taint(self, node, execute):
        effect = "NoExecute" if execute else "NoSchedule"
        taints = self.get("Node", node, "")["spec"].get("taints", [])
        self.patch("Node", node, {"spec": {"taints": [*taints, {"key": "own", "effect": effect}]}}, namespace="")
        self.settle()

    def drain(self, node):
        """As `kubectl drain`: pods are listed once, and those that a budget protects are tried again."""
        self.cordon(node)
        there = [one for one in self.pods() if one["spec"].get("nodeName") == node]
        leaving = {
            one["metadata"]["uid"]: one for one in there if "daemonset" not in one["metadata"]["labels"].values()
        }
        while leaving:
            refused = {}
            for uid, pod in leaving.items():
                try:
                    self.store.evict("default", pod["metadata"]["name"])
                except StoreError as error:
                    if error.reason != "TooManyRequests":
                        raise
                    refused[uid] = pod
            if len(refused) == len(leaving):
                return False
            self.settle()
            there = {one["metadata"]["uid"] for one in self.pods()}
            leaving = {uid: pod for uid, pod in refused.items() if uid in there}
        return True

    def found(self):
        for pod in self.pods():
            metadata = pod["metadata"]
            assert "deletionTimestamp" not in metadata
            labels, (owner,) = metadata["labels"], metadata["ownerReferences"]
            node, index = pod["spec"].get("nodeName", ""), labels.get(COMPLETION_INDEX, "")
            yield PodFound(metadata["name"], labels["app"], owner["kind"], node, index)

    def cordoned(self):
        return {one["metadata"]["name"] for one in self.all("Node") if one["spec"].get("unschedulable")}

    def claims(self):
        return {one["metadata"]["name"]: one["spec"].get("volumeName", "") for one in self.all("PersistentVolumeClaim")}

    def budgets(self):
        for one in self.all("PodDisruptionBudget"):
            status, fields = one["status"], ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
            yield one["metadata"]["name"], tuple(status[field] for field in fields)


class Scheduling(VirtualCluster):
    """A core that hears of a store's objects; `bindings` are those that it has decided on."""

    def __init__(self):
        super().__init__()
        self.bindings = []

    def hear(self, event, kind, obj):
        key = f"{obj.metadata.namespace}/{obj.metadata.name}" if obj.metadata.namespace else obj.metadata.name
        if event != "DELETED":
            self.put(obj)
        elif (kind, key) in self.objects:
            self.delete(kind, key)

    def bound(self, pod):
        self.bindings.append(pod)


class Simulated:
    """The same changes on a `SimulatedCluster`."""

    def __init__(self, objects):
        self.cluster = SimulatedCluster(objects)
        self.site = Site(self.cluster)

    def apply(self, manifest):
        apply(self.site, [Document(manifest["kind"], msgspec.json.encode(manifest), "a test")])

    def scale_to(self, kind, name, replicas):
        carry_out(self.site, Scale(f"{kind}/{name}", replicas))

    def lose(self, pod):
        self.cluster.send_back(f"default/{pod.name}")
        self.site.settle()

    def cordon(self, node, unschedulable=True):
        carry_out(self.site, Cordon(node) if unschedulable else Uncordon(node))

    def taint(self, node, execute):
        carry_out(self.site, AddTaint(node, f"own:{'NoExecute' if execute else 'NoSchedule'}"))

    def drain(self, node):
        before = len(self.site.broken)
        carry_out(self.site, Drain(node))
        assert all(each.reason == DRAIN_BLOCKED for each in self.site.broken[before:])
        return len(self.site.broken) == before

    def found(self):
        for pod in self.cluster.pods.values():
            labels, (owner,) = pod.metadata.labels, pod.metadata.owner_references
            index = labels.get(COMPLETION_INDEX, "")
            yield PodFound(pod.metadata.name, labels["app"], owner.kind, pod.spec.node_name, index)

    def cordoned(self):
        return {name for name, node in self.cluster.nodes.items() if node.spec.unschedulable}

    def claims(self):
        found = (each for (kind, _), each in self.cluster.objects.items() if kind == "PersistentVolumeClaim")
        return {each.metadata.name: each.spec.volume_name for each in found}

    def budgets(self):
        for (kind, _), one in self.cluster.objects.items():
            if kind == "PodDisruptionBudget":
                status = one.status
                counts = status.current_healthy, status.desired_healthy, status.expected_pods
                yield one.metadata.name, (status.disruptions_allowed, *counts)


# --- histories -------------------------------------------------------------------------------------------------------


def workload(rng, kind):
    """A workload named after its kind, which keeps to the nodes of its name."""
    name = kind.lower()
    template = manifests.pod_template({"app": name}, nodeSelector={"pool": name})
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    replicas = rng.randint(1, 6)
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        more = {"completions": 40, "backoffLimit": 99, "completionMode": "Indexed"}
        return manifests.job(name) | {
            "spec": {"parallelism": replicas, "template": template, **more},
        }
    if kind == "StatefulSet":
        claims = ["data"] if rng.random() < 0.5 else []
        made = manifests.stateful_set(name, replicas, claims, podManagementPolicy="Parallel", template=template)
        for each in made["spec"].get("volumeClaimTemplates", []):
            each["spec"]["storageClassName"] = ""
        return made | {"spec": {**made["spec"], "ordinals": {"start": rng.choice([0, 3])}}}
    if kind == "DaemonSet":
        return manifests.daemon_set(name, template=template)
    return {**manifests.replica_set(name, replicas, template=template), "kind": kind}


def budget(name, bounds):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": manifests.meta(name),
        "spec": {"selector": {"matchLabels": {"app": name}}, **bounds},
    }


def both(rng):
    """The two clusters with the same nodes and volumes, and the same workloads."""
    embedded = Embedded()
    for kind in KINDS:
        cpu = SCARCE if kind in ("Deployment", "ReplicaSet") else AMPLE
        template = NodeTemplate(name_prefix=f"{kind.lower()}-", cpu=cpu, labels={"pool": kind.lower()}, zones=("z",))
        create_nodes(embedded.store, template, NODES)
    for number in range(rng.randint(2, 8)):
        embedded.create(
            manifests.volume(f"volume-{number}", f"{max(rng.randint(0, 4), 1) * 512}Mi" if number else "1Gi")
        )
    embedded.settle()
    kinds = ("Node", "PersistentVolume")
    simulated = Simulated([decode(kind, one) for kind in kinds for one in embedded.all(kind)])
    for kind in KINDS:
        manifest = workload(rng, kind)
        bounds = rng.choice(BUDGETS)
        for side in (embedded, simulated):
            side.apply(manifest)
            if bounds is not None and kind not in ("Job", "DaemonSet"):
                side.apply(budget(kind.lower(), bounds))
    return embedded, simulated


def ranked_nodes(side, name):
    """The nodes of a workload, those with the most pods first."""
    cordoned, pods = side.cordoned(), [pod.node for pod in side.found()]
    nodes = [f"{name}-{number}" for number in range(NODES)]
    return sorted(nodes, key=lambda node: (-pods.count(node), node in cordoned, node))


def pods_of(side, name):
    return [pod for pod in side.found() if pod.workload == name]


def change(rng, sides):
    """Draw a change of one workload, and make it on both sides; return it in words."""
    kind = rng.choice(KINDS)
    name, what = kind.lower(), rng.choice(["more", "fewer", "lose", "cordon", "uncordon", "drain", "drain"])
    at, more = rng.randrange(NODES), rng.randint(1, 5)
    outcomes = []
    for side in sides:
        node, count = ranked_nodes(side, name)[at], len(pods_of(side, name))
        if what in ("more", "fewer") and kind == "DaemonSet":
            side.taint(node, what == "more")
        elif what == "more":
            side.scale_to(kind, name, min(count + more, 16))
        elif what == "fewer" and count and kind != "Job":
            for each in ranked_nodes(side, name):  # so that the node which loses a pod is the same as any other
                side.cordon(each, unschedulable=False)
            side.scale_to(kind, name, count - 1)
        elif what == "lose":
            # Of a Job, too: its index is made again.
            for pod in [pod for pod in pods_of(side, name) if pod.node == node][:1]:
                side.lose(pod)
        elif what == "cordon":
            side.cordon(node)
        elif what == "uncordon":
            side.cordon(node, unschedulable=False)
        elif what == "drain":
            outcomes.append(side.drain(node))
    return f"{what} {name} {at} {more}: {outcomes}"


def state(side):
    """What must be the same on both sides."""
    cordoned, seen = side.cordoned(), {}
    for kind in KINDS:
        pods = pods_of(side, kind.lower())
        assert not {pod.node for pod in pods} - {f"{kind.lower()}-{number}" for number in range(NODES)} - {""}
        nodes = [(sum(pod.node == node for pod in pods), node in cordoned) for node in ranked_nodes(side, kind.lower())]
        owners, bound = sorted(pod.owner_kind for pod in pods), sum(bool(pod.node) for pod in pods)
        if kind == "StatefulSet":  # which node loses the pod of the highest ordinal is chance
            nodes = sorted((pod.name, bool(pod.node)) for pod in pods)
        elif kind == "Job":
            nodes = sorted(pod.index for pod in pods)
        seen[kind] = owners, bound, nodes
    return seen, side.claims(), dict(side.budgets())


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_both_have_the_same_pods_after_the_same_changes(seed):
    rng = random.Random(seed)
    sides = both(rng)
    story = ["manifests"]
    for _ in range(CHANGES):
        one, other = map(state, sides)
        assert one == other, "; ".join(story)
        story.append(change(rng, sides))
    one, other = map(state, sides)
    assert one == other, "; ".join(story)


# --- evictions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, "IfHealthyBudget", "AlwaysAllow"])
@pytest.mark.parametrize("least", [1, 2, 3])
@pytest.mark.parametrize("ready", [True, False])
def test_both_refuse_the_same_evictions(policy, least, ready):
    """Of three pods one is asked to go, which is ready or not; the other two are ready."""
    embedded = Embedded()
    create_nodes(embedded.store, NodeTemplate(), 1)
    embedded.apply(manifests.replica_set("web", 3, template=manifests.pod_template({"app": "web"})))
    policies = {"unhealthyPodEvictionPolicy": policy} if policy else {}
    embedded.apply(budget("web", {"minAvailable": least, **policies}))
    name = embedded.pods()[0]["metadata"]["name"]
    if not ready:
        conditions = [{"type": "Ready", "status": "False"}]
        embedded.patch("Pod", name, {"status": {"conditions": conditions}}, subresource="status")
        embedded.run()
    kinds = ("Node", "ReplicaSet", "PodDisruptionBudget", "Pod")
    simulated = Simulated([decode(kind, one) for kind in kinds for one in embedded.all(kind)])
    simulated.cluster.publish_budgets()
    refusal = simulated.cluster.budgets.refusal(simulated.cluster.pod(name))[1]
    told = ""
    try:
        embedded.store.evict("default", name)
    except StoreError as error:
        told = error.details["causes"][0]["message"]
    assert refusal == told
