"""`berth bench`: files that are no workload, with the line and what is wrong with it; scheduler_perf's documents."""

import json

import pytest
from click.testing import CliRunner

from berth.cli import main
from packages.workbench.tests.scheduler_perf.documents import measured, nodes, written

NODE = '{"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2: Input data was truncated"),
        ("[]", "line 2: Expected `object`"),
        ("{}", "line 2: kind is ''"),
        ('{"kind": "Gadget"}', "line 2: kind is 'Gadget', not one of"),
        ('{"kind": "Node", "metadata": {"name": "m"}, "status": {"allocatable": {"cpu": "lots"}}}', "line 2: "),
    ],
)
def test_a_line_that_cannot_be_used(tmp_path, line, why):
    file = tmp_path / "workload.jsonl"
    file.write_text(f"{NODE}\n{line}\n")
    result = CliRunner().invoke(main, ["bench", str(file)])
    assert result.exit_code == 1
    assert f"{file}: {why}" in result.output
    assert isinstance(result.exception, SystemExit)


def test_blank_lines_say_nothing(tmp_path):
    file = tmp_path / "workload.jsonl"
    file.write_text(f"{NODE}\n\n")
    result = CliRunner().invoke(main, ["bench", str(file)])
    assert (result.exit_code, '"nodes":1' in result.output) == (0, True), result.output


def test_scheduler_perf_is_told_beside_what_upstream_demands(tmp_path):
    path = written(tmp_path, nodes(2), measured(3), threshold=0.5, labels=["performance"])
    told = CliRunner().invoke(main, ["bench", str(path), "--label", "performance"])
    figures = json.loads(told.output)
    assert (figures["workload"], figures["pods"], figures["threshold"]) == ("Test/small", 3, 0.5)
    for nothing in (["--label", "short"], ["--workload", "Other/*"]):
        assert CliRunner().invoke(main, ["bench", str(path), *nothing]).output == ""


def test_scheduler_perf_that_cannot_be_used(tmp_path):
    path = written(tmp_path, {"opcode": "createNodes", "countParam": "$many"})
    told = CliRunner().invoke(main, ["bench", str(path)])
    assert told.exit_code == 1
    assert f"{path}: Test/small: operation 0: the workload has no parameter $many" in told.output


def test_a_workload_of_scheduler_perf_whose_gates_do_not_go_together_is_named(tmp_path):
    path = written(tmp_path, nodes(1), measured(1), featureGates={"NodeDeclaredFeatures": False})
    told = CliRunner().invoke(main, ["bench", str(path)])
    assert told.exit_code == 0
    assert "NodeDeclaredFeatures=true" in json.loads(told.output)["not_played"]
