"""The first page: what needs attention, each with the question that tells more; how full the cluster is, and where."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from berth.decisions.node_columns import NodeColumns
from berth.decisions.pending import PendingReport
from berth_workbench.page.ahead import Ahead
from berth_workbench.page.attention import FINDINGS, Finding, of_pending
from berth_workbench.page.views.elements import link, rows, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.showing.numbers import amount, number, percent
from berth_workbench.simulation.measures import told_resources
from berth_workbench.sources.model import NodeLine, node_lines
from berth_workbench.sources.source import Source

REFRESH_S = 3.0
NOTHING_TO_DO = (
    "Nothing: no pod is pending, any one node or zone can be lost, no GPU or other device is stranded, no node could "
    "go, and no quota binds."
)
FILLS_SHOWN = 6
OTHERS_SHOWN = 2
"""So many resources beside CPU and memory, such as GPUs, have a column among the fullest nodes."""
FULLEST = 8


class OverviewPage:
    """Makes the page."""

    __slots__ = ("_ahead", "_frame", "_source")

    def __init__(self, source: Source, frame: Frame, ahead: Ahead) -> None:
        self._source = source
        self._frame = frame
        self._ahead = ahead

    async def build(self) -> None:
        """The page, rebuilt every few seconds if something has changed."""
        async with self._frame.page("Overview", "/"):
            problem, tiles = tag("div"), tag("dl", classes="tiles")
            attention = _panel("What needs attention")
            with tag("div", classes="overview"):
                fills, fullest = _panel("How full"), _panel("Fullest nodes")

            shown: object = None

            async def make() -> None:
                nonlocal shown
                columns, report = await self._source.nodes(), await self._source.pending()
                known = {name: self._ahead.get(name, (columns, report)) for name in FINDINGS}
                state = (columns, report, known, self._ahead.is_at_work, self._ahead.problem)
                if state == shown:
                    return
                shown = state
                lines = list(node_lines(columns))
                for place in (tiles, attention, fills, fullest):
                    place.clear()
                with tiles:
                    _tiles(columns, lines)
                with attention:
                    self._attention(report, known)
                with fills:
                    _fills(columns)
                with fullest:
                    _fullest(columns, lines)

            await make()
            self._frame.keep_current(make, REFRESH_S, problem, lambda: self._ahead.is_at_work)

    def _attention(self, report: PendingReport, known: Mapping[str, list[Finding] | None]) -> None:
        """A line for each finding; what is still being worked out, or cannot be, is said below them."""
        findings = [*of_pending(report), *(each for found in known.values() for each in found or ())]
        with tag("div", classes="findings"):
            for each in findings:
                with tag("a", classes="finding", href=each.asks):
                    tag("strong", each.figure)
                    tag("span", each.says)
                    tag("span", each.name, "asks")
        if self._ahead.is_at_work:
            tag("p", "More is being worked out…", "soft")
        elif self._ahead.problem:
            tag("p", self._ahead.problem, "soft")
        elif not findings:
            tag("p", NOTHING_TO_DO, "good")


def _panel(title: str) -> Any:
    with tag("section", classes="panel", aria_label=title):
        tag("h2", title)
        return tag("div", classes="panel-body")


def _tiles(columns: NodeColumns, lines: Sequence[NodeLine]) -> None:
    over = sum(_highest(line) > 1 for line in lines)
    shown = [
        ("Nodes", columns.total, f"{cordoned:,} cordoned" if (cordoned := sum(columns.unschedulable)) else "all open"),
        ("Pods on nodes", sum(columns.pods), f"of {sum(columns.allowed_pods):,} that may be there"),
    ]
    if over:
        shown.append(("Over 100%", over, f"node{'' if over == 1 else 's'} with too much on"))
    for name, value, beside in shown:
        with tag("div", classes="tile bad" if name == "Over 100%" else "tile"):
            tag("dt", name)
            with tag("dd"):
                link(number(value), "/nodes")
            tag("dd", beside, "soft")


def _fills(columns: NodeColumns) -> None:
    for each in columns.resources[:FILLS_SHOWN]:
        requested, whole = sum(each.requested), sum(each.allocatable)
        if whole:
            with tag("div", classes="fill-line"):
                tag("span", _unit(each.name), "name")
                share = requested / whole
                with tag("span", classes="bar over" if share > 1 else "bar", aria_hidden="true"):
                    tag("span", style=f"width:{min(100.0, share * 100):.1f}%")
                tag("span", percent(share), "number bad" if share > 1 else "number")
                tag("span", f"{amount(each.name, requested)} of {amount(each.name, whole)}", "number soft")


def _fullest(columns: NodeColumns, lines: Sequence[NodeLine]) -> None:
    names = [*told_resources(each.name for each in columns.resources)[: 2 + OTHERS_SHOWN], "pods"]
    heads = [(_unit(name).rpartition("/")[2], "number") for name in names]
    shown = sorted(lines, key=lambda line: (-_highest(line), line.name))[:FULLEST]
    cells = [
        [
            {"text": line.name, "href": f"/map?{urlencode({'node': line.name})}"},
            *({"share": line.shares.get(name)} for name in names),
        ]
        for line in shown
    ]
    rows("", ["Node", *heads], cells)


def _highest(line: NodeLine) -> float:
    return max((share for share in line.shares.values() if share is not None), default=0.0)


def _unit(name: str) -> str:
    return "CPU" if name == "cpu" else name
