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

import berth.engine.memo
import berth.engine.memo_entry
import berth.engine.sums
import berth.plugins.dra.allocator
import berth.plugins.preemption.ranked_pods
import berth.plugins.resources.columns
import berth.plugins.volumes.node_rows
import berth.state.label_index
import berth.state.objects
import berth.state.pod_index
import berth.state.topology
from berth.plugins.dra.cel import Selectors
from berth.plugins.dra.outcomes import Outcomes
from berth.state.change_log import ChangeLog
from berth.state.pod_info import PodShapes
from berth.testing.invariants import check
from tests.growth.lives import LIVES, cluster, large_pods

LIVES_A_ROUND = 120
ROUNDS = 4
BLOCKS_A_LIFE = 0.5
"""Whatever is kept for each life is at least one block of memory; less than that is noise."""

BOUNDS = (
    (berth.engine.memo_entry, "JOURNAL_AT_MOST"),
    (berth.engine.memo, "SEEN_AT_MOST"),
    (berth.engine.memo, "SLOTS_AT_MOST"),
    (berth.engine.sums, "MAX_SUMS"),
    (berth.plugins.dra.allocator, "VERDICTS_AT_MOST"),
    (berth.plugins.preemption.ranked_pods, "MAX_KINDS"),
    (berth.plugins.preemption.ranked_pods, "MAX_RESOURCES"),
    (berth.plugins.resources.columns, "MAX_COLUMNS"),
    (berth.plugins.volumes.node_rows, "REMEMBERED_AT_MOST"),
    (berth.state.label_index, "MAX_COLUMNS"),
    (berth.state.label_index, "SPARE_IDS"),
    (berth.state.objects, "CHANGES_KEPT"),
    (berth.state.pod_index, "MAX_GROUPS"),
    (berth.state.pod_index, "MAX_MATCHES"),
    (berth.state.pod_index, "SPARE_TERMS"),
    (berth.state.topology, "MAX_SUMS"),
    (berth.state.topology, "MAX_TOPOLOGIES"),
)
SMALL = 8


@pytest.fixture
def small_bounds(monkeypatch):
    for module, name in BOUNDS:
        monkeypatch.setattr(module, name, SMALL)


def make_small(found):
    """Make the bounds small that the parts of a core keep for themselves."""
    for part in gc.get_objects():
        if isinstance(part, PodShapes | Selectors | Outcomes):
            part._max = SMALL
        elif isinstance(part, ChangeLog):
            part._keep = SMALL


def allocated_blocks():
    """Return how many blocks of memory are in use, but for the caches of functions, which have bounds of their own."""
    for function in gc.get_objects():
        if isinstance(function, functools._lru_cache_wrapper):
            function.cache_clear()
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_what_came_and_went_is_forgotten(life, small_bounds):
    found = cluster()
    make_small(found)
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
    large_pods(found, 0)
    before = allocated_blocks()
    for number in range(1, 6):
        large_pods(found, number)
        found.effects.clear()
    assert allocated_blocks() - before < 1000, "each of these pods has 400 tolerations"
