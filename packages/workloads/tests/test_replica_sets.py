"""Which pods a ReplicaSet deletes first, and how many. Expectations follow ActivePodsWithRanks upstream."""

import random

import pytest

from berth_workloads.replica_sets import (
    DELETION_COST,
    Deletable,
    deletion_cost,
    missing_pods,
    pods_to_delete,
)

IN_ORDER = [
    Deletable("", "Pending", False),
    Deletable("", "Running", True, cost=-1),
    Deletable("n", "Pending", False),
    Deletable("n", "Unknown", False),
    Deletable("n", "Running", False),
    Deletable("n", "Running", True, cost=-1),
    Deletable("crowded", "Running", True, ready_since_s=1.0),
    Deletable("n", "Running", True, ready_since_s=9.0, restarts=0, created_s=2.0),
    Deletable("n", "Running", True, ready_since_s=8.0, restarts=5, created_s=1.0),
    Deletable("n", "Running", True, ready_since_s=8.0, restarts=1, created_s=None),
    Deletable("n", "Running", True, ready_since_s=8.0, restarts=1, created_s=2.0),
    Deletable("n", "Running", True, ready_since_s=8.0, restarts=1, created_s=1.0),
    Deletable("n", "Running", True, cost=1, ready_since_s=9.0, created_s=9.0),
]


@pytest.mark.parametrize("seed", range(5))
def test_those_go_first_whose_deletion_costs_least(seed):
    shuffled = random.Random(seed).sample(IN_ORDER, len(IN_ORDER))
    related = {"n": 1, "crowded": 2}
    assert pods_to_delete(shuffled, len(IN_ORDER), lambda fact: fact, related) == IN_ORDER
    assert pods_to_delete(shuffled, 3, lambda fact: fact, related) == IN_ORDER[:3]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("10", 10),
        ("-10", -10),
        ("0", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),  # more than 32 bits
        ("+10", 0),
        ("010", 0),
        ("1_0", 0),
        (" 1", 0),
        ("ten", 0),
        ("", 0),
    ],
)
def test_a_cost_that_upstream_would_not_read_counts_nothing(text, cost):
    """GetDeletionCostFromPodAnnotations in pkg/apis/core/helper."""
    assert deletion_cost({DELETION_COST: text}) == cost


def test_at_most_500_at_a_time():
    assert [missing_pods(wanted, 600) for wanted in (0, 590, 600, 610, 2000)] == [-500, -10, 0, 10, 500]
