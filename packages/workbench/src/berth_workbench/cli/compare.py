"""`berth compare`: two configurations on the same pods: who goes elsewhere and why, and which measures are better."""

from typing import Any

import click

from berth.cli.output import Output, output_option_naming
from berth.cli.setup import gates_option, plugin_option
from berth_workbench.cli.asking import answered, asks, request_values, tell
from berth_workbench.cli.cluster_input import cluster_options, followed_by, manifests_option, read_cluster_given
from berth_workbench.cli.load_input import load_on, load_options, read_configuration, read_workload, refuse_beside_trace
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.comparison.loads import Load
from berth_workbench.questions.compare import QUESTION, CompareRequest


@asks(
    QUESTION,
    click.argument("a", metavar="A.yaml"),
    click.argument("b", metavar="B.yaml"),
    cluster_options,
    manifests_option,
    load_options,
    plugin_option,
    click.option("--a-plugin", "a_plugins", multiple=True, metavar="MODULE:CLASS", help="A plugin for A only."),
    click.option("--b-plugin", "b_plugins", multiple=True, metavar="MODULE:CLASS", help="A plugin for B only."),
    gates_option,
    output_option_naming("the pods that are decided differently"),
    plot_option,
)
def command(
    a: str,
    b: str,
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    trace: str,
    events: tuple[str, ...],
    replace_all: bool,
    plugins: tuple[str, ...],
    a_plugins: tuple[str, ...],
    b_plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
    plot: str,
    **typed: Any,
) -> None:
    """Place the same pods with both."""
    refuse_beside_trace(trace or events, cluster, kubeconfig, context, manifests, replaces_all=replace_all)
    sources = [read_configuration(a, (*plugins, *a_plugins), feature_gates),
               read_configuration(b, (*plugins, *b_plugins), feature_gates)]  # fmt: skip
    values = request_values(QUESTION, typed)
    load: Load
    if trace or events:
        load = read_workload(trace, events)
    else:
        custom = [each for source in sources for each in followed_by(source.load())]
        snapshot = read_cluster_given(cluster, kubeconfig, context, custom=custom)
        load = load_on(snapshot, manifests, replaces_all=replace_all)
    request = CompareRequest(sources[0], sources[1], load, **values)
    tell(QUESTION, request, answered(QUESTION, None, request), output, plot)
