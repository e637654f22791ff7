"""Flags for changes of a cluster, `--drain NODE` and the like, that count in the order in which they are typed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from berth.cli.known_names import Completer, complete_node, complete_pod, complete_zone

if TYPE_CHECKING:
    from berth_workbench.simulation.steps import Step

Command = TypeVar("Command", bound=Callable[..., Any])

_TYPED: Final = "berth.changes"


class ChangeFlag(NamedTuple):
    """A flag, what follows it, and the change that it stands for."""

    flag: str
    metavar: str
    step: str
    help: str
    completes: "Completer | None" = None
    """What completes the name behind the flag."""


SCENARIO: Final = "scenario"

CHANGE_FLAGS: Final = (
    ChangeFlag("--scenario", "FILE", SCENARIO, "Changes in a file, one after the other."),
    ChangeFlag(
        "--drain", "NODE", "drain", "Cordon nodes and evict their pods, within disruption budgets.", complete_node
    ),
    ChangeFlag("--cordon", "NODE", "cordon", "Let no more pods onto nodes.", complete_node),
    ChangeFlag("--uncordon", "NODE", "uncordon", "Let pods onto nodes again.", complete_node),
    ChangeFlag("--add-nodes", "N=LIKE-NODE", "addNodes", "Add nodes like one that is there."),
    ChangeFlag(
        "--remove-nodes", "NODE", "removeNodes", "Take nodes away at once, whatever budgets say.", complete_node
    ),
    ChangeFlag("--lose-zone", "ZONE", "loseZone", "Take all nodes of a zone away at once.", complete_zone),
    ChangeFlag("--scale", "KIND/NAME=N", "scale", "Give a workload another number of replicas."),
    ChangeFlag("--delete", "KIND/NAME", "delete", "Delete a workload."),
    ChangeFlag("--evict", "POD[,POD…]", "evict", "Evict pods at once, within disruption budgets.", complete_pod),
    ChangeFlag("--upgrade", "NODE", "upgrade", "Drain nodes and bring them back, one after the other.", complete_node),
    ChangeFlag("--taint", "NODE:KEY[=VALUE]:EFFECT", "taint", "Taint nodes."),
    ChangeFlag("--untaint", "NODE:KEY[:EFFECT]", "untaint", "Take a taint off nodes."),
    ChangeFlag("--label", "NODE:KEY=VALUE", "label", "Label nodes; KEY- takes a label off."),
)


class OrderedCommand(click.Command):
    """A command that remembers in which order its change flags were typed; see `typed_changes`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual, and note the order first."""
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        steps = {each.flag: each.step for each in CHANGE_FLAGS}
        typed: list[tuple[str, str]] = []
        taken: dict[str, int] = {}
        for param in order:
            step = steps.get(param.opts[0]) if isinstance(param, click.Option) else None
            if step is None or param.name is None:
                continue
            number = taken.get(param.name, 0)
            taken[param.name] = number + 1
            typed.append((step, values[param.name][number]))
        ctx.meta[_TYPED] = typed
        return super().parse_args(ctx, args)


def change_options(command: Command) -> Command:
    """Add the flags of all changes to an `OrderedCommand`; they are received as nothing, see `typed_changes`."""
    for each in reversed(CHANGE_FLAGS):
        command = click.option(
            each.flag,
            multiple=True,
            metavar=each.metavar,
            help=each.help,
            expose_value=False,
            shell_complete=each.completes,
        )(command)
    return command


def typed_changes() -> "list[Step]":
    """Return the changes of the command line in the order in which they were typed.

    Raises `click.UsageError` for a flag, and `click.ClickException` or `UserError` for what is wrong with a file.
    """
    from berth_workbench.planning.scenario import read_scenario
    from berth_workbench.simulation.changes import ChangeError, parse_flag

    flags = {each.step: each.flag for each in CHANGE_FLAGS}
    found: list[Step] = []
    for step, text in click.get_current_context().meta[_TYPED]:
        try:
            found += read_scenario(text) if step == SCENARIO else [parse_flag(step, text)]
        except ChangeError as error:
            if step == SCENARIO:
                raise click.ClickException(f"--scenario: {error}") from None
            raise click.UsageError(f"{flags[step]}: {error}") from None
    return found
