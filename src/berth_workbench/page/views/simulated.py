"""The time line of a simulation: the nodes at each moment, waits, utilisation and fairness over time."""

from dataclasses import dataclass

from berth_workbench.page.data_routes import TIME_LINE
from berth_workbench.page.time_line import SimulatedTimeLine
from berth_workbench.page.views.elements import LineChart, TimeLineMap, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.showing.words import counted
from berth_workbench.simulation.measures import WaitingTimes, told_resources
from berth_workbench.traces.result import SimulatedTime

FOLLOWED = "berth-time"
NAMESPACES_SHOWN = 30


@dataclass(slots=True, eq=False, repr=False)
class SimulatedView:
    """Makes the page."""

    _line: SimulatedTimeLine
    _frame: Frame

    async def build(self) -> None:
        """The slider with the map, the charts that follow it, and the sums."""
        result = self._line.result
        async with self._frame.page("Time line", "/time-line"):
            tag("p", f"{result.source}, seed {result.seed}: {result.seconds / 3600:.1f} hours lived through.", "soft")
            _sums(result)
            with tag("section", classes="panel", aria_label="Nodes over time"):
                TimeLineMap(TIME_LINE)
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
            _waits(result)

    def _chart(self, times: list[str], label: str, lines: dict[str, list[float]], unit: str = "") -> None:
        with tag("section", classes="panel"):
            chart = LineChart(label, height=170)
            chart.props["follows"] = FOLLOWED
            chart.show(times, lines, unit)


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"day {whole // 86400 + 1}, {whole // 3600 % 24:02}:{whole // 60 % 60:02}"


def _sums(result: SimulatedTime) -> None:
    shown = [
        ("Pods made", f"{result.made:,}"),
        ("Finished", f"{result.finished:,}"),
        ("Failed", f"{result.failed:,}"),
        ("Preempted", f"{result.preempted:,}"),
        ("Waiting at the end", f"{result.waiting:,}"),
        ("CPU requested", f"{result.cpu:.0%}"),
        *((f"{name} requested", f"{share:.0%}") for name, share in result.resources.items()),
        ("Fairness", f"{result.fairness:.2f}"),
    ]
    with tag("dl", classes="tiles"):
        for name, value in shown + ([("Cost", f"{result.cost:,.2f}")] if result.cost else []):
            with tag("div", classes="tile"):
                tag("dt", name)
                tag("dd", value)


def _waits(result: SimulatedTime) -> None:
    numbers = [(name, "number") for name in ("Pods", "Mean", "Half", "90 %", "99 %", "Longest")]
    named = list(result.waits_by_namespace.items())[:NAMESPACES_SHOWN]
    with tag("section", classes="panel"):
        table(
            "How long pods waited for a node, in seconds",
            ["Namespace", *numbers],
            [_wait_row(name, waits) for name, waits in [("all", result.waits), *named]],
        )
    if result.messages:
        with tag("section", classes="panel"):
            table(
                f"Why {counted(result.waiting, 'pod')} waited at the end",
                [("Pods", "number"), "Reason"],
                [[f"{count:,}", message] for message, count in result.messages.items()],
            )


def _wait_row(name: str, waits: WaitingTimes) -> list[str]:
    seconds = (waits.mean, waits.p50, waits.p90, waits.p99, waits.max)
    return [name, f"{waits.count:,}", *(f"{value:,.1f}" for value in seconds)]
