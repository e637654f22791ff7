"""Thousands of random events without the flush, with everything checked after each: left to `make soak`."""

import pytest

from tests.liveness.test_liveness import live


@pytest.mark.parametrize("seed", range(1000, 1008))
def test_every_pod_that_could_run_does_run_in_a_long_life(seed):
    live(seed, 3000, memory_every=5)


@pytest.mark.parametrize("seed", range(2000, 2008))
def test_likewise_where_all_crowd_one_another_out(seed):
    live(seed, 2000, memory_every=20, crowded=True)
