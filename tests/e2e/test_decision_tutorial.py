"""The tutorial in docs/tutorial.md, done as it says: its files written, every command typed, every claim looked at."""

import json
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.kubectl import KUBECTL
from tests.e2e.processes import BERTH, Process, eventually

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
pytestmark = pytest.mark.timeout(900)


def files():
    found = {}
    for text in re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL):
        found[re.fullmatch(r"# ([\w.]+)", text.partition("\n")[0])[1]] = text
    return found


def commands():
    """What is typed, in order."""
    blocks = re.findall(r"```console\n(.*?)```", TUTORIAL, re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """The directory in which everything was typed, what each command printed, and a way to type more."""
    directory = tmp_path_factory.mktemp("tutorial")
    for name, text in files().items():
        (directory / name).write_text(text)
    up, *others = commands()
    assert up == "berth up --nodes 12"
    process = Process(directory / "up.log", *up.split()[1:], "--dir", directory / ".berth")
    try:
        process.wait_until_it_says("Ctrl-C")
        environment = {
            **os.environ,
            "PATH": os.pathsep.join((str(BERTH.parent), str(Path(KUBECTL).parent), os.environ["PATH"])),
            "KUBECONFIG": str(directory / ".berth/kubeconfig"),
        }
        if served := re.search(r"--server (\S+)", process.said()):  # another scheduler has the usual port
            environment["BERTH_SCHEDULER"] = served[1]

        def run(command):
            done = subprocess.run(
                ["bash", "-c", command], cwd=directory, env=environment, capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
            return done.stdout

        printed = {}
        for command in others:
            if command == "kubectl apply -f model.yaml":  # creation times have whole seconds, and the model is the last
                created = run("kubectl get pods -o jsonpath='{.items[*].metadata.creationTimestamp}'").split()
                eventually(lambda: datetime.now(UTC).isoformat()[:19] > max(created)[:19])  # noqa: B023 - asked at once
            printed[command] = run(command)
        yield directory, printed, lambda command: json.loads(run(f"{command} -o json"))
    finally:
        process.end()


def test_every_command_works_and_every_picture_is_drawn(typed):
    directory, *_ = typed
    pictures = re.findall(r"!\[[^\]]+\]\(pictures/([\w.]+)\)", TUTORIAL)
    assert pictures == re.findall(r"--plot ([\w.]+)", TUTORIAL)
    for name in pictures:
        assert "<svg" in (directory / name).read_text()
        assert "<svg" in (ROOT / "docs/pictures" / name).read_text()


def test_the_claims_hold(typed):
    _, printed, ask = typed
    cluster = "--cluster shop.snapshot.gz"
    assert "Insufficient cpu" in printed["berth explain model"]
    helped = ask(f"berth explain model --what-would-help {cluster}")
    assert {change["on"] for change in helped["changes"]} >= {"pod", "cluster"}
    assert helped["never"] is False
    assert any("node like node-" in change["what"] for change in helped["changes"])

    assert ask(f"berth capacity -f model.yaml {cluster}")["fits"] == 0
    with_node = ask(f"berth whatif {cluster} --add-nodes 1=node-0")
    placed = {each["pod"]: each["node"] for each in with_node["pods"]}
    assert placed["default/model"] not in (None, *(f"node-{number}" for number in range(12)))
    assert ask(f"berth whatif {cluster} --lose-zone zone-a")["broken"] == []

    plan = ask(f"berth rebalance --goal free-shape -f model.yaml {cluster}")
    assert [step["action"] for step in plan["steps"]].count("evict") == 2

    now = measures(ask(f"berth compare default packed.yaml {cluster} --replace-all"))
    assert (now["pending"]["a"], now["pending"]["b"]) == (1, 0)
    assert now["spread.node.maxSkew"]["a"] < now["spread.node.maxSkew"]["b"]
    assert now["spread.zone.maxSkew"]["a"] == now["spread.zone.maxSkew"]["b"]
    day = measures(ask("berth compare default packed.yaml --trace day.jsonl.gz"))
    assert day["nodesUsed"]["a"] == 12
    assert 5 < day["nodesUsed"]["b"] < 8
    assert day["nodesUsed"]["better"] == "b"
    assert day["neverPlaced"]["a"] == day["neverPlaced"]["b"] == 0


def measures(compared):
    return {measure["name"]: measure for measure in compared["measures"]}
