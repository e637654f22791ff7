"""Applying a formula to many whole numbers of a small range: once a number, then a gather.

Raw scores of thousands of nodes take few distinct values; looking results up is several times faster than dividing
in every row. Used by `normalize_score` of plugins that count pods.
"""

from collections.abc import Callable

import numpy as np

from berth.framework.interface import Scores


def mapped(scores: Scores, least: int, most: int, formula: Callable[[Scores], Scores]) -> Scores:
    """Return `formula` of int64 `scores` of shape (n,), element by element.

    What lies outside `least` to `most` may come out as anything.
    """
    if most - least >= len(scores):
        return formula(scores)
    table = formula(np.arange(least, most + 1, dtype=np.int64))
    return table.take(scores - least if least else scores, mode="clip")
