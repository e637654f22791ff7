"""A whole process with a plugin that never comes back, and one whose configuration changes under it."""

import re
import signal

import pytest

from berth.api.resources import RESOURCES
from tests.e2e.processes import CONFIG, Api, Process, free_port
from tests.waiting import eventually

pytestmark = pytest.mark.long

PLUGIN = """
import sys

class Loops:
    name = "Loops"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        if pod.name == "endless":
            print("begins to loop", file=sys.stderr, flush=True)
            while True:
                pass
"""
ENABLED = """
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Loops}]}}
"""


@pytest.fixture
def cluster(tmp_path):
    up = Process(tmp_path / "up.log", "up", "--no-scheduler", "--nodes", 2, "--dir", tmp_path / "cluster")
    up.wait_until_it_says("Ctrl-C")
    yield Api(tmp_path / "cluster" / "kubeconfig")
    up.kill()


@pytest.fixture
def start(tmp_path, cluster):
    started = []

    def run(config):
        (tmp_path / "loops.py").write_text(PLUGIN)
        (tmp_path / "config.yaml").write_text(config)
        one = Process(
            tmp_path / "run.log", "run", "--config", tmp_path / "config.yaml", "--plugin", f"{tmp_path}/loops.py:Loops",
            "--kubeconfig", tmp_path / "cluster" / "kubeconfig", "--secure-port", free_port(),
        )  # fmt: skip
        started.append(one)
        return one

    yield run
    for one in started:
        one.kill()


def pod(name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


def node_of(cluster, name):
    return next(each for each in cluster.list(RESOURCES["Pod"]) if each["metadata"]["name"] == name)["spec"].get(
        "nodeName"
    )


def lease(cluster):
    return next(each for each in cluster.list(RESOURCES["Lease"]) if each["metadata"]["name"] == "kube-scheduler")[
        "spec"
    ]


def test_sigterm_ends_a_process_whose_plugin_loops_for_ever(cluster, start):
    one = start(CONFIG % "true" + ENABLED)
    cluster.create(RESOURCES["Pod"], pod("first"))
    eventually(lambda: node_of(cluster, "first"))
    cluster.create(RESOURCES["Pod"], pod("endless"))
    before = lease(cluster)["renewTime"]
    eventually(lambda: lease(cluster)["renewTime"] > before)
    assert one.end(signal.SIGTERM) == 1
    said = one.said()
    assert "told to stop, but the scheduling cycle has been at work" in said
    assert re.search(
        r"berth run: ended although .*plugin Loops at Filter for pod default/endless \(.*loops\.py:\d+\)", said
    )
    assert "Traceback" not in said
    assert not lease(cluster).get("holderIdentity")


def test_the_second_signal_ends_it_at_once(cluster, start):
    one = start(CONFIG % "false" + ENABLED)
    cluster.create(RESOURCES["Pod"], pod("first"))
    eventually(lambda: node_of(cluster, "first"))
    cluster.create(RESOURCES["Pod"], pod("endless"))
    one.wait_until_it_says("begins to loop")
    one.process.send_signal(signal.SIGTERM)
    one.wait_until_it_says("told to stop, but")
    assert one.end(signal.SIGINT) == -signal.SIGINT


def test_a_changed_configuration_is_put_in_force_and_a_wrong_one_is_refused(tmp_path, cluster, start):
    one = start(CONFIG % "false")
    cluster.create(RESOURCES["Pod"], pod("first"))
    eventually(lambda: node_of(cluster, "first"))
    config = tmp_path / "config.yaml"
    config.write_text(
        CONFIG % "false"
        + "profiles:\n- schedulerName: default-scheduler\n  plugins: {multiPoint: {enabled: [{name: Nobody}]}}\n"
    )
    one.process.send_signal(signal.SIGHUP)
    one.wait_until_it_says("is refused, and the old one stays in force")
    assert "Nobody" in one.said()
    config.write_text(CONFIG % "false" + "profiles:\n- schedulerName: default-scheduler\n- schedulerName: second\n")
    one.wait_until_it_says("is in force")
    cluster.create(RESOURCES["Pod"], {**pod("second"), "spec": {**pod("second")["spec"], "schedulerName": "second"}})
    eventually(lambda: node_of(cluster, "second"))
    assert one.end() == 0
    assert "Traceback" not in one.said()
