"""Nothing that comes and goes leaves anything behind: a core that has seen many lives is no larger than before them.

What is kept for speed is bounded, but some of the bounds are in the thousands. Here they are made small, so that a few
hundred lives reach them, and whatever still grows has no bound at all. `make soak` runs the same lives with the bounds
as they are.
"""

import functools
import gc
import sys
from itertools import pairwise

import pytest

from berth.testing.invariants import check
from tests.growth.bounds import lower_numbers, lower_numbers_of_parts
from tests.growth.lives import LIVES, cluster, large_pods

pytestmark = pytest.mark.long

LIVES_A_ROUND = 120
ROUNDS = 4
BLOCKS_A_LIFE = 0.5
"""Whatever is kept for each life is at least one block of memory; less than that is noise."""

SMALL = 8


@pytest.fixture
def small_bounds(monkeypatch):
    lower_numbers(monkeypatch, SMALL)


def allocated_blocks():
    """Return how many blocks of memory are in use, but for the caches of functions, which have bounds of their own."""
    gc.unfreeze()  # what a command that a test has run in this process froze is not among the objects otherwise
    for function in gc.get_objects():
        if isinstance(function, functools._lru_cache_wrapper):
            function.cache_clear()
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_what_came_and_went_is_forgotten(life, small_bounds):
    found = cluster()
    lower_numbers_of_parts(SMALL)
    number, blocks = 0, []
    for _ in range(ROUNDS):
        for _ in range(LIVES_A_ROUND):
            life(found, number)
            found.effects.clear()
            number += 1
        found.advance(600)
        found.effects.clear()
        check(found.core)
        blocks.append(allocated_blocks())
    # What grows without a bound grows in every round; the first one may fill what is bounded.
    least = min(after - before for before, after in pairwise(blocks[1:]))
    assert least < BLOCKS_A_LIFE * LIVES_A_ROUND, f"blocks of memory after each round: {blocks}"


def test_nothing_is_kept_of_what_large_pods_say():
    found = cluster()
    found.core.trace.bytes_at_most = 0  # the last decision is always kept
    large_pods(found, 0)
    before = allocated_blocks()
    for number in range(1, 6):
        large_pods(found, number)
        found.effects.clear()
    assert allocated_blocks() - before < 1000, "each of these pods has 400 tolerations"
