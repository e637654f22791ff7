"""Which commands there are: the scheduler's own, and those that other packages bring.

A package brings commands by an entry point of the group `berth.commands` that leads to a `CommandTable`. The embedded
cluster and the workbench do so, and so may any package of plugins. A table names modules instead of importing them, so
that `berth --help` costs no more than reading the tables. A package that is not there is passed over; one whose table
cannot be read is named in a warning, and keeps none of the other commands from working.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, metadata
from importlib.util import find_spec
from typing import NamedTuple

import click

from berth.cli.help_text import CommandExample, with_examples

GROUP = "berth.commands"


class CommandEntry(NamedTuple):
    """Where a command lives, its line in the help, and how it is used."""

    module: str
    """The module that has the click command as `command`, or what `made_by` makes it of."""
    help: str
    examples: tuple[CommandExample, ...] = ()
    made_by: str = ""
    """The module whose `command_of(module)` makes the command, where many are made in the same way."""


class CommandTable(NamedTuple):
    """What a package adds to the command line."""

    title: str
    """What the help calls these commands together."""
    commands: Mapping[str, CommandEntry] = {}
    extensions: Mapping[str, str] = {}
    """By the name of somebody else's command, the module whose `extend(command)` returns it with further options."""


SCHEDULER = CommandTable(
    "Schedule",
    {
        "run": CommandEntry(
            "berth.cli.run",
            "The scheduler, against a real API server.",
            (
                CommandExample("Schedule the cluster that kubectl talks to.", "berth run --kubeconfig ~/.kube/config"),
                CommandExample(
                    "As kube-scheduler is configured, and with a recording of all decisions.",
                    "berth run --config scheduler.yaml --record /var/lib/berth/recording",
                ),
            ),
        ),
        "explain": CommandEntry(
            "berth.cli.explain",
            "Why a pod went where it went, or why it is pending.",
            (
                CommandExample("Everything that is pending, by workload.", "berth explain"),
                CommandExample("One pod: its scores, what ruled nodes out, its story.", "berth explain web-1 -n shop"),
                CommandExample("All pods of a Deployment, a row each.", "berth explain deploy/web -n shop"),
                CommandExample(
                    "The nodes of pods with a label, for a script.",
                    "berth explain -A -l app=web -o jsonpath='{.pods[*].decision.node}'",
                ),
            ),
        ),
        "observe": CommandEntry(
            "berth.cli.observe",
            "Another scheduler's decisions, judged beside it.",
            (
                CommandExample(
                    "What kubectl has watched, without a cluster.",
                    "berth observe --events nodes.json --events pods.json",
                ),
                CommandExample("Each pod, for a program.", "berth observe --events stream.jsonl.gz -o json"),
            ),
        ),
        "extender": CommandEntry(
            "berth.cli.extender",
            "Our plugins for a stock kube-scheduler, as an extender.",
            (
                CommandExample(
                    "Serve one plugin to a kube-scheduler.", "berth extender --plugin quiet_rack.py:QuietRack"
                ),
                CommandExample(
                    "Follow no cluster: judge the nodes that requests bring.",
                    "berth extender --config scheduler.yaml --without-cluster --port 8888",
                ),
            ),
        ),
        "plugins": CommandEntry(
            "berth.cli.plugins",
            "Which plugins there are, and whether they work.",
            (
                CommandExample(
                    "Does mine load, and which points does it have?", "berth plugins --plugin quiet_rack.py:QuietRack"
                ),
                CommandExample("What does this configuration enable?", "berth plugins --config scheduler.yaml -o wide"),
            ),
        ),
        "new-plugin": CommandEntry(
            "berth.cli.new_plugin",
            "Write a package with a plugin, ready to install.",
            (
                CommandExample("A package ./quiet-rack with the plugin QuietRack.", "berth new-plugin quiet-rack"),
                CommandExample("Beside your other ones.", "berth new-plugin spread-licences"),
            ),
        ),
    },
)
HELP = CommandTable(
    "Find your way",
    {
        "version": CommandEntry(
            "berth.cli.version",
            "This version, and that of the scheduler in use.",
            (
                CommandExample("Here and in the cluster.", "berth version"),
                CommandExample("Only here, for a script.", "berth version --client -o jsonpath={.client.version}"),
            ),
        ),
        "completion": CommandEntry(
            "berth.cli.completion",
            "Let the shell complete commands, options and names.",
            (
                CommandExample("For bash; the same with zsh.", "berth completion bash >> ~/.bashrc"),
                CommandExample("For fish.", "berth completion fish > ~/.config/fish/completions/berth.fish"),
            ),
        ),
    },
)
"""Comes last in the help."""


def tables() -> list[CommandTable]:
    """The scheduler's own table and those of all packages that are installed, by the names of their entry points."""
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [SCHEDULER, *_read(found), HELP]


def extras_with_commands() -> list[str]:
    """The extras of the distribution that bring commands and are not installed; empty where it is run from sources."""
    try:
        offered = metadata("berth-scheduler").get_all("Provides-Extra", [])
    except PackageNotFoundError:
        return []
    there = {point.name for point in entry_points(group=GROUP) if _is_there(point)}
    return [extra for extra in ("workbench", "cluster", "kueue") if extra in offered and extra not in there]


def _is_there(point: EntryPoint) -> bool:
    """Say whether the files of an entry point are there: they may have been taken away, or never been put there."""
    return find_spec(point.module.partition(".")[0]) is not None


def _read(points: Sequence[EntryPoint]) -> Iterator[CommandTable]:
    for point in points:
        if not _is_there(point):
            continue
        try:
            table = point.load()
        except Exception as error:  # a stranger's module may raise anything
            click.echo(f"berth: the commands of {point.value} cannot be read: {error}", err=True)
            continue
        if isinstance(table, CommandTable):
            yield table
        else:
            click.echo(f"berth: {point.value} is a {type(table).__name__} and not a CommandTable", err=True)


class Commands:
    """The commands of several tables. Where two have one of the same name, the first table's is meant."""

    __slots__ = ("_entries", "_tables")

    def __init__(self, tables: Sequence[CommandTable]) -> None:
        self._tables = tables
        self._entries: dict[str, CommandEntry] = {}
        for table in tables:
            for name, entry in table.commands.items():
                self._entries.setdefault(name, entry)

    @property
    def names(self) -> list[str]:
        """All names, the scheduler's first."""
        return list(self._entries)

    def sections(self) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        """Yield for each table its title, and name and help of each of its commands."""
        for table in self._tables:
            rows = [(name, entry.help) for name, entry in table.commands.items() if self._entries[name] is entry]
            if rows:
                yield table.title, rows

    def examples(self) -> Iterator[tuple[str, CommandExample]]:
        """Yield each example with the name of its command."""
        for name, entry in self._entries.items():
            yield from ((name, example) for example in entry.examples)

    def load(self, name: str) -> click.Command | None:
        """Import a command, with its examples and the options that other packages add; None where there is none."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        module = importlib.import_module(entry.module)
        command: click.Command = (
            importlib.import_module(entry.made_by).command_of(module) if entry.made_by else module.command
        )
        for table in self._tables:
            if name in table.extensions:
                command = importlib.import_module(table.extensions[name]).extend(command)
        return with_examples(command, entry.examples, f"berth {name}") if entry.examples else command
