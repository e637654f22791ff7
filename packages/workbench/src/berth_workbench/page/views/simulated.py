"""The time line of a simulation: the nodes at each moment, waits, utilisation and fairness over time."""

from dataclasses import dataclass

from berth_workbench.page.data_routes import TIME_LINE
from berth_workbench.page.views.answer import show_sections
from berth_workbench.page.views.elements import TimeLineMap, followed_chart, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.questions.simulate import told
from berth_workbench.showing.sections import Lines
from berth_workbench.simulation.measures import told_resources
from berth_workbench.sources.time_line import SimulatedTimeLine


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
            shares = {"CPU": [100 * each.cpu for each in samples], "memory": [100 * each.memory for each in samples]}
            shares |= {
                name: [100 * each.resources.get(name, 0.0) for each in samples]
                for name in told_resources(result.resources)
            }
            charts: dict[str, tuple[dict[str, list[float]], str]] = {
                "Requested": (shares, "%"),
                "Pods": ({name: [getattr(each, name) for each in samples] for name in ("running", "waiting")}, ""),
                "Longest wait": ({"seconds": [each.longest_wait for each in samples]}, "s"),
                "Nodes": ({"there": [e.nodes for e in samples], "used": [e.nodes_used for e in samples]}, ""),
            }
            with tag("div", classes="charts"):
                for label, (lines, unit) in charts.items():
                    followed_chart(label, height=170).draw(times, lines, unit)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"day {whole // 86400 + 1}, {whole // 3600 % 24:02}:{whole // 60 % 60:02}"
