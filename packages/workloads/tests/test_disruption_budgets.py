"""What a budget allows. Expectations follow upstream's pkg/controller/disruption and the eviction subresource."""

import pytest

from berth_workloads.disruption_budgets import (
    Bounds,
    Expected,
    disruptions_allowed,
    expected,
    goes_anyway,
    unhealthy_may_go,
)


@pytest.mark.parametrize(
    ("least", "most", "pods", "scale", "wanted"),
    [
        (3, None, 4, 0, (4, 3)),  # the pods that there are count
        ("28%", None, 1, 10, (10, 3)),  # what the controllers ask for counts; 2.8 pods, rounded up
        ("30%", None, 0, 10, (10, 3)),
        (None, "30%", 7, 10, (10, 7)),
        (None, 5, 2, 7, (7, 2)),
        (None, 9, 2, 7, (7, 0)),
        (None, None, 4, 0, (4, 0)),
        ("half", None, 4, 4, (4, 0)),
    ],
)
def test_the_expected_pods_are_those_there_are_or_those_that_controllers_ask_for(least, most, pods, scale, wanted):
    assert expected(Bounds(least, most), pods, scale) == wanted


@pytest.mark.parametrize(("wanted", "healthy", "allowed"), [((4, 3), 4, 1), ((4, 3), 2, 0), ((0, 0), 3, 0)])
def test_where_no_pods_are_expected_none_may_be_disrupted(wanted, healthy, allowed):
    assert disruptions_allowed(Expected(*wanted), healthy) == allowed


def test_pods_that_have_ended_or_never_ran_go_without_a_budget():
    """canIgnorePDB in eviction.go."""
    assert [phase for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown") if anyway(phase)] == [
        "Pending",
        "Succeeded",
        "Failed",
    ]
    assert goes_anyway("Running", is_being_deleted=True)


def anyway(phase):
    return goes_anyway(phase, is_being_deleted=False)


@pytest.mark.parametrize(
    ("policy", "desired", "current", "goes"),
    [(None, 2, 2, True), (None, 3, 2, False), (None, 0, 2, False), ("AlwaysAllow", 3, 0, True)],
)
def test_a_pod_that_is_not_ready_may_go_while_the_others_suffice(policy, desired, current, goes):
    assert unhealthy_may_go(policy, desired, current) is goes
