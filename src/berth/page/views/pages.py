"""The table of the views: their paths, their names, and what makes them."""

from nicegui import ui

from berth.page.data_routes import NODES
from berth.page.recorder import HistoryRecorder
from berth.page.source import Source
from berth.page.views.cluster import ClusterPages
from berth.page.views.frame import Frame
from berth.page.views.pending import PendingView
from berth.page.views.pods import PodView
from berth.page.views.throughput import ThroughputView

VIEWS = (("/", "Cluster"), ("/pending", "Pending"), ("/pods", "Pods"), ("/queue", "Queue"))
BUILD_WITHIN_S = 60.0
"""How long a page may take to be made; a scheduler that is asked through a tunnel needs a while."""


class Pages:
    """The pages of one source."""

    __slots__ = ("_history", "_source")

    def __init__(self, source: Source, history: HistoryRecorder) -> None:
        self._source = source
        self._history = history

    def register(self) -> None:
        """Have NiceGUI serve them."""
        frame = Frame(self._source, VIEWS)
        cluster = ClusterPages(self._source, frame)
        pods = PodView(self._source, frame)
        pending = PendingView(self._source, frame)
        throughput = ThroughputView(self._source, frame, self._history)

        @ui.page("/", response_timeout=BUILD_WITHIN_S)
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

        @ui.page("/queue", response_timeout=BUILD_WITHIN_S)
        async def _queue() -> None:
            await throughput.build()
