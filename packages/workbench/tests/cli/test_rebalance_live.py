"""A plan's commands, pasted into a shell with kubectl, do to `berth up` what the plan says."""

import json
import subprocess

from click.testing import CliRunner

from berth.cli import main
from tests.e2e.kubectl import KUBECTL, Kubectl, eventually
from tests.e2e.running import running

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
    with running("up", "--nodes", "3", "--node-cpu", "4", "--dir", tmp_path):
        kubectl = Kubectl(tmp_path / "kubeconfig", tmp_path / "cache")
        kubectl("create", "-f", "-", text=json.dumps(DEPLOYMENT))
        eventually(lambda: ready(kubectl), 3)
        arguments = ["rebalance", "--kubeconfig", str(tmp_path / "kubeconfig"), "--goal", "empty-nodes"]
        plan = json.loads(CliRunner().invoke(main, [*arguments, "-o", "json"]).stdout)
        commands = CliRunner().invoke(main, [*arguments, "--commands"]).stdout
        assert plan["moves"] == 2
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "kubectl").symlink_to(KUBECTL)
        environment = {
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
            "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
        }
        done = subprocess.run(
            ["sh"], input=commands, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (node,) = {step["to"] for step in plan["steps"] if step["action"] == "evict"}
        eventually(lambda: placed(kubectl), [node] * 3)
        assert sorted(plan["emptied"]) == cordoned(kubectl)
        for name in plan["emptied"]:
            kubectl("uncordon", name)
        carried = CliRunner().invoke(main, [*arguments[:-1], "even-out", "--execute", "--yes"])
        assert carried.exit_code == 0, carried.output
        assert "Done: " in carried.output
        assert len(set(placed(kubectl))) == 3
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
