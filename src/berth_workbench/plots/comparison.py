"""Draws a comparison of two configurations: each measure's difference, towards the better side."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from berth_workbench.comparison.comparison import ConfigurationsCompared, FigureCompared
from berth_workbench.plots.picture import COLOURS, write_picture
from berth_workbench.simulation.measures import better

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_comparison(path: str | Path, found: ConfigurationsCompared) -> None:
    """Write the picture of a comparison. Raises `PictureError`."""
    drawn = [figure for figure in found.measures if figure.a is not None and figure.b is not None and figure.difference]
    write_picture(
        path,
        partial(draw, drawn, found.a, found.b),
        title=f"{found.b} (B) compared with {found.a} (A)",
        description=_described(found, drawn),
        size=(8.0, max(2.5, 1.4 + 0.3 * len(drawn))),
    )


def draw(drawn: list[FigureCompared], a: str, b: str, figure: "Figure") -> None:
    """Draw each figure that differs: by how much of the larger value, with the deviation over the seeds."""
    axes = figure.subplots()
    axes.set_title(f"← {a} is better", fontsize=9, loc="left")
    axes.set_title(f"{b} is better →", fontsize=9, loc="right")
    axes.set_xlim(-110, 110)
    for place, each in enumerate(reversed(drawn)):
        assert each.a is not None and each.b is not None and each.difference is not None, "only such are drawn"
        whole = max(abs(each.a), abs(each.b))
        way = better(each.name) or 1
        colour = {"a": COLOURS[1], "b": COLOURS[0], "": COLOURS[7]}[each.better]
        error = None if each.deviation is None else each.deviation / whole * 100
        axes.barh(place, way * each.difference / whole * 100, xerr=error, color=colour, height=0.7, capsize=2)
    axes.set_yticks(range(len(drawn)), [each.name for each in reversed(drawn)])
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("difference, % of the larger value; bars: standard deviation over the seeds")
    if not drawn:
        axes.text(0.5, 0.5, "no measure differs", ha="center", va="center", transform=axes.transAxes)


def _described(found: ConfigurationsCompared, drawn: list[FigureCompared]) -> str:
    told = [f"{each.name}: A {each.a:.4g}, B {each.b:.4g}" for each in drawn]
    changed = f"{len(found.decisions.changes)} of {found.decisions.decided} pods are decided differently."
    return f"A is {found.a}, B is {found.b}. {changed} " + ("; ".join(told) or "No measure differs") + "."
