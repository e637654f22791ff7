"""A plan's commands, pasted into a shell with kubectl, do to `berth up` what the plan says.

Those that empty nodes are carried out as docs/rebalance.md shows for a pipeline: its lines are what is run.
"""

import json
import os
import re
import subprocess

from click.testing import CliRunner

from berth.cli import main
from tests.e2e.kubectl import KUBECTL, Kubectl, eventually
from tests.e2e.running import BERTH, running
from tests.paths import DOCS

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            },
        },
    },
}


def test_the_commands_of_a_plan(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    with running("up", "--nodes", "3", "--node-cpu", "4", "--dir", tmp_path):
        kubectl = Kubectl(kubeconfig, tmp_path / "cache")
        kubectl("create", "-f", "-", text=json.dumps(DEPLOYMENT))
        eventually(lambda: ready(kubectl), 3)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "kubectl").symlink_to(KUBECTL)
        (tmp_path / "bin" / "berth").symlink_to(BERTH)
        environment = os.environ | {
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
        }

        def shell(commands):
            done = subprocess.run(
                ["sh"], input=commands, cwd=tmp_path, env=environment,
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr

        (pipeline,) = re.findall(r"```sh\n(.*?)```", (DOCS / "rebalance.md").read_text(), re.DOTALL)
        assert len(pipeline.splitlines()) <= 10
        shell(pipeline)
        plan = json.loads((tmp_path / "plan.json").read_text())
        assert plan["moves"] == 2
        (node,) = {step["to"] for step in plan["steps"] if step["action"] == "evict"}
        eventually(lambda: placed(kubectl), [node] * 3)
        assert sorted(plan["emptied"]) == cordoned(kubectl)
        for name in plan["emptied"]:
            kubectl("uncordon", name)
        evened = ["rebalance", "--kubeconfig", str(kubeconfig), "--goal", "even-out", "--commands"]
        shell(CliRunner().invoke(main, evened).stdout)
        eventually(lambda: len(set(placed(kubectl))), 3)
        assert cordoned(kubectl) == []


def placed(kubectl):
    items = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    return [each["spec"].get("nodeName", "") for each in items if not each["metadata"].get("deletionTimestamp")]


def ready(kubectl):
    items = json.loads(kubectl("get", "replicasets", "-o", "json"))["items"]
    return sum(each.get("status", {}).get("readyReplicas", 0) for each in items)


def cordoned(kubectl):
    items = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
    return sorted(each["metadata"]["name"] for each in items if each["spec"].get("unschedulable"))
