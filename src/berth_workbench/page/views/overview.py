"""The first page: what needs attention, each with the question that tells more; how full the cluster is, and where."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from berth.decisions.pending import PendingReport
from berth_workbench.page.ahead import Ahead
from berth_workbench.page.attention import FINDINGS, Finding, of_pending
from berth_workbench.page.model import NodeLine
from berth_workbench.page.overview import Overview, ResourceFill, overview
from berth_workbench.page.source import Source
from berth_workbench.page.views.elements import link, share_bar, table, tag
from berth_workbench.page.views.frame import Frame
from berth_workbench.simulation.measures import told_resources

REFRESH_S = 3.0
NOTHING_TO_DO = (
    "Nothing: no pod is pending, any one node or zone can be lost, no GPU or other device is stranded, no node could "
    "go, and no quota binds."
)
FILLS_SHOWN = 6
OTHERS_SHOWN = 2
"""So many resources beside CPU and memory, such as GPUs, have a column among the fullest nodes."""
BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi")


class OverviewPage:
    """Makes the page."""

    __slots__ = ("_ahead", "_frame", "_source")

    def __init__(self, source: Source, frame: Frame, ahead: Ahead) -> None:
        self._source = source
        self._frame = frame
        self._ahead = ahead

    async def build(self) -> None:
        """The page, made anew every few seconds."""
        async with self._frame.page("Overview", "/"):
            problem, tiles = tag("div"), tag("dl", classes="tiles")
            attention = _panel("What needs attention")
            with tag("div", classes="overview"):
                fills, fullest = _panel("How full"), _panel("Fullest nodes")

            async def make() -> None:
                columns, report = await self._source.nodes(), await self._source.pending()
                found = overview(columns)
                known = {name: self._ahead.get(name, (columns, report)) for name in FINDINGS}
                self._fill(tiles, lambda: _tiles(found, report))
                self._fill(attention, lambda: self._attention(report, known))
                self._fill(fills, lambda: _fills(found))
                self._fill(fullest, lambda: _fullest(found))

            await make()
            self._frame.keep_current(make, REFRESH_S, problem, lambda: self._ahead.is_at_work)

    def _fill(self, place: Any, fill: Callable[[], None]) -> None:
        place.clear()
        with place:
            fill()

    def _attention(self, report: PendingReport, known: Mapping[str, list[Finding] | None]) -> None:
        """A line for each finding; what is still being worked out, or cannot be, is said below them."""
        findings = [*of_pending(report), *(each for found in known.values() for each in found or ())]
        with tag("div", classes="findings"):
            for each in findings:
                with tag("a", classes="finding", href=each.asks):
                    tag("strong", each.figure)
                    tag("span", each.says)
                    tag("span", each.name, "asks")
        if self._ahead.is_at_work:
            tag("p", "More is being worked out…", "soft")
        elif self._ahead.problem:
            tag("p", f"More cannot be worked out: {self._ahead.problem}", "soft")
        elif not findings:
            tag("p", NOTHING_TO_DO, "good")


def _panel(title: str) -> Any:
    with tag("section", classes="panel", aria_label=title):
        tag("h2", title)
        return tag("div", classes="panel-body")


def _tiles(found: Overview, report: PendingReport) -> None:
    shown: list[tuple[str, str, str, str]] = [
        ("Nodes", f"{found.nodes:,}", f"{found.cordoned:,} cordoned" if found.cordoned else "all open", "/map"),
        ("Pods on nodes", f"{found.pods:,}", f"{found.more:,} more of the average fit", "/map"),
        ("Pending", f"{report.pods:,}", "wait for a node" if report.pods else "nothing waits", "/pending"),
    ]
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
        tag("span", _unit(each.name), "name")
        share_bar(each.share, wide=True, usable=None if each.usable is None else each.usable / each.allocatable)
        said = f"{amount(each.name, each.requested)} of {amount(each.name, each.allocatable)}"
        tag("span", said, "number")
        usable = ""
        if each.usable is not None and each.free:
            usable = f"{amount(each.name, each.free)} free, {each.usable / each.free:.0%} of it usable"
        tag("span", usable, "soft")


def _fullest(found: Overview) -> None:
    names = [*told_resources(each.name for each in found.fills)[: 2 + OTHERS_SHOWN], "pods"]
    heads = [(_unit(name).rpartition("/")[2], "number") for name in names]
    table("", ["Node", *heads], [_full_row(line, names) for line in found.fullest], classes="compact")


def _full_row(line: NodeLine, names: Sequence[str]) -> list[Any]:
    address = f"/map?{urlencode({'node': line.name})}"
    return [
        lambda: link(line.name, address),
        *(lambda name=name: share_bar(line.shares.get(name)) for name in names),
    ]


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
