"""Quotas: what namespaces are guaranteed, what they use of it, and what they have borrowed."""

import asyncio
from dataclasses import dataclass

from berth.api.errors import TransportError
from berth.api.user_error import UserError
from berth_workbench.page.views.elements import bar_chart, rows, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.planning.quotas import QuotaLine, QuotaReport, quotas_of
from berth_workbench.showing.numbers import NOTHING, amount
from berth_workbench.sources.source import Source, SourceError

CHARTS, BARS_SHOWN = 6, 40
ABOUT = (
    "ElasticQuotas guarantee a namespace something, and lend what it leaves unused; ResourceQuotas only limit. "
    "Read from the cluster when the page was opened."
)
NONE = "The cluster has neither ElasticQuotas nor ResourceQuotas, as far as can be read."


@dataclass(slots=True, eq=False, repr=False)
class QuotasView:
    """Makes the page."""

    _source: Source
    _frame: Frame

    async def build(self) -> None:
        """Bars by namespace for each resource, and all figures in a table."""
        async with self._frame.page("Quotas", "/workloads"):
            tag("p", ABOUT, "soft")
            snapshot = await self._source.snapshot()
            try:
                found = await asyncio.to_thread(quotas_of, snapshot)
            except (ValueError, UserError, TransportError) as error:
                raise SourceError(str(error)) from None
            _show(found)


def _show(found: QuotaReport) -> None:
    for note in found.notes:
        tag("p", note, "soft")
    if not found.lines:
        tag("p", NONE, "empty")
        return
    elastic = [line for line in found.lines if line.guaranteed is not None and line.namespace]
    resources = list(dict.fromkeys(line.resource for line in elastic if line.guaranteed or line.used))
    with tag("div", classes="charts"):
        for resource in resources[:CHARTS]:
            with tag("section", classes="panel", aria_label=f"Guaranteed and borrowed {resource}"):
                _bars(resource, [line for line in elastic if line.resource == resource][:BARS_SHOWN])
    with tag("section", classes="panel", aria_label="All quotas"):
        numbers = [(each, "number") for each in ("Guaranteed", "Used", "Borrowed", "Most")]
        rows("All quotas", ["Namespace", "Quota", "Resource", *numbers], [_row(line) for line in found.lines])


def _bars(resource: str, lines: list[QuotaLine]) -> None:
    """What is used within the guarantee, beyond it, and what of it others may borrow."""
    unit = 1000 if lines[0].is_cpu else 1
    series = {
        "used": [(line.used - line.borrowed) / unit for line in lines],
        "borrowed": [line.borrowed / unit for line in lines],
        "to lend": [line.lendable / unit for line in lines],
    }
    bar_chart(f"{resource}, by namespace", [line.namespace for line in lines], series, stacked=True)


def _row(line: QuotaLine) -> list[str]:
    amounts = (line.guaranteed, line.used, line.borrowed or None, line.most)
    resource = "cpu" if line.is_cpu else line.resource
    texts = [NOTHING if each is None else amount(resource, each) for each in amounts]
    return [line.namespace or "all together", line.name or NOTHING, line.resource, *texts]
