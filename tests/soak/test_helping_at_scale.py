"""What would help a pod takes time in proportion to the cluster, up to 5,000 nodes and 100,000 pods."""

import random

import pytest

from berth.core.builders import expression, make_node, make_pod
from berth_workbench.planning.help.search import what_would_help
from berth_workbench.simulation.cluster import SimulatedCluster
from tests.effort import times_as_long

NODES, PODS = 5_000, 100_000
QUARTER = 4
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def clusters():
    return cluster(NODES, PODS), cluster(NODES // QUARTER, PODS // QUARTER)


def cluster(nodes, pods):
    rng = random.Random(1)
    objects = []
    for i in range(nodes):
        node = make_node(f"n{i}").capacity(cpu="16", memory="64Gi").zone("abc"[i % 3])
        node.labels({"pool": "ab"[i % 2], "machine": f"m-{i}"})
        if i % 10 == 0:
            node.taint("team", "a")
        if i % 50 == 1:
            node.unschedulable()
        objects.append(node.build())
    for i in range(pods):
        pod = make_pod(f"w{i}").label("app", f"a{i % 500}").request(cpu="750m", memory="3Gi")
        objects.append(pod.node(f"n{i % nodes}").priority(rng.randrange(3) * 100).build())
    return SimulatedCluster(objects)


def asking(cpu, memory="1Gi"):
    return make_pod("p").label("app", "a1").request(cpu=cpu, memory=memory)


QUESTIONS = {
    "too large for what is free": (asking("3", "6Gi"), "requests"),
    "too large for any node": (asking("17"), "requests"),
    "a label that is missing": (asking("500m").node_selector({"pool": "a", "disk": "ssd"}), "nodeSelector"),
    "away from all": (asking("500m").pod_anti_affinity(ZONE, {"app": "a1"}), "podAntiAffinity"),
    "one of two labels that are missing": (
        asking("500m").require_node(expression("x", "Exists"), expression("pool", "In", "a")),
        "nodeAffinity",
    ),
    "may preempt": (asking("3").priority(1000), "requests"),
    "gated": (asking("500m").gate("quota"), "schedulingGate"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_takes_time_in_proportion(clusters, question):
    pod, first = QUESTIONS[question]
    for each in clusters:
        found = what_would_help(each, pod.build())
        assert found.changes[0].kind == first
        assert found.is_complete
    large, small = clusters
    ratio = times_as_long(lambda: what_would_help(large, pod.build()), lambda: what_would_help(small, pod.build()))
    assert ratio < 2 * QUARTER
