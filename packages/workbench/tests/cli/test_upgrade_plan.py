"""`berth upgrade-plan` as people and programs use it: tables, JSON, exit codes, what is refused."""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from packages.workbench.tests.planning.upgrade.test_search import budget, node, pod, replicas

OBJECTS = [
    *(node(f"std-{at}") for at in range(2)),
    *(node(f"gpu-{at}", pool="gpu") for at in range(2)),
    *(pod(f"web-{at}-{number}", f"std-{at}", pool="std") for at in range(2) for number in range(4)),
    *(pod(f"train-{at}", "gpu-0", app="train", pool="gpu") for at in range(2)),
    pod("debug", "gpu-1", app="", pool="gpu"),
    replicas("train", 2),
    budget("train", minAvailable=2),
]


@pytest.fixture
def run(tmp_path):
    """Runs the command on the cluster above."""

    def go(*args, code=0):
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
        result = CliRunner().invoke(main, ["upgrade-plan", "--cluster", str(file), *args])
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.output

    return go


def test_the_summary_comes_first_and_then_what_stands_in_the_way(run):
    told = run("--at-once", "1")
    assert told.splitlines()[0].startswith("Assumed: ")
    assert told.splitlines()[1].startswith("3 nodes in 3 batches with 1 surge node: ")
    assert "1 node left out" in told
    assert "default/train-0" in told
    assert "1 more healthy replica" in told
    assert "default/debug" in told
    assert "std-0-new-1, like std-0" in told


def test_programs_get_every_move(run):
    found = json.loads(run("--pool", "std", "--at-once", "1", "-o", "json"))
    assert [step["action"] for step in found["steps"]] == ["addSurge", "upgrade", "upgrade", "removeSurge"]
    assert len(found["steps"][1]["moves"]) == 4
    assert found["pools"][0]["surge"][0]["like"] == "std-0"
    assert "default/web-1-3" in run("--pool", "std", "-o", "wide")


def test_exit_codes(run):
    run("--fail-on-blocked", code=1)
    run("--fail-on-blocked", "--pool", "std")
    assert "pools are gpu, std" in run("--pool", "fast", code=1)
    assert "no node 'x'" in run("--nodes", "x", code=1)
