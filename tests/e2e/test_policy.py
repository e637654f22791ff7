"""A scheduler of v1.20's time against a live API server: the Policy in a ConfigMap decides where pods go."""

import json

import pytest

from berth.api.resources import RESOURCES
from tests.e2e.processes import DEPLOYMENTS, Api, Process, deployment, free_port
from tests.waiting import eventually

POLICY = {
    "apiVersion": "v1",
    "kind": "Policy",
    "predicates": [
        {"name": "GeneralPredicates"},
        {"name": "OnRacks", "argument": {"labelsPresence": {"labels": ["rack"], "presence": True}}},
    ],
    "priorities": [{"name": "LeastRequestedPriority", "weight": 1}],
}


@pytest.fixture
def run(tmp_path, unscheduled_cluster):
    started = []

    def start():
        flags = ("--kubeconfig", unscheduled_cluster, "--leader-elect=false", "--secure-port", free_port())
        log = tmp_path / f"run-{len(started)}.log"
        started.append(Process(log, "run", *flags, "--policy-configmap", "scheduler-policy"))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def test_a_policy_in_a_config_map(unscheduled_cluster, namespace_name, run):
    cluster = Api(unscheduled_cluster)
    without = run()
    assert without.wait() == 2
    assert "couldn't get policy config map kube-system/scheduler-policy" in without.said()
    assert "Unclosed" not in without.said()
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "scheduler-policy", "namespace": "kube-system"},
        "data": {"policy.cfg": json.dumps(POLICY)},
    }
    cluster.create(RESOURCES["ConfigMap"], body, "kube-system")
    cluster.create(RESOURCES["Namespace"], {"metadata": {"name": namespace_name}}, "")
    nodes = sorted(node["metadata"]["name"] for node in cluster.list(RESOURCES["Node"]))
    cluster.patch(RESOURCES["Node"], "", nodes[1], {"metadata": {"labels": {"rack": "r1"}}})
    cluster.create(DEPLOYMENTS, deployment("web", 4, "100m"), namespace_name)
    run()

    def bound():
        found = [record for record in cluster.bindings() if record["namespace"] == namespace_name]
        return found if len(found) >= 4 else None

    assert {record["node"] for record in eventually(bound) if record["accepted"]} == {nodes[1]}
    cluster.delete(RESOURCES["ConfigMap"], "kube-system", "scheduler-policy")
    cluster.patch(RESOURCES["Node"], "", nodes[1], {"metadata": {"labels": {"rack": None}}})
