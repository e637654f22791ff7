"""Thousands of random events on one cluster, with every invariant checked after each: left to `make soak`."""

import pytest

from berth.testing.invariants import check
from packages.scheduler.tests.cycle.test_churn import Churn


@pytest.mark.parametrize("seed", range(1000, 1010))
def test_nothing_is_lost_in_a_long_life(seed):
    churn = Churn(seed)
    for _ in range(3000):
        churn.happen()
        check(churn.cluster.core)
    churn.settle()
    check(churn.cluster.core)
    assert len(churn.cluster.core.queue.in_flight) == churn.cluster.core.cache.assumed_count == 0
