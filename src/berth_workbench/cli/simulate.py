"""`berth simulate`: a workload over time, lived through with a scheduler in virtual time."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.cli.numbers import FiniteFloatRange
from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option, read_setup
from berth.cli.table import Table, TableColumn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.cli.progress import working

if TYPE_CHECKING:
    from rich.console import Console

    from berth_workbench.simulation.measures import WaitingTimes
    from berth_workbench.traces.result import SimulatedTime

STEPS = 1_000
"""In how many steps progress is told."""


@click.command("simulate", short_help="Live through a workload in virtual time: waits, utilisation, fairness.")
@click.argument("trace", type=click.Path(path_type=Path))
@config_option
@plugin_option
@gates_option
@click.option("--seed", default=0, show_default=True, help="How ties between equally good nodes are broken.")
@click.option(
    "--sample",
    "sample_s",
    default=300.0,
    show_default=True,
    type=FiniteFloatRange(1.0),
    metavar="SECONDS",
    help="How often the cluster is measured, in its own time.",
)
@click.option("--timeline", default="", metavar="FILE", help="Write what every node carried over time, for `berth ui`.")
@plot_option
@output_option
def command(
    trace: Path,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    seed: int,
    sample_s: float,
    timeline: str,
    plot: str,
    output: Output,
) -> None:
    """Live through TRACE, a file of `berth trace`, with the scheduler that `berth run` is.

    Pods start, run, fail, are scaled and preempted in virtual time, thousands of times faster than they would in a
    cluster. The same trace, configuration and seed give the same result. Ctrl-C ends it early and tells what there is.
    """
    from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT
    from berth_workbench.traces.run import TraceRun
    from berth_workbench.traces.trace import read_trace

    config, registry = read_setup(config_file, plugins, feature_gates)
    workload = read_trace(trace)
    run = TraceRun(workload, config=config, registry=registry, seed=seed, sample_s=sample_s)
    with working("simulating", STEPS) as work:
        told = 0

        def progress(share: float) -> bool:
            nonlocal told
            done = int(share * STEPS)
            work.advance(done - told)
            told = done
            return work.is_stopped

        result = run.live(progress)
    if run.cluster.leaves_out_extenders:
        click.echo(f"note: {EXTENDERS_LEFT_OUT}", err=True)
    if timeline:
        try:
            run.time_line.write(timeline, result)
        except OSError as error:
            raise click.ClickException(f"--timeline {timeline}: cannot be written: {error.strerror}") from None
    if plot:
        _draw(result, plot)
    if is_structured(output):
        print_structured(result, output)
        return
    show(result, console_for(output))


def _draw(result: "SimulatedTime", plot: str) -> None:
    from berth_workbench.plots.picture import write_picture
    from berth_workbench.plots.simulated_time import describe, draw

    write_picture(
        plot, lambda figure: draw(result, figure), title=result.source, description=describe(result), size=(9, 8)
    )


def show(result: "SimulatedTime", console: "Console") -> None:
    """Print what became of the workload."""
    console.print(legible(result.source), markup=False, style="bold")
    console.print(
        f"{result.seconds / 3600:.1f} hours: {result.made} pods made, {result.bound} bound, {result.finished} "
        f"finished, {result.failed} failed, {result.preempted} preempted; {result.waiting} wait at the end",
        markup=False,
    )
    shares = {"CPU": result.cpu, "memory": result.memory, **result.resources}
    used = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    cost = f"; the nodes cost {result.cost:g}" if result.cost else ""
    console.print(legible(f"{used} requested on average; fairness {result.fairness:.2f}{cost}"), markup=False)
    numbers = (TableColumn(each, "number") for each in ("Pods", "Mean", "Half", "90 %", "99 %", "Longest"))
    table = Table("Namespace", *numbers, title="How long pods waited for a node, in seconds")
    table.add("all", *_cells(result.waits), style="bold")
    for name, waits in result.waits_by_namespace.items():
        table.add(name, *_cells(waits))
    table.print(console)
    if result.evicted_again_and_again:
        told = "pods would come back and be evicted again and again by the same other; they waited until it had a node"
        console.print(f"{result.evicted_again_and_again} {told}", markup=False)
    for message, count in result.messages.items():
        console.print(legible(f"{count} waiting: {message}"), markup=False)


def _cells(waits: "WaitingTimes") -> list[str]:
    return [str(waits.count), *(f"{each:.1f}" for each in (waits.mean, waits.p50, waits.p90, waits.p99, waits.max))]
