"""`berth upgrade-plan`: nodes in batches, the surge that they need, what moves, and what stands in the way."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option, warn
from berth.cli.table import Table, TableColumn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.cluster_input import cluster_options
from berth_workbench.planning.upgrade.limits import EFFORT, MAX_SURGE

if TYPE_CHECKING:
    from rich.console import Console

    from berth_workbench.planning.upgrade.plan import UpgradePlan, UpgradeStep

ROWS_SHOWN = 20
"""How many rows each table has; `-o wide` and the structured outputs have all of them."""
NAMES_SHOWN = 3


@click.command()
@cluster_options
@click.option(
    "--nodes", multiple=True, metavar="NODE", help="Nodes by name, pattern or selector; may be repeated. Default: all."
)
@click.option("--pool", "pools", multiple=True, metavar="NAME", help="Only nodes of this pool; may be repeated.")
@click.option("--pool-label", default="", metavar="KEY", help="The node label that names a pool; usual ones are known.")
@click.option(
    "--at-once",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Drain so many nodes together; by default as many as budgets and room allow.",
)
@click.option(
    "--max-surge",
    type=click.IntRange(0, 1000),
    default=MAX_SURGE,
    show_default=True,
    metavar="N",
    help="How many nodes may be added for the upgrade of a pool.",
)
@click.option(
    "--effort",
    type=click.IntRange(min=0),
    default=EFFORT,
    show_default=True,
    metavar="N",
    help="After so many evictions tried in memory the plan is only finished, and not made better.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken.")
@click.option("--fail-on-blocked", is_flag=True, help="Exit with 1 where a node cannot be upgraded, or a pod is lost.")
@config_option
@plugin_option
@gates_option
@output_option
def command(
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    nodes: tuple[str, ...],
    pools: tuple[str, ...],
    pool_label: str,
    at_once: int | None,
    max_surge: int,
    effort: int,
    seed: int,
    fail_on_blocked: bool,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
) -> None:
    """Plan how to upgrade nodes: batches, surge nodes, what moves, what budgets block.

    Pool by pool, nodes are drained within disruption budgets and come back. Every step is tried with the scheduler's
    own plugins on the cluster in memory; surge nodes are added until no step leaves a pod without a node. Nothing is
    done to the cluster itself.

    NODE is a name, a pattern (`gpu-*`) or a label selector (`pool=gpu`).
    """
    from berth_workbench.cli.progress import working
    from berth_workbench.planning.upgrade.search import UpgradeRequest, plan_upgrade
    from berth_workbench.planning.whatif import StoppedEarlyError
    from berth_workbench.simulation.changes import ChangeError

    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    request = UpgradeRequest(nodes, pools, pool_label, at_once, max_surge, effort)
    with working("trying drains") as work:

        def progress(steps: int) -> None:
            work.advance(steps)
            if work.is_stopped:
                raise StoppedEarlyError

        try:
            found = plan_upgrade(
                snapshot, request, config=setup.config, registry=setup.registry, seed=seed, progress=progress
            )
        except ChangeError as error:
            raise click.UsageError(str(error)) from None
        except StoppedEarlyError:
            raise click.ClickException("stopped before anything was tried") from None
    for note in found.notes:
        warn(note)
    if is_structured(output):
        print_structured(found, output, assumed=assumed)
    else:
        tell_assumed(assumed)
        print_upgrade_plan(found, console_for(output), shown=None if output == "wide" else ROWS_SHOWN)
    if not found.is_complete:
        raise click.ClickException("stopped before the end; these are the pools that were planned by then")
    if fail_on_blocked and (found.blocked or any(step.lost for step in found.steps)):
        sys.exit(1)


# -- what is printed -------------------------------------------------------------------------------------------------


def print_upgrade_plan(plan: "UpgradePlan", console: "Console", shown: int | None) -> None:
    """Print what the plan comes to, and then tables of at most `shown` rows."""
    for sentence in _summary(plan):
        console.print(legible(sentence), markup=False, highlight=False)
    _print_pools(plan, console, shown)
    if plan.blocked:
        console.print()
        table = Table("Blocked node", "Pod", "Budget", TableColumn("What would free it", "text"))
        for node in plan.blocked:
            for pod in node.pods:
                table.add(node.node, pod.pod, pod.budget, pod.frees or pod.why)
        table.print(console, shown)
    lost = [(pod, step) for step in plan.steps for pod in step.lost]
    if lost:
        console.print()
        table = Table("Lost pod", "With", TableColumn("Why", "text"))
        for each, step in lost:
            table.add(each, _some(step.nodes), "has no controller, so that nothing replaces it")
        table.print(console, shown)
    console.print()
    counts = [TableColumn(each, "number") for each in ("Nodes", "Moves", "Waves")]
    table = Table(TableColumn("#", "number"), "Step", *counts, TableColumn("Which", "text"))
    for at, step in enumerate(plan.steps, 1):
        table.add(at, step.action, len(step.nodes), len(step.moves), step.waves or "", _which(step, shown))
    table.print(console, shown)
    if shown is None:
        console.print()
        table = Table(TableColumn("#", "number"), "Pod", "From", "To")
        for at, step in enumerate(plan.steps, 1):
            for move in step.moves:
                table.add(at, move.pod, move.node or "(pending)", move.to or "(pending)")
        table.print(console)


def _summary(plan: "UpgradePlan") -> Iterator[str]:
    batches = sum(step.action == "upgrade" for step in plan.steps)
    moves = sum(len(step.moves) for step in plan.steps)
    surge = {0: "no surge node", 1: "1 surge node"}.get(plan.surge, f"{plan.surge} surge nodes at a time")
    nodes, steps = _count(plan.upgraded, "node"), _count(batches, "batch", "batches")
    yield f"{nodes} in {steps} with {surge}: {_count(moves, 'move')}"
    if plan.blocked:
        yield f"{_count(len(plan.blocked), 'node')} left out, since not all pods can leave"
    lost, waiting = (sum(len(getattr(step, field)) for step in plan.steps) for field in ("lost", "waiting"))
    if lost:
        yield f"{_count(lost, 'pod')} without a controller would be lost"
    if waiting:
        yield f"{_count(waiting, 'pod')} would wait for their own node to come back: no other takes them"
    if plan.pending_before or plan.pending_after:
        yield f"{plan.pending_before:,} pending before, {plan.pending_after:,} after"


def _print_pools(plan: "UpgradePlan", console: "Console", shown: int | None) -> None:
    console.print()
    numbers = [TableColumn(each, "number") for each in ("Nodes", "Surge")]
    table = Table("Pool", *numbers, "Like", TableColumn("Without one of them", "text"))
    for pool in plan.pools:
        why = next((each.without.partition(". ")[0] for each in pool.surge if each.without), "")
        if pool.surge and not pool.is_minimal:
            why = "fewer may do: not all was tried"
        table.add(pool.pool or "(none)", pool.nodes, len(pool.surge), _some([each.like for each in pool.surge]), why)
    table.print(console, shown)


def _which(step: "UpgradeStep", shown: int | None) -> str:
    names = ", ".join(step.nodes) if shown is None else _some(step.nodes)
    return names + (f", like {_some(step.like)}" if step.like else "")


def _some(names: "tuple[str, ...] | list[str]") -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"
