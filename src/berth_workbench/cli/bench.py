"""`berth bench`: how many pods a second the core schedules, in process."""

import sys
from typing import BinaryIO

import click
import msgspec

from berth.cli.output import console_for
from berth.cli.setup import config_option, gates_option, plugin_option, read_setup
from berth.cli.table import Table, TableColumn
from berth_workbench.bench import CheckError, Figures, WorkloadError, run


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON, as for a pipe.")
@click.option(
    "--check", type=click.IntRange(min=0), default=0, metavar="N", help="Recompute N decisions without memos."
)
@click.option("--no-memos", is_flag=True, help="Remember nothing from pod to pod.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of ties and of what is checked.")
@config_option
@plugin_option
@gates_option
def command(
    file: BinaryIO,
    as_json: bool,
    check: int,
    no_memos: bool,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
) -> None:
    """Schedule a workload in process and print the figures.

    FILE holds JSON lines (standard input by default), as benchmarks/scenarios.py writes them: nodes, claims and the
    like, running pods, pending pods. The clock runs from the first Pop to the last Reserve; every node is scored.
    """
    config, registry = read_setup(config_file, plugins, feature_gates)
    try:
        figures = run(file, registry, config=config, check=check, seed=seed, memos=not no_memos)
    except WorkloadError as error:
        raise click.ClickException(f"{file.name}: {error}") from error
    except CheckError as error:
        click.echo(f"check failed: {error}", err=True)
        sys.exit(1)
    if as_json or not sys.stdout.isatty():
        click.echo(msgspec.json.encode(figures).decode())
    else:
        _print(figures)


def _print(figures: Figures) -> None:
    table = Table("Measure", TableColumn("Value", "number"))
    for name, figure in msgspec.structs.asdict(figures).items():
        table.add(name, f"{figure:,}")
    table.print(console_for())
