"""Bringing raw scores to 0 to 100, in the ways that several plugins share."""

import numpy as np

from berth.plugin import MAX_NODE_SCORE, Scores


def stretched(scores: Scores) -> Scores:
    """Return scores, int64 (rows,), stretched so that the lowest is 0 and the highest 100; all 0 where all are equal.

    Quotients are cut, not rounded.
    """
    if not len(scores):
        return scores
    lowest, highest = scores.min(), scores.max()
    if lowest == highest:
        return np.zeros_like(scores)
    found: Scores = (scores - lowest) * MAX_NODE_SCORE // (highest - lowest)
    return found


def turned_round(scores: Scores) -> Scores:
    """Return scores of at least 0, int64 (rows,), as percentages of the highest, turned round: 0 becomes 100."""
    highest = scores.max(initial=0)
    if not highest:
        return np.full_like(scores, MAX_NODE_SCORE)
    found: Scores = MAX_NODE_SCORE - scores * MAX_NODE_SCORE // highest
    return found
