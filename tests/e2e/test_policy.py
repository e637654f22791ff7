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
def cluster(tmp_path):
    up = Process(tmp_path / "up.log", "up", "--no-scheduler", "--nodes", 3, "--dir", tmp_path / "cluster")
    up.wait_until_it_says("Ctrl-C")
    yield Api(tmp_path / "cluster" / "kubeconfig")
    up.kill()


@pytest.fixture
def run(tmp_path, cluster):
    started = []

    def start():
        kubeconfig = tmp_path / "cluster" / "kubeconfig"
        flags = ("--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port", free_port())
        started.append(Process(tmp_path / "run.log", "run", *flags, "--policy-configmap", "scheduler-policy"))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def test_a_policy_in_a_config_map(cluster, run):
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
    nodes = sorted(node["metadata"]["name"] for node in cluster.list(RESOURCES["Node"]))
    cluster.patch(RESOURCES["Node"], "", nodes[1], {"metadata": {"labels": {"rack": "r1"}}})
    cluster.create(DEPLOYMENTS, deployment("web", 4, "100m"))
    run()
    bound = eventually(lambda: len(found := cluster.bindings()) >= 4 and found)
    assert {record["node"] for record in bound if record["accepted"]} == {nodes[1]}
