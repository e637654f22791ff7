"""The command `berth`: a group whose commands are imported only when they are used.

Each command is a module of this package that exposes `command`; the table below is all that the group knows of it,
so that `berth --help` need not import the scheduler. Words in, exit code out: 0 clean, 1 failed, 2 wrong usage.
"""

import gc
import importlib
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import click


class _Entry(NamedTuple):
    """Where a command lives, and its line in the help."""

    module: str
    help: str


YOUNG_OBJECTS = 20_000
"""How many new objects there may be before cycles are looked for. A scheduler keeps most of what it makes, and makes no
cycles on its main path: at Python's own 700 the search takes a tenth of the time of a scheduling cycle."""

_COMMANDS: Mapping[str, _Entry] = MappingProxyType(
    {
        "demo": _Entry("berth.cli.demo", "See it work: a cluster, some workloads, where each pod went and why."),
        "up": _Entry("berth.cli.up", "An embedded cluster with hollow nodes and the scheduler."),
        "run": _Entry("berth.cli.run", "The scheduler, against a real API server."),
        "apiserver": _Entry("berth.cli.apiserver", "The embedded API server alone."),
        "extender": _Entry("berth.cli.extender", "Our plugins for a stock kube-scheduler, as an extender."),
        "explain": _Entry("berth.cli.explain", "Why a pod went where it went, or why it is pending."),
        "ui": _Entry("berth.cli.ui", "A page that shows the cluster and every decision."),
        "top": _Entry("berth.cli.top", "The same in a terminal."),
        "snapshot": _Entry("berth.cli.snapshot", "Keep a cluster in a file, to try things on."),
        "whatif": _Entry(
            "berth.cli.whatif", "What happens to a cluster if: drains, lost zones, new nodes and workloads."
        ),
        "capacity": _Entry("berth.cli.capacity", "How many more pods of a shape fit, and what limits them."),
        "rebalance": _Entry("berth.cli.rebalance", "Which running pods to move so that the cluster becomes better."),
        "compare": _Entry("berth.cli.compare", "Two configurations on the same pods: what differs, and why."),
        "tune": _Entry("berth.cli.tune", "Search the weights that serve an objective best on your cluster."),
        "sweep": _Entry("berth.cli.sweep", "Many runs: seeds by configurations by clusters, here or on Dask."),
        "trace": _Entry("berth.cli.trace", "Make workloads over time, from others' traces or from a pattern."),
        "simulate": _Entry("berth.cli.simulate", "Live through a workload in virtual time: waits, utilisation."),
        "replay": _Entry("berth.cli.replay", "What was recorded, once more: the same, or where it first differs."),
        "decide": _Entry("berth.cli.decide", "Replay scheduling cases: JSON lines in, decisions out."),
        "impact": _Entry("berth.cli.impact", "What moving from v1.20 to v1.36 changes, and which plugin causes it."),
        "bench": _Entry("berth.cli.bench", "Measure the scheduling of a workload file."),
        "plugins": _Entry("berth.cli.plugins", "Which plugins there are, and whether they work."),
        "new-plugin": _Entry("berth.cli.new_plugin", "Write a package with a plugin, ready to install."),
    }
)


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which a newcomer meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; None where there is none."""
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = importlib.import_module(entry.module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what it ends with names things of files and clusters, which must not steer a terminal."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            from berth.runtime.observing.logs import legible

            error.message = legible(error.message)  # type: ignore[misc] # final to click; what is shown is made of it
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that was typed; a wrong one is answered with the names there are."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _COMMANDS:
            ctx.fail(f"there is no command {name!r}; the commands are {', '.join(_COMMANDS)}")
        return super().resolve_command(ctx, args)


def print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    """`--version`; the metadata is read only when asked for."""
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"berth {version('berth-scheduler')} (Python {sys.version.split()[0]})")
    ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=print_version, help="Show the version."
)
def main() -> None:
    """A Kubernetes scheduler: kube-scheduler's decisions, every node scored, every decision explained."""
    gc.set_threshold(YOUNG_OBJECTS)
