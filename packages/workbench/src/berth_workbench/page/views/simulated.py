"""The time line of a simulation: the nodes at each moment, waits, utilisation and fairness over time."""

from dataclasses import dataclass

from berth_workbench.page.data_routes import TIME_LINE
from berth_workbench.page.time_line import SimulatedTimeLine
from berth_workbench.page.views.answer import show_sections
from berth_workbench.page.views.elements import Chart, TimeLineMap, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.questions.simulate import told
from berth_workbench.showing.sections import Lines
from berth_workbench.simulation.measures import told_resources

FOLLOWED = "berth-time"


@dataclass(slots=True, eq=False, repr=False)
class SimulatedView:
    """Makes the page."""

    _line: SimulatedTimeLine
    _frame: Frame

    async def build(self) -> None:
        """The slider with the map, the charts that follow it, and the sums."""
        result = self._line.result
        async with self._frame.page("Time line", "/time-line"):
            show_sections(section for section in told(result) if not isinstance(section, Lines))
            with tag("section", classes="panel", aria_label="Nodes over time"):
                TimeLineMap(src=TIME_LINE, refreshS=0)
            samples = result.samples
            times = [_clock(sample.at) for sample in samples]
            with tag("div", classes="charts"):
                self._chart(times, "Requested", {
                    "CPU": [100 * sample.cpu for sample in samples],
                    "memory": [100 * sample.memory for sample in samples],
                } | {
                    name: [100 * sample.resources.get(name, 0.0) for sample in samples]
                    for name in told_resources(result.resources)
                }, "%")  # fmt: skip
                self._chart(times, "Pods", {
                    "running": [sample.running for sample in samples],
                    "waiting": [sample.waiting for sample in samples],
                })  # fmt: skip
                self._chart(times, "Longest wait", {"seconds": [sample.longest_wait for sample in samples]}, "s")
                self._chart(times, "Nodes", {
                    "there": [sample.nodes for sample in samples],
                    "used": [sample.nodes_used for sample in samples],
                })  # fmt: skip

    def _chart(self, times: list[str], label: str, lines: dict[str, list[float]], unit: str = "") -> None:
        with tag("section", classes="panel"):
            chart = Chart("line", label, height=170)
            chart.props["follows"] = FOLLOWED
            chart.draw(times, lines, unit)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"day {whole // 86400 + 1}, {whole // 3600 % 24:02}:{whole // 60 % 60:02}"
