"""Queue and throughput over time."""

from datetime import UTC, datetime

from berth_workbench.page.model import QUEUES, RESULTS
from berth_workbench.page.recorder import HistoryRecorder
from berth_workbench.page.source import Source, SourceError
from berth_workbench.page.views.elements import LineChart, tag
from berth_workbench.page.views.frame import Frame

REFRESH_S = 2.0


class ThroughputView:
    """Makes the page."""

    __slots__ = ("_frame", "_history", "_source")

    def __init__(self, source: Source, frame: Frame, history: HistoryRecorder) -> None:
        self._source = source
        self._frame = frame
        self._history = history

    async def build(self) -> None:
        """The page; its charts grow while it is looked at."""
        async with self._frame.page("Queue and throughput", "/queue"):
            if not self._source.is_live:
                await self._counts()
                return
            problem = tag("div")
            with tag("section", classes="panel") as place:
                waiting = LineChart("Pending pods")
            with tag("section", classes="panel"):
                attempts = LineChart("Attempts per second")
            if not len(self._history.history):
                await self._history.take()

            async def show() -> None:
                history = self._history.history
                if not len(history) or self._history.problem:
                    raise SourceError(self._history.problem or "nothing has been sampled yet")
                samples = history.samples
                times = [f"{datetime.fromtimestamp(sample.at_s, UTC).astimezone():%H:%M:%S}" for sample in samples]
                waiting.show(times, {queue: [sample.pending.get(queue, 0) for sample in samples] for queue in QUEUES})
                attempts.show(times, {result: history.rates(result) for result in RESULTS}, "/s")

            await show()
            self._frame.keep_current(place, show, REFRESH_S, problem)

    async def _counts(self) -> None:
        """What there is where nothing goes on."""
        sample = await self._source.sample()
        with tag("dl", classes="tiles"):
            for queue in QUEUES:
                with tag("div", classes="tile"):
                    tag("dt", f"Pending, {queue}")
                    tag("dd", f"{sample.pending.get(queue, 0):,}")
        tag("p", "This cluster was read from a file: nothing is scheduled, so there is no history.", "soft")
