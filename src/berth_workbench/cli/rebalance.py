"""`berth rebalance`: which running pods to move, in which order, so that the cluster becomes better."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berth.api.near_names import nearest
from berth.cli.numbers import FiniteFloatRange
from berth.cli.option_rules import only_with
from berth.cli.output import Output, is_structured, output_option_naming
from berth.cli.setup import BadConfigurationError, config_option, gates_option, plugin_option
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked
from berth_workbench.cli.asking import answered, tell
from berth_workbench.cli.cluster_input import (
    cluster_options,
    followed_by,
    manifests_option,
    namespace_option,
    read_manifests,
)
from berth_workbench.cli.plot_flag import plot_option
from berth_workbench.cli.progress import working

if TYPE_CHECKING:
    from berth.framework.setup import Setup
    from berth.kube.credentials.sources import ClusterAccess
    from berth_workbench.planning.rebalance.execution import Executed
    from berth_workbench.planning.rebalance.plan import RebalancePlan
    from berth_workbench.simulation.watch import WorkWatch
    from berth_workbench.snapshot.documents import Document
    from berth_workbench.snapshot.snapshot import Snapshot

GOALS = ("empty-nodes", "even-out", "repair-spread", "free-shape", "place-pending")
ALSO_MOVE = ("bare", "critical", "empty-dir", "jobs")


@click.command("rebalance", short_help="Which pods to move so that the cluster becomes better.")
@only_with(yes="execute")
@click.option(
    "--goal", type=click.Choice(GOALS), required=True,
    help="Empty nodes (or save the most with --prices), make nodes equally full, repair spread, affinity and "
    "anti-affinity that running pods break, make room for the pods and workloads of -f, or for what is pending.",
)  # fmt: skip
@cluster_options
@manifests_option
@namespace_option
@click.option("--max-moves", default=20, show_default=True, type=click.IntRange(0, 10_000), help="Evictions in all.")
@click.option(
    "--max-disruption-per-workload", type=click.IntRange(0), metavar="N", help="Evictions of one workload's pods."
)
@click.option("--max-disruption-per-namespace", type=click.IntRange(0), metavar="N", help="Evictions in one namespace.")
@click.option(
    "--max-cordons", default=50, show_default=True, type=click.IntRange(0),
    help="Nodes cordoned at a time so that the scheduler goes along, beside those to be emptied.",
)  # fmt: skip
@click.option("--nodes", "node_names", default="", metavar="NAME,...", help="Consider these nodes only.")
@click.option("--node-selector", default="", metavar="KEY=VALUE,...", help="Consider nodes with these labels only.")
@click.option(
    "--also-move", multiple=True, type=click.Choice(ALSO_MOVE),
    help="Move pods that otherwise stay: without a controller, of system-critical priority, with an emptyDir, of Jobs. "
    "May be repeated.",
)  # fmt: skip
@click.option(
    "--prices", "prices_file", default="", metavar="FILE", help="YAML: node names or instance types to prices."
)
@click.option(
    "--method", type=click.Choice(["cp-sat", "greedy"]), help="By default CP-SAT where OR-Tools is installed."
)
@click.option(
    "--effort", default=3.0, show_default=True, type=FiniteFloatRange(0.0, 3600.0), metavar="SECONDS",
    help="How long CP-SAT may search and have its moves put in order, in seconds that are the same on every machine.",
)  # fmt: skip
@click.option("--commands", is_flag=True, help="Print the plan as commands for a shell.")
@click.option(
    "--execute", is_flag=True,
    help="Carry the plan out, step by step: each eviction waits until the pod in its place runs, and what is left is "
    "proven anew on the cluster as it is then. Ctrl-C ends it after the current step.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask before the plan is carried out.")
@click.option("--seed", default=0, show_default=True, help="Seed of the scheduler's random choices.")
@config_option
@plugin_option
@gates_option
@plot_option
@output_option_naming("the pods that are moved")
def command(
    goal: Any,
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    namespace: str,
    max_moves: int,
    max_disruption_per_workload: int | None,
    max_disruption_per_namespace: int | None,
    max_cordons: int,
    node_names: str,
    node_selector: str,
    also_move: tuple[Any, ...],
    prices_file: str,
    method: Any,
    effort: float,
    commands: bool,
    execute: bool,
    yes: bool,
    seed: int,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    plot: str,
    output: Output,
) -> None:
    """Plan moves of running pods: which to evict, in which order, and where the scheduler puts them then.

    Every move is proven with the scheduler's own plugins in the order given, keeps the disruption budgets, and waits
    for the one before. Nodes are cordoned where the scheduler would choose others than the plan; the plan says so.
    """
    from berth.config.errors import ConfigError
    from berth_workbench.planning.rebalance.commands import commands_of
    from berth_workbench.planning.rebalance.request import RebalanceRequest
    from berth_workbench.questions.rebalance import QUESTION
    from berth_workbench.simulation.situation import Situation

    if commands and is_structured(output):
        raise click.UsageError("--commands and -o are two ways to print the plan; choose one")
    if execute and (cluster or commands or is_structured(output)):
        raise click.UsageError("--execute works on a live cluster and prints a table; leave --cluster and others out")
    if manifests and goal != "free-shape":
        raise click.UsageError("-f names the pods and workloads that --goal free-shape makes room for")
    documents = read_manifests(manifests, namespace)
    if execute and any(each.kind != "Pod" for each in documents):
        raise click.UsageError(
            "--execute creates pods only: apply the other objects of -f, and make room for them by --goal place-pending"
        )
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    try:
        request = RebalanceRequest(
            goal=goal,
            manifests=tuple(documents),
            namespace=namespace,
            max_moves=max_moves,
            max_per_workload=max_disruption_per_workload,
            max_per_namespace=max_disruption_per_namespace,
            max_cordons=max_cordons,
            also_move=frozenset(also_move),
            nodes=_selected(snapshot, node_names, node_selector),
            prices=_prices(prices_file),
            method=method,
            effort_s=effort,
        )
        pictured = answered(QUESTION, Situation(snapshot, setup, seed=seed), request)
    except ConfigError as error:
        raise BadConfigurationError(str(error)) from None
    plan = pictured.plan
    if commands:
        for line in commands_of(plan):
            click.echo(legible(line))
    else:
        tell(QUESTION, pictured, output, plot, assumed)
    if execute and plan.steps:
        if not yes:
            click.confirm("Carry this out?", abort=True)
        _execute(plan, kubeconfig, context, documents, namespace, setup, seed)


def _execute(
    plan: "RebalancePlan",
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
    from berth_workbench.planning.rebalance.plan import in_groups

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
    plan: "RebalancePlan",
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


# -- what was typed ---------------------------------------------------------------------------------------------------


def _selected(snapshot: "Snapshot", names: str, selector: str) -> frozenset[str] | None:
    """Return the nodes that `--nodes` and `--node-selector` leave; None for all."""
    if not names and not selector:
        return None
    from berth.api.selectors import is_label_key, is_label_value

    wanted = {}
    for part in selector.split(",") if selector else ():
        key, equals, value = (each.strip() for each in part.partition("="))
        if not (equals and is_label_key(key) and is_label_value(value)):
            raise click.UsageError(f"--node-selector {selector}: KEY=VALUE is expected, not {part!r}")
        wanted[key] = value
    among = {name.strip() for name in names.split(",") if name.strip()}
    found = set()
    for document in snapshot.of("Node"):
        node: Any = document.struct()
        labels, name = node.metadata.labels, node.metadata.name
        if (not among or name in among) and all(labels.get(key) == value for key, value in wanted.items()):
            found.add(name)
    known = {_name_of(document.manifest) for document in snapshot.of("Node")}
    unknown = sorted(among - known)
    if unknown:
        raise click.ClickException(f"--nodes: there is no node {unknown[0]}{nearest(unknown[0], known)}")
    if not found:
        raise click.ClickException(f"--node-selector {selector}: no node has these labels")
    return frozenset(found)


def _name_of(manifest: Any) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _prices(path: str) -> dict[str, float]:
    from berth.config.document import parse_document
    from berth.config.errors import ConfigError
    from berth_workbench.planning.rebalance.request import read_prices
    from berth_workbench.simulation.prices import PriceError

    if not path:
        return {}
    try:
        return read_prices(parse_document(Path(path).read_bytes(), ""))
    except OSError as error:
        raise click.ClickException(f"--prices {path}: {error.strerror}") from None
    except (PriceError, ConfigError) as error:
        raise click.ClickException(f"--prices {path}: {error}") from None
