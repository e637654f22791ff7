"""The browser's own elements, and our three components, as NiceGUI elements."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from typing import Any, Protocol

import nicegui.elements.echart  # noqa: F401 - has the browser told where ECharts is
from nicegui.element import Element

from berth_workbench.showing.numbers import NOTHING, percent


class HeatMap(Element, component="../assets/heat_map.js"):
    """The cluster as a map; it fetches nodes, pods and scores itself, every `refresh_s` seconds unless that is 0."""

    def __init__(self, src: str, scores_src: str, pods_src: str, *, refresh_s: float, recent: Sequence[str]) -> None:
        super().__init__()
        self.props["src"] = src
        self.props["scoresSrc"] = scores_src
        self.props["podsSrc"] = pods_src
        self.props["refreshS"] = refresh_s
        self.props["recent"] = list(recent)


class ThemeChoice(Element, component="../assets/theme.js"):
    """Light, dark, or as the system has it."""


class SearchField(Element, component="../assets/search.js"):
    """The search in the head of every page, and the keys that lead to `views`."""

    def __init__(self, src: str, views: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.props["src"] = src
        self.props["views"] = [list(view) for view in views]


class Chart(Element, component="../assets/chart.js"):
    """A chart of ECharts, which NiceGUI brings along."""

    def __init__(self, kind: str, label: str, *, height: int = 220, stacked: bool = False) -> None:
        """`kind` is `line`, `bar` or `points`."""
        super().__init__()
        self.props["kind"] = kind
        self.props["label"] = label
        self.props["height"] = height
        self.props["stacked"] = stacked
        self.props["labels"] = []
        self.props["series"] = []

    def show(
        self, labels: Sequence[str], series: Mapping[str, Sequence[Any]], unit: str = "", *, most: float = 0.0
    ) -> None:
        """Show these series, by name, with a value for each label; the axis ends at `most`, if that is given."""
        self.props["labels"] = list(labels)
        self.props["series"] = [{"name": name, "values": list(of), "unit": unit} for name, of in series.items()]
        self.props["most"] = most
        self.update()


class LineChart(Chart, component="../assets/chart.js"):
    """Lines over time."""

    def __init__(self, label: str, *, height: int = 220) -> None:
        super().__init__("line", label, height=height)


def bar_chart(label: str, labels: Sequence[str], series: Mapping[str, Sequence[float | None]], **options: Any) -> None:
    """Bars by label, one below the other, as high as that takes."""
    made = Chart("bar", label, height=60 + max(1, len(labels)) * (26 if options.get("stacked") else 22 * len(series)))
    made.props["stacked"] = bool(options.get("stacked"))
    made.show(labels, series, most=options.get("most", 0.0))


def point_chart(label: str, axes: tuple[str, str], series: Mapping[str, Sequence[tuple[str, float, float]]]) -> None:
    """Points, each with a name, across and up."""
    made = Chart("points", label, height=360)
    made.props["axes"] = list(axes)
    made.show((), series)


class TimeLineMap(Element, component="../assets/time_line.js"):
    """What every node carried over time, with a slider; it fetches `src` itself, again and again with `refresh_s`."""

    def __init__(self, src: str, *, refresh_s: float = 0.0) -> None:
        super().__init__()
        self.props["refreshS"] = refresh_s
        self.props["src"] = src


class TrialMap(Element, component="../assets/trial_map.js"):
    """Nodes, zones and workloads to choose from; each choice becomes a line of the form's field `changes`."""

    def __init__(self, src: str, pods_src: str) -> None:
        super().__init__()
        self.props["src"] = src
        self.props["podsSrc"] = pods_src


class MoveMap(Element, component="../assets/move_map.js"):
    """The nodes before and after a trial, and the pods that went from one to another."""

    def __init__(
        self, nodes: Mapping[str, Any], moves: Sequence[Sequence[int]], label: str, *, steps: Sequence[str] = ()
    ) -> None:
        """`steps` describe each move, if they are made one after another."""
        super().__init__()
        self.props["steps"] = list(steps)
        self.props["nodes"] = dict(nodes)
        self.props["moves"] = [list(move) for move in moves]
        self.props["label"] = label


