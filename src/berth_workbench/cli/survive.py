"""`berth survive`: which nodes, zones and pools a cluster can lose, who is lost with them, and what it would take."""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option, warn
from berth.cli.table import Table, TableColumn
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.change_flags import OrderedCommand, change_options, typed_changes
from berth_workbench.cli.cluster_input import cluster_options
from berth_workbench.cli.load_input import read_prices

if TYPE_CHECKING:
    from rich.console import Console

    from berth.config.types import SchedulerConfiguration
    from berth.framework.registry import Registry
    from berth_workbench.planning.survival import Failure, Kind, Survival
    from berth_workbench.simulation.prices import Prices
    from berth_workbench.simulation.steps import Step
    from berth_workbench.snapshot.snapshot import Snapshot

ROWS_SHOWN = 20


@click.command(cls=OrderedCommand)
@cluster_options
@change_options
@click.option(
    "--of",
    "kinds",
    type=click.Choice(["node", "zone", "pool"]),
    multiple=True,
    help="What is lost; may be repeated. By default all three.",
)
@click.option("--pairs", is_flag=True, help="Lose two of a kind at once, too.")
@click.option(
    "--at-most",
    type=click.IntRange(0, 1_000_000),
    default=200,
    show_default=True,
    metavar="N",
    help="Simulate so many failures; of others that nothing is proven of, give a bound.",
)
@click.option("--prices", default="", metavar="FILE", help="What nodes cost, by instance type or name.")
@click.option("--pool-label", default="", metavar="KEY", help="The node label that names a pool; usual ones are known.")
@click.option("--fail-on-loss", is_flag=True, help="Exit with 1 unless every failure of one is survived for certain.")
@click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken.")
@config_option
@plugin_option
@gates_option
@output_option
def command(
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    kinds: "tuple[Kind, ...]",
    pairs: bool,
    at_most: int,
    prices: str,
    pool_label: str,
    fail_on_loss: bool,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
) -> None:
    """Lose every node, zone and pool of a cluster, one after the other, and say which of it the cluster survives.

    For each: who has no place then, which budgets have fewer healthy pods than they demand, and how many more nodes it
    would take. Most nodes are answered by proof; the others are lost in a simulation. Changes are carried out first.
    """
    steps = typed_changes()
    costs = read_prices(prices)
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    found = _asked(
        snapshot,
        steps,
        config=setup.config,
        registry=setup.registry,
        seed=seed,
        kinds=kinds,
        pairs=pairs,
        pool_label=pool_label,
        prices=costs,
        at_most=at_most,
    )
    for note in found.notes:
        warn(note)
    if is_structured(output):
        print_structured(found, output, assumed=assumed)
    else:
        tell_assumed(assumed)
        print_survival(found, console_for(output), shown=None if output == "wide" else ROWS_SHOWN)
    if not found.is_complete:
        raise click.ClickException("stopped before the end; this is what was answered by then")
    if fail_on_loss and any(each.at_once == 1 and each.survived < each.failures for each in found.kinds):
        sys.exit(1)


def _asked(
    snapshot: "Snapshot",
    steps: "Sequence[Step]",
    *,
    config: "SchedulerConfiguration",
    registry: "Registry",
    seed: int,
    kinds: "Sequence[Kind]",
    pairs: bool,
    pool_label: str,
    prices: "Prices | None",
    at_most: int,
) -> "Survival":
    from berth_workbench.cli.progress import working
    from berth_workbench.planning.survival import KINDS, survival_of
    from berth_workbench.planning.whatif import StoppedEarlyError

    with working("losing nodes") as work:

        def watch(done: int) -> bool:
            work.advance(done)
            return work.is_stopped

        try:
            return survival_of(
                snapshot,
                steps,
                config=config,
                registry=registry,
                seed=seed,
                kinds=kinds or KINDS,
                pairs=pairs,
                pool_label=pool_label,
                prices=prices,
                simulated_at_most=at_most,
                watch=watch,
            )
        except StoppedEarlyError:
            raise click.ClickException("stopped before the cluster was loaded") from None


# -- what is printed -------------------------------------------------------------------------------------------------


def print_survival(found: "Survival", console: "Console", shown: int | None) -> None:
    """Print what is survived, and of what is not the worst `shown` rows."""
    table = Table("Lost", *(TableColumn(each, "number") for each in ("Failures", "Survived", "Not", "Unknown")))
    for each in found.kinds:
        name = each.kind if each.at_once == 1 else f"two {each.kind}s"
        lost = each.failures - each.survived - each.unknown
        table.add(name, f"{each.failures:,}", f"{each.survived:,}", f"{lost:,}", f"{each.unknown:,}")
    table.print(console)
    if found.any_nodes:
        which = "Any one node" if found.any_nodes == 1 else f"Any {found.any_nodes} nodes"
        console.print(f"{which} can be lost at once: every pod that is replaced finds a place, by proof.")
    else:
        console.print("Of no number of nodes it is proven that any of them can be lost.")
    if found.pending:
        console.print(f"{found.pending:,} pods have no place as it is; they do not count.")
    bad = [each for each in found.failures if not each.survives]
    _print_failures(bad, console, shown)
    _print_budgets(found.failures, console, shown)


def _print_failures(failures: "Iterable[Failure]", console: "Console", shown: int | None) -> None:
    from berth_workbench.planning.survival import named, takes, who

    table = Table(
        "Lost",
        *(TableColumn(each, "number") for each in ("Pods", "No place", "Gone")),
        TableColumn("Who", "text"),
        TableColumn("What it takes", "text"),
    )
    for each in failures:
        most = "" if each.is_exact else "≤ "
        table.add(named(each), f"{each.pods:,}", f"{most}{each.unplaced:,}", f"{each.gone:,}", who(each), takes(each))
    if table.rows:
        console.print()
        table.print(console, shown)


def _print_budgets(failures: "Iterable[Failure]", console: "Console", shown: int | None) -> None:
    from berth_workbench.planning.survival import named

    table = Table(
        "Lost",
        "Budget",
        *(TableColumn(each, "number") for each in ("Healthy", "Demands")),
        TableColumn("For how long", "text"),
    )
    for failure in failures:
        for each in failure.budgets:
            lasting = "it lasts" if each.is_lasting else "until others have started"
            table.add(named(failure), each.name, each.healthy, each.demanded, lasting)
    if table.rows:
        console.print()
        table.print(console, shown)
