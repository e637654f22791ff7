"""Helpers for the `normalize_score` of plugins, which brings the raw scores of the feasible nodes to 0 to 100.

Source of `default_normalize`: pkg/scheduler/framework/plugins/helper, v1.36.
"""

from collections.abc import Callable

import numpy as np

from berth.framework.interface import MAX_NODE_SCORE, Scores

EXACT_BELOW = 2**52 // MAX_NODE_SCORE
"""Scores below this divide exactly in float64, which is several times faster than dividing int64."""


def default_normalize(scores: Scores, reverse: bool = False) -> Scores:
    """Scale int64 `scores` of shape (n,) so that the largest becomes 100; `reverse` reverses the scale.

    Quotients are truncated, as in Go. Where no score is above 0 all stay as they are, or become 100 reversed.
    Returns a new array.
    """
    largest = int(scores.max()) if len(scores) else 0
    if largest <= 0:
        return np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64) if reverse else scores.copy()
    if largest < EXACT_BELOW:
        scaled = (scores * float(MAX_NODE_SCORE) / largest).astype(np.int64)
    else:
        scaled = np.array([MAX_NODE_SCORE * score // largest for score in scores.tolist()], dtype=np.int64)
    return MAX_NODE_SCORE - scaled if reverse else scaled


def mapped(scores: Scores, least: int, most: int, formula: Callable[[Scores], Scores]) -> Scores:
    """Return `formula` of int64 `scores` of shape (n,), element by element.

    Raw scores of thousands of nodes take few distinct values, so the formula is computed once for each value between
    `least` and `most` and looked up for each row, which is several times faster than dividing in every row. The formula
    must work element by element. Scores outside the range may give any result.
    """
    if most - least >= len(scores):
        return formula(scores)
    table = formula(np.arange(least, most + 1, dtype=np.int64))
    return table.take(scores - least if least else scores, mode="clip")
