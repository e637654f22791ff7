"""`berth quotas`: what namespaces are guaranteed, what they use, and what they have borrowed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, console_for, is_structured, output_option, print_structured
from berth.cli.setup import warn
from berth.cli.table import Table, TableColumn
from berth_workbench.cli.cluster_input import cluster_options, read_cluster_given

if TYPE_CHECKING:
    from rich.console import Console

    from berth_workbench.planning.quotas import QuotaLine

NOTHING = "-"
ALL = "(all)"


@click.command("quotas", short_help="What namespaces are guaranteed, use and have borrowed.")
@cluster_options
@click.option("-n", "--namespace", default="", help="Those of one namespace only.")
@output_option
def command(cluster: tuple[str, ...], kubeconfig: str, context: str, namespace: str, output: Output) -> None:
    """Tell of each quota what is guaranteed, used, borrowed, and the most that may be used.

    ElasticQuotas guarantee: what pods on nodes request beyond that is borrowed from what others leave unused, as the
    plugin CapacityScheduling counts. ResourceQuotas only limit; what they count as used is in their status.
    """
    from berth_workbench.planning.quotas import ELASTIC, QuotaReport, quotas_of

    snapshot = read_cluster_given(cluster, kubeconfig, context, custom=[ELASTIC])
    try:
        found = quotas_of(snapshot)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    for note in found.notes:
        warn(note)
    lines = [line for line in found.lines if not namespace or line.namespace == namespace]
    if is_structured(output):
        print_structured(QuotaReport(tuple(lines), found.notes), output)
    elif lines:
        print_quotas(lines, console_for(output))
    else:
        click.echo(f"there are no quotas{f' in {namespace}' if namespace else ''}")


def print_quotas(lines: "Iterable[QuotaLine]", console: "Console") -> None:
    """Print a row for each resource of each quota."""
    from berth_workbench.showing.numbers import amount

    amounts = [TableColumn(each, "number") for each in ("Guaranteed", "Used", "Borrowed", "Most")]
    table = Table("Namespace", "Quota", "Resource", *amounts)
    for line in lines:

        def text(count: int | None, line: "QuotaLine" = line) -> str:
            return NOTHING if count is None else amount("cpu" if line.is_cpu else line.resource, count)

        borrowed = text(line.borrowed) if line.borrowed else NOTHING
        is_full = line.most is not None and line.used >= line.most > 0
        cells = (text(line.guaranteed), text(line.used), borrowed, text(line.most))
        table.add(line.namespace or ALL, line.name or NOTHING, line.resource, *cells, style="red" if is_full else "")
    table.print(console)
