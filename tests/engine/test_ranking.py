"""The rows with the highest total, kept while single totals change, equal those that are looked for."""

import random

import numpy as np
import pytest

from berth.engine.sums import UNRANKED, Ranking

ROWS = 30


@pytest.mark.parametrize("levels", [1, 3, 40])
def test_the_best_rows_are_those_with_the_highest_total_whatever_changed(levels):
    rng = random.Random(levels)
    ranking = Ranking(np.array([rng.randrange(levels) for _ in range(ROWS)], dtype=np.int64))
    for _ in range(2000):
        row = rng.randrange(ROWS)
        ranking.put(row, UNRANKED if rng.random() < 0.2 else rng.randrange(levels))
        if rng.random() < 0.7:
            expected = np.flatnonzero(ranking.totals == ranking.totals.max())
            assert list(ranking.best_rows()) == expected.tolist()
