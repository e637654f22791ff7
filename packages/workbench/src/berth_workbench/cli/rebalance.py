"""`berth rebalance`: which running pods to move, in which order, so that the cluster becomes better."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from berth.api.selectors import SelectorError, parse_label_selector
from berth.cli.option_rules import only_with
from berth.cli.output import Output, is_structured, output_option_naming
from berth.cli.setup import config_option, gates_option, plugin_option
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked
from berth_workbench.cli.asking import answered, asks, request_values, tell
from berth_workbench.cli.cluster_input import (
    cluster_options,
    followed_by,
    manifests_option,
    namespace_option,
    read_manifests,
)
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.cli.progress import EndedEarly, found_by_then, working
from berth_workbench.planning.rebalance.commands import commands_of
from berth_workbench.planning.rebalance.plan import RebalancePlan, in_groups
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.questions.rebalance import QUESTION
from berth_workbench.simulation.situation import Situation

if TYPE_CHECKING:
    from berth.framework.setup import Setup
    from berth.kube.credentials.sources import ClusterAccess
    from berth_workbench.planning.rebalance.execution import Executed
    from berth_workbench.simulation.watch import WorkWatch
    from berth_workbench.snapshot.documents import Document
    from berth_workbench.snapshot.snapshot import Snapshot


@asks(
    QUESTION,
    only_with(yes="execute"),
    cluster_options,
    manifests_option,
    namespace_option,
    click.option("--nodes", "node_names", default="", metavar="NAME,...", help="Consider these nodes only."),
    click.option("--node-selector", default="", metavar="SELECTOR", help="Consider nodes with these labels only."),
    click.option("--commands", is_flag=True, help="Print the plan as commands for a shell."),
    click.option(
        "--execute", is_flag=True,
        help="Carry the plan out, step by step: each eviction waits until the pod in its place runs, and what is left "
        "is proven anew on the cluster as it is then. Ctrl-C ends it after the current step.",
    ),
    click.option("--yes", is_flag=True, help="Do not ask before the plan is carried out."),
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
    execute: bool,
    yes: bool,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    plot: str,
    output: Output,
    **typed: Any,
) -> None:
    """Plan, and print or carry out what is planned."""
    if commands and is_structured(output):
        raise click.UsageError("--commands and -o are two ways to print the plan; choose one")
    if execute and (cluster or commands or is_structured(output)):
        raise click.UsageError("--execute works on a live cluster and prints a table; leave --cluster and others out")
    if manifests and typed["goal"] != "free-shape":
        raise click.UsageError("-f names the pods and workloads that --goal free-shape makes room for")
    documents = read_manifests(manifests, namespace)
    if execute and any(each.kind != "Pod" for each in documents):
        raise click.UsageError(
            "--execute creates pods only: apply the other objects of -f, and make room for them by --goal place-pending"
        )
    values = request_values(QUESTION, typed)
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    nodes = _selected(snapshot, node_names, node_selector)
    request = RebalanceRequest(manifests=tuple(documents), namespace=namespace, nodes=nodes, **values)
    pictured = answered(QUESTION, Situation(snapshot, setup, seed=seed), request)
    plan = pictured.plan
    if commands:
        for line in commands_of(plan):
            click.echo(legible(line))
        if not pictured.is_complete:
            raise EndedEarly(found_by_then())
    else:
        tell(QUESTION, pictured, output, plot, assumed)
    if execute and plan.steps:
        if not yes:
            click.confirm("Carry this out?", abort=True)
        _execute(plan, kubeconfig, context, documents, namespace, setup, seed)


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


def _execute(
    plan: RebalancePlan,
    kubeconfig: str,
    context: str,
    documents: "Sequence[Document]",
    namespace: str,
    setup: "Setup",
    seed: int,
) -> None:
    """Carry a plan out on the cluster of a kubeconfig, and tell what became of it."""
    from berth.api.errors import TransportError
    from berth.kube.credentials.access import load_access
    from berth_workbench.planning.rebalance.execution import undone

    created = {f"{each.namespace or namespace}/{each.name}": each.manifest for each in documents}
    try:
        with working("carrying the plan out", total=len(in_groups(plan.steps))) as work:

            def say(line: str) -> None:
                click.echo(legible(line))
                work.advance()

            access = load_access(kubeconfig, context=context)
            executed = asyncio.run(_executed(plan, access, created, setup, seed, work, say))
    except TransportError as error:
        raise click.ClickException(f"the cluster cannot be asked: {error}; what was done stays done") from None
    if executed.stopped:
        left = f"; still cordoned: {undone(executed.cordoned)}" if executed.cordoned else ""
        raise click.ClickException(
            f"stopped after {executed.done} of {executed.steps} steps, which stay done: {executed.stopped}{left}"
        )
    click.echo(f"Done: {executed.steps} steps.")


async def _executed(
    plan: RebalancePlan,
    access: "ClusterAccess",
    created: Mapping[str, Any],
    setup: "Setup",
    seed: int,
    watch: "WorkWatch",
    say: Callable[[str], None],
) -> "Executed":
    from berth.kube.http.client import HttpTransport
    from berth_workbench.planning.rebalance.execution import Executor
    from berth_workbench.snapshot.writer import taken_from_cluster

    transport = HttpTransport(access)
    try:
        return await Executor(
            plan,
            transport,
            lambda: taken_from_cluster(transport, access.server, custom=followed_by(setup)),
            manifests=created,
            setup=setup,
            seed=seed,
            watch=watch,
            say=say,
        ).run()
    finally:
        await transport.close()
