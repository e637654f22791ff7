"""Shows the sections of an answer: the verdict with its number, the picture, the tables, and how it was worked out."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any, TypeGuard
from urllib.parse import urlencode

import msgspec

from berth_workbench.page.views.elements import Chart, MoveMap, bar_chart, link, rows, tag
from berth_workbench.questions.question import Question
from berth_workbench.questions.table import asked_on_page, pages_of_others
from berth_workbench.showing.numbers import number
from berth_workbench.showing.sections import (
    KEPT,
    Bars,
    Moves,
    NoteSection,
    Points,
    Section,
    Sentence,
    TableSection,
    Try,
    VerdictSection,
)
from berth_workbench.showing.words import counted

ARCS_AT_MOST = 60
"""So many pairs of nodes are joined by a line each; of more it is told how many pods went from which zone to which."""
FLOWS_SHOWN = 60
_STYLES = {True: "verdict good", False: "verdict bad", None: "verdict"}


def show_answer(
    question: Question[Any, Any], found: Any, command: str, values: Mapping[str, str], *, goes_on: bool = False
) -> None:
    """Show the answer to what was typed, and the command that prints it."""
    sections = [*question.sections(found, is_at_work=goes_on), *map(NoteSection, found.notes)]
    show_sections((each for each in sections if not _is_folded(each)), values)
    with tag("details", classes="worked-out"):
        tag("summary", "How it was worked out")
        for paragraph in question.about.strip().split("\n\n"):
            tag("p", " ".join(paragraph.split()))
        for each in sections:
            if isinstance(each, NoteSection):
                tag("p", each.text)
            elif _is_folded(each):
                _show_table(each)
        tag("p", "The same on a terminal, with --cluster FILE or --kubeconfig:")
        tag("code", command, "command")


def show_sections(sections: Iterable[Section], values: Mapping[str, str] = MappingProxyType({})) -> None:
    """Make elements of all sections that have something in them, but for notes."""
    told = list(sections)
    with tag("section", classes="panel answer", aria_label="Answer"):
        for each in told:
            if isinstance(each, VerdictSection):
                _show_verdict(each)
            elif isinstance(each, Sentence):
                tag("p", each.text)
        show_tries([each for each in told if isinstance(each, Try)], values)
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
    labels = Counter[str]()
    for each in told:
        if isinstance(each, Points) and any(each.series.values()):
            with tag("section", classes="panel", aria_label=each.title):
                chart = Chart("points", each.title, height=360)
                chart.props["axes"] = [each.across, each.up]
                chart.draw((), each.series)
        elif isinstance(each, TableSection) and each.rows:
            label = each.title or each.columns[0].heading
            labels[label] += 1  # screen readers tell sections apart by their labels
            again = f", {labels[label]}" if labels[label] > 1 else ""
            place = tag("section", classes="panel", aria_label=f"{label}{again}")
            with place, tag("details") if each.is_folded else nullcontext():
                if each.is_folded:
                    tag("summary", f"{label} ({number(len(each.rows))})")
                _show_table(each)


def show_tries(tries: Collection[Try], values: Mapping[str, str] = MappingProxyType({})) -> None:
    """Show what can be done about something, as buttons that lead to the questions that try it."""
    questions = (*(each.question for each in pages_of_others()), *asked_on_page()) if tries else ()
    paths = {each.name: each.path for each in questions}
    with tag("div", classes="tries") if tries else nullcontext():
        for each in tries:
            typed = {name: values.get(name, "") if text == KEPT else text for name, text in each.typed.items()}
            query = urlencode({name: text for name, text in typed.items() if text})
            link(each.text, f"{paths[each.question]}?{query}", "button plain")


def _is_folded(section: Section) -> TypeGuard[TableSection]:
    return isinstance(section, TableSection) and section.is_folded and bool(section.rows)


def _show_verdict(section: VerdictSection) -> None:
    with tag("div", classes=_STYLES[section.is_good]):
        if section.figure != "":
            with tag("p", classes="figure"):
                tag("strong", number(section.figure) if isinstance(section.figure, int) else section.figure)
                tag("span", section.counts)
        tag("p", section.text, "summary")


def _show_moves(section: Moves) -> None:
    """The flows of many pods between groups, or the moves of few between nodes."""
    if len(section.moves) > ARCS_AT_MOST and not section.steps:
        groups = [
            name
            for name in ("zone", "pool")
            if len({end for flow in section.flows.get(name, ()) for end in flow[:2]}) > 1
        ]
        for name in groups:
            flows = section.flows[name][:FLOWS_SHOWN]
            moved = sum(flow[2] for flow in flows)
            high = min(520, 90 + 26 * max(len({flow[0] for flow in flows}), len({flow[1] for flow in flows})))
            chart = Chart("flows", f"From {name} to {name}: {counted(moved, 'pod')}", height=high)
            chart.draw((), {"pods": flows})
    values = msgspec.to_builtins(section)
    kept = ("names", "pools", "zones", "before", "after", "left", "came", "scarcest")
    MoveMap(nodes={name: values[name] for name in kept}, moves=values["moves"], label=section.label,
            steps=list(section.steps), arcs=len(section.moves) <= ARCS_AT_MOST)  # fmt: skip


def _show_table(section: TableSection) -> None:
    rows(section.title, section.columns, section.rows)
