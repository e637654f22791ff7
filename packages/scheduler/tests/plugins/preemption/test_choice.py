"""The order in which pods are spared, and the choice among nodes that can be freed."""

import pytest

from berth.plugins.preemption.choice import Candidate, Shortlist, by_importance, cheapest
from packages.scheduler.tests.plugins.preemption.support import running


def candidate(row, *victims, violations=0):
    return Candidate(row, tuple(victim.info() for victim in victims), violations)


@pytest.mark.parametrize(
    ("candidates", "row"),
    [
        # 1. the fewest broken budgets, whatever else
        ([candidate(0, running("a", "n", priority=1), violations=1), candidate(1, running("b", "n", priority=9))], 1),
        # 2. the lowest of the highest priorities
        (
            [
                candidate(0, running("a", "n", priority=5)),
                candidate(1, running("b", "n", priority=4), running("c", "n", priority=4)),
            ],
            1,
        ),
        # 3. the smallest sum of priorities, shifted so that a further victim of negative priority is no gain
        (
            [
                candidate(0, running("a", "n", priority=-1), running("b", "n", priority=-9)),
                candidate(1, running("c", "n", priority=-1)),
            ],
            1,
        ),
        (
            [
                candidate(0, running("a", "n", priority=5), running("b", "n", priority=3)),
                candidate(1, running("c", "n", priority=5), running("d", "n", priority=2)),
            ],
            1,
        ),
        # 5. the latest start among the most important victims' earliest
        (
            [
                candidate(0, running("a", "n", started=3), running("b", "n", started=9)),
                candidate(1, running("c", "n", started=5), running("d", "n", started=6)),
            ],
            1,
        ),
        (
            [
                candidate(0, running("a", "n", priority=2, started=8), running("b", "n", priority=1, started=1)),
                candidate(1, running("c", "n", priority=2, started=7), running("d", "n", priority=1, started=7)),
            ],
            0,
        ),
        ([candidate(0, running("a", "n", started=3)), candidate(1, running("b", "n"))], 1),
        # 6. the first
        ([candidate(7, running("a", "n", started=3)), candidate(1, running("b", "n", started=3))], 7),
    ],
)
def test_the_cheapest_node(candidates, row):
    assert cheapest(candidates).row == row


def test_who_is_spared_first():
    pods = [
        running("low", "n", priority=1, started=1),
        running("young", "n", priority=2, started=9),
        running("old-b", "n", priority=2, started=2),
        running("old-a", "n", priority=2, started=2),
        running("fresh-1", "n", priority=2),
        running("fresh-2", "n", priority=2),
        running("high", "n", priority=3),
    ]
    names = [pod.name for pod in by_importance(pod.info() for pod in pods)]
    assert names == ["high", "old-a", "old-b", "young", "fresh-2", "fresh-1", "low"]


def test_the_search_goes_on_while_all_that_was_found_breaks_a_budget():
    shortlist = Shortlist(2)
    for row in range(3):
        shortlist.add(candidate(row, running("a", "n"), violations=1))
        assert not shortlist.is_full
    shortlist.add(candidate(3, running("a", "n")))
    assert shortlist.is_full
    assert [found.row for found in shortlist.all()] == [3, 0, 1]
