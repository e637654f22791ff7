"""The arithmetic of rollouts. Expectations follow pkg/controller/deployment upstream: rolling.go, sync.go and util."""

import pytest

from berth_workloads.deployments import (
    RolloutBounds,
    SizedSet,
    new_set_size,
    proportional_sizes,
    removable_old_pods,
    rolling_update,
    without_surplus,
    without_unavailable,
)


@pytest.mark.parametrize(
    ("surge", "unavailable", "wanted", "bounds"),
    [
        ("25%", "25%", 10, (10, 3, 2)),  # up and down
        ("0%", "0%", 10, (10, 0, 1)),  # never both 0
        (0, 0, 10, (10, 0, 1)),
        ("39%", "39%", 0, (0, 0, 0)),  # of none, none are missing
        (1, 20, 10, (10, 1, 10)),
    ],
)
def test_the_surge_is_rounded_up_and_what_is_unavailable_down(surge, unavailable, wanted, bounds):
    assert rolling_update(surge, unavailable, wanted) == bounds


@pytest.mark.parametrize(
    ("surge", "old", "new", "size"), [(0, 10, 0, 0), (2, 10, 0, 2), (2, 5, 0, 7), (2, 10, 2, 2), (2, 0, 10, 10)]
)
def test_the_newest_set_grows_as_far_as_the_surge_allows(surge, old, new, size):
    assert new_set_size(RolloutBounds(10, surge, 2), old + new, new) == size


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "size"),
    [
        (0, SizedSet(10, 10), SizedSet(0), 10),
        (2, SizedSet(10, 10), SizedSet(0), 8),
        (2, SizedSet(10, 8), SizedSet(0), 8),  # those that are not available go first, and the rest must stay
        (2, SizedSet(10, 9), SizedSet(0), 8),
        (2, SizedSet(8, 8), SizedSet(2), 8),  # new ones that are not available count as missing
        (2, SizedSet(8, 8), SizedSet(2, 2), 6),
        (2, SizedSet(10, 0), SizedSet(0), 8),
    ],
)
def test_old_pods_go_as_far_as_enough_stay_available(unavailable, old, new, size):
    bounds = RolloutBounds(10, 2, unavailable)
    budget = removable_old_pods(bounds, old.replicas + new.replicas, new)
    sizes = without_unavailable([old], budget) if budget > 0 else [old.replicas]
    available = old.available + new.available
    assert (without_surplus(sizes, available, bounds) if budget > 0 else sizes) == [size]


def test_the_oldest_set_shrinks_first():
    assert without_surplus([3, 4], 9, RolloutBounds(5, 0, 0)) == [0, 3]
    assert without_unavailable([SizedSet(3, 1), SizedSet(4, 1)], 4) == [1, 2]


@pytest.mark.parametrize(
    ("wanted", "surge", "sizes", "expected"),
    [
        (12, 0, [5, 5], [6, 6]),
        (6, 0, [5, 5], [3, 3]),
        (20, 0, [5, 3, 2], [10, 6, 4]),
        (7, 0, [5, 3, 2], [4, 2, 1]),  # 3.5, 2.1 and 1.4
        (11, 0, [5, 5], [5, 6]),  # 5.5 each, of which the newest gets the half
        (0, 0, [5, 3, 2], [0, 0, 0]),
        (10, 0, [5, 3, 2], [5, 3, 2]),
    ],
)
def test_each_set_gets_its_share_of_a_scaling(wanted, surge, sizes, expected):
    active = [SizedSet(size, size, sum(sizes), age) for age, size in enumerate(sizes)]
    found = proportional_sizes(RolloutBounds(wanted, surge, 0), sum(sizes), active)
    assert found == expected
    assert sum(found) == wanted + surge if wanted else not any(found)


def test_no_sets_stay_no_sets():
    assert proportional_sizes(RolloutBounds(3, 1, 0), 0, []) == []
