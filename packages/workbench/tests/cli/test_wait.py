"""`berth wait` as people and programs use it: outputs, exit codes, what is refused."""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from packages.workbench.tests.planning.test_survival import node, pod
from packages.workbench.tests.planning.test_waiting_for_room import running


@pytest.fixture
def run(tmp_path):
    def go(*args, code=0):
        objects = [running("w1", "n1", deadline=4000), running("w2", "n2", owner="web"), node("n1").document]
        objects += [node("n2").document, pod("new").document, pod("huge", cpu="9", owner="h").document]
        file = tmp_path / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        found = CliRunner().invoke(main, ["wait", "--cluster", str(file), *args])
        assert found.exit_code == code, found.output
        return found.stdout if code == 0 else found.output

    return go


def test_tables_say_how_long_and_for_whom(run):
    said = " ".join(run().split())
    assert "default/new ≤ 1 h 6 min 40 s n1 0 the end of default/w1" in said
    assert "default/huge never - 0 no node takes it, whoever ends: 2 of 2 nodes lack cpu" in said
    assert "It is known when 1 of 2 running pods end" in said
    soon = " ".join(run("new", "--within", "0.001").split())
    assert "no end that is known within 1 min 26 s makes room: 2 of 2 nodes lack cpu" in soon


def test_json_with_durations(run, tmp_path):
    (tmp_path / "runs.yaml").write_text("default/web: 3900")
    found = json.loads(run("new", "--durations", str(tmp_path / "runs.yaml"), "-o", "json"))
    (new,) = found["pods"]
    assert (new["seconds"], new["node"] in ("n1", "n2"), new["waitsFor"][0]["by"]) == (3900.0, True, "duration")


def test_what_cannot_be_asked(run, tmp_path):
    assert "only pending pods wait" in run("w1", code=1)
    (tmp_path / "runs.yaml").write_text("web: 3900")
    assert "seconds by namespace/name" in run("--durations", str(tmp_path / "runs.yaml"), code=1)
