"""Checks scoring functions that are written point by point, in plugin args and in a Policy's arguments.

Called by the args of the resource plugins and by the checks of a Policy.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from berth.config.errors import invalid, required

MAX_UTILIZATION: Final = 100
MAX_SHAPE_SCORE: Final = 10
"""The scale of the scores in a shape, whatever the scale of node scores."""


class Point(Protocol):
    """The score, 0 to 10, of a node at a utilization in percent."""

    @property
    def utilization(self) -> int:
        """In percent."""

    @property
    def score(self) -> int:
        """From 0 to 10."""


def shape_errors(shape: Sequence[Point], path: str) -> Iterator[str]:
    """Report what is wrong with a shape: no points, points out of order, values out of range."""
    if not shape:
        yield required(path, "at least one point must be specified")
    for index, point in enumerate(shape):
        if index and shape[index - 1].utilization >= point.utilization:
            detail = "utilization values must be sorted in increasing order"
            yield invalid(f"{path}[{index}].utilization", point.utilization, detail)
        if not 0 <= point.utilization <= MAX_UTILIZATION:
            detail = f"not in valid range [0, {MAX_UTILIZATION}]"
            yield invalid(f"{path}[{index}].utilization", point.utilization, detail)
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield invalid(f"{path}[{index}].score", point.score, f"not in valid range [0, {MAX_SHAPE_SCORE}]")
