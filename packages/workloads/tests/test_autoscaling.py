"""How many replicas an autoscaler wants. Cases are those of upstream's replica_calculator_test.go.

The formula and its tolerance are documented at
https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details.
"""

from fractions import Fraction

import pytest

from berth_workloads.autoscaling import (
    DEFAULT_DOWN,
    DEFAULT_UP,
    MeasuredPod,
    ScaleEvent,
    ScalingPolicy,
    ScalingRules,
    limited_replicas,
    wanted_replicas,
)


def pods(levels, requests=(), unready=()):
    """Pods that request 1 cpu (or another amount), by milli-cpu used, None where nobody knows."""
    requests = requests or [1000] * len(levels)
    return [
        MeasuredPod(Fraction(request, 1000), None if level is None else Fraction(level, 1000), number not in unready)
        for number, (level, request) in enumerate(zip(levels, requests, strict=True))
    ]


@pytest.mark.parametrize(
    ("given", "target", "expected", "utilization"),
    [
        (pods([300, 500, 700]), 30, 5, 50),
        (pods([300, 500, 700], unready=[0]), 30, 4, 60),
        (pods([400, 500, 700], unready=[0, 1]), 30, 3, 70),
        (pods([100, 300, 500, 250, 250]), 50, 3, 28),
        (pods([100, 300, 500, 250, 250], unready=[0, 1]), 50, 2, 33),
        (pods([1010, 1030, 1020], [900, 1000, 1100]), 100, 3, 102),
        (pods([400, 95, None, None]), 100, 3, 24),
        (pods([1000, None]), 100, 2, 100),
        (pods([1900, None]), 100, 2, 190),
        (pods([600, None]), 100, 2, 60),
        (pods([100, 450, None], unready=[0]), 50, 3, 45),
        (pods([100, 2000, None], unready=[0]), 50, 4, 200),
        (pods([100, 100, 100, None], unready=[0]), 50, 3, 10),
    ],
)
def test_utilization(given, target, expected, utilization):
    found = wanted_replicas(given, len(given), Fraction(target), by_utilization=True)
    assert (found.replicas, found.utilization) == (expected, utilization)


def test_averages_and_a_wider_tolerance():
    found = wanted_replicas(pods([300, 500, 700]), 3, Fraction(3, 10), by_utilization=False)
    assert (found.replicas, found.average) == (5, Fraction(1, 2))
    calm = wanted_replicas(pods([300, 500, 700]), 3, Fraction(4, 10), by_utilization=False, tolerance=Fraction(1, 4))
    assert calm.replicas == 3


def test_nothing_is_known():
    assert wanted_replicas(pods([None, None]), 2, Fraction(50), by_utilization=True) is None


@pytest.mark.parametrize(
    ("current", "wanted", "up", "recommended", "changes", "expected"),
    [
        (3, 30, DEFAULT_UP, [], [], 7),
        (10, 100, DEFAULT_UP, [], [], 20),
        (20, 100, DEFAULT_UP, [], [(95, 10)], 20),
        (10, 5, DEFAULT_UP, [], [], 5),
        (10, 5, DEFAULT_UP, [(50, 9)], [], 9),
        (10, 5, DEFAULT_UP, [(-300, 9)], [], 5),
        (10, 20, ScalingRules((ScalingPolicy(False, 2, 60.0),), 0.0), [], [(50, 1)], 11),
        (10, 20, ScalingRules((), 0.0, "Disabled"), [], [], 10),
        (10, 20, ScalingRules(DEFAULT_UP.policies, 100.0), [(50, 12)], [], 12),
        (10, 100, ScalingRules(DEFAULT_UP.policies, 0.0, "Min"), [], [], 14),
    ],
)
def test_how_quickly_a_workload_changes(current, wanted, up, recommended, changes, expected):
    known, made = ([ScaleEvent(*each) for each in events] for events in (recommended, changes))
    assert limited_replicas(current, wanted, up, DEFAULT_DOWN, known, made, 100.0) == expected
