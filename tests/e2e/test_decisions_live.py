"""Volumes, devices and preemption from end to end: `berth up` with kubectl, from the manifest to what runs where.

Each test has a cluster of its own, made so that only one outcome is right.
"""

import contextlib
import json

import pytest

from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.running import running

HOST = "kubernetes.io/hostname"


@pytest.fixture
def cluster(tmp_path):
    """Starts a cluster with some options; it ends with the test."""
    with contextlib.ExitStack() as ends:

        def start(*options):
            ends.enter_context(running("up", "--dir", tmp_path, "--scheduler-port", "0", *options))
            return Kubectl(tmp_path / "kubeconfig", tmp_path / "cache")

        yield start


def workload(kind, name, replicas, *, cpu="100m", pod=None, **spec):
    container = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    pod = dict(pod or {})
    container |= pod.pop("container", {})
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def apply(kubectl, *objects):
    kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def items(kubectl, *arguments):
    return json.loads(kubectl("get", *arguments, "-o", "json"))["items"]


def running_pods(kubectl, app):
    """Pods of a workload that run, and stay, by name."""
    pods = items(kubectl, "pods", "-l", f"app={app}")
    return {
        one["metadata"]["name"]: one
        for one in pods
        if one["status"]["phase"] == "Running" and "deletionTimestamp" not in one["metadata"]
    }


def wait_for(kubectl, app, count):
    eventually(lambda: len(running_pods(kubectl, app)), count)
    return running_pods(kubectl, app)


def unschedulable(kubectl, app):
    """Why the pending pods of a workload wait, by name."""
    return {
        one["metadata"]["name"]: condition.get("message", "")
        for one in items(kubectl, "pods", "-l", f"app={app}")
        for condition in one["status"].get("conditions", [])
        if (condition["type"], condition["status"], one["status"]["phase"]) == ("PodScheduled", "False", "Pending")
    }


def nodes_of(pods):
    return {name: one["spec"]["nodeName"] for name, one in pods.items()}


def volume_hosts(kubectl):
    """On which host each claim's volume is."""
    hosts = {}
    for volume in items(kubectl, "persistentvolumes"):
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        (expression,) = term["matchExpressions"]
        assert (expression["key"], volume["status"]["phase"]) == (HOST, "Bound")
        hosts[volume["spec"]["claimRef"]["name"]] = expression["values"]
    return hosts


def test_a_stateful_set_comes_back_to_its_volumes(cluster):
    kubectl = cluster("--nodes", "4")
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    apply(kubectl, workload("StatefulSet", "db", 3, serviceName="db", volumeClaimTemplates=[claim]))
    kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    placed = nodes_of(running_pods(kubectl, "db"))
    assert set(placed) == {"db-0", "db-1", "db-2"}
    claims = {one["metadata"]["name"]: one for one in items(kubectl, "persistentvolumeclaims")}
    assert {one["status"]["phase"] for one in claims.values()} == {"Bound"}
    assert {one["spec"]["storageClassName"] for one in claims.values()} == {"standard"}
    assert volume_hosts(kubectl) == {f"data-{pod}": [node] for pod, node in placed.items()}

    kubectl("scale", "statefulset/db", "--replicas=0")
    eventually(lambda: len(items(kubectl, "pods")), 0)
    # A pod that did not have to go where its volume is would now go anywhere else.
    filling = {"nodeSelector": {HOST: placed["db-0"]}}
    apply(kubectl, workload("Deployment", "filler", 1, cpu="7", pod=filling))
    wait_for(kubectl, "filler", 1)
    kubectl("scale", "statefulset/db", "--replicas=3")
    kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    assert nodes_of(running_pods(kubectl, "db")) == placed
    kept = {one["metadata"]["name"]: one["metadata"]["uid"] for one in items(kubectl, "persistentvolumeclaims")}
    assert kept == {name: one["metadata"]["uid"] for name, one in claims.items()}


def devices_of(kubectl, app):
    """The device that each running pod of a workload has, by pod."""
    owned = {one["metadata"]["name"]: one for one in items(kubectl, "resourceclaims")}
    found = {}
    for name, pod in running_pods(kubectl, app).items():
        (told,) = pod["status"]["resourceClaimStatuses"]
        status = owned[told["resourceClaimName"]]["status"]
        (result,) = status["allocation"]["devices"]["results"]
        assert [user["name"] for user in status["reservedFor"]] == [name]
        assert result["pool"] == pod["spec"]["nodeName"]
        found[name] = (result["pool"], result["device"])
    return found


def test_each_replica_has_a_device_and_the_one_too_many_waits(cluster):
    kubectl = cluster("--nodes", "2", "--devices-per-node", "2")
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.berth.dev"}}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    pod = {
        "resourceClaims": [{"name": "dev", "resourceClaimTemplateName": "gpu"}],
        "container": {"resources": {"claims": [{"name": "dev"}]}},
    }
    apply(kubectl, template, workload("Deployment", "train", 5, pod=pod))
    wait_for(kubectl, "train", 4)
    every = {(node, device) for node in ("node-0", "node-1") for device in ("gpu-0", "gpu-1")}
    had = devices_of(kubectl, "train")
    assert (len(had), set(had.values())) == (4, every)
    eventually(lambda: len(unschedulable(kubectl, "train")), 1)
    (message,) = unschedulable(kubectl, "train").values()
    assert message.startswith("0/2 nodes are available: 2 cannot allocate all claims.")

    gone = min(had)
    kubectl("delete", "pod", gone)
    wait_for(kubectl, "train", 4)
    has = devices_of(kubectl, "train")
    assert gone not in has
    assert set(has.values()) == every
    assert {pod: has.get(pod) for pod in had if pod != gone} == {pod: had[pod] for pod in had if pod != gone}
    eventually(lambda: len(items(kubectl, "resourceclaims")), 5)  # that of the deleted pod went with it


def test_a_wave_of_high_priority_spares_what_a_budget_guards(cluster):
    kubectl = cluster("--nodes", "4", "--node-cpu", "4")
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
        }
        for name, value, policy in (("middle", 10, "Never"), ("high", 1000, "PreemptLowerPriority"))
    ]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    # One pod fills a node. Were it not for the budget, the guarded ones, of lower priority, would have to go.
    middle, high = ({"priorityClassName": name} for name in ("middle", "high"))
    apply(kubectl, *classes, budget, workload("Deployment", "guarded", 2, cpu="3"))
    apply(kubectl, workload("Deployment", "loose", 2, cpu="3", pod=middle))
    guarded, loose = wait_for(kubectl, "guarded", 2), wait_for(kubectl, "loose", 2)
    eventually(lambda: kubectl.value("pdb", "guard", path=".status.currentHealthy"), "2")

    apply(kubectl, workload("Deployment", "wave", 2, cpu="3", pod=high))
    wave = wait_for(kubectl, "wave", 2)
    assert sorted(nodes_of(wave).values()) == sorted(nodes_of(loose).values())
    assert set(running_pods(kubectl, "guarded")) == set(guarded)
    preempted = items(kubectl, "events", "--field-selector=reason=Preempted")
    assert {one["involvedObject"]["name"] for one in preempted} == set(loose)
    status = json.loads(kubectl("get", "pdb", "guard", "-o", "json"))["status"]
    assert (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]) == (2, 2, 0)

    kubectl("scale", "deployment/wave", "--replicas=3")  # no choice left: a budget is kept as far as possible
    wait_for(kubectl, "wave", 3)
    assert len(set(running_pods(kubectl, "guarded")) & set(guarded)) == 1
