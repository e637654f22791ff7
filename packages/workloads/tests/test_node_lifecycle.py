"""Taints of nodes and rates of eviction: documentation of v1.36, Taint-based Evictions and Rate limits on eviction."""

import pytest

from berth_workloads.node_lifecycle import evictions_per_s, no_execute_taint, no_schedule_taints


@pytest.mark.parametrize(
    ("condition", "status", "taint"),
    [
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
        ("DiskPressure", "True", "disk-pressure"),
        ("PIDPressure", "True", "pid-pressure"),
        ("NetworkUnavailable", "True", "network-unavailable"),
    ],
)
def test_a_condition_is_a_taint(condition, status, taint):
    assert no_schedule_taints({condition: status}, is_unschedulable=False) == [f"node.kubernetes.io/{taint}"]
    expected = f"node.kubernetes.io/{taint}" if condition == "Ready" else None
    assert no_execute_taint({condition: status}) == expected


def test_a_healthy_node_has_none():
    healthy = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "Unknown"}
    assert no_schedule_taints(healthy, is_unschedulable=False) == []
    assert no_schedule_taints(healthy, is_unschedulable=True) == ["node.kubernetes.io/unschedulable"]
    assert no_execute_taint(healthy) is None


@pytest.mark.parametrize(
    ("ready", "not_ready", "is_any_ready", "rate"),
    [
        (9, 1, True, 0.1),
        (1, 2, True, 0.1),
        (46, 54, True, 0.1),
        (45, 55, True, 0.01),
        (20, 30, True, 0.0),
        (0, 30, True, 0.1),
        (0, 30, False, 0.0),
    ],
)
def test_how_soon_nodes_are_emptied(ready, not_ready, is_any_ready, rate):
    assert evictions_per_s(ready, not_ready, is_any_ready=is_any_ready) == rate
