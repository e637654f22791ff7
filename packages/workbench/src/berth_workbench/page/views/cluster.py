"""The cluster: a map of all nodes, and the same as a table."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from berth.decisions.node_columns import NodeColumns
from berth_workbench.page.model import NodeLine, node_lines, totals
from berth_workbench.page.source import Source, SourceError
from berth_workbench.page.views.elements import HeatMap, area, link, share_bar, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.showing.numbers import NOTHING, percent
from berth_workbench.simulation.measures import told_resources

REFRESH_S = 5.0
ROWS = 50
PODS_OFFERED = 50
"""How many of the pods decided last are offered for their scores."""


class ClusterPages:
    """Makes both pages."""

    __slots__ = ("_frame", "_source")

    def __init__(self, source: Source, frame: Frame) -> None:
        self._source = source
        self._frame = frame

    async def map(self, preload: str) -> None:
        """The map; its data is fetched by the map itself, beside this page."""
        async with self._frame.page("Map", "/map", head=preload, beside=lambda: _switch("/map")):
            try:
                lines = await self._source.recent()
            except SourceError:
                lines = []  # the map tells the problem, when it fetches its data
            recent = [line.pod for line in reversed(lines)][:PODS_OFFERED]
            refresh_s = REFRESH_S if self._source.is_live else 0
            HeatMap("/data/nodes", "/data/scores", "/data/pods", refresh_s=refresh_s, recent=recent)

    async def node(self, name: str) -> Response | None:
        """Lead to a node on the map, or say that there is none of that name."""
        try:
            if await self._source.node(name) is not None:
                return RedirectResponse(f"/map?{urlencode({'node': name})}")
        except SourceError:
            return RedirectResponse("/map")  # the map tells the problem
        await self._frame.nowhere(f"There is no node {name}.")
        return None

    async def table(self, by: str, find: str, start: int) -> None:
        """The table, those with the largest part requested first; `start` says which node is the first."""
        async with self._frame.page("Map", "/map", beside=lambda: _switch("/nodes")):
            columns = await self._source.nodes()
            choices = [*(each.name for each in columns.resources), "pods", "name"]
            by = by if by in choices else "cpu"
            _search(by, find, choices)
            problem, place = area(), area(classes="groups")

            async def make() -> None:
                columns = await self._source.nodes()
                place.clear()
                with place:
                    _table(columns, by, find, start)

            await make()
            self._frame.keep_current(make, REFRESH_S, problem)


def _switch(path: str) -> None:
    with tag("div", classes="switch", role="group", aria_label="How to show it"):
        for target, name in (("/map", "Map"), ("/nodes", "Table")):
            made = link(name, target)
            if target == path:
                made.props["aria-current"] = "true"


def _table(columns: NodeColumns, by: str, find: str, start: int) -> None:
    resources = [each.name for each in columns.resources]
    lines = [line for line in node_lines(columns) if find.lower() in line.name]
    if by != "name":
        lines.sort(key=lambda line: (-(line.shares.get(by) or 0.0), line.name))
    start = max(0, min(start, len(lines) - 1) // ROWS * ROWS) if lines else 0
    _totals(columns)
    _lines(lines[start : start + ROWS], resources, start, len(lines))
    _pager(by, find, start, len(lines))


def _totals(columns: NodeColumns) -> None:
    sums = totals(columns)
    shown = [("Nodes", f"{sums.nodes:,}"), ("Pods", f"{sums.pods:,}"), ("Cordoned", f"{sums.unschedulable:,}")]
    shown += [(f"{name} requested", percent(sums.shares[name])) for name in told_resources(sums.shares)]
    with tag("dl", classes="tiles"):
        for name, value in shown:
            with tag("div", classes="tile"):
                tag("dt", name)
                tag("dd", value)


def _search(by: str, find: str, choices: Sequence[str]) -> None:
    with tag("form", classes="toolbar", method="get", action="/nodes", role="search"):
        with tag("label", classes="field"):
            tag("span", "Order by")
            with tag("select", name="by"):
                for choice in choices:
                    made = tag("option", choice, value=choice)
                    if choice == by:
                        made.props["selected"] = True
        with tag("label", classes="field"):
            tag("span", "Find node")
            tag("input", type_="search", name="find", value=find, placeholder="part of a name")
        tag("button", "Show", type_="submit")


def _lines(lines: Sequence[NodeLine], resources: Sequence[str], start: int, count: int) -> None:
    if not lines:
        tag("p", "No node has such a name." if count == 0 else "", "empty")
        return
    columns: list[str | tuple[str, str]] = [("Node", "short"), "Pool", ("Zone", "short"), ("State", "short")]
    columns += [(name, "number") for name in resources] + [("pods", "number")]
    caption = f"Nodes {start + 1} to {start + len(lines)} of {count:,}: what part of each resource is requested"
    with tag("section", classes="panel"):
        table(caption, columns, [_line(line, resources) for line in lines])


def _line(line: NodeLine, resources: Sequence[str]) -> list[Any]:
    state = ", ".join(
        word for word, holds in (("cordoned", line.is_unschedulable), ("tainted", line.is_tainted)) if holds
    )
    shares = [lambda name=name: share_bar(line.shares.get(name)) for name in resources]
    return [
        lambda: link(line.name, f"/map?{urlencode({'node': line.name})}"),
        line.pool or NOTHING,
        line.zone or NOTHING,
        state or "open",
        *shares,
        f"{line.pods} of {line.allowed_pods}",
    ]


def _pager(by: str, find: str, start: int, count: int) -> None:
    with tag("nav", classes="toolbar", aria_label="Further nodes"):
        for text, at in (("Previous", start - ROWS), ("Next", start + ROWS)):
            if 0 <= at < count:
                link(text, f"/nodes?{urlencode({'by': by, 'find': find, 'start': at})}", "button plain")
