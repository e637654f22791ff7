"""`berth capacity`: how many more of a pod or workload fit, what limits them, pool by pool."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option, warn
from berth.cli.table import Table, TableColumn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.change_flags import OrderedCommand, change_options, typed_changes
from berth_workbench.cli.cluster_input import (
    cluster_options,
    manifests_option,
    namespace_option,
    read_manifests,
)
from berth_workbench.cli.plot_flag import plot_option

if TYPE_CHECKING:
    from rich.console import Console

    from berth.config.types import SchedulerConfiguration
    from berth.framework.registry import Registry
    from berth_workbench.planning.capacity import Capacity, FreeResource, LimitedBy
    from berth_workbench.simulation.steps import Step
    from berth_workbench.snapshot.documents import Document
    from berth_workbench.snapshot.snapshot import Snapshot

ROWS_SHOWN = 20


@click.command(cls=OrderedCommand)
@cluster_options
@manifests_option
@change_options
@click.option("--pending-first", is_flag=True, help="Place what is pending in the cluster before anything is counted.")
@click.option("--pool-label", default="", metavar="KEY", help="The node label that names a pool; usual ones are known.")
@click.option(
    "--at-most",
    type=click.IntRange(1, 1_000_000),
    default=1_000_000,
    metavar="N",
    help="Stop after so many, where pods have to be placed one by one.",
)
@namespace_option
@click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken.")
@config_option
@plugin_option
@gates_option
@output_option
@plot_option
def command(
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    pending_first: bool,
    pool_label: str,
    at_most: int,
    namespace: str,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
    plot: str,
) -> None:
    """Say how many more pods of -f fit into a cluster, and what limits them.

    Of one pod or workload, pods are counted, whatever its replicas. Of several, sets are: one of each pod, and of each
    workload as many as it has replicas. The number is that which the scheduler would place one after the other,
    preempting nobody. Changes are carried out first.
    """
    if not manifests:
        raise click.UsageError("-f: what is to fit? give the manifest of a pod or of a workload")
    steps = typed_changes()
    documents = read_manifests(manifests, namespace)
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    found = _asked(
        snapshot,
        documents,
        steps,
        config=setup.config,
        registry=setup.registry,
        seed=seed,
        namespace=namespace,
        pool_label=pool_label,
        at_most=at_most,
        pending_first=pending_first,
    )
    if plot:
        from berth_workbench.plots.capacity import plot_capacity

        plot_capacity(plot, found)
    for note in found.notes:
        warn(note)
    if is_structured(output):
        print_structured(found, output, assumed=assumed)
    else:
        tell_assumed(assumed)
        print_capacity(found, console_for(output), shown=None if output == "wide" else ROWS_SHOWN)


def _asked(
    snapshot: "Snapshot",
    documents: "list[Document]",
    steps: "Sequence[Step]",
    *,
    config: "SchedulerConfiguration",
    registry: "Registry",
    seed: int,
    namespace: str,
    pool_label: str,
    at_most: int,
    pending_first: bool,
) -> "Capacity":
    from berth_workbench.cli.progress import working
    from berth_workbench.planning.capacity import capacity_after
    from berth_workbench.planning.whatif import StoppedEarlyError

    with working("placing pods") as work:

        def watch(placed: int) -> bool:
            work.advance(placed)
            return work.is_stopped

        try:
            return capacity_after(
                snapshot,
                documents,
                steps,
                config=config,
                registry=registry,
                seed=seed,
                namespace=namespace,
                pool_label=pool_label,
                at_most=at_most,
                pending_first=pending_first,
                watch=watch,
            )
        except StoppedEarlyError:
            raise click.ClickException("stopped before anything was counted") from None


# -- what is printed -------------------------------------------------------------------------------------------------


def print_capacity(found: "Capacity", console: "Console", shown: int | None) -> None:
    """Print the result as tables of at most `shown` rows."""
    least = "" if found.is_complete else "at least "
    if not found.is_of_sets:
        console.print(legible(f"{found.shapes[0].shape}: {least}{found.fits} more fit"), markup=False)
    else:
        parts = " + ".join(f"{shape.per_set} {shape.shape}" for shape in found.shapes)
        console.print(legible(f"{least}{found.fits} more sets of {parts} fit, {found.pods} pods"), markup=False)
        table = Table("Each on its own", TableColumn("Fit", "number"), TableColumn("Limited by", "text"))
        for shape in found.shapes:
            table.add(shape.shape, shape.fits, _first(shape.limited_by))
        table.print(console)
    if found.limited_by:
        table = Table(TableColumn("Nodes", "number"), TableColumn("What limits them", "text"))
        for each in found.limited_by:
            table.add(each.nodes, each.reason)
        table.print(console, shown)
    if len(found.by_pool) > 1 or any(found.by_pool):
        console.print()
        table = Table(
            "Pool", TableColumn("Nodes", "number"), TableColumn("Fit", "number"), TableColumn("Limited by", "text")
        )
        for name, pool in found.by_pool.items():
            table.add(name or "(none)", pool.nodes, pool.fits, _first(pool.limited_by))
        table.print(console, shown)
    if found.fragmentation:
        console.print()
        _free_table(found.fragmentation).print(console)
    if not found.is_complete:
        console.print("Stopped before the next one no longer fitted.")
    if any(not shape.is_counted for shape in found.shapes) or found.is_of_sets:
        console.print("Placed one by one as the scheduler would; another order may come to another number.")


def _free_table(free: "dict[str, FreeResource]") -> Table:
    from berth_workbench.planning.capacity import amount

    numbers = [TableColumn(each, "number") for each in ("Free", "Usable", "Stranded", "Largest hole")]
    table = Table("Resource", *numbers, "On")
    for resource, each in free.items():
        amounts = (each.free, each.usable, each.stranded, each.largest_hole)
        table.add(resource, *map(amount, amounts), each.largest_hole_on)
    return table


def _first(reasons: "Iterable[LimitedBy]") -> str:
    return ", ".join(f"{each.nodes} {each.reason}" for each in list(reasons)[:2])