class TrialForm(Element, component="../assets/form.js"):
    """A form whose values are sent as a whole; an address that has values is tried at once."""

    def __init__(self, label: str, action: str, fields: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self.props["label"] = label
        self.props["action"] = action
        self.props["fields"] = [dict(field) for field in fields]
        self.tell(busy=False)

    def tell(self, *, busy: bool, progress: str = "") -> None:
        """Tell whether a trial is under way, and how far it is."""
        self.props["busy"] = busy
        self.props["progress"] = progress
        self.update()


class Tag(Protocol):
    """An element of the browser's: one of NiceGUI's, or a part of something `still`."""

    @property
    def props(self) -> MutableMapping[str, Any]:
        """Its attributes."""

    def __enter__(self) -> Any:
        """What is made from now on is in it."""

    def __exit__(self, *_: object) -> None:
        """Elements made from now on are outside it."""


def tag(kind: str, /, text: str = "", classes: str = "", **attributes: Any) -> Tag:
    """An element of the browser's; `_` in the names of attributes stands for `-`, a trailing one for nothing."""
    named = _named(classes, attributes)
    around = _STILL.get()
    if around is None:
        return _lively(kind, text, named)
    around.parts.append(made := _Part(kind, text, named))
    return made


def area(kind: str = "div", classes: str = "", **attributes: Any) -> Element:
    """The same, with content that is rebuilt whenever something has changed."""
    return _lively(kind, "", _named(classes, attributes))


def _named(classes: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    return named | {"class": classes} if classes else named


def _lively(kind: str, text: str, attributes: dict[str, Any]) -> Element:
    made = _Lively(kind, text)
    if classes := attributes.pop("class", ""):
        made.classes(classes)
    made.props.update(attributes)
    return made


class _Lively(Element):
    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind)
        if text:
            self._text = text


@contextmanager
def still(kind: str = "div", classes: str = "") -> Iterator[None]:
    """An element in which nothing changes or calls back: to NiceGUI all of it is one element, as HTML.

    Each of NiceGUI's elements takes a tenth of a millisecond to make, and a table of fifty rows has two thousand.
    """
    if _STILL.get() is not None:
        with tag(kind, classes=classes):
            yield
        return
    with _Part(kind, "", {}) as root:
        yield
    _Still(kind, root.inner()).classes(classes)


class _Still(Element, component="../assets/still.js"):
    """Something `still`; NiceGUI's own element for HTML would be compiled in the browser, which we forbid."""

    def __init__(self, kind: str, html: str) -> None:
        super().__init__()
        self.props["kind"] = kind
        self.props["html"] = html


_VOID = frozenset({"br", "hr", "img", "input"})


class _Part:
    """An element in something `still`."""

    __slots__ = ("_around", "_kind", "_text", "parts", "props")

    def __init__(self, kind: str, text: str, props: dict[str, Any]) -> None:
        self._kind = kind
        self._text = text
        self.props: MutableMapping[str, Any] = props
        self.parts: list[_Part] = []

    def __enter__(self) -> "_Part":
        self._around = _STILL.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _STILL.reset(self._around)

    def inner(self) -> str:
        """What is in it, as HTML."""
        return escape(self._text) + "".join(part.html() for part in self.parts)

    def html(self) -> str:
        """The whole, as HTML; an attribute that is true has no value, as `selected`."""
        attributes = "".join(
            f" {name}" if value is True else f' {name}="{escape(str(value))}"'
            for name, value in self.props.items()
            if value is not False
        )
        end = "" if self._kind in _VOID else f"{self.inner()}</{self._kind}>"
        return f"<{self._kind}{attributes}>{end}"


_STILL: ContextVar[_Part | None] = ContextVar("still", default=None)
"""The part into which `tag` makes what is to be still; None where elements of NiceGUI's are made."""


def on(element: Element, event: str, handler: Callable[[Any], Any]) -> Element:
    """Have the server handle an event, without a script that the browser would have to evaluate."""
    return element.on(event, handler, js_handler=None)  # type: ignore[arg-type] # None is sent as none


def table(
    caption: str, columns: Sequence[str | tuple[str, str]], rows: Iterable[Sequence[Any]], *, classes: str = ""
) -> None:
    """A table; a column is its heading, or that and a class. A cell is text, or a function that fills it with `tag`.

    The first cell of each row heads it.
    """
    heads = [column if isinstance(column, tuple) else (column, "") for column in columns]
    with still(classes="scroll"), tag("table", classes=classes):
        if caption:
            tag("caption", caption)
        with tag("thead"), tag("tr"):
            for text, style in heads:
                tag("th", text, style, scope="col")
        with tag("tbody"):
            for row in rows:
                with tag("tr"):
                    for number, (cell, (_, style)) in enumerate(zip(row, heads, strict=True)):
                        _cell(cell, style, is_head=number == 0)


def _cell(cell: Any, style: str, *, is_head: bool) -> None:
    text = "" if callable(cell) else str(cell)
    made = tag("th", text, style, scope="row") if is_head else tag("td", text, style)
    if callable(cell):
        with made:
            cell()


def share_bar(share: float | None, *, wide: bool = False) -> None:
    """A share as a bar and in percent, red if it is more than all."""
    if share is None:
        tag("span", NOTHING)
        return
    over = " over" if share > 1 else ""
    with tag("span", classes=f"bar{' wide' if wide else ''}{over}", aria_hidden="true"):
        tag("span", style=f"width:{min(100.0, share * 100):.1f}%")
    tag("span", percent(share), "bad" if over else "")


def link(text: str, href: str, classes: str = "") -> Tag:
    """A link to another page of ours."""
    return tag("a", text, classes, href=href)
