"""The command group: fast, complete, and helpful about typing errors."""

import signal
import subprocess
import sys
import tomllib

import click
import pytest
from click.testing import CliRunner

from berth.api.user_error import UserError
from berth.cli import main
from berth.cli.commands import tables
from tests.paths import ROOT

COMMANDS = ("run", "up", "apiserver", "demo", "decide", "impact", "bench", "explain")


def test_help_lists_every_command():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in result.output


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


def run_a_command_that_raises(error, monkeypatch):
    def broken():
        raise error

    monkeypatch.setattr("berth.cli.Commands.load", lambda self, name: click.Command(name, callback=broken))
    return CliRunner().invoke(main, ["run"])


def test_an_error_for_people_ends_a_command_with_its_message_and_code_1(monkeypatch):
    result = run_a_command_that_raises(UserError("pod p\x1b[31m: no such class"), monkeypatch)
    assert result.exit_code == 1
    assert result.output.startswith("Error: pod p")
    assert result.output.endswith("[31m: no such class\n")
    assert "\x1b" not in result.output


def test_a_bug_is_not_taken_for_an_error_for_people(monkeypatch):
    result = run_a_command_that_raises(ValueError("a bug"), monkeypatch)
    assert type(result.exception) is ValueError


def test_a_wrong_flag_of_up_is_wrong_usage():
    result = CliRunner().invoke(main, ["up", "--feature-gates", "Nonsense=true"])
    assert result.exit_code == 2
    assert "unrecognized feature gate: Nonsense" in result.output


def test_help_imports_no_scheduler():
    heavy = (
        "numpy",
        "aiohttp",
        "rich",
        "msgspec",
        *(entry.module for table in tables() for entry in table.commands.values()),
    )
    script = (
        "import sys\nfrom berth.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"found = [name for name in {heavy!r} if name in sys.modules]\n"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


NOT_AT_THE_START = (
    "berth.testing", "berth_cluster", "berth_workbench", "berth_workloads", "concurrent.futures.process", "distributed",
    "grpc", "matplotlib", "multiprocessing", "nicegui", "numpy.f2py", "numpy.random",
    "numpy.testing", "opentelemetry", "ortools", "pandas", "pyarrow", "rich", "scipy", "setuptools", "sqlite3",
    "statistics", "textual", "unittest",
)  # fmt: skip
"""What only other commands need, or what a scheduler needs that is asked for it."""


def test_the_scheduler_starts_without_what_it_may_never_need():
    parts = ("cli.run", "kube.http.client", "plugins.registry", "runtime.observing.metrics_v1_20", "runtime.scheduler",
             "runtime.serving.secure", "runtime.serving.server")  # fmt: skip
    script = (
        "import importlib, sys\n"
        f"for part in {parts!r}: importlib.import_module(f'berth.{{part}}')\n"
        f"found = [name for name in {NOT_AT_THE_START!r} if name in sys.modules]\n"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
import os, signal, sys

_, module, signal_name, *arguments = sys.argv
sys.argv = ["berth", *arguments]

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), getattr(signal, signal_name))

sys.meta_path.insert(0, Interrupter())
import runpy
runpy.run_module("berth", run_name="__main__", alter_sys=True)
"""
"""Runs a command in which the terminal's signal comes when a module is first imported."""


@pytest.mark.parametrize(
    ("module", "signal_name", "arguments"),
    [
        ("berth.cli", "SIGINT", "version --client"),
        ("click", "SIGINT", "version --client"),
        ("importlib.metadata", "SIGINT", "--help"),
        ("berth.cli.explain", "SIGINT", "explain"),
        ("msgspec", "SIGINT", "run"),
        ("berth.cli.version", "SIGTERM", "version --client"),
        ("berth_workbench.cli", "SIGINT", "whatif --help"),
        ("numpy", "SIGINT", "plugins"),
        ("numpy", "SIGTERM", "plugins"),
    ],
)
def test_a_signal_ends_a_command_quietly_whatever_it_is_importing(module, signal_name, arguments):
    command = [sys.executable, "-c", INTERRUPTED, module, signal_name, *arguments.split()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    number = getattr(signal, signal_name)
    assert (ended.stdout, ended.stderr) == ("", "")
    assert ended.returncode in (-number, 128 + number)  # which a shell calls the same


def test_ctrl_c_in_a_command_is_told_by_the_exit_code_alone(monkeypatch):
    result = run_a_command_that_raises(KeyboardInterrupt(), monkeypatch)
    assert (result.exit_code, result.output) == (130, "")


def test_the_installed_command_sees_to_ctrl_c_first():
    scripts = tomllib.loads((ROOT / "packages/scheduler/pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["berth"] == "berth.__main__:main"
    script = "import sys; before = set(sys.modules); import berth; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.split() == ["berth"]
