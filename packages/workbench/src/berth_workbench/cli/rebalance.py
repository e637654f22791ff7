"""`berth rebalance`: which running pods to move, in which order, so that the cluster becomes better."""

from typing import TYPE_CHECKING, Any

import click

from berth.api.selectors import SelectorError, parse_label_selector
from berth.cli.output import Output, is_structured, output_option_naming
from berth.cli.setup import config_option, gates_option, plugin_option
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked
from berth_workbench.cli.asking import answered, asks, request_values, tell
from berth_workbench.cli.cluster_input import (
    cluster_options,
    manifests_option,
    namespace_option,
    read_manifests,
)
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.cli.progress import EndedEarly, found_by_then
from berth_workbench.planning.rebalance.commands import commands_of
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.questions.rebalance import QUESTION
from berth_workbench.simulation.situation import Situation

if TYPE_CHECKING:
    from berth_workbench.snapshot.snapshot import Snapshot


@asks(
    QUESTION,
    cluster_options,
    manifests_option,
    namespace_option,
    click.option("--nodes", "node_names", default="", metavar="NAME,...", help="Consider these nodes only."),
    click.option("--node-selector", default="", metavar="SELECTOR", help="Consider nodes with these labels only."),
    click.option("--commands", is_flag=True, help="Print the plan as commands for a shell."),
    click.option("--seed", default=0, show_default=True, help="Seed of the scheduler's random choices."),
    config_option,
    plugin_option,
    gates_option,
    plot_option,
    output_option_naming("the pods that are moved"),
    short_help="Which pods to move so that the cluster becomes better.",
)  # fmt: skip
def command(
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    namespace: str,
    node_names: str,
    node_selector: str,
    commands: bool,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    plot: str,
    output: Output,
    **typed: Any,
) -> None:
    """Plan, and print what is planned."""
    if commands and is_structured(output):
        raise click.UsageError("--commands and -o are two ways to print the plan; choose one")
    if manifests and typed["goal"] != "free-shape":
        raise click.UsageError("-f names the pods and workloads that --goal free-shape makes room for")
    documents = read_manifests(manifests, namespace)
    values = request_values(QUESTION, typed)
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    nodes = _selected(snapshot, node_names, node_selector)
    request = RebalanceRequest(manifests=tuple(documents), namespace=namespace, nodes=nodes, **values)
    pictured = answered(QUESTION, Situation(snapshot, setup, seed=seed), request)
    if commands:
        for line in commands_of(pictured.plan):
            click.echo(legible(line))
        if not pictured.is_complete:
            raise EndedEarly(found_by_then())
    else:
        tell(QUESTION, request, pictured, output, plot, assumed)


def _selected(snapshot: "Snapshot", names: str, selector: str) -> frozenset[str] | None:
    """Return the nodes that `--nodes` and `--node-selector` leave; None for all."""
    found = frozenset(filter(None, map(str.strip, names.split(","))))
    if selector:
        try:
            meant = parse_label_selector(selector)
        except SelectorError as error:
            raise click.UsageError(f"--node-selector {selector}: {error}") from None
        nodes: Any = (document.struct() for document in snapshot.of("Node"))
        labelled = frozenset(node.metadata.name for node in nodes if meant.matches(node.metadata.labels))
        found = found & labelled if found else labelled
        if not found:
            raise click.ClickException(f"--node-selector {selector}: no node has these labels")
    return found or None
