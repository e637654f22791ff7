"""The rows with the highest total, kept while single totals change, equal those that are looked for."""

import random

import numpy as np
import pytest

from berth.engine.sums import UNRANKED, Blocks, InDomains, MergedRows, Ranking
from berth.framework.interface import OverDomains

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


@pytest.mark.parametrize("levels", [1, 3, 40])
def test_the_best_rows_of_some_domains_are_those_with_the_highest_total_and_share(levels):
    rng = random.Random(levels)
    ids = np.array([rng.choice((-1, 0, 1, 2)) for _ in range(ROWS)])
    totals = np.array([rng.randrange(levels) if ids[row] >= 0 else UNRANKED for row in range(ROWS)])
    blocks = Blocks(totals, OverDomains(object(), ids, np.zeros(4, dtype=np.int64), 0))
    for _ in range(1000):
        row = rng.choice(np.flatnonzero(ids >= 0).tolist())
        blocks.put(row, UNRANKED if rng.random() < 0.3 else rng.randrange(levels))
        feasible = [domain for domain in range(3) if (blocks.totals[ids == domain] != UNRANKED).any()]
        assert [domain for domain in range(3) if blocks.counts[domain]] == feasible
        domains = [domain for domain in feasible if rng.random() < 0.7]
        if domains:
            shares = [rng.randrange(3) for _ in domains]
            expected = np.full(ROWS, UNRANKED)
            for domain, share in zip(domains, shares, strict=True):
                there = (ids == domain) & (blocks.totals != UNRANKED)
                expected[there] = blocks.totals[there] + share
            best = InDomains(blocks, domains, shares)
            assert best.totals.tolist() == expected.tolist()
            assert list(best.best_rows()) == np.flatnonzero(expected == expected.max()).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_merged_rows_are_one_ascending_sequence(seed):
    rng = random.Random(seed)
    rows = rng.sample(range(100), rng.randrange(3, 60))
    lists = [sorted(rows[start::3]) for start in range(3)]
    merged = MergedRows(lists)
    assert list(merged) == [merged[place] for place in range(len(merged))] == sorted(rows)
    assert merged[:5] == sorted(rows)[:5]
    assert rows[0] in merged
    assert 100 not in merged
    with pytest.raises(IndexError):
        merged[len(rows)]
