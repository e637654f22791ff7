"""`berth whatif`: a cluster before and after changes and new workloads, without touching it."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option, plain, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option, read_setup
from berth.runtime.observing.logs import legible
from berth_workbench.cli.change_flags import OrderedCommand, change_options, typed_changes
from berth_workbench.cli.cluster_input import (
    cluster_options,
    manifests_option,
    namespace_option,
    read_cluster_given,
    read_manifests,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from berth_workbench.planning.scenario import Step
    from berth_workbench.planning.whatif import PodOutcome, WhatIfResult
    from berth_workbench.simulation.measures import Measures
    from berth_workbench.snapshot.snapshot import Snapshot

ROWS_SHOWN = 20
"""How many rows each table has; `-o wide` and the structured outputs have all of them."""


@click.command(cls=OrderedCommand)
@cluster_options
@manifests_option
@change_options
@namespace_option
@click.option("--pool-label", default="", metavar="KEY", help="The node label that names a pool; usual ones are known.")
@click.option("--seed", type=int, default=0, show_default=True, help="How ties between nodes are broken.")
@click.option("--fail-on-broken", is_flag=True, help="Exit with 1 where something breaks, or a new pod has no node.")
@config_option
@plugin_option
@gates_option
@output_option
def command(
    cluster: tuple[str, ...],
    kubeconfig: str,
    context: str,
    manifests: tuple[str, ...],
    namespace: str,
    pool_label: str,
    seed: int,
    fail_on_broken: bool,
    config_file: str,
    plugins: tuple[str, ...],
    feature_gates: str,
    output: Output,
) -> None:
    """Try changes and new workloads on a cluster, and say where everything goes and what breaks.

    Changes are carried out in the order in which they are typed, and then the manifests of -f are applied: what the
    cluster does not have is created, what it has is scaled or rolled out. Nothing is done to the cluster itself.

    NODE is a name, a pattern (`gpu-*`) or a label selector (`pool=gpu`).
    """
    from berth_workbench.planning.scenario import Manifests

    config, registry = read_setup(config_file, plugins, feature_gates)
    steps = typed_changes()
    documents = read_manifests(manifests)
    if documents:
        steps.append(Manifests(documents, f"apply {', '.join(manifests)}"))
    snapshot = read_cluster_given(cluster, kubeconfig, context)
    found = _tried(
        snapshot, steps, config=config, registry=registry, seed=seed, namespace=namespace, pool_label=pool_label
    )
    if is_structured(output):
        print_structured(found, output)
    else:
        print_what_if(found, console_for(output), shown=None if output == "wide" else ROWS_SHOWN)
    if not found.is_complete:
        raise click.ClickException("stopped before the end; this is what was done by then")
    if fail_on_broken and (found.broken or found.unplaced_new):
        sys.exit(1)


def _tried(snapshot: "Snapshot", steps: "Sequence[Step]", **options: object) -> "WhatIfResult":
    from berth_workbench.cli.progress import working
    from berth_workbench.planning.whatif import StoppedEarlyError, what_if

    with working("loading objects, placing pods") as work:
        done = 0

        def progress(steps: int) -> None:
            nonlocal done
            done += steps
            work.advance(steps)
            if work.is_stopped:
                raise StoppedEarlyError

        def expect(more: int) -> None:
            work.total = done + more

        try:
            return what_if(snapshot, steps, progress=progress, expect=expect, **options)  # type: ignore[arg-type] # handed on as typed
        except StoppedEarlyError:
            raise click.ClickException("stopped before the cluster was loaded") from None


# -- what is printed -------------------------------------------------------------------------------------------------


def print_what_if(found: "WhatIfResult", console: "Console", shown: int | None) -> None:
    """Print the result as tables of at most `shown` rows."""
    from berth_workbench.planning.whatif import moved

    for note in found.notes:
        console.print(legible(f"note: {note}"), markup=False)
    if found.steps:
        _print(console, _steps_table(found), None)
    counts = moved(found)
    told = (f"{counts['new']} new pods placed", f"{counts['moved']} moved", f"{counts['pending']} without a node")
    console.print(", ".join(told), markup=False)
    order = sorted(found.pods, key=lambda each: each.node is not None)
    _print_rows(console, ("Pod", "Before", "After"), (_pod_row(each) for each in order), len(order), shown)
    _print_reasons(console, found.unplaced)
    preempted = [each for each in found.evicted if each.is_preempted]
    if preempted:
        console.print(f"{len(preempted)} preempted", markup=False)
        _print_rows(
            console,
            ("Pod", "On", "Made way for"),
            ((each.pod, each.node, each.by) for each in preempted),
            len(preempted),
            shown,
        )
    console.print(f"{len(found.broken) or 'nothing'} broken", markup=False)
    _print_rows(
        console,
        ("What", "Which", "Why"),
        ((each.reason, each.name, each.message) for each in found.broken),
        len(found.broken),
        shown,
    )
    _print(console, _measures_table(found.before, found.after), None)


def _pod_row(each: "PodOutcome") -> tuple[str, str, str]:
    return each.pod, each.before or ("new" if each.is_new else "pending"), each.node or "no node"


def _steps_table(found: "WhatIfResult") -> "Table":
    table = _table(("Step", "Left", "Preempted", "Pending after"))
    for column in table.columns[1:]:
        column.justify = "right"
    for step in found.steps:
        table.add_row(plain(step.step), str(step.evicted), str(step.preempted), str(step.pending))
    return table


def _print_reasons(console: "Console", unplaced: "Iterable[PodOutcome]") -> None:
    """Why pods have no node, each reason once, the most frequent first."""
    reasons: dict[str, int] = {}
    for each in unplaced:
        reasons[each.message] = reasons.get(each.message, 0) + 1
    ordered = sorted(reasons.items(), key=lambda each: -each[1])
    for reason, count in ordered[:ROWS_SHOWN]:
        console.print(legible(f"{count} without a node: {reason}"), markup=False)
    if len(ordered) > ROWS_SHOWN:
        console.print(f"… and {len(ordered) - ROWS_SHOWN} more reasons; -o json has all of them", markup=False)


def _measures_table(before: "Measures", after: "Measures") -> "Table":
    table = _table(("", "Before", "After"))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, was, now in _figures(before, after):
        table.add_row(plain(name), was, now)
    return table


def _figures(before: "Measures", after: "Measures") -> Iterator[tuple[str, str, str]]:
    yield "nodes", str(before.nodes), str(after.nodes)
    yield "nodes used", str(before.nodes_used), str(after.nodes_used)
    yield "pods", str(before.pods), str(after.pods)
    yield "pending", str(before.pending), str(after.pending)
    for resource in dict.fromkeys((*before.utilisation, *after.utilisation)):
        yield f"{resource} used", _share(before.utilisation, resource), _share(after.utilisation, resource)
    zones = [zone for zone in dict.fromkeys((*before.utilisation_by_zone, *after.utilisation_by_zone)) if zone]
    for zone in zones[:ROWS_SHOWN]:
        was, now = before.utilisation_by_zone.get(zone, {}), after.utilisation_by_zone.get(zone, {})
        yield f"cpu used in {zone}", _share(was, "cpu"), _share(now, "cpu")
    for over in dict.fromkeys((*before.spread, *after.spread)):
        yield f"largest skew over {over}s", _skew(before, over), _skew(after, over)


def _skew(measures: "Measures", over: str) -> str:
    return str(measures.spread[over].max_skew) if over in measures.spread else "-"


def _share(shares: "dict[str, float]", name: str) -> str:
    return f"{shares[name]:.1%}" if name in shares else "-"


def _print_rows(
    console: "Console", columns: Sequence[str], rows: Iterable[Sequence[str]], count: int, shown: int | None
) -> None:
    if not count:
        return
    table = _table(columns)
    for number, row in enumerate(rows):
        if shown is not None and number >= shown:
            break
        table.add_row(*map(plain, row))
    _print(console, table, None if shown is None or count <= shown else count - shown)


def _table(columns: Sequence[str]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(console: "Console", table: "Table", more: int | None) -> None:
    console.print(table)
    if more:
        console.print(f"… and {more} more; -o wide lists all of them", markup=False)
