"""`berth tune`: the weights that serve an objective best on a cluster or a workload, and the trade-off between two."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.cli.option_rules import never_with
from berth.cli.output import Output, is_structured, output_option
from berth.cli.setup import config_option, gates_option, plugin_option
from berth_workbench.cli.asked import read_asked, warn_of_extenders
from berth_workbench.cli.asking import answered, tell
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
    from berth_workbench.comparison.loads import Load


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
    from berth_workbench.questions.tune import QUESTION, TuneRequest, as_yaml

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
    request = TuneRequest(
        objectives=objectives,
        base=base,
        load=load,
        tuned=tuple(name for name in tuned.split(",") if name),
        budget=budget,
        seeds=seeds,
        seed=seed,
        prices=costs,
        jobs=jobs,
        dask=dask,
    )
    found = answered(QUESTION, None, request)
    if write:
        try:
            Path(write).write_text(as_yaml(found.document))
        except OSError as error:
            raise click.ClickException(f"--write {write}: {error.strerror or error}") from None
    tell(QUESTION, found, output, plot, assumed)
    if not write and not is_structured(output):
        click.echo(f"---\n{as_yaml(found.document)}", nl=False)
