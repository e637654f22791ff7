"""Which pods stay where they are: found in a cluster of one pod of each sort, all on a node that is to become empty."""

import json

import pytest

from berth.config.load import load_config
from berth.core.builders import make_node, make_pod
from berth_workbench.planning.rebalance.rebalance import RebalanceError
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.snapshot.documents import Document, parse_documents
from berth_workbench.snapshot.kept_fields import shape_of, trimmed
from berth_workbench.snapshot.snapshot import Snapshot
from packages.workbench.tests.asking import rebalance

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
VOLUMES_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def owned(name="p", kind="ReplicaSet"):
    return make_pod(name).request(cpu="100m").node("small").owned_by(kind, "owner").phase("Running")


def bare():
    return make_pod("p").request(cpu="100m").node("small").phase("Running")


def nodes():
    return [make_node("large").capacity(cpu="8", memory="16Gi"), make_node("small").capacity(cpu="4", memory="8Gi")]


def keeper():
    """What makes the large node one in use: it fits on no other."""
    return make_pod("keeper").request(cpu="5").node("large").owned_by("ReplicaSet", "keeper").phase("Running")


def documents(*objects):
    found = []
    for each in objects:
        document = each if isinstance(each, dict) else each.document
        found.append(Document(document["kind"], json.dumps(document).encode(), "a test"))
    return Snapshot(found)


def plan_for(*objects, goal="empty-nodes", **more):
    return rebalance(documents(*nodes(), keeper(), *objects), RebalanceRequest(goal, **more))


def reasons(plan):
    return {each.reason for each in plan.left_alone}


STAY = {
    "no controller would replace it": bare(),
    "static pod": owned(kind="Node"),
    "pod of a DaemonSet": owned(kind="DaemonSet"),
    "a Job's work would begin anew": owned(kind="Job"),
    "being deleted": owned().terminating(),
    f"annotation {SAFE_TO_EVICT}: false": owned().annotation(SAFE_TO_EVICT, "false"),
    "annotation descheduler.alpha.kubernetes.io/prefer-no-eviction": owned().annotation(
        "descheduler.alpha.kubernetes.io/prefer-no-eviction", ""
    ),
    "placed by another scheduler": owned().scheduler("mine"),
    "system-critical priority": owned().priority(2_000_000_000),
    "emptyDir volume": owned().volume("scratch", emptyDir={}),
    "hostPath volume": owned().volume("logs", hostPath={"path": "/var/log"}),
    "ephemeral volume": owned().volume("tmp", ephemeral={"volumeClaimTemplate": {"spec": {}}}),
    "member of a pod group": owned().group("gang"),
}


@pytest.mark.parametrize("reason", STAY)
def test_a_pod_stays_and_the_plan_says_why(reason):
    plan = plan_for(STAY[reason])
    assert (plan.moves, reasons(plan)) == (0, {reason})


def test_a_mirror_pod_stays():
    assert reasons(plan_for(bare().annotation("kubernetes.io/config.mirror", "x"))) == {"static pod"}


@pytest.mark.parametrize(
    ("pod", "also_move"),
    [
        (bare(), "bare"),
        (owned(kind="Job"), "jobs"),
        (owned().priority(2_000_000_000), "critical"),
        (owned().volume("scratch", emptyDir={"medium": "Memory"}), "empty-dir"),
    ],
)
def test_some_are_moved_when_asked_for(pod, also_move):
    plan = plan_for(pod, also_move=frozenset({also_move}))
    assert (plan.moves, plan.emptied) == (1, ("small",))


@pytest.mark.parametrize(
    "pod",
    [
        owned(),
        bare().annotation(SAFE_TO_EVICT, "true"),
        owned().volume("scratch", emptyDir={}).annotation(VOLUMES_SAFE, "other, scratch"),
        owned().volume("logs", hostPath={"path": "/l"}).annotation(SAFE_TO_EVICT, "true"),
        bare().annotation("descheduler.alpha.kubernetes.io/evict", "true"),
        owned().volume("config", configMap={"name": "c"}),
    ],
)
def test_annotations_let_pods_be_moved(pod):
    assert plan_for(pod).moves == 1


