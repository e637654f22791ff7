"""Draws a search for weights: two objectives against each other with the front, or one as it got better."""

from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from berth_workbench.comparison.tune import TunedPoint, TuningResult
from berth_workbench.plots.picture import COLOURS, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = "#999999"


def plot_tuning(path: str | Path, found: TuningResult) -> None:
    """Write the picture of a search. Raises `PictureError`."""
    draw = draw_front if len(found.objectives) == 2 else draw_course
    write_picture(
        path,
        partial(draw, found),
        title=f"Tuned for {' and '.join(found.objectives)}",
        description=_described(found),
        size=(8.0, 5.0),
    )


def draw_front(found: TuningResult, figure: "Figure") -> None:
    """Draw every point that was tried with all seeds, and the line of those that none beats in both."""
    axes = figure.subplots()
    for points, colour, label in (
        ([point for point in found.points if not point.is_on_front], GREY, "tried"),
        (sorted(found.front, key=lambda point: point.outcomes[0].mean), COLOURS[0], "not beaten in both"),
    ):
        xs, ys = ([point.outcomes[index].mean for point in points] for index in (0, 1))
        errors = [[point.outcomes[index].deviation or 0.0 for point in points] for index in (0, 1)]
        line = "-" if colour != GREY else ""
        axes.errorbar(xs, ys, xerr=errors[0], yerr=errors[1], fmt="o", linestyle=line, color=colour, label=label, ms=5)
    _mark(found, axes)
    axes.set_xlabel(found.objectives[0])
    axes.set_ylabel(found.objectives[1])
    axes.legend(fontsize=8)


def _mark(found: TuningResult, axes: object) -> None:
    """Mark the base and the best."""
    chosen = [(found.points[0], "s", COLOURS[1], found.base)] if found.points else []
    chosen += [(point, "*", COLOURS[2], "best") for point in found.points if found.best and point.changes == found.best]
    for point, marker, colour, label in chosen:
        axes.plot(  # type: ignore[attr-defined] # an Axes, whose module is imported only where something is drawn
            point.outcomes[0].mean,
            point.outcomes[1].mean,
            marker,
            color=colour,
            ms=14 if marker == "*" else 9,
            label=label,
        )


def draw_course(found: TuningResult, figure: "Figure") -> None:
    """Draw the objective of each point in the order of the search, and the best up to there."""
    axes = figure.subplots()
    values = [point.outcomes[0].mean for point in found.points]
    deviations = [point.outcomes[0].deviation or 0.0 for point in found.points]
    places = range(1, len(values) + 1)
    axes.errorbar(places, values, yerr=deviations, fmt="o", color=GREY, ms=5, label="tried")
    if values:
        best = next((each.outcomes[0].mean for each in found.points if each.changes == found.best), values[0])
        sofar = list(accumulate(values, max if best > values[0] else min))
        axes.step(places, sofar, where="post", color=COLOURS[0], label="best so far, whatever it leaves pending")
        axes.axhline(values[0], color=COLOURS[1], linestyle="--", label=found.base)
        axes.axhline(best, color=COLOURS[2], label="best")
    axes.set_xlabel("configurations that were run with all seeds, in the order of the search")
    axes.set_ylabel(found.objectives[0])
    axes.legend(fontsize=8)


def _described(found: TuningResult) -> str:
    def told(point: TunedPoint) -> str:
        return ", ".join(f"{each.objective} {each.mean:.4g}" for each in point.outcomes)

    text = f"{len(found.points)} configurations were run with all seeds."
    if found.points:
        text += f" {found.base}: {told(found.points[0])}."
    best = next((point for point in found.points if point.changes == found.best), None)
    return text + (f" The best: {told(best)}." if best is not None else "")
