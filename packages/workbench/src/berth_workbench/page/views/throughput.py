"""The last hour of a scheduler, at work or recorded, to scrub through: nodes, queue and attempts at each moment."""

from datetime import UTC, datetime

from nicegui.element import Element

from berth_workbench.page.data_routes import HISTORY
from berth_workbench.page.views.elements import TimeLineMap, followed_chart, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.showing.numbers import number
from berth_workbench.sources.model import QUEUES, RESULTS, QueueSample
from berth_workbench.sources.recorded import RecordedHistory
from berth_workbench.sources.recorder import HistoryRecorder
from berth_workbench.sources.source import SourceError

REFRESH_S = 2.0
MAP_REFRESH_S = 10.0


class ThroughputView:
    """Makes the page."""

    __slots__ = ("_frame", "_history")

    def __init__(self, frame: Frame, history: HistoryRecorder | RecordedHistory) -> None:
        self._frame = frame
        self._history = history

    async def queue(self) -> None:
        """Who waits in which queue now, and how it came to that; the charts grow while it is looked at."""
        await self._charts("Queue", "/queue")

    async def hour(self) -> None:
        """The nodes at each moment, with a slider that the charts follow."""
        await self._charts("Last hour", "/last-hour")

    async def _charts(self, title: str, path: str) -> None:
        async with self._frame.page(title, path):
            is_live = isinstance(self._history, HistoryRecorder)
            problem, tiles = tag("div"), tag("dl", classes="tiles")
            if path == "/last-hour":
                with tag("section", classes="panel", aria_label="Nodes over time"):
                    TimeLineMap(src=HISTORY, refreshS=MAP_REFRESH_S if is_live else 0.0)
            with tag("div", classes="charts"):
                waiting, attempts = (followed_chart(label) for label in ("Pending pods", "Attempts per second"))
            if isinstance(self._history, HistoryRecorder) and not len(self._history.history):
                await self._history.take()

            async def show() -> None:
                history = self._history.history
                if not len(history) or self._history.problem:
                    raise SourceError(self._history.problem or "nothing has been sampled yet")
                samples = history.samples
                if path == "/queue":
                    _tiles(tiles, samples[-1])
                times = [f"{datetime.fromtimestamp(sample.at_s, UTC).astimezone():%H:%M:%S}" for sample in samples]
                for chart in (waiting, attempts):
                    chart.props["seconds"] = [sample.at_s for sample in samples]
                waiting.draw(times, {queue: [sample.pending.get(queue, 0) for sample in samples] for queue in QUEUES})
                attempts.draw(times, {result: history.rates(result) for result in RESULTS}, "/s")

            await show()
            self._frame.keep_current(show, REFRESH_S, problem)


def _tiles(place: Element, sample: QueueSample) -> None:
    place.clear()
    with place:
        for queue in QUEUES:
            with tag("div", classes="tile"):
                tag("dt", queue)
                tag("dd", number(sample.pending.get(queue, 0)))
