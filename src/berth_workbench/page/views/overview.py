"""The first page: how full the cluster is, what is pending and why, the fullest nodes, and what was decided last."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from berth.decisions.pending import PendingReport
from berth.decisions.pod_report import DecisionLine
from berth_workbench.page.model import RESULTS, NodeLine
from berth_workbench.page.overview import Overview, ResourceFill, overview
from berth_workbench.page.recorder import HistoryRecorder
from berth_workbench.page.source import Source
from berth_workbench.page.times import ago, lasting
from berth_workbench.page.views.elements import NOTHING, LineChart, link, share_bar, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.page.views.pending import counted, pod_path
from berth_workbench.showing.reasons import nodes_in_our_words

REFRESH_S = 5.0
FILLS_SHOWN = 6
OTHERS_SHOWN = 2
"""So many resources beside CPU and memory, such as GPUs, have a column among the fullest nodes."""
REASONS_SHOWN = 5
DECISIONS_SHOWN = 8
BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi")


class OverviewPage:
    """Makes the page."""

    __slots__ = ("_frame", "_history", "_source")

    def __init__(self, source: Source, frame: Frame, history: HistoryRecorder) -> None:
        self._source = source
        self._frame = frame
        self._history = history

    async def build(self) -> None:
        """The page, made anew every few seconds; its chart stays and grows."""
        async with self._frame.page("Overview", "/"):
            problem, tiles = tag("div"), tag("dl", classes="tiles")
            with tag("div", classes="overview"):
                fills, pending = _panel("How full"), _panel("Pending, by reason")
                rate = _panel("Attempts per second") if self._source.is_live else None
                fullest, recent = _panel("Fullest nodes"), _panel("Latest decisions")
            chart: LineChart | None = None
            if rate is not None:
                with rate:
                    chart = LineChart("", height=190)

            async def make() -> None:
                found = overview(await self._source.nodes())
                report, lines = await self._source.pending(), await self._source.recent()
                self._fill(tiles, lambda: _tiles(found, report, self._rate()))
                self._fill(fills, lambda: _fills(found))
                self._fill(pending, lambda: _pending(report))
                self._fill(fullest, lambda: _fullest(found))
                self._fill(recent, lambda: _recent(lines))
                if chart is not None:
                    self._grow(chart)

            await make()
            self._frame.keep_current(tiles, make, REFRESH_S, problem)

    def _fill(self, place: Any, fill: Callable[[], None]) -> None:
        place.clear()
        with place:
            fill()

    def _rate(self) -> float | None:
        """Attempts per second that placed a pod, up to the latest sample."""
        rates = self._history.history.rates("scheduled")
        return rates[-1] if rates else None

    def _grow(self, chart: LineChart) -> None:
        history = self._history.history
        times = [f"{datetime.fromtimestamp(each.at_s, UTC).astimezone():%H:%M:%S}" for each in history.samples]
        chart.show(times, {result: history.rates(result) for result in RESULTS}, "/s")


def _panel(title: str) -> Any:
    with tag("section", classes="panel", aria_label=title):
        tag("h2", title)
        return tag("div", classes="panel-body")


def _tiles(found: Overview, report: PendingReport, rate: float | None) -> None:
    shown: list[tuple[str, str, str, str]] = [
        ("Nodes", f"{found.nodes:,}", f"{found.cordoned:,} cordoned" if found.cordoned else "all open", "/map"),
        ("Pods on nodes", f"{found.pods:,}", f"{found.more:,} more of the average fit", "/map"),
        (
            "Pending",
            f"{report.pods:,}",
            f"for {counted(len(report.groups), 'reason')}" if report.pods else "nothing waits",
            "/pending",
        ),
    ]
    if rate is not None:
        shown.append(("Placed per second", f"{rate:.1f}", "now", "/queue"))
    if found.over:
        shown.append(
            ("Over 100 %", f"{found.over:,}", f"node{'' if found.over == 1 else 's'} with too much on", "/map")
        )
    for name, value, beside, target in shown:
        with tag("div", classes="tile bad" if name == "Over 100 %" else "tile"):
            tag("dt", name)
            with tag("dd"):
                link(value, target)
            tag("dd", beside, "soft")


def _fills(found: Overview) -> None:
    for each in found.fills[:FILLS_SHOWN]:
        if each.allocatable:
            _fill_line(each)
    if found.average:
        shape = ", ".join(f"{amount(name, value)} {_unit(name)}" for name, value in found.average.items())
        tag("p", f"Usable is what pods of the average shape ({shape}) could have of what is free.", "soft")


def _fill_line(each: ResourceFill) -> None:
    with tag("div", classes="fill-line"):
        tag("span", each.name, "name")
        share_bar(each.share, wide=True, usable=None if each.usable is None else each.usable / each.allocatable)
        said = f"{amount(each.name, each.requested)} of {amount(each.name, each.allocatable)}"
        tag("span", said, "number")
        usable = ""
        if each.usable is not None and each.free:
            usable = f"{amount(each.name, each.free)} free, {each.usable / each.free:.0%} of it usable"
        tag("span", usable, "soft")


def _pending(report: PendingReport) -> None:
    if not report.pods:
        tag("p", "No pod is pending.", "empty")
        return
    most = max(group.pods for group in report.groups)
    for group in report.groups[:REASONS_SHOWN]:
        with tag("div", classes="reason-line"):
            with tag("span", classes="count"):
                link(f"{group.pods:,}", "/pending")
            with tag("div"):
                tag("span", nodes_in_our_words(group.reason), "reason")
                tag("div", style=f"width:{100 * group.pods / most:.0f}%", classes="count-bar", aria_hidden="true")
                if longest := lasting(group.since):
                    tag("span", f"longest{longest}", "soft")
    if len(report.groups) > REASONS_SHOWN:
        link(f"{len(report.groups) - REASONS_SHOWN} more reasons", "/pending")


def _fullest(found: Overview) -> None:
    others = [each.name for each in found.fills if each.requested and each.name not in ("cpu", "memory")]
    names = ["cpu", "memory", *others[:OTHERS_SHOWN], "pods"]
    heads = [("CPU" if name == "cpu" else name.partition("/")[2] or name.capitalize(), "number") for name in names]
    table("", ["Node", *heads], [_full_row(line, names) for line in found.fullest], classes="compact")


def _full_row(line: NodeLine, names: Sequence[str]) -> list[Any]:
    address = f"/map?{urlencode({'node': line.name})}"
    return [
        lambda: link(line.name, address),
        *(lambda name=name: share_bar(line.shares.get(name)) for name in names),
    ]


def _recent(lines: list[DecisionLine]) -> None:
    if not lines:
        tag("p", "Nothing has been decided yet.", "empty")
        return
    rows = [
        [
            lambda line=line: link(line.pod, pod_path(line.pod)),
            lambda line=line: tag("span", line.node or line.outcome, "" if line.node else "warn"),
            ago(line.time) or NOTHING,
        ]
        for line in reversed(lines[-DECISIONS_SHOWN:])
    ]
    table("", ["Pod", "To", ("When", "short")], rows, classes="compact")


def amount(name: str, value: float) -> str:
    """An amount for people: CPU in cores, bytes in binary units."""
    if name == "cpu":
        return f"{value / 1000:,.3g}" if value < 1e6 else f"{value / 1000:,.0f}"
    if name not in ("memory", "ephemeral-storage") and not name.startswith("hugepages-"):
        return f"{value:,.0f}"
    power = 0
    while power < len(BINARY) - 1 and value >= 1024 ** (power + 2):
        power += 1
    value, unit = value / 1024 ** (power + 1), BINARY[power]
    return f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _unit(name: str) -> str:
    return "CPU" if name == "cpu" else name
