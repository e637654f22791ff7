"""`berth autoscale`: which nodes a backlog takes, which nodes nobody needs, and what spot interruptions take away."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option, warn
from berth.cli.table import Table, TableColumn
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.change_flags import OrderedCommand, change_options, typed_changes
from berth_workbench.cli.cluster_input import (
    cluster_options,
    manifests_option,
    namespace_option,
    read_manifests,
)
from berth_workbench.cli.load_input import read_prices

if TYPE_CHECKING:
    from rich.console import Console

    from berth_workbench.planning.autoscale import AutoscalePlan
    from berth_workbench.planning.more_nodes import MoreNodes
    from berth_workbench.planning.node_groups import NodeGroupSpec
    from berth_workbench.simulation.steps import Step
    from berth_workbench.snapshot.snapshot import Snapshot

ROWS_SHOWN = 20


@click.command(cls=OrderedCommand)
@click.option(
    "--groups", "groups_file", required=True, metavar="FILE", help="The node groups: name, min, max, price, spot, like."
)
@cluster_options
@manifests_option
@change_options
@click.option("--prices", default="", metavar="FILE", help="What nodes cost, where their group does not say so.")
@click.option(
    "--used",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="Try to remove nodes of which no more is requested.",
)
@click.option(
    "--at-most",
    type=click.IntRange(0, 1_000_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Try to remove so many nodes, the least used first.",
)
@namespace_option
@click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken.")
@config_option
@plugin_option
@gates_option
@output_option
def command(
    groups_file: str,
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    prices: str,
    used: float,
    at_most: int,
    namespace: str,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
) -> None:
    """Say what an autoscaler could do: which nodes of which groups the backlog takes, and which nodes nobody needs.

    The backlog is what has no place in the cluster, after the changes and with the manifests of -f. Of spot groups it
    is said who is lost when all of their nodes are taken away at once.
    """
    from berth_workbench.simulation.steps import Manifests

    steps = typed_changes()
    groups = _read_groups(groups_file)
    costs = read_prices(prices)
    documents = read_manifests(manifests, namespace)
    if documents:
        steps.append(Manifests(documents, f"apply {', '.join(manifests)}"))
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    found = _asked(
        snapshot,
        groups,
        steps,
        config=setup.config,
        registry=setup.registry,
        seed=seed,
        namespace=namespace,
        prices=costs,
        used_at_most=used,
        tried_at_most=at_most,
    )
    for note in found.notes:
        warn(note)
    if is_structured(output):
        print_structured(found, output, assumed=assumed)
    else:
        tell_assumed(assumed)
        print_plan(found, console_for(output), shown=None if output == "wide" else ROWS_SHOWN)


def _read_groups(path: str) -> "list[NodeGroupSpec]":
    from berth.config.document import parse_document
    from berth.config.errors import ConfigError
    from berth_workbench.planning.node_groups import NodeGroupError, read_groups

    try:
        return read_groups(parse_document(Path(path).read_bytes(), path))
    except OSError as error:
        raise click.ClickException(f"--groups {path}: {error.strerror or error}") from None
    except (NodeGroupError, ConfigError) as error:
        raise click.ClickException(f"--groups {path}: {error}") from None


def _asked(
    snapshot: "Snapshot", groups: "Sequence[NodeGroupSpec]", steps: "Sequence[Step]", **options: object
) -> "AutoscalePlan":
    from berth_workbench.cli.progress import working
    from berth_workbench.planning.autoscale import autoscale_of
    from berth_workbench.planning.whatif import StoppedEarlyError

    with working("loading objects, placing pods") as work:

        def watch(done: int) -> bool:
            work.advance(done)
            return work.is_stopped

        try:
            return autoscale_of(snapshot, groups, steps, watch=watch, **options)  # type: ignore[arg-type] # handed on as typed
        except StoppedEarlyError:
            raise click.ClickException("stopped before the end") from None


# -- what is printed -------------------------------------------------------------------------------------------------


def print_plan(found: "AutoscalePlan", console: "Console", shown: int | None) -> None:
    """Print what could be added, what could go, and what spot can cost, in tables of at most `shown` rows."""
    from berth_workbench.planning.survival import who

    if not found.backlog:
        console.print("No pod waits for room.")
    for sentence in _what_helps(found) if found.backlog else ():
        console.print(sentence, markup=False)
    saves = f", which saves {found.saves:g}" if found.saves else ""
    console.print(f"{len(found.removable):,} nodes can go{saves}; {found.tried:,} were tried.")
    if found.removable and (found.more.nodes or found.moving is not None):
        console.print("What can go is said of the cluster as it is, with nothing added or moved.")
    if found.cost is not None:
        console.print(f"All nodes of the groups cost {found.cost:g} now.")
    console.print()
    numbers = [TableColumn(each, "number") for each in ("Nodes", "Add", "Can go", "Price")]
    table = Table("Group", *numbers, "Spot")
    for group in found.groups:
        price = "-" if group.price is None else f"{group.price:g}"
        table.add(group.name, group.nodes, group.added, group.removed, price, "spot" if group.is_spot else "")
    table.print(console)
    if found.moving is not None:
        table = Table("To be moved", "From", "To")
        for move in found.moving.moves:
            table.add(move.pod, move.before, move.after)
        console.print()
        table.print(console, shown)
    table = Table("Can go, in this order", "Group", *(TableColumn(each, "number") for each in ("Pods move", "Saves")))
    for node in found.removable:
        table.add(node.node, node.group, node.moved, "-" if node.price is None else f"{node.price:g}")
    if table.rows:
        console.print()
        table.print(console, shown)
    numbers = [TableColumn(each, "number") for each in ("Nodes", "Pods", "No place", "Gone")]
    table = Table("Spot group lost", *numbers, TableColumn("Who", "text"))
    for each in found.spot:
        table.add(each.names[0], each.nodes, each.pods, each.unplaced, each.gone, who(each))
    if table.rows:
        console.print()
        table.print(console)


def _what_helps(found: "AutoscalePlan") -> "Iterator[str]":
    """Say what helps the backlog: moves first, since they cost nothing, and then what would have to be added."""
    from berth_workbench.planning.more_nodes import nodes_in_words

    more, moving = found.more, found.moving
    told = _added_in_words(more)
    if moving is None:
        yield f"{found.backlog:,} pods have no place: {told}."
    else:
        rest = f"; for the others: {_added_in_words(moving.more)}" if moving.placed < found.backlog else ""
        yield f"{found.backlog:,} pods have no place."
        yield f"Moving {len(moving.moves):,} pods makes room for {moving.placed:,} of them{rest}."
        yield "berth rebalance plans such moves and carries them out."
        yield f"Without moving any: {told}."
    if more.nodes:
        placed = f"{more.placed:,} of them have a place then"
        yield f"{placed}; with fewer than {more.at_least:,} nodes they cannot have one."
    if found.more_in_turn is not None:
        told = nodes_in_words(found.more_in_turn)
        yield f"That is with the largest pods first; in the order in which they wait: {told}."


def _added_in_words(more: "MoreNodes") -> str:
    from berth_workbench.planning.more_nodes import nodes_in_words

    return nodes_in_words(more) if more.nodes else "no node of these groups helps"
