"""`berth bench` with files that are no workload: which line, what is wrong with it, no traceback."""

import pytest
from click.testing import CliRunner

from berth.cli import main

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
