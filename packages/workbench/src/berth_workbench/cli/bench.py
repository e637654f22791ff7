"""`berth bench`: how many pods a second the core schedules, in process; and upstream's own benchmark, also live."""

import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from berth.cli.output import console_for
from berth.cli.setup import BadConfigurationError, config_option, gates_option, plugin_option, read_setup
from berth.cli.table import Table, TableColumn
from berth_workbench.bench import CheckError, Figures, WorkloadError, run
from berth_workbench.scheduler_perf.documents import PerfWorkload, read_workloads
from berth_workbench.scheduler_perf.play import PerfFigures
from berth_workbench.scheduler_perf.run import play_in_process, play_live

DOCUMENTS = (".yaml", ".yml")


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON, as for a pipe.")
@click.option(
    "--check", type=click.IntRange(min=0), default=0, metavar="N", help="Recompute N decisions without memos."
)
@click.option("--no-memos", is_flag=True, help="Remember nothing from pod to pod.")
@click.option("--workload", "pattern", default="*", metavar="TEST/WORKLOAD", help="Which of FILE's; * is any text.")
@click.option("--label", "labels", multiple=True, help="Only workloads of FILE that have this label; may be repeated.")
@click.option("--kubeconfig", metavar="FILE", help="Play FILE on this cluster, whose scheduler is what is measured.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of ties and of what is checked.")
@config_option
@plugin_option
@gates_option
def command(
    file: BinaryIO,
    as_json: bool,
    check: int,
    no_memos: bool,
    pattern: str,
    labels: tuple[str, ...],
    kubeconfig: str | None,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
) -> None:
    """Schedule a workload in process and print the figures.

    FILE holds JSON lines (standard input by default), as benchmarks/scenarios.py writes them: nodes, claims and the
    like, running pods, pending pods. The clock runs from the first Pop to the last Reserve; every node is scored.

    A FILE.yaml is one of scheduler_perf's, kube-scheduler's own benchmark, with its templates beside it. Its workloads
    are played in process or, with --kubeconfig, on a cluster; beside each figure is what upstream's CI demands.
    """
    name = getattr(file, "name", "") or "standard input"  # what stands in for standard input may have none
    if name.endswith(DOCUMENTS):
        chosen = (
            workload
            for workload in read_workloads(Path(name))
            if fnmatchcase(workload.title, pattern) and workload.labels.issuperset(labels)
        )
        _tell(_played(chosen, kubeconfig, config_file, plugins, feature_gates), as_json)
        return
    config, registry = read_setup(config_file, plugins, feature_gates)
    try:
        figures = run(file, registry, config=config, check=check, seed=seed, memos=not no_memos)
    except WorkloadError as error:
        raise click.ClickException(f"{name}: {error}") from error
    except CheckError as error:
        click.echo(f"check failed: {error}", err=True)
        sys.exit(1)
    if as_json or not sys.stdout.isatty():
        click.echo(msgspec.json.encode(figures).decode())
    else:
        _print(figures)


def _played(
    workloads: Iterator[PerfWorkload], kubeconfig: str | None, config_file: str, plugins: tuple[str, ...], gates: str
) -> Iterator[PerfFigures]:
    for workload in workloads:
        if kubeconfig is not None:
            yield play_live(workload, kubeconfig)
            continue
        given = [f"{name}={str(value).lower()}" for name, value in workload.gates_here.items()]
        try:
            setup = read_setup(workload.config_file or config_file, plugins, ",".join(filter(None, (*given, gates))))
        except BadConfigurationError as error:
            if not given:
                raise
            yield PerfFigures(workload.title, threshold=workload.threshold, not_played=error.message)
            continue
        yield play_in_process(workload, *setup)


def _tell(played: Iterator[PerfFigures], as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        for figures in played:
            click.echo(msgspec.json.encode(figures).decode())
        return
    columns = [TableColumn(name, "number") for name in ("Nodes", "Pods", "Without a node", "Pods/s", "Demanded")]
    table = Table("Workload", *columns, "Notes")
    for each in played:
        table.add(
            each.workload,
            *(f"{number:,}" for number in (each.nodes, each.pods, each.failed, each.pods_per_s)),
            "" if each.threshold is None else f"{each.threshold:,.0f}",
            "; ".join((f"not played: {each.not_played}",) if each.not_played else each.notes),
        )
    table.print(console_for())


def _print(figures: Figures) -> None:
    table = Table("Measure", TableColumn("Value", "number"))
    for name, figure in msgspec.structs.asdict(figures).items():
        table.add(name, f"{figure:,}")
    table.print(console_for())
