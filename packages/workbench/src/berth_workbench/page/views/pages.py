"""The table of the views: their paths, their names, and what makes them."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from nicegui import app, ui
from starlette.responses import Response

from berth_workbench.page.ahead import Ahead
from berth_workbench.page.answers import Answers
from berth_workbench.page.data_routes import NODES
from berth_workbench.page.jobs import Jobs
from berth_workbench.page.views.cluster import ClusterPages
from berth_workbench.page.views.frame import Frame, ViewLink
from berth_workbench.page.views.overview import OverviewPage
from berth_workbench.page.views.plugins import PluginsView
from berth_workbench.page.views.pods import PodView
from berth_workbench.page.views.questions import ICONS, QuestionView
from berth_workbench.page.views.quotas import QuotasView
from berth_workbench.page.views.simulated import SimulatedView
from berth_workbench.page.views.throughput import ThroughputView
from berth_workbench.page.views.workloads import WorkloadPages
from berth_workbench.questions.table import QuestionPage, asked_on_page, pages_of_others
from berth_workbench.snapshot.snapshot import Snapshot
from berth_workbench.sources.part_rows import ClusterRows
from berth_workbench.sources.recorded import RecordedHistory
from berth_workbench.sources.recorder import HistoryRecorder
from berth_workbench.sources.shared import SharedSource
from berth_workbench.sources.time_line import SimulatedTimeLine

CLUSTER, QUESTIONS, SCHEDULER = "Cluster", "Questions", "Scheduler"
LOOKS = (
    ViewLink("/", "Overview", "dashboard", CLUSTER),
    ViewLink("/map", "Map", "grid_view", CLUSTER),
    ViewLink("/workloads", "Workloads", "layers", CLUSTER),
    ViewLink("/nodes", "Nodes", "dns", CLUSTER),
)
AT_WORK = (
    ViewLink("/decisions", "Decisions", "rule", SCHEDULER),
    ViewLink("/plugins", "Plugins", "extension", SCHEDULER),
    ViewLink("/queue", "Queue", "format_list_numbered", SCHEDULER),
    ViewLink("/last-hour", "Last hour", "history", SCHEDULER),
)
TIME_LINE_VIEW = ViewLink("/time-line", "Time line", "timeline", "Simulation")
BUILD_WITHIN_S = 60.0
"""How long a page may take to be made; a scheduler that is asked through a tunnel needs a while."""


def cluster_views(*, is_live: bool) -> tuple[ViewLink, ...]:
    """Return all views of a cluster, the questions among them; those of the scheduler only where there is one."""
    asked = (ViewLink(each.path, each.title, ICONS.get(each.name, "quiz"), QUESTIONS) for each in asked_on_page())
    return (*LOOKS, *asked, *(AT_WORK if is_live else ()))


def list_views(frame: Frame, others: Sequence[QuestionPage], snapshot: Snapshot) -> None:
    """List the questions of other packages that are about this cluster."""
    for each in others:
        if any(snapshot.of(*each.kinds)):
            frame.list_view(ViewLink(each.question.path, each.question.title, each.icon, each.group))


def register_pages(
    source: SharedSource | None,
    tables: ClusterRows | None,
    history: HistoryRecorder | RecordedHistory | None,
    time_line: SimulatedTimeLine | None,
) -> None:
    """Make NiceGUI serve the pages of a cluster, of a recording, or of a simulation beside a cluster or alone."""
    is_recorded = isinstance(history, RecordedHistory)
    views = cluster_views(is_live=source.is_live) if source is not None else AT_WORK[-1:] if is_recorded else ()
    if time_line is not None:
        views = (*views, TIME_LINE_VIEW)
    title = (
        source.title if source is not None else f"simulation of {time_line.result.source}" if time_line else "recording"
    )
    is_live = source is not None and source.is_live
    frame = Frame(title, views, is_live=is_live, can_search=source is not None, taken=source.taken if source else "")
    if isinstance(history, RecordedHistory):
        recorded = ThroughputView(frame, history)
        for path in ("/", AT_WORK[-1].path):
            _register(path, recorded.hour)
    elif source is not None and tables is not None and history is not None:
        _register_cluster(source, tables, history, frame)
    if time_line is not None:
        simulated = SimulatedView(time_line, frame)
        for path in (TIME_LINE_VIEW.path, *(() if source is not None else ("/",))):
            _register(path, simulated.build)

    @ui.page("/{path:path}", response_timeout=BUILD_WITHIN_S)
    async def _nowhere(path: str) -> None:
        await frame.nowhere(f"There is no page /{path}.")


def _register_cluster(source: SharedSource, tables: ClusterRows, history: HistoryRecorder, frame: Frame) -> None:
    jobs = Jobs(keeps=not source.is_live)
    answers, typed = Answers(jobs), dict[str, dict[str, str]]()
    ahead = Ahead(source, jobs)
    app.on_shutdown(ahead.close)
    cluster, pods = ClusterPages(source, tables, frame), PodView(source, frame, ahead)
    workloads, hour = WorkloadPages(source, tables, frame, ahead), ThroughputView(frame, history)
    built = {
        "/": OverviewPage(source, frame, ahead).build,
        "/workloads": workloads.all,
        "/quotas": QuotasView(source, frame).build,
    }
    if source.is_live:
        built |= {"/plugins": PluginsView(source, frame).build, "/queue": hour.queue, "/last-hour": hour.hour}
    others = pages_of_others()
    for question in (*(each.question for each in others), *asked_on_page()):
        built[question.path] = QuestionView(question, source, frame, jobs, answers, typed).build
    source.noticed = partial(list_views, frame, others)
    for path, build in built.items():
        _register(path, build)

    @ui.page("/map", response_timeout=BUILD_WITHIN_S)
    async def _map() -> None:
        await cluster.map(f'<link rel="preload" href="{NODES}" as="fetch" crossorigin>')

    @ui.page("/nodes/{name}", response_timeout=BUILD_WITHIN_S)
    async def _node(name: str) -> Response | None:
        return await cluster.node(name)

    @ui.page("/nodes", response_timeout=BUILD_WITHIN_S)
    async def _nodes(find: str = "") -> None:
        await cluster.table(find)

    @ui.page("/workloads/{kind}/{namespace}/{name}", response_timeout=BUILD_WITHIN_S)
    async def _workload(kind: str, namespace: str, name: str) -> None:
        await workloads.one(kind, namespace, name)

    if source.is_live:

        @ui.page("/decisions", response_timeout=BUILD_WITHIN_S)
        async def _decisions(find: str = "") -> None:
            await pods.recent(find)

    @ui.page("/pods/{namespace}/{name}", response_timeout=BUILD_WITHIN_S)
    async def _pod(namespace: str, name: str) -> None:
        await pods.story(namespace, name)


def _register(path: str, build: Callable[[], Awaitable[None]]) -> None:
    @ui.page(path, response_timeout=BUILD_WITHIN_S)
    async def _page() -> None:
        await build()
