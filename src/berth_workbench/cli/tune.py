"""`berth tune`: the weights that serve an objective best on a cluster or a workload, and the trade-off between two."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.cli.option_rules import never_with
from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option
from berth.cli.table import Table, TableColumn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked, tell_assumed, warn_of_extenders
from berth_workbench.cli.cluster_input import cluster_options, manifests_option
from berth_workbench.cli.load_input import (
    load_on,
    load_options,
    read_configuration,
    read_prices,
    read_workload,
    refuse_beside_trace,
)
from berth_workbench.cli.plot_flag import plot_option

if TYPE_CHECKING:
    from rich.console import Console

    from berth_workbench.comparison.loads import Load
    from berth_workbench.comparison.tune import TunedPoint, TuningResult


@click.command()
@never_with("dask", "jobs", because="whose workers do the work")
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    required=True,
    metavar="MEASURE",
    help="What to improve: a measure of `berth compare`, such as cost, packing.cpu or min:nodesUsed, or a sum such as "
    "cost:2,waiting.p99:1. Given twice, the trade-off between both is searched.",
)
@cluster_options
@manifests_option
@load_options
@config_option
@click.option("--plugins", "tuned", default="", metavar="NAME,...", help="Tune these only. [default: all that score]")
@click.option("--budget", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many runs.")
@click.option("--seeds", type=click.IntRange(1, 100), default=3, show_default=True, help="How often each one runs.")
@click.option("--seed", type=int, default=0, show_default=True, help="The first of the seeds, and of the search.")
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=None, help="How many processes. [default: one for each CPU]"
)
@click.option("--dask", default="", metavar="ADDRESS", help="Run on this Dask cluster, such as tcp://10.0.0.1:8786.")
@click.option("--write", default="", metavar="FILE", help="Write the best configuration into this file.")
@plugin_option
@gates_option
@output_option
@plot_option
def command(
    objectives: tuple[str, ...],
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    trace: str,
    replace_all: bool,
    prices: str,
    config_file: str,
    tuned: str,
    budget: int,
    seeds: int,
    seed: int,
    jobs: int | None,
    dask: str,
    write: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
    plot: str,
) -> None:
    """Search weights that serve an objective best, and print the configuration.

    The weights of the plugins that score are tuned, and whether NodeResourcesFit prefers empty or full nodes, from the
    configuration of --config or the default one. The best is run again with seeds that the search has not seen, and
    what is told of it comes from there. A configuration that leaves more pods without a node is never the best.
    """
    from berth_workbench.cli.progress import working
    from berth_workbench.comparison.executors import workers
    from berth_workbench.comparison.loads import hash_of, packed
    from berth_workbench.comparison.objectives import Objective
    from berth_workbench.comparison.results import ResultsDirectory
    from berth_workbench.comparison.settings import SettingSpace
    from berth_workbench.comparison.tune import Tuner, tune

    refuse_beside_trace(trace, cluster, kubeconfig, context, manifests, replaces_all=replace_all)
    load: Load
    assumed = ""
    if trace:
        base, load = read_configuration(config_file or "default", plugins, feature_gates), read_workload(trace)
    else:
        snapshot, base, _, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
        load = load_on(snapshot, manifests, replaces_all=replace_all)
    warn_of_extenders([base])
    costs = read_prices(prices)
    wanted = [Objective.parse(text) for text in objectives]
    space = SettingSpace(base, tuple(name for name in tuned.split(",") if name))
    content = packed(load)
    name = hash_of(content)
    with ExitStack() as stack:
        work = stack.enter_context(working("tuning", total=budget))
        kept = ResultsDirectory(stack.enter_context(tempfile.TemporaryDirectory())).keep_input(name, content)
        carry = stack.enter_context(workers({name: kept}, jobs=jobs or os.cpu_count() or 1, dask=dask))
        tuner = Tuner(
            space,
            carry,
            name,
            seeds=seeds,
            seed=seed,
            prices=costs,
            told=work.advance,
            is_stopped=lambda: work.is_stopped,
        )
        found = tune(tuner, wanted, base.name, budget=budget, load=load)
    if plot:
        from berth_workbench.plots.tune import plot_tuning

        plot_tuning(plot, found)
    if write:
        _write(write, found.document)
    if is_structured(output):
        print_structured(found, output, assumed=assumed)
    else:
        tell_assumed(assumed)
        print_tuning(found, console_for(output))
        if not write:
            click.echo(f"---\n{_as_yaml(found.document)}", nl=False)
    if not found.is_complete:
        raise click.ClickException("stopped before the end; this is the best that was found by then")


def _as_yaml(document: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(document, sort_keys=False, default_flow_style=False)


def _write(path: str, document: dict[str, Any]) -> None:
    try:
        Path(path).write_text(_as_yaml(document))
    except OSError as error:
        raise click.ClickException(f"--write {path}: {error.strerror or error}") from None


def print_tuning(found: "TuningResult", console: "Console") -> None:
    """Print what was searched, how much better the best is, the front between two objectives, and what is changed."""
    from berth_workbench.comparison.figures import shown_figure

    told = " and ".join(found.objectives)
    console.print(legible(f"{told}: {found.tried} configurations tried in {found.runs} runs"), markup=False)
    for outcome in found.outcomes:
        if outcome.a is None or outcome.b is None or outcome.difference is None:
            continue
        spread = "" if outcome.deviation is None else f" ± {shown_figure(outcome.name, outcome.deviation)}"
        a, b, difference = (shown_figure(outcome.name, each) for each in (outcome.a, outcome.b, outcome.difference))
        console.print(f"  {outcome.name}: {a} → {b}, difference {difference}{spread}", markup=False)
    if found.check_seeds:
        console.print(legible(_verdict(found)), markup=False)
    if len(found.objectives) == 2:
        _print_front(found, console)
    console.print(legible(f"the best changes: {described(found.best)}"), markup=False)
    _print_price(found, console)


def _print_price(found: "TuningResult", console: "Console") -> None:
    """Print what the best costs beside the objectives: measures that are worse, and what no measure tells."""
    from berth_workbench.comparison.figures import shown_figure

    if found.worse:
        console.print("what it costs, with each of these seeds:", markup=False)
    for each in found.worse:
        console.print(
            f"  {each.name}: {shown_figure(each.name, each.a)} → {shown_figure(each.name, each.b)}", markup=False
        )
    if found.given_up:
        console.print("what it gives up, which no measure tells:", markup=False)
    for sentence in found.given_up:
        console.print(legible(f"  {sentence}"), markup=False)


def _verdict(found: "TuningResult") -> str:
    seeds = f"{found.check_seeds} seeds that the search has not seen"
    if not found.best:
        return f"nothing was found that is better than {found.base}"
    if found.is_better:
        return f"better than {found.base} with each of {seeds}"
    return f"not better than {found.base} with each of {seeds}: what the search has found may be luck, so keep the base"


def _print_front(found: "TuningResult", console: "Console") -> None:
    table = Table(
        *(TableColumn(legible(objective), "number") for objective in found.objectives),
        TableColumn("Changes", "text"),
        title="The front: nothing that was tried beats these in both",
    )
    front: list[TunedPoint] = sorted(found.front, key=lambda point: point.outcomes[0].mean)
    for point in front:
        cells = (_cell(each.objective, each.mean, each.deviation) for each in point.outcomes)
        table.add(*cells, described(point.changes))
    table.print(console)


def _cell(objective: str, mean: float, deviation: float | None) -> str:
    from berth_workbench.comparison.figures import shown_figure

    name = objective.removeprefix("min:").removeprefix("max:").partition(":")[0] if "," not in objective else ""
    return shown_figure(name, mean) + (f" ±{shown_figure(name, deviation)}" if deviation else "")


def described(changes: dict[str, int | str]) -> str:
    """Return what differs from the base, in words."""
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "nothing"
