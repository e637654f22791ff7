"""Whatever happens, what is remembered is what is worked out afresh."""

import pytest

from berth.core.builders import make_pod
from berth.framework.promises import Dependency, Objects
from packages.scheduler.tests.engine.remembered.lives import Life
from packages.scheduler.tests.engine.remembered.made_up import KINDS, ON_ZONES, ZONES, Habits
from packages.scheduler.tests.engine.remembered.views import compare_every_view
from tests.effort import looks_everywhere

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


ON_NODE, OBJECTS = frozenset({Dependency.NODE, Dependency.PODS_ON_NODE}), Objects(KINDS[:1])
BY_OBJECTS = Habits("A", filter_on=frozenset({Dependency.NODE, OBJECTS}), filter_forms=frozenset({"columns"}))
BY_ROW = Habits("B", score_on=ON_NODE, score_forms=frozenset({"columns", "row"}))
BY_ZONE = Habits("C", score_by="zone", score_on=ON_ZONES, score_forms=ZONES)


@pytest.mark.parametrize("habits", [(BY_OBJECTS, BY_ROW), (BY_OBJECTS, BY_ROW, BY_ZONE)], ids=["by node", "by zone"])
def test_a_filter_that_goes_by_objects_changes_its_mind_and_nothing_else_changes(habits):
    """Its column is computed as a whole then, and those that are ranked with it are as they were."""
    for seed in range(4):
        life = Life(seed, habits=list(habits), in_tree=False, size=9, is_zoned=True)
        for _ in range(8):
            for _ in range(3):
                life.cluster.put(life._born(life.templates[0]))
                life.decide(1)
            life._object_changes()
        assert life.decided > 20


def test_a_score_of_a_whole_zone_that_is_out_of_range_is_the_error_that_it_is_of_a_node():
    life = Life(0, habits=[BY_ROW, BY_ZONE._replace(errs=True)], in_tree=False, size=9, is_zoned=True)
    core, errors = life.cluster.core, 0
    for number in range(100):
        pod = core.intake.info(make_pod("asked").label("app", f"app-{number}").build())
        for _ in range(2):  # what is kept beside it is kept the second time
            errors += compare_every_view(core, pod, life.rng).error is not None
    assert 0 < errors < 100


@pytest.mark.parametrize(("seed", "steps"), [(10_364, 40)])
def test_a_column_that_made_room_in_the_same_attempt_is_in_no_run(seed, steps):
    """A filter's column was dropped for a score's, and the run began with what was left of it."""
    Life(seed, at_once=True).live(steps)


def test_lives_are_such_that_something_can_go_wrong():
    """Pods are placed in runs, nodes are full and others are not, and there are several that are best."""
    lives = [Life(seed, at_once=True).live(12) for seed in range(30)]
    assert sum(life.in_runs for life in lives) > 40
    assert sum(life.decided for life in lives) > 200
