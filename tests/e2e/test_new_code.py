"""A whole process whose plugin's code changes under it: for a better, for one that does not load.

Expectations are those of docs/living-with-plugins.md.
"""

import signal

import pytest

from berth.api.resources import RESOURCES
from tests.e2e.processes import CONFIG, Api, Process, free_port
from tests.waiting import eventually

pytestmark = pytest.mark.long

PLUGIN = """
from berth.plugin import unschedulable

class Racks:
    name = "Racks"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node):
        {body}
"""
REFUSES, PASSES = "return unschedulable('no rack')", "return None"


@pytest.fixture
def cluster(tmp_path):
    up = Process(tmp_path / "up.log", "up", "--no-scheduler", "--nodes", 2, "--dir", tmp_path / "cluster")
    up.wait_until_it_says("Ctrl-C")
    yield Api(tmp_path / "cluster" / "kubeconfig")
    up.kill()


@pytest.fixture(params=["with a configuration file", "without one"])
def scheduler(request, tmp_path, cluster):
    """`berth run` with the plugin, and what writes its code and has it looked at."""
    file, config = tmp_path / "racks.py", tmp_path / "config.yaml"

    def write(body):
        file.write_text(PLUGIN.format(body=body) if body in (REFUSES, PASSES) else body)

    write(REFUSES)
    enabled = "profiles:\n- plugins: {multiPoint: {enabled: [{name: Racks}]}}\n"
    config.write_text(CONFIG % "false" + enabled)
    chosen = ["--config", config] if request.param == "with a configuration file" else ["--leader-elect=false"]
    one = Process(
        tmp_path / "run.log", "run", *chosen, "--plugin", f"{file}:Racks",
        "--kubeconfig", tmp_path / "cluster" / "kubeconfig", "--secure-port", free_port(),
    )  # fmt: skip

    def change(body):
        write(body)
        one.process.send_signal(signal.SIGHUP)

    one.change = change
    yield one
    one.kill()


def test_new_code_comes_and_goes_with_sighup(cluster, scheduler):
    pods = RESOURCES["Pod"]

    def create(name):
        spec = {"containers": [{"name": "c", "image": "i"}]}
        cluster.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def found(name):
        return next(each for each in cluster.list(pods) if each["metadata"]["name"] == name)

    create("first")
    eventually(lambda: "no rack" in str(found("first")["status"]))
    scheduler.change("def broken(:\n")
    scheduler.wait_until_it_says("racks.py:1: SyntaxError")
    assert "the old one stays in force" in scheduler.said()
    scheduler.change(PASSES)
    eventually(lambda: found("first")["spec"].get("nodeName"))
    scheduler.wait_until_it_says("plugin code was loaded afresh: racks")
    assert scheduler.end() == 0
