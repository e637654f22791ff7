"""Hundreds of thousands of things come to a cluster and leave it; nothing of them stays. Left to `make soak`."""

import sys

import pytest

from packages.scheduler.tests.state import test_interning
from tests.growth.bounds import lower_numbers
from tests.growth.held import reached_from
from tests.growth.lives import LIVES, cluster
from tests.growth.schema import FIELDS, life
from tests.growth.test_given_back import allocated_blocks
from tests.growth.test_schema import standing

LIVES_A_ROUND = 25_000
"""More than any bound on what is kept, so that the first round fills whatever is bounded."""
ROUNDS = 3


@pytest.mark.parametrize(
    "test",
    [
        test_interning.test_label_keys,
        test_interning.test_label_values,
        test_interning.test_taints,
        lambda: test_interning.test_resources(False),
        lambda: test_interning.test_resources(True),
    ],
    ids=["label keys", "label values", "taints", "resources of nodes", "resources of pods"],
)
def test_two_hundred_thousand_come_and_go(test, monkeypatch):
    monkeypatch.setattr(test_interning, "MANY", 200_000)
    test()


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_memory_stays_flat_over_many_lives(life):
    found = cluster()
    number, blocks = 0, []
    for _ in range(ROUNDS):
        for _ in range(LIVES_A_ROUND):
            life(found, number)
            found.effects.clear()
            number += 1
        found.advance(600)
        found.effects.clear()
        blocks.append(allocated_blocks())
    assert blocks[-1] - blocks[-2] < 0.1 * LIVES_A_ROUND, f"blocks of memory after each round: {blocks}"


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_objects_that_say_a_great_deal_leave_nothing_behind(field, monkeypatch):
    """Each list and map with hundreds of entries, and all that is held is counted, whether it has a name or not."""
    lower_numbers(monkeypatch, 8)
    made, sizes = standing(), []
    for number in range(15):
        life(made, field, number, 300)
        if number % 5 == 4:
            sizes.append(sum(sys.getsizeof(one) for one, _ in reached_from(made.found.core, made.share)))
    assert sizes[-1] - sizes[-2] < 5 * 4000, f"bytes that are held after every five lives: {sizes}"
