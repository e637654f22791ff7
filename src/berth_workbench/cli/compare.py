"""`berth compare`: two configurations on the same pods: who goes elsewhere and why, and which measures are better."""

from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, output_option_naming
from berth.cli.setup import gates_option, plugin_option
from berth_workbench.cli.asking import answered, tell
from berth_workbench.cli.cluster_input import cluster_options, followed_by, manifests_option, read_cluster_given
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
@click.argument("a", metavar="A.yaml")
@click.argument("b", metavar="B.yaml")
@cluster_options
@manifests_option
@load_options
@click.option("--seeds", type=click.IntRange(1, 1000), default=3, show_default=True, help="How often each one runs.")
@plugin_option
@click.option("--a-plugin", "a_plugins", multiple=True, metavar="MODULE:CLASS", help="A plugin for A only.")
@click.option("--b-plugin", "b_plugins", multiple=True, metavar="MODULE:CLASS", help="A plugin for B only.")
@gates_option
@output_option_naming("the pods that are decided differently")
@plot_option
def command(
    a: str,
    b: str,
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    trace: str,
    replace_all: bool,
    prices: str,
    seeds: int,
    plugins: tuple[str, ...],
    a_plugins: tuple[str, ...],
    b_plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
    plot: str,
) -> None:
    """Try two configurations on the same pods.

    A.yaml and B.yaml are scheduler configurations, or the word `default`. The pods are those of the cluster that are
    pending, and those of -f; with --replace-all also those that run, by priority and creation.

    The decisions are compared one by one, A's choice standing in both: which pods go elsewhere, fit no more or fit
    now, and the plugin that, taken from B, makes A decide like it. Then each places everything on its own, once for
    each seed, and the measures stand side by side. With --trace, each lives through the workload in virtual time.
    """
    from berth_workbench.questions.compare import QUESTION, CompareRequest

    refuse_beside_trace(trace, cluster, kubeconfig, context, manifests, replaces_all=replace_all)
    sources = [
        read_configuration(path, (*plugins, *own), feature_gates) for path, own in ((a, a_plugins), (b, b_plugins))
    ]
    costs = read_prices(prices)
    load: Load
    if trace:
        load = read_workload(trace)
    else:
        custom = [each for source in sources for each in followed_by(source.load())]
        snapshot = read_cluster_given(cluster, kubeconfig, context, custom=custom)
        load = load_on(snapshot, manifests, replaces_all=replace_all)
    found = answered(QUESTION, None, CompareRequest(sources[0], sources[1], load, seeds, costs))
    tell(QUESTION, found, output, plot)
