"""`berth wait`: how long pending pods will wait, and which pods have to end first."""

from collections.abc import Sequence
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

if TYPE_CHECKING:
    from rich.console import Console

    from berth_workbench.planning.waiting import Waits
    from berth_workbench.simulation.steps import Step
    from berth_workbench.snapshot.snapshot import Snapshot

ROWS_SHOWN = 20


@click.command(cls=OrderedCommand)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@cluster_options
@manifests_option
@change_options
@click.option(
    "--durations", default="", metavar="FILE", help="How long pods run: seconds by workload, as namespace/name."
)
@click.option("--trace", default="", metavar="FILE", help="The same, from a workload over time of `berth trace`.")
@click.option(
    "--within",
    type=click.FloatRange(0, 10_000),
    default=7.0,
    show_default=True,
    metavar="DAYS",
    help="How far to look ahead.",
)
@namespace_option
@click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken.")
@config_option
@plugin_option
@gates_option
@output_option
def command(
    pods: tuple[str, ...],
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    durations: str,
    trace: str,
    within: float,
    namespace: str,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
) -> None:
    """Say when pending pods get their places: all of them, or those named, as POD or NAMESPACE/POD.

    Running pods end by their deadlines, by those of their Jobs, or when such pods usually do (--durations, --trace).
    Nobody new comes meanwhile, but for the pods of -f, which wait as well.
    """
    from berth_workbench.simulation.steps import Manifests

    steps = typed_changes()
    runs = _read_durations(durations, trace)
    documents = read_manifests(manifests, namespace)
    if documents:
        steps.append(Manifests(documents, f"apply {', '.join(manifests)}"))
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    found = _asked(
        snapshot,
        [name if "/" in name else f"{namespace}/{name}" for name in pods],
        steps,
        config=setup.config,
        registry=setup.registry,
        seed=seed,
        namespace=namespace,
        durations=runs,
        within_s=within * 86_400,
    )
    for note in found.notes:
        warn(note)
    if is_structured(output):
        print_structured(found, output, assumed=assumed)
    else:
        tell_assumed(assumed)
        print_waits(found, console_for(output), shown=None if output == "wide" else ROWS_SHOWN)
    if not found.is_complete:
        raise click.ClickException("stopped before the end; this is what was found by then")


def _read_durations(path: str, trace: str) -> dict[str, float]:
    from berth.config.document import parse_document
    from berth.config.errors import ConfigError
    from berth_workbench.cli.load_input import read_workload
    from berth_workbench.planning.ends import DurationsError, read_durations
    from berth_workbench.traces.trace import durations_of

    found = durations_of(read_workload(trace).records) if trace else {}
    if not path:
        return found
    try:
        return found | read_durations(parse_document(Path(path).read_bytes(), path))
    except OSError as error:
        raise click.ClickException(f"--durations {path}: {error.strerror or error}") from None
    except (DurationsError, ConfigError) as error:
        raise click.ClickException(f"--durations {path}: {error}") from None


def _asked(snapshot: "Snapshot", names: "list[str]", steps: "Sequence[Step]", **options: object) -> "Waits":
    from berth_workbench.cli.progress import working
    from berth_workbench.planning.waiting import waits_of
    from berth_workbench.planning.whatif import StoppedEarlyError

    with working("loading objects, ending pods") as work:

        def watch(done: int) -> bool:
            work.advance(done)
            return work.is_stopped

        try:
            return waits_of(snapshot, names, steps, watch=watch, **options)  # type: ignore[arg-type] # handed on as typed
        except StoppedEarlyError:
            raise click.ClickException("stopped before the cluster was loaded") from None


# -- what is printed -------------------------------------------------------------------------------------------------


def print_waits(found: "Waits", console: "Console", shown: int | None) -> None:
    """Print how long each pod waits, and for whom, in a table of at most `shown` rows."""
    if not found.pods:
        console.print("No pod waits.")
        return
    from berth_workbench.planning.waiting import for_what, how_long

    table = Table(
        "Pod", TableColumn("Waits", "number"), "Node", TableColumn("Ahead", "number"), TableColumn("For", "text")
    )
    for each in found.pods:
        table.add(each.pod, how_long(each), each.node or "-", len(each.ahead), for_what(each, found.within_s))
    table.print(console, shown)
    known, all_running = found.ends_known, found.ends_known + found.without_end
    console.print(f"From {found.now} on. Of {known:,} of {all_running:,} running pods it is known when they end.")
