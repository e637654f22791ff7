"""Tens of thousands of histories of faults, new ones each time: left to `make soak`."""

import pytest

from tests.faults.plan import plan_of
from tests.faults.test_histories import check

BATCHES, BATCH = 200, 100


@pytest.mark.parametrize("number", range(BATCHES))
def test_everything_comes_right_in_the_end(number, pytestconfig):
    first = pytestconfig.fresh_seed + 1_000_000_000 + number * BATCH
    for seed in range(first, first + BATCH):
        check(plan_of(seed))
