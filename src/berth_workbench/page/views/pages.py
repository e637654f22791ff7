"""The table of the views: their paths, their names, and what makes them."""

from nicegui import ui

from berth_workbench.page.data_routes import NODES
from berth_workbench.page.jobs import Jobs
from berth_workbench.page.recorded import RecordedHistory
from berth_workbench.page.recorder import HistoryRecorder
from berth_workbench.page.source import Source
from berth_workbench.page.time_line import SimulatedTimeLine
from berth_workbench.page.views.capacity import CapacityView
from berth_workbench.page.views.cluster import ClusterPages
from berth_workbench.page.views.compare import CompareView
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.overview import OverviewPage
from berth_workbench.page.views.pending import PendingView
from berth_workbench.page.views.plugins import PluginsView
from berth_workbench.page.views.pods import PodView
from berth_workbench.page.views.quotas import QuotasView
from berth_workbench.page.views.rebalance import RebalanceView
from berth_workbench.page.views.simulated import SimulatedView
from berth_workbench.page.views.survive import SurviveView
from berth_workbench.page.views.throughput import ThroughputView
from berth_workbench.page.views.tune import TuneView
from berth_workbench.page.views.what_if import WhatIfView

HISTORY_VIEW = ("/queue", "Last hour")
CLUSTER_VIEWS = (
    ("/", "Overview"),
    ("/map", "Map"),
    ("/pending", "Pending"),
    ("/pods", "Pods"),
    HISTORY_VIEW,
    ("/plugins", "Plugins"),
    ("/what-if", "What if"),
    ("/capacity", "Capacity"),
    ("/quotas", "Quotas"),
    ("/survive", "Survive"),
    ("/rebalance", "Rebalance"),
    ("/compare", "Compare"),
    ("/tune", "Tune"),
)
TIME_LINE_VIEW = ("/time-line", "Time line")
BUILD_WITHIN_S = 60.0
"""How long a page may take to be made; a scheduler that is asked through a tunnel needs a while."""


def register_pages(
    source: Source | None, history: HistoryRecorder | RecordedHistory | None, time_line: SimulatedTimeLine | None
) -> None:
    """Have NiceGUI serve the pages of a cluster, of a recording, or of a simulation beside a cluster or alone."""
    is_recorded = isinstance(history, RecordedHistory)
    views = CLUSTER_VIEWS if source is not None else (HISTORY_VIEW,) if is_recorded else ()
    if time_line is not None:
        views = (*views, TIME_LINE_VIEW)
    title = (
        source.title if source is not None else f"simulation of {time_line.result.source}" if time_line else "recording"
    )
    frame = Frame(title, views, is_live=source is not None and source.is_live, can_search=source is not None)
    if isinstance(history, RecordedHistory):
        recorded = ThroughputView(None, frame, history)
        for path in ("/", HISTORY_VIEW[0]):

            @ui.page(path, response_timeout=BUILD_WITHIN_S)
            async def _recorded() -> None:
                await recorded.build()

    elif source is not None and history is not None:
        _register_cluster(source, history, frame)
    if time_line is not None:
        simulated = SimulatedView(time_line, frame)
        for path in (TIME_LINE_VIEW[0], *(() if source is not None else ("/",))):

            @ui.page(path, response_timeout=BUILD_WITHIN_S)
            async def _time_line() -> None:
                await simulated.build()


def _register_cluster(source: Source, history: HistoryRecorder, frame: Frame) -> None:
    jobs = Jobs()
    guests = PluginsView(source, frame)
    first = OverviewPage(source, frame, history)
    cluster, pods = ClusterPages(source, frame), PodView(source, frame, jobs)
    pending, throughput = PendingView(source, frame), ThroughputView(source, frame, history)
    capacity, moves, tuning = (
        CapacityView(source, frame, jobs),
        RebalanceView(source, frame, jobs),
        TuneView(source, frame, jobs),
    )
    quotas = QuotasView(source, frame)
    failures = SurviveView(source, frame, jobs)
    comparison, trial = CompareView(source, frame, jobs), WhatIfView(source, frame, jobs)

    @ui.page("/", response_timeout=BUILD_WITHIN_S)
    async def _overview() -> None:
        await first.build()

    @ui.page("/map", response_timeout=BUILD_WITHIN_S)
    async def _map() -> None:
        await cluster.map(f'<link rel="preload" href="{NODES}" as="fetch" crossorigin>')

    @ui.page("/nodes", response_timeout=BUILD_WITHIN_S)
    async def _nodes(by: str = "cpu", find: str = "", start: int = 0) -> None:
        await cluster.table(by, find, start)

    @ui.page("/pending", response_timeout=BUILD_WITHIN_S)
    async def _pending() -> None:
        await pending.build()

    @ui.page("/pods", response_timeout=BUILD_WITHIN_S)
    async def _pods(find: str = "") -> None:
        await pods.recent(find)

    @ui.page("/pods/{namespace}/{name}", response_timeout=BUILD_WITHIN_S)
    async def _pod(namespace: str, name: str) -> None:
        await pods.story(namespace, name)

    @ui.page("/plugins", response_timeout=BUILD_WITHIN_S)
    async def _plugins() -> None:
        await guests.build()

    @ui.page("/queue", response_timeout=BUILD_WITHIN_S)
    async def _queue() -> None:
        await throughput.build()

    @ui.page("/capacity", response_timeout=BUILD_WITHIN_S)
    async def _capacity() -> None:
        await capacity.build()

    @ui.page("/quotas", response_timeout=BUILD_WITHIN_S)
    async def _quotas() -> None:
        await quotas.build()

    @ui.page("/survive", response_timeout=BUILD_WITHIN_S)
    async def _survive() -> None:
        await failures.build()

    @ui.page("/rebalance", response_timeout=BUILD_WITHIN_S)
    async def _rebalance() -> None:
        await moves.build()

    @ui.page("/tune", response_timeout=BUILD_WITHIN_S)
    async def _tune() -> None:
        await tuning.build()

    @ui.page("/compare", response_timeout=BUILD_WITHIN_S)
    async def _compare() -> None:
        await comparison.build()

    @ui.page("/what-if", response_timeout=BUILD_WITHIN_S)
    async def _what_if() -> None:
        await trial.build()