def test_a_node_with_nothing_but_its_own_pods_is_empty():
    daemon = owned("daemon", kind="DaemonSet")
    plan = plan_for(owned(), daemon)
    assert (plan.emptied, plan.after.nodes_used) == (("small",), 1)


def budget(name, **spec):
    status = spec.pop("status", {})
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
        "status": status,
    }


def test_budgets_are_kept():
    pods = [owned(f"p{i}").label("app", "a") for i in range(2)]
    assert plan_for(*pods, budget("b", maxUnavailable=1)).moves == 2  # one after the other
    assert plan_for(*pods, budget("b", minAvailable=1)).moves == 2
    none = {"its PodDisruptionBudget allows no disruption"}
    assert reasons(plan_for(*pods, budget("b", maxUnavailable=0))) == none
    assert reasons(plan_for(*pods, budget("b", minAvailable=2))) == none
    twice = plan_for(*pods, budget("b", maxUnavailable=2), budget("c", maxUnavailable=2))
    assert reasons(twice) == {"in more than one PodDisruptionBudget"}


def test_what_the_cluster_says_of_its_budgets_counts_too():
    """Pods that are disrupted now, outside of what the file shows."""
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2}
    plan = plan_for(owned().label("app", "a"), budget("b", maxUnavailable=1, status=status))
    assert reasons(plan) == {"its PodDisruptionBudget allows no disruption"}


def test_a_pod_that_is_not_ready_spends_its_budget():
    down = owned("down").label("app", "a").set_status(conditions=[{"type": "Ready", "status": "False"}])
    up = [owned(f"p{i}").label("app", "a") for i in range(2)]
    assert plan_for(down, *up, budget("b", minAvailable=2)).moves == 0


def test_a_volume_on_the_node_keeps_its_pod_there():
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["small"]}]}
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v", "uid": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/mnt"},
            "claimRef": {"namespace": "default", "name": "data", "uid": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "default",
            "uid": "data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "v", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    }
    assert reasons(plan_for(owned().claim("data"), volume, claim)) == {"its volume is on the node"}


def test_a_snapshot_keeps_what_decides_whether_a_pod_may_be_moved():
    for pod in (
        owned().volume("scratch", emptyDir={"sizeLimit": "1Gi"}),
        owned().volume("logs", hostPath={"path": "/var/log"}),
        owned().annotation(SAFE_TO_EVICT, "false"),
        owned().annotation("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""),
    ):
        assert plan_for(trimmed(pod.document, shape_of("Pod"))).moves == 0


def test_extenders_are_not_asked_and_the_plan_says_so():
    extender = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    }
    config = load_config(document, "a test's config")
    plan = rebalance(documents(*nodes(), keeper(), owned()), RebalanceRequest("empty-nodes"), config=config)
    assert plan.moves == 1
    assert plan.notes == ("the extenders of the configuration were not asked",)


def test_limits_of_moves():
    pods = [owned(f"p{i}") for i in range(3)]
    assert plan_for(*pods).moves == 3
    assert plan_for(*pods, max_moves=2).moves == 0  # half a node emptied is worth nothing
    assert plan_for(*pods, max_per_workload=2).moves == 0
    assert plan_for(*pods, max_per_namespace=3).moves == 3


def test_only_some_nodes_are_considered():
    third = make_node("third").capacity(cpu="8", memory="16Gi")
    plan = plan_for(third, owned(), nodes=frozenset({"small", "third"}))
    assert plan.moves == 0  # the third one is not in use, and the large one is not considered
    with pytest.raises(RebalanceError, match="there is no node fourth"):
        plan_for(nodes=frozenset({"fourth"}))


def test_manifests_without_uids_and_namespaces_are_a_cluster_too():
    text = b"""
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: x, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: w, uid: u, controller: true}]}
spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: y, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: w, uid: u, controller: true}]}
spec: {nodeName: b, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""
    plan = rebalance(Snapshot(list(parse_documents(text, "a test"))), RebalanceRequest("empty-nodes"))
    assert (plan.moves, plan.after.nodes_used) == (1, 1)
