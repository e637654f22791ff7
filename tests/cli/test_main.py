"""The command group: fast, complete, and helpful about typing errors."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from berth.cli import _COMMANDS, main

COMMANDS = ("run", "up", "apiserver", "demo", "decide", "impact", "bench", "explain")


def test_help_lists_every_command():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    listed = result.output.partition("Commands:")[2]
    for name in COMMANDS:
        assert f"\n  {name} " in listed


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: main {name} ")


def test_a_typing_error_is_answered_with_the_commands():
    result = CliRunner().invoke(main, ["rnu"])
    assert result.exit_code == 2
    assert "there is no command 'rnu'" in result.output
    assert all(name in result.output for name in COMMANDS)


def test_the_version_is_told():
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("berth 0.")


def test_a_wrong_flag_of_up_is_wrong_usage():
    result = CliRunner().invoke(main, ["up", "--feature-gates", "Nonsense=true"])
    assert result.exit_code == 2
    assert "unrecognized feature gate: Nonsense" in result.output


def test_help_imports_no_scheduler():
    heavy = "numpy", "aiohttp", "rich", "msgspec", *(entry.module for entry in _COMMANDS.values())
    script = (
        "import sys\nfrom berth.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"found = [name for name in {heavy!r} if name in sys.modules]\n"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
