"""`berth compare`: two configurations on the same pods: who goes elsewhere and why, and which measures are better."""

from collections import Counter
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option_naming, print_structured
from berth.cli.setup import gates_option, plugin_option
from berth.cli.table import Table, TableColumn
from berth.runtime.observing.logs import legible
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
    from rich.console import Console

    from berth.decisions.exchange import ComparedDecision
    from berth_workbench.comparison.comparison import ConfigurationsCompared, FigureCompared
    from berth_workbench.comparison.loads import Load

CHANGES_SHOWN = 20
"""How many changed pods the table lists; `-o wide` and the structured outputs list all of them."""
KINDS = {"elsewhere": "go elsewhere", "fitsNoMore": "fit no more", "fitsNow": "fit now"}


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
    from berth_workbench.cli.progress import working
    from berth_workbench.comparison.comparison import compare
    from berth_workbench.comparison.loads import steps_of

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
    with working("comparing", total=steps_of(load) * (2 * seeds + 1)) as work:

        def watch(steps: int) -> bool:
            work.advance(steps)
            return work.is_stopped

        found = compare(load, sources[0], sources[1], seeds=range(seeds), prices=costs, watch=watch)
    if plot:
        from berth_workbench.plots.comparison import plot_comparison

        plot_comparison(plot, found)
    if is_structured(output):
        print_structured(found, output, (each.pod for each in found.decisions.changes))
    else:
        print_comparison(found, console_for(output), shown=None if output == "wide" else CHANGES_SHOWN)
    if not found.is_complete:
        raise click.ClickException("stopped before the end; this is what was done by then")


# -- what is printed -------------------------------------------------------------------------------------------------


def print_comparison(found: "ConfigurationsCompared", console: "Console", shown: int | None) -> None:
    """Print a comparison as tables, with at most `shown` of the changed pods."""
    for note in found.notes:
        console.print(legible(f"note: {note}"), markup=False)
    _print_decisions(found, console, shown)
    if found.measures:
        _print_measures(found, console)


def _print_decisions(found: "ConfigurationsCompared", console: "Console", shown: int | None) -> None:
    decisions = found.decisions
    kinds: Counter[str] = Counter(change.kind for change in decisions.changes)
    told = ", ".join(f"{kinds[kind]} {words}" for kind, words in KINDS.items() if kinds[kind])
    console.print(
        f"{len(decisions.changes)} of {decisions.decided} pods decided differently" + (f": {told}" if told else ""),
        markup=False,
    )
    for plugin, count in found.causes.items():
        console.print(legible(f"{count:>7}  {plugin}"), markup=False)
    for reason, count in decisions.left_out.items():
        console.print(legible(f"{count:>7}  left out: {reason}"), markup=False)
    if not decisions.changes:
        return
    table = Table("Pod", legible(f"A: {found.a}"), legible(f"B: {found.b}"), TableColumn("Because of", "text"))
    for change in decisions.changes:
        table.add(change.pod, change.a or "no node", change.b or "no node", because(change))
    table.print(console, shown)


def because(change: "ComparedDecision") -> str:
    """Return what causes a change, in words."""
    if change.note:
        return change.note
    if not change.plugins:
        return "what cannot be told plugin by plugin"
    if change.alone:
        return " or ".join(change.plugins)
    return " and ".join(change.plugins) + ", together"


def _print_measures(found: "ConfigurationsCompared", console: "Console") -> None:
    from berth_workbench.comparison.figures import shown_figure

    several = len(found.seeds) > 1
    title = f"Each on its own, mean of {len(found.seeds)} seeds" if several else "Each on its own"
    numbers = ("A", "B", "B - A", *(("±",) if several else ()))
    table = Table("Measure", *(TableColumn(each, "number") for each in numbers), "Better", title=title)
    for figure in found.measures:
        cells = [shown_figure(figure.name, value) for value in (figure.a, figure.b)]
        cells.append(shown_figure(figure.name, figure.difference) if figure.difference else "")
        if several:
            cells.append(shown_figure(figure.name, figure.deviation) if figure.deviation else "")
        table.add(figure.name, *cells, _verdict(figure))
    table.print(console)
    if several:
        console.print("±: the standard deviation of the difference over the seeds. Better: in every seed.")


def _verdict(figure: "FigureCompared") -> str:
    return figure.better.upper()
