"""The browser's own elements, and our components, as NiceGUI elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import nicegui.elements.echart  # noqa: F401 - has the browser told where ECharts is
from nicegui.element import Element

from berth_workbench.showing.sections import Behind, Cell, TableHead
from berth_workbench.showing.words import NAMES_SHOWN, celled
from berth_workbench.sources.part_rows import RowPart


class _Component(Element):
    """A component of ours, whose properties are given by name."""

    def __init__(self, **props: Any) -> None:
        super().__init__()
        self.props.update(props)

    def show(self, **props: Any) -> None:
        """Give it other properties."""
        self.props.update(props)
        self.update()


class Shell(_Component, component="../assets/shell.js"):
    """The header, the side bar and the search of every page."""


class HeatMap(_Component, component="../assets/heat_map.js"):
    """The cluster as a map; it fetches nodes, pods and scores itself, every `refreshS` seconds unless that is 0."""


class TimeLineMap(_Component, component="../assets/time_line.js"):
    """What every node carried over time, with a slider; it fetches `src` itself, again and again with `refreshS`."""


class MoveMap(_Component, component="../assets/move_map.js"):
    """The nodes before and after a trial, and the pods that went from one to another."""


class AskedSentence(_Component, component="../assets/ask.js"):
    """A question as a sentence whose parts can be changed."""


class Rows(_Component, component="../assets/rows.js"):
    """A table that shows its first rows, with a search and more of them."""


class Chart(_Component, component="../assets/chart.js"):
    """A chart of ECharts, which NiceGUI brings along."""

    def __init__(self, kind: str, label: str, *, height: int = 220, stacked: bool = False) -> None:
        """`kind` is `line`, `bar`, `points` or `flows`."""
        super().__init__(kind=kind, label=label, height=height, stacked=stacked, labels=[], series=[])

    def draw(
        self, labels: Sequence[str], series: Mapping[str, Sequence[Any]], unit: str = "", *, most: float = 0.0
    ) -> None:
        """Show these series, by name, with a value for each label; the axis ends at `most`, if that is given."""
        named = [{"name": name, "values": list(of), "unit": unit} for name, of in series.items()]
        self.show(labels=list(labels), series=named, most=most)


def bar_chart(label: str, labels: Sequence[str], series: Mapping[str, Sequence[float | None]], **options: Any) -> None:
    """Bars by label, one below the other, as high as that takes."""
    is_stacked = bool(options.get("stacked"))
    high = 60 + max(1, len(labels)) * (26 if is_stacked else 22 * len(series))
    Chart("bar", label, height=high, stacked=is_stacked).draw(labels, series, most=options.get("most", 0.0))


def followed_chart(label: str, height: int = 220) -> Chart:
    """Lines over time that mark the moment at which the map is looked at."""
    with tag("section", classes="panel"):
        chart = Chart("line", label, height=height)
    chart.props["follows"] = "berth-time"
    return chart


def tag(kind: str, /, text: str = "", classes: str = "", **attributes: Any) -> Element:
    """An element of the browser's; `_` in the names of attributes stands for `-`, a trailing one for nothing."""
    made = _Tag(kind, text)
    if classes:
        made.classes(classes)
    made.props.update({key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()})
    return made


class _Tag(Element):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind)
        if text:
            self._text = text


def on(element: Element, event: str, handler: Callable[[Any], Any]) -> Element:
    """Have the server handle an event, without a script that the browser would have to evaluate."""
    return element.on(event, handler, js_handler=None)  # type: ignore[arg-type] # None is sent as none


def rows(caption: str, columns: Sequence[Any], cells: Sequence[Sequence[Any]], **options: Any) -> Rows:
    """A table; a column is its heading, that and its kind, or a `TableHead`, and a cell what `rows.js` knows."""
    heads = [(each, "name") if isinstance(each, str) else each for each in columns]
    pairs = [(each.heading, each.kind) if isinstance(each, TableHead) else each for each in heads]
    told = [{"heading": heading, "kind": kind} for heading, kind in pairs]
    return Rows(caption=caption, columns=told, rows=[[plain(cell) for cell in row] for row in cells], **options)


def part_rows(caption: str, columns: Sequence[Any], first: RowPart, src: str, **options: Any) -> Rows:
    """A table of which the first rows come with the page, and others from `src`."""
    return rows(caption, columns, (), src=src, first=msgspec.structs.asdict(first), **options)


def plain(cell: Cell | Mapping[str, Any] | float | None) -> Any:
    """Return a cell as `rows.js` takes it."""
    if isinstance(cell, Behind):
        return cell.text if cell.behind == cell.text else {"text": cell.text, "behind": cell.behind}
    if isinstance(cell, tuple):
        shown = celled(cell)
        return {"text": shown, "behind": ", ".join(cell)} if len(cell) > NAMES_SHOWN else shown
    return cell


def link(text: str, href: str, classes: str = "") -> Element:
    """A link to another page of ours."""
    return tag("a", text, classes, href=href)


def linked(text: str, href: str, **more: Any) -> dict[str, Any]:
    """A cell with a link."""
    return {"text": text, "href": href, **more}
