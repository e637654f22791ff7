"""A gang of 50 on `berth up`, with kubectl: too little room, so nobody runs; then room enough, and all do.

KEP-4671; kubernetes.io "Gang Scheduling" of v1.36. Skipped, like the other days with kubectl, where none is installed.
"""

import json

import pytest

from tests.e2e.kubectl import Kubectl, eventually
from tests.e2e.running import running

GANG = 50
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
TOO_FEW = "waiting for minCount pods from a gang to be scheduled"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory):
    """kubectl on a cluster of two nodes of 8 CPUs: room for 16 pods of the gang."""
    directory = tmp_path_factory.mktemp("gang")
    with running("up", "--nodes", "2", "--node-cpu", "8", "--dir", directory, GATES):
        yield Kubectl(directory / "kubeconfig", directory / "cache")


def workload():
    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": GANG}}}
    api = {"apiVersion": "scheduling.k8s.io/v1alpha2"}
    yield {**api, "kind": "Workload", "metadata": {"name": "training"}, "spec": {"podGroupTemplates": [template]}}
    reference = {"workload": {"workloadName": "training", "podGroupTemplateName": "workers"}}
    spec = {"podGroupTemplateRef": reference, "schedulingPolicy": template["schedulingPolicy"]}
    yield {**api, "kind": "PodGroup", "metadata": {"name": "training-workers"}, "spec": spec}


def job():
    container = {"name": "main", "image": "trainer:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulingGroup": {"podGroupName": "training-workers"},
        "containers": [container],
        "restartPolicy": "Never",
    }
    annotations = {"berth.dev/run-seconds": "3600"}
    template = {"metadata": {"labels": {"job": "training"}, "annotations": annotations}, "spec": spec}
    counts = {"parallelism": GANG, "completions": GANG}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "training"},
        "spec": {**counts, "template": template},
    }


def as_list(*objects):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def node_like(node, name):
    """A node as large as one that is there, under another name."""
    labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name}
    meta = {"name": name, "labels": labels, "annotations": {"berth.dev/hollow": "true"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": node["status"]}


def nodes_of(kubectl):
    """The node of each pod of the gang; empty where it has none."""
    items = json.loads(kubectl("get", "pods", "-l", "job=training", "-o", "json"))["items"]
    return [item["spec"].get("nodeName", "") for item in items]


def condition(kubectl):
    found = json.loads(kubectl("get", "podgroup", "training-workers", "-o", "json"))
    conditions = found.get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == "PodGroupScheduled"), None)


def test_a_gang_of_50_runs_as_a_whole_or_not_at_all(kubectl):
    said = kubectl("create", "-f", "-", text=as_list(*workload(), job()))
    assert "podgroup.scheduling.k8s.io/training-workers created" in said
    eventually(lambda: len(nodes_of(kubectl)), GANG)
    eventually(lambda: condition(kubectl), ("False", "Unschedulable"))
    assert nodes_of(kubectl) == [""] * GANG

    names = [row["NAME"] for row in kubectl.rows("pods")]
    messages = [kubectl.value("pod", name, path=".status.conditions[0].message") for name in (names[0], names[-1])]
    described = "\n".join(kubectl("describe", "pod", name) for name in (names[0], names[-1]))
    assert "FailedScheduling" in described
    assert TOO_FEW in described or "0/2 nodes are available: 2 Insufficient cpu." in described
    assert all(TOO_FEW in text or "Insufficient cpu" in text for text in messages)
    events = kubectl("get", "events", "-o", "json")
    assert TOO_FEW in events and "0/2 nodes are available: 2 Insufficient cpu." in events
    why = kubectl.value("podgroup", "training-workers", path=".status.conditions[0].message")
    assert "16 of 50 pods have a place" in why and "Insufficient cpu" in why

    pattern = json.loads(kubectl("get", "nodes", "-o", "json"))["items"][0]
    # Some room, but not enough: still nobody.
    kubectl("create", "-f", "-", text=as_list(*(node_like(pattern, f"more-{number}") for number in range(2))))
    eventually(
        lambda: "32 of 50" in kubectl.value("podgroup", "training-workers", path=".status.conditions[0].message"), True
    )
    assert nodes_of(kubectl) == [""] * GANG

    kubectl("create", "-f", "-", text=as_list(*(node_like(pattern, f"enough-{number}") for number in range(3))))
    eventually(lambda: sum(map(bool, nodes_of(kubectl))), GANG)
    assert max(nodes_of(kubectl).count(node) for node in set(nodes_of(kubectl))) <= 8
    eventually(lambda: condition(kubectl), ("True", "Scheduled"))
    eventually(lambda: {row["STATUS"] for row in kubectl.rows("pods")}, {"Running"})
