"""Draws the pictures among sections into a file: `--plot`."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from berth_workbench.showing.numbers import number
from berth_workbench.showing.picture import COLOURS, write_picture
from berth_workbench.showing.sections import Bars, Lines, Points, Section, VerdictSection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BARS_DRAWN = 40
"""Bars of more labels than this could not be told apart."""
LABEL = 34
"""Longer labels are broken into lines."""


def draw_sections(path: str | Path, sections: Sequence[Section], title: str) -> None:
    """Write the bars and points of an answer one below the other. Raises `PictureError`."""
    drawn = [each for each in sections if isinstance(each, Bars | Points | Lines) and _has_something(each)]
    verdict = next((each.text for each in sections if isinstance(each, VerdictSection)), title)
    heights = [_height(each) for each in drawn] or [1.5]

    def draw(figure: "Figure") -> None:
        if not drawn:
            figure.text(0.5, 0.3, "there is nothing to draw", ha="center", va="center")
            return
        places = figure.subplots(len(drawn), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        for place, each in zip(places, drawn, strict=True):
            _draw(place, each)
            place.set_title(each.title, loc="left", fontsize=10)

    described = " ".join(_described(each) for each in drawn)
    write_picture(path, draw, title=fill(verdict, 90), description=f"{verdict} {described}", size=(9.0, sum(heights)))


def _has_something(section: Bars | Points | Lines) -> bool:
    return bool(section.labels) if isinstance(section, Bars) else any(section.series.values())


def _draw(axes: Any, section: Bars | Points | Lines) -> None:
    if isinstance(section, Bars):
        _draw_bars(axes, section)
    elif isinstance(section, Points):
        _draw_points(axes, section)
    else:
        _draw_lines(axes, section)


def _draw_lines(axes: Any, section: Lines) -> None:
    for at, (name, values) in enumerate(section.series.items()):
        axes.plot(section.hours, values, color=COLOURS[at % len(COLOURS)], label=name)
    axes.set_xlabel("hours")
    axes.set_ylim(0, 100 if section.unit == "%" else None)
    axes.legend(loc="lower right", fontsize=8)


def _height(section: Bars | Points | Lines) -> float:
    if isinstance(section, Lines):
        return 2.4
    if isinstance(section, Points):
        return 4.5
    beside = 1 if section.is_stacked else max(1, len(section.series))
    return 1.1 + min(BARS_DRAWN, len(section.labels)) * (0.14 + 0.18 * beside)


def _draw_bars(axes: Any, section: Bars) -> None:
    labels = [fill(each, LABEL) for each in section.labels[:BARS_DRAWN]]
    beside = 1 if section.is_stacked else len(section.series)
    thick = 0.8 / max(beside, 1)
    behind = [0.0] * len(labels)
    for at, (name, values) in enumerate(section.series.items()):
        shown = [value or 0.0 for value in values[:BARS_DRAWN]]
        places = [
            place + (0.0 if section.is_stacked else (at - (beside - 1) / 2) * thick) for place in range(len(shown))
        ]
        left = behind if section.is_stacked else [0.0] * len(shown)
        bars = axes.barh(places, shown, left=left, height=thick * 0.92, color=COLOURS[at % len(COLOURS)], label=name)
        if section.is_stacked:
            behind = [one + other for one, other in zip(behind, shown, strict=True)]
        else:
            axes.bar_label(bars, [f"{number(value)}{section.unit}" for value in shown], padding=3, fontsize=8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    if section.unit == "%":
        axes.set_xlim(0, 112 if not section.is_stacked else 100)
    else:
        axes.margins(x=0.15)
    if len(section.series) > 1:
        axes.legend(fontsize=8, frameon=False, loc="best")


def _draw_points(axes: Any, section: Points) -> None:
    for at, (name, points) in enumerate(section.series.items()):
        if points:
            axes.plot([x for _, x, _ in points], [y for _, _, y in points], "o", color=COLOURS[at], label=name, ms=6)
    axes.set_xlabel(section.across)
    axes.set_ylabel(section.up)
    axes.legend(fontsize=8)


def _described(section: Bars | Points | Lines) -> str:
    if isinstance(section, Lines):
        most = ", ".join(f"{name} {number(max(values))}{section.unit}" for name, values in section.series.items())
        return f"{section.title} over time, at most: {most}."
    if isinstance(section, Points):
        return f"{section.title}: {sum(map(len, section.series.values()))} points of {section.across} and {section.up}."
    parts = []
    for at, label in enumerate(section.labels[:BARS_DRAWN]):
        values = {name: of[at] for name, of in section.series.items()}
        told = ", ".join(f"{name} {number(value)}" for name, value in values.items() if value is not None)
        parts.append(f"{label}: {told}")
    return f"{section.title}. {'; '.join(parts)}."
