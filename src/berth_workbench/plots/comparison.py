"""Draws a comparison of two configurations: both values of each measure that differs, true to scale."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from berth_workbench.comparison.comparison import ConfigurationsCompared, FigureCompared
from berth_workbench.comparison.figures import SHARES, shown_figure
from berth_workbench.plots.picture import COLOURS, write_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

A_COLOUR, B_COLOUR = COLOURS[4], COLOURS[0]


def plot_comparison(path: str | Path, found: ConfigurationsCompared) -> None:
    """Write the picture of a comparison. Raises `PictureError`."""
    drawn = [
        figure
        for figure in found.measures
        if figure.a is not None and shown_figure(figure.name, figure.a) != shown_figure(figure.name, figure.b)
    ]
    write_picture(
        path,
        partial(draw, drawn, found.a, found.b),
        title=f"{found.b} (B) compared with {found.a} (A)",
        description=_described(found, drawn),
        size=(8.5, max(2.5, 1.6 + 0.42 * len(drawn))),
    )


def draw(drawn: list[FigureCompared], a: str, b: str, figure: "Figure") -> None:
    """Draw each figure that differs, with both values.

    A share is drawn where it lies between 0 and 100 %, so that 0.1 % and 0.4 % look alike, as they are; any other
    measure as two bars from zero, in parts of the larger.
    """
    shares = [each for each in drawn if each.name.split(".")[0] in SHARES]
    others = [each for each in drawn if each not in shares]
    if not drawn:
        figure.subplots().text(0.5, 0.5, "no measure differs", ha="center", va="center")
        return
    heights = [max(1, len(part)) for part in (others, shares) if part]
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    parts = [(others, _draw_bars), (shares, _draw_shares)]
    for place, (part, paint) in zip(axes, [each for each in parts if each[0]], strict=True):
        paint(part, place)
        place.set_yticks(range(len(part)), [each.name for each in reversed(part)])
        place.set_ylim(-0.6, len(part) - 0.4)
        place.grid(axis="y", visible=False)
        for at, each in enumerate(reversed(part)):
            place.text(1.02, at, _verdict(each), transform=place.get_yaxis_transform(), va="center", fontsize=9)
    handles = axes[0].get_legend_handles_labels()[0][:2]
    figure.legend(handles, [f"A: {a}", f"B: {b}"], loc="outside lower center", ncols=2, frameon=False)


def _draw_bars(part: list[FigureCompared], axes: "Axes") -> None:
    """Two bars for each measure, as long as their values, in parts of the larger."""
    for at, each in enumerate(reversed(part)):
        assert each.a is not None and each.b is not None, "only such are drawn"
        whole = max(abs(each.a), abs(each.b))
        for value, up, colour, name in ((each.a, 0.2, A_COLOUR, "A"), (each.b, -0.2, B_COLOUR, "B")):
            axes.barh(at + up, abs(value) / whole, height=0.36, color=colour, label=name)
            axes.text(abs(value) / whole + 0.01, at + up, shown_figure(each.name, value), va="center", fontsize=8)
    axes.set_xlim(0, 1.15)
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)


def _draw_shares(part: list[FigureCompared], axes: "Axes") -> None:
    """A point for each value where it lies between 0 and 100 %, and what lies between the two."""
    for at, each in enumerate(reversed(part)):
        assert each.a is not None and each.b is not None, "only such are drawn"
        axes.plot([100 * each.a, 100 * each.b], [at, at], color=COLOURS[7], linewidth=1.5, zorder=1)
        axes.scatter([100 * each.a], [at], color=A_COLOUR, s=42, zorder=2, label="A")
        axes.scatter([100 * each.b], [at], color=B_COLOUR, s=42, zorder=3, label="B")
        told = f"{shown_figure(each.name, each.a)} → {shown_figure(each.name, each.b)}"
        right = max(each.a, each.b) < 0.75
        axes.annotate(
            told,
            (100 * (max if right else min)(each.a, each.b), at),
            xytext=(8 if right else -8, 0),
            textcoords="offset points",
            fontsize=8,
            va="center",
            ha="left" if right else "right",
        )
    axes.set_xlim(0, 100)
    axes.set_xlabel("%")


def _verdict(each: FigureCompared) -> str:
    """Which is better, where one is with every seed, and how much the difference varies over them."""
    better = f"{each.better.upper()} better" if each.better else "no winner"
    return better if each.deviation is None else f"{better}, ±{shown_figure(each.name, each.deviation)}"


def _described(found: ConfigurationsCompared, drawn: list[FigureCompared]) -> str:
    told = [f"{each.name}: A {each.a:.4g}, B {each.b:.4g}" for each in drawn]
    changed = f"{len(found.decisions.changes)} of {found.decisions.decided} pods are decided differently."
    return f"A is {found.a}, B is {found.b}. {changed} " + ("; ".join(told) or "No measure differs") + "."
