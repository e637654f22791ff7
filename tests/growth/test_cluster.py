"""A cluster in which pods come and go at a constant number holds no more after 20,000 of them than after 8,000.

Everything is as in `berth up`, in virtual time, with the bounds as they are; but for the records of bindings, of which
there may be 50,000.
"""

import gc
from collections import Counter

import pytest

from berth_cluster.storage import store as module
from packages.cluster.tests.controllers.world import World, deployment
from tests.growth.held import reached_from

pytestmark = pytest.mark.long

LIVES_A_ROUND = 4000
ROUNDS = 5
AT_A_TIME = 100
LEVEL_AFTER = 2
"""Rounds, by when everything is full that is bounded, but for the history of what changes rarely."""
THINGS_A_LIFE = 0.5
"""Whatever is kept of each pod is one thing at least."""
THINGS_A_CHANGE = 10
"""A change of the history is a few small things and the JSON of an object, not an object with a hundred parts."""


def test_pods_that_came_and_went_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "MAX_BINDINGS", 1000)
    world = World(nodes=5)
    world.create(deployment("web", AT_A_TIME))
    world.run(5)
    counts, lives = [], 0
    for _ in range(ROUNDS):
        for _ in range(LIVES_A_ROUND // AT_A_TIME):
            for pod in world.pods():
                world.delete("Pod", pod["metadata"]["name"])
                lives += 1
            world.run(20)
        assert len(world.pods()) == AT_A_TIME
        counts.append(held(world))
    assert lives == ROUNDS * LIVES_A_ROUND
    totals = [each.total() for each in counts]
    told = f"{totals}: {(counts[-1] - counts[-2]).most_common(5)}"
    assert totals[-1] - totals[LEVEL_AFTER - 1] < THINGS_A_LIFE * (ROUNDS - LEVEL_AFTER) * LIVES_A_ROUND, told
    changes = sum(len(each._history) for each in world.store._collections.values())
    assert totals[-1] < THINGS_A_CHANGE * changes, told


def held(world):
    """How many things the cluster holds, by type."""
    gc.collect()
    return Counter(type(one).__name__ for one, _ in reached_from(world.store, world.manager))
