"""Whatever happens, what is remembered is what is worked out afresh."""

import pytest

from tests.effort import looks_everywhere
from tests.engine.remembered.lives import Life

LIVES = 10
"""So many lives are one case."""


@pytest.mark.parametrize("case", range(48 if looks_everywhere() else 12))
@pytest.mark.parametrize("at_once", [False, True], ids=["in cycles", "in runs"])
def test_whatever_happens_what_is_remembered_is_what_is_worked_out_afresh(at_once, case):
    for seed in range(case * LIVES, (case + 1) * LIVES):
        Life(seed, at_once=at_once).live(12)


@pytest.mark.long
@pytest.mark.parametrize("case", range(40))
@pytest.mark.parametrize("at_once", [False, True], ids=["in cycles", "in runs"])
def test_so_it_is_in_longer_lives(at_once, case):
    for seed in range(10_000 + case * LIVES, 10_000 + (case + 1) * LIVES):
        Life(seed, at_once=at_once).live(40)


def test_lives_are_such_that_something_can_go_wrong():
    """Pods are placed in runs, nodes are full and others are not, and there are several that are best."""
    lives = [Life(seed, at_once=True).live(12) for seed in range(30)]
    assert sum(life.in_runs for life in lives) > 40
    assert sum(life.decided for life in lives) > 200
