"""The nodes of the cluster: a map of them, and the same as a table."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from berth_workbench.page.data_routes import NODE_ROWS, NODES, PODS, SCORES
from berth_workbench.page.views.elements import HeatMap, part_rows, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.showing.numbers import number, percent
from berth_workbench.simulation.measures import told_resources
from berth_workbench.sources.model import totals
from berth_workbench.sources.part_rows import ClusterRows
from berth_workbench.sources.source import Source, SourceError

REFRESH_S: Final = 5.0
NODES_SHOWN: Final = 25
PODS_OFFERED: Final = 50
"""How many of the pods decided last are offered for their scores."""


@dataclass(slots=True, eq=False, repr=False)
class ClusterPages:
    """Makes both pages."""

    _source: Source
    _tables: ClusterRows
    _frame: Frame

    @property
    def _refresh_s(self) -> float:
        return REFRESH_S if self._source.is_live else 0

    async def map(self, preload: str) -> None:
        """The map; its data is fetched by the map itself, beside this page."""
        async with self._frame.page("Map", "/map", head=preload):
            try:
                lines = await self._source.recent()
            except SourceError:
                lines = []  # the map tells the problem, when it fetches its data
            recent = [line.pod for line in reversed(lines)][:PODS_OFFERED]
            scores = SCORES.partition("/{")[0]
            HeatMap(src=NODES, scoresSrc=scores, podsSrc=PODS, refreshS=self._refresh_s, recent=recent)

    async def node(self, name: str) -> Response | None:
        """Lead to a node on the map, or say that there is none of that name."""
        try:
            if await self._source.node(name) is not None:
                return RedirectResponse(f"/map?{urlencode({'node': name})}")
        except SourceError:
            return RedirectResponse("/map")  # the map tells the problem
        await self._frame.nowhere(f"There is no node {name}.")
        return None

    async def table(self, find: str) -> None:
        """All nodes as rows, those with the largest part requested first."""
        async with self._frame.page("Nodes", "/nodes"):
            columns = await self._source.nodes()
            sums = totals(columns)
            shown = [
                ("Nodes", number(sums.nodes)),
                ("Pods", number(sums.pods)),
                ("Cordoned", number(sums.unschedulable)),
            ]
            shown += [(f"{name} requested", percent(sums.shares[name])) for name in told_resources(sums.shares)]
            with tag("dl", classes="tiles"):
                for name, value in shown:
                    with tag("div", classes="tile"):
                        tag("dt", name)
                        tag("dd", value)
            resources = [each.name for each in columns.resources]
            heads = ["Node", "Pool", "Zone", "State", *((name, "number") for name in resources), ("Pods", "number")]
            with tag("section", classes="panel", aria_label="All nodes"):
                first = await self._tables.nodes.part(NODES_SHOWN, find)
                part_rows("What part of each resource is requested", heads, first, NODE_ROWS, refreshS=self._refresh_s,
                          shown=NODES_SHOWN, find=find, none="The cluster has no nodes.")  # fmt: skip
