"""The examples in the help of every command: two at least, within 80 columns, and each can be typed as it stands."""

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from berth.cli import main
from berth.cli.commands import Commands, tables
from tests.cli.test_output import every_command

EXAMPLES = sorted(Commands(tables()).examples(), key=lambda each: each[1].line)
COMMANDS = sorted(name for name, _ in every_command())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_two_examples_and_fits_80_columns(name):
    result = CliRunner().invoke(main, [*name.split(), "--help"], prog_name="berth", env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    shown = [line for line in lines[lines.index("  Examples:") :] if line.startswith(f"    berth {name}")]
    assert len(shown) >= 2
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if re.search(r"\w-$", line)] == []  # no name is broken at its hyphens


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example.line for _, example in EXAMPLES])
def test_each_can_be_typed(name, example, tmp_path, monkeypatch):
    """As far as the parser goes: names, options, values. What the shell does with `|` and `>` is left to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    words = shlex.split(example.line)
    for word in words:
        if word.endswith((".yaml", ".gz", ".jsonl")):
            (tmp_path / word).touch()
    end = next((at for at, word in enumerate(words) if word in ("|", ">", ">>")), len(words))
    program, command, *arguments = words[:end]
    assert (program, command) == ("berth", name)
    parsed(Commands(tables()).load(name), name, arguments)
    assert example.purpose.endswith((".", "?"))


def parsed(command, name, arguments):
    with command.make_context(name, list(arguments)) as context:
        if isinstance(command, click.Group):
            inner, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            parsed(found, inner, rest)


def test_a_stale_example_would_be_noticed():
    with pytest.raises(click.UsageError):
        parsed(Commands(tables()).load("explain"), "explain", ["--no-such-option"])
    with pytest.raises(click.UsageError):
        parsed(Commands(tables()).load("trace"), "trace", ["show", "--no-such-option"])
