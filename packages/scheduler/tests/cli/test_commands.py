"""Commands that packages bring: found by entry points, in an order, and without harm where a package is broken."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import click
import pytest

from berth.cli import commands as finder
from berth.cli.commands import CommandEntry, Commands, CommandTable


def module(monkeypatch, name, **contents):
    made = ModuleType(name)
    made.__spec__ = object()  # `find_spec` wants one
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.fixture
def installed(monkeypatch):
    """Make these the only entry points: name to what it leads to."""

    def are(**values):
        points = [EntryPoint(name, value, finder.GROUP) for name, value in values.items()]
        monkeypatch.setattr(finder, "entry_points", lambda group: points if group == finder.GROUP else [])

    return are


TABLE = CommandTable("Theirs", {"hello": CommandEntry("stranger.hello", "Say hello.")})


def test_the_scheduler_comes_first_and_the_others_by_name(installed, monkeypatch):
    module(monkeypatch, "zebra", TABLE=CommandTable("Z"))
    module(monkeypatch, "ant", TABLE=CommandTable("A"))
    installed(z="zebra:TABLE", a="ant:TABLE")
    assert [table.title for table in finder.tables()] == ["Schedule", "A", "Z", "Find your way"]


def test_a_package_whose_files_are_gone_is_passed_over_in_silence(installed, capsys):
    installed(gone="a_package_that_is_not_there.cli:TABLE")
    assert finder.tables() == [finder.SCHEDULER, finder.HELP]
    assert capsys.readouterr().err == ""


def test_a_package_that_cannot_be_read_is_named_and_the_others_work(installed, monkeypatch, capsys):
    module(monkeypatch, "broken")
    module(monkeypatch, "odd", TABLE={"hello": "odd.hello"})
    module(monkeypatch, "sound", TABLE=TABLE)
    installed(a="broken:TABLE", b="odd:TABLE", c="sound:TABLE")
    assert finder.tables() == [finder.SCHEDULER, TABLE, finder.HELP]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert "broken:TABLE cannot be read" in told[0]
    assert "odd:TABLE is a dict and not a CommandTable" in told[1]


def test_nobody_takes_a_command_of_the_scheduler_away():
    impostor = CommandTable("Theirs", {"run": CommandEntry("stranger.run", "Mine now.")})
    commands = Commands([finder.SCHEDULER, impostor])
    assert [title for title, _ in commands.sections()] == ["Schedule"]
    ours = __import__("berth.cli.run", fromlist=["command"]).command
    assert commands.load("run").callback is ours.callback


def test_options_are_added_to_somebody_elses_command(monkeypatch):
    greet = click.Command("hello")
    module(monkeypatch, "stranger")
    module(monkeypatch, "stranger.hello", command=greet)
    module(monkeypatch, "louder", extend=lambda command: (command, "louder"))
    commands = Commands([TABLE, CommandTable("More", extensions={"hello": "louder"})])
    assert commands.load("hello") == (greet, "louder")
    assert Commands([TABLE]).load("hello") is greet
    assert commands.load("nothing") is None
