"""`berth sweep`: many runs, seeds by configurations by clusters, in processes here or on a Dask cluster."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.cli.option_rules import never_with
from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.table import Table, TableColumn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import warn_of_extenders
from berth_workbench.cli.progress import EndedEarly, for_option, jobs_option, working

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from berth_workbench.comparison.sweep import SweepResult, SweepSummary

USUAL = ("pending", "waiting.p99", "cost", "nodesUsed", "packing", "fragmentation", "spread.zone.evenness")
"""The measures that the table shows where nobody asks for others: the first few that there are, of CPU and of GPUs."""
FEW = 4
"""How many measures fit a table of 80 columns."""


@click.command()
@for_option
@jobs_option
@never_with("dask", "jobs", because="whose workers do the work")
@click.argument("file", type=click.Path())
@click.option(
    "--results", default="", metavar="DIR", help="Where results are kept. [default: FILE without its suffix, -results]"
)
@click.option("--dask", default="", metavar="ADDRESS", help="Run on this Dask cluster, such as tcp://10.0.0.1:8786.")
@click.option("--measure", "measures", multiple=True, metavar="NAME", help="Show this measure; may be repeated.")
@output_option
def command(file: str, results: str, dask: str, measures: tuple[str, ...], output: Output) -> None:
    """Run every configuration of FILE on every cluster with every seed.

    FILE is YAML: `seeds`, `configurations` and `clusters` by name, and `prices`; see docs/compare.md. Each run that is
    finished is kept in the results directory, and a sweep that was interrupted goes on where it stopped; what has
    changed since runs again. All results are one table there, results.parquet.
    """
    from berth_workbench.comparison.results import ResultsDirectory
    from berth_workbench.comparison.sweep import Sweep, carry_out_sweep

    try:
        sweep = Sweep.read(file)
        directory = ResultsDirectory(results or Path(file).with_name(f"{Path(file).stem}-results"))
        with working("sweeping", total=len(sweep.runs)) as work:
            found = carry_out_sweep(sweep, directory, dask=dask, watch=work)
    except OSError as error:
        raise click.ClickException(f"{error.filename or results}: {error.strerror or error}") from None
    warn_of_extenders(each.task.configuration for each in sweep.runs)
    if is_structured(output):
        print_structured(found, output)
    else:
        print_sweep(found, measures, console_for(output))
    _warn_of_unknown(found, measures)
    _end(found)


def _warn_of_unknown(found: "SweepResult", measures: tuple[str, ...]) -> None:
    """Name the measures that were asked for and are not there; which there are is known only once something has run."""
    known = {each.measure for each in found.summaries}
    for name in measures:
        if known and name not in known:
            there_are = ", ".join(sorted(known))
            click.echo(f"warning: --measure {name}: there is no such measure; there are {there_are}", err=True)


def _end(found: "SweepResult") -> None:
    """Report on standard error what is missing, and exit with code 1 if anything is."""
    if found.table and not found.is_parquet:
        click.echo("the results are JSON lines; for Parquet: pip install 'berth-scheduler[sweep]'", err=True)
    for said, count in found.failed.items():
        click.echo(legible(f"{_runs(count)} failed: {said}"), err=True)
    if not found.is_complete:
        left = found.runs - found.kept - found.done
        failed = sum(found.failed.values())
        them = "it" if left == 1 else "them"
        again = f"tries {them} again" if failed == left else f"goes on with {them}"
        are = "is" if left == 1 else "are"
        ended = click.ClickException if failed else EndedEarly
        raise ended(f"{left} of {_runs(found.runs)} {are} missing; the same command again {again}")


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def print_sweep(found: "SweepResult", measures: tuple[str, ...], console: "Console") -> None:
    """Print a line for each load and configuration, with the means of some measures and how far the seeds vary."""
    cells: dict[tuple[str, str], dict[str, SweepSummary]] = {}
    for each in found.summaries:
        cells.setdefault((each.load, each.configuration), {})[each.measure] = each
    known = {each.measure for each in found.summaries}
    shown = tuple(name for name in measures if name in known) or tuple(_usual(known))[:FEW]
    table = Table("Load", "Configuration", *(TableColumn(legible(name.replace(".", " ")), "number") for name in shown))
    for (load, configuration), by_measure in cells.items():
        table.add(load, configuration, *(_cell(by_measure.get(name)) for name in shown))
    console.print(f"{_runs(found.runs)}: {found.done} carried out, {found.kept} kept from before", markup=False)
    if cells:
        table.print(console)
    if found.table:
        console.print(f"all results: {found.table}", markup=False, soft_wrap=True)


def _usual(known: set[str]) -> "Iterator[str]":
    from berth_workbench.simulation.measures import told_resources

    parted = told_resources(name.partition(".")[2] for name in known if name.startswith("packing."))
    for name in USUAL:
        yield from (
            each for each in (name, *(f"{name}.{part}" for part in parted if part != "memory")) if each in known
        )


def _cell(summary: "SweepSummary | None") -> str:
    from berth_workbench.showing.figures import shown_figure

    if summary is None:
        return ""
    mean = shown_figure(summary.measure, summary.mean)
    return f"{mean} ±{shown_figure(summary.measure, summary.deviation)}" if summary.deviation else mean
