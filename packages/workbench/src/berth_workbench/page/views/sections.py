"""Shows sections on the page: the verdict first, tables, pictures, and closed what few want to see."""

from collections.abc import Iterable

import msgspec

from berth_workbench.page.views.elements import MoveMap, bar_chart, point_chart, table, tag
from berth_workbench.showing.sections import (
    Bars,
    Cell,
    Moves,
    NoteSection,
    Points,
    Section,
    Sentence,
    TableSection,
    VerdictSection,
)
from berth_workbench.showing.words import celled

ROWS_SHOWN = 100
ROWS_OPEN = 30
"""Tables of more rows are closed at first, so that one sees what else there is."""
_STYLES = {True: "summary good", False: "summary bad", None: "summary"}


def show_sections(sections: Iterable[Section]) -> None:
    """Make elements of all sections that have something in them."""
    told = list(sections)
    with tag("section", classes="panel", aria_label="Answer"):
        for each in told:
            if isinstance(each, VerdictSection):
                tag("p", each.text, _STYLES[each.is_good])
            elif isinstance(each, Sentence):
                tag("p", each.text)
            elif isinstance(each, NoteSection):
                tag("p", each.text, "soft")
        for each in told:
            if isinstance(each, Moves):
                _show_moves(each)
    bars = [each for each in told if isinstance(each, Bars) and each.labels]
    if bars:
        with tag("div", classes="charts"):
            for each in bars:
                with tag("section", classes="panel", aria_label=each.title):
                    most = 100.0 if each.unit == "%" else 0.0
                    bar_chart(each.title, each.labels, each.series, stacked=each.is_stacked, most=most)
    for each in told:
        if isinstance(each, Points) and any(each.series.values()):
            with tag("section", classes="panel", aria_label=each.title):
                point_chart(each.title, (each.across, each.up), each.series)
        elif isinstance(each, TableSection) and each.rows:
            _show_table(each)


def _show_moves(section: Moves) -> None:
    values = msgspec.to_builtins(section)
    nodes = {name: values[name] for name in ("names", "pools", "zones", "before", "after", "left", "came", "scarcest")}
    MoveMap(nodes, section.moves, section.label, steps=section.steps)


def _show_table(section: TableSection) -> None:
    shown = section.rows[:ROWS_SHOWN]
    columns = [(each.heading, "number" if each.kind == "number" else "") for each in section.columns]
    title = section.title or section.columns[0].heading
    more = f", {len(shown):,} of {len(section.rows):,}" if len(shown) < len(section.rows) else ""
    with tag("section", classes="panel", aria_label=title):
        if section.is_folded or len(section.rows) > ROWS_OPEN:
            with tag("details"):
                tag("summary", f"{title} ({len(section.rows):,})")
                table(more.removeprefix(", "), columns, map(_cells, shown))
        else:
            table(section.title + more if section.title or more else "", columns, map(_cells, shown))


def _cells(row: Iterable[Cell]) -> list[str]:
    return [celled(cell) for cell in row]
