"""`berth whatif`: a cluster before and after changes and new workloads, without touching it."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option_naming, print_structured
from berth.cli.setup import config_option, gates_option, plugin_option
from berth.cli.table import Table, TableColumn
from berth.runtime.observing.logs import legible
from berth_workbench.cli.asked import read_asked, tell_assumed
from berth_workbench.cli.change_flags import OrderedCommand, change_options, typed_changes
from berth_workbench.cli.cluster_input import (
    cluster_options,
    manifests_option,
    namespace_option,
    read_manifests,
)

if TYPE_CHECKING:
    from rich.console import Console

    from berth_workbench.planning.whatif import PodOutcome, WhatIfResult
    from berth_workbench.simulation.measures import Measures
    from berth_workbench.simulation.site import Broken
    from berth_workbench.simulation.steps import Step
    from berth_workbench.snapshot.snapshot import Snapshot

ROWS_SHOWN = 20
"""How many rows each table has; `-o wide` and the structured outputs have all of them."""
NAMES_SHOWN = 3
"""How many names are told of those that break for the same reason."""


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
@output_option_naming("the pods that move, are new or have no node")
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
    from berth_workbench.simulation.steps import Manifests

    steps = typed_changes()
    documents = read_manifests(manifests, namespace)
    if documents:
        steps.append(Manifests(documents, f"apply {', '.join(manifests)}"))
    snapshot, _, setup, assumed = read_asked(cluster, kubeconfig, context, config_file, plugins, feature_gates)
    found = _tried(
        snapshot,
        steps,
        config=setup.config,
        registry=setup.registry,
        seed=seed,
        namespace=namespace,
        pool_label=pool_label,
    )
    if is_structured(output):
        print_structured(found, output, (each.pod for each in found.pods), assumed=assumed)
    else:
        tell_assumed(assumed)
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
    """Print the result: in sentences first, then what breaks, then tables of at most `shown` rows."""
    from berth_workbench.planning.whatif import WhoIsWhere

    who = WhoIsWhere.of(found.pods)
    for sentence in who.sentences():
        console.print(sentence, style="bold", markup=False)
    broken = f"{len(found.broken):,} broken" if found.broken else "nothing broken"
    console.print(broken, style="bold red" if found.broken else "bold green", markup=False)
    for note in found.notes:
        console.print(legible(f"note: {note}"), markup=False)
    _print_broken(found.broken, console, shown)
    _print_pods("Pods that left their nodes", who.left, console, shown)
    _print_pods("New pods", who.new, console, shown)
    _print_pods(
        "Pods that were pending and have a node now", [each for each in who.waited if each.node], console, shown
    )
    _print_reasons(found.unplaced, console, shown)
    _print_preempted(found, console, shown)
    _print_steps(found, console)
    _print_measures(found.before, found.after, console)


def _print_broken(broken: "Iterable[Broken]", console: "Console", shown: int | None) -> None:
    """Print what breaks: a row for each reason, with the names of the first few."""
    from berth_workbench.planning.whatif import broken_groups

    table = Table(
        TableColumn("Broken", "number"), "Kind", "What", TableColumn("Which", "text"), TableColumn("Why", "text")
    )
    for group in broken_groups(broken):
        names = listed(group.names, None if shown is None else NAMES_SHOWN)
        table.add(len(group.names), group.kind, group.reason, names, group.message)
    _spaced(table, console, shown)


def listed(names: "Sequence[str]", shown: int | None) -> str:
    """Return the first names, and how many more there are."""
    more = 0 if shown is None else len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more:,} more" if more > 0 else "")


def _print_pods(title: str, outcomes: "Sequence[PodOutcome]", console: "Console", shown: int | None) -> None:
    """Print where pods go, those without a node first."""
    moves = any(each.before for each in outcomes)
    table = Table("Pod", *(("Before",) if moves else ()), "After", title=title)
    for each in sorted(outcomes, key=lambda each: each.node is not None):
        style = "" if each.node else "yellow"
        table.add(each.pod, *((each.before,) if moves else ()), each.node or "no node", style=style)
    _spaced(table, console, shown)


def _print_reasons(unplaced: "Iterable[PodOutcome]", console: "Console", shown: int | None) -> None:
    """Print why pods have no node, each reason once, the most frequent first."""
    reasons = Counter(each.message for each in unplaced)
    table = Table(TableColumn("Pods", "number"), TableColumn("Why", "text"), title="Without a node, by reason")
    for reason, count in reasons.most_common():
        table.add(count, reason)
    _spaced(table, console, shown)


def _print_preempted(found: "WhatIfResult", console: "Console", shown: int | None) -> None:
    table = Table("Preempted", "On", "Made way for")
    for each in found.evicted:
        if each.is_preempted:
            table.add(each.pod, each.node, each.by)
    _spaced(table, console, shown)


def _print_steps(found: "WhatIfResult", console: "Console") -> None:
    numbers = (TableColumn(each, "number") for each in ("Left", "Preempted", "Pending after"))
    table = Table(TableColumn("Step", "text"), *numbers)
    for step in found.steps:
        table.add(step.step, step.evicted, step.preempted, step.pending)
    _spaced(table, console, None)


def _print_measures(before: "Measures", after: "Measures", console: "Console") -> None:
    table = Table("The cluster", TableColumn("Before", "number"), TableColumn("After", "number"))
    for name, was, now in _figures(before, after):
        table.add(name, was, now)
    _spaced(table, console, None)


def _spaced(table: Table, console: "Console", shown: int | None) -> None:
    if table.rows:
        console.print()
        table.print(console, shown)


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
