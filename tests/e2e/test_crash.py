"""A scheduler killed while it binds, again and again: no pod is bound twice, lost, or put where it does not fit."""

import random
from collections import Counter

import pytest

from berth.api.resources import RESOURCES
from tests.e2e.processes import CONFIG, DEPLOYMENTS, Api, Process, deployment, free_port
from tests.waiting import eventually

pytestmark = pytest.mark.long

NODES = 100
FIT_ON_EACH = 10
REPLICAS = NODES * FIT_ON_EACH
KILLED_AFTER = (0.1, 0.3, 0.5, 0.7, 0.85)
"""About which shares of the bindings the scheduler is killed at; a random amount is added to each."""


@pytest.fixture
def cluster(tmp_path):
    up = Process(
        tmp_path / "up.log", "up", "--no-scheduler", "--nodes", NODES, "--node-cpu", "1", "--dir", tmp_path / "cluster"
    )
    up.wait_until_it_says("Ctrl-C")
    yield Api(tmp_path / "cluster" / "kubeconfig")
    up.kill()


@pytest.fixture
def start(tmp_path, cluster):
    config = tmp_path / "config.yaml"
    # No faster than this, so that there is something left to do when a slow machine comes to kill it.
    config.write_text((CONFIG % "false").replace("qps: -1", "qps: 400, burst: 50"))
    started = []

    def run():
        # A log for each: what one of them said does not mean that the next is as far.
        log, kubeconfig = tmp_path / f"run-{len(started)}.log", tmp_path / "cluster" / "kubeconfig"
        one = Process(log, "run", "--config", config, "--kubeconfig", kubeconfig, "--secure-port", free_port())
        started.append(one)
        return one

    yield run
    for one in started:
        one.kill()


def accepted(cluster):
    return [record for record in cluster.bindings() if record["accepted"]]


def test_killed_at_random_points_every_pod_is_bound_once(cluster, start):
    rng = random.Random()
    cluster.create(DEPLOYMENTS, deployment("web", REPLICAS, "100m"))
    seen_at_death = []
    for share in KILLED_AFTER:
        scheduler = start()
        goal = int(REPLICAS * (share + rng.random() * 0.1))
        eventually(lambda goal=goal: len(accepted(cluster)) >= goal)
        scheduler.kill()
        seen_at_death.append(len(accepted(cluster)))
    assert seen_at_death[0] < REPLICAS, "the first kill came too late to prove anything"

    last = start()
    last.wait_until_it_says("caches are synced")
    eventually(lambda: len(accepted(cluster)) >= REPLICAS)
    pods = eventually(lambda: all_running(cluster), every_s=0.3)

    assert len(pods) == REPLICAS
    assert set(Counter(record["podUid"] for record in accepted(cluster)).values()) == {1}
    assert {record["podUid"] for record in accepted(cluster)} == {pod["metadata"]["uid"] for pod in pods}
    assert set(Counter(pod["spec"]["nodeName"] for pod in pods).values()) == {FIT_ON_EACH}
    assert len({pod["spec"]["nodeName"] for pod in pods}) == NODES
    assert not [pod for pod in pods if (pod["status"].get("reason") or "").startswith("OutOf")]
    assert last.end() == 0
    assert "Traceback" not in last.said()


def all_running(cluster):
    """All pods, once every one of them runs; a pod that a node turned away never does."""
    pods = cluster.list(RESOURCES["Pod"])
    failed = [pod for pod in pods if pod["status"].get("phase") == "Failed"]
    assert not failed, failed[0]["status"]
    return pods if all(pod["status"].get("phase") == "Running" for pod in pods) else None
