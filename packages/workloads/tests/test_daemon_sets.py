"""Where a DaemonSet's pods run and stay. Expectations follow NodeShouldRunDaemonPod upstream."""

import pytest

from berth.api.taints import Taint, Toleration
from berth_workloads.daemon_sets import (
    DaemonPod,
    nodes_to_surge,
    pods_to_replace,
    should_continue,
    should_run,
    surplus_pods,
    with_daemon_tolerations,
)


@pytest.mark.parametrize(
    ("effect", "runs", "stays"),
    [("NoSchedule", False, True), ("NoExecute", False, False), ("PreferNoSchedule", True, True)],
)
def test_a_no_schedule_taint_keeps_only_new_pods_away(effect, runs, stays):
    taints = (Taint("team", "x", effect),)
    assert should_run(taints, (), matches=True) is runs
    assert should_continue(taints, (), matches=True) is stays
    tolerations = (Toleration(key="team", operator="Exists", effect=effect),)
    assert should_run(taints, tolerations, matches=True)
    assert not should_run((), tolerations, matches=False)
    assert not should_continue((), tolerations, matches=False)


def test_daemons_run_on_nodes_that_are_cordoned_or_not_ready():
    tolerations = with_daemon_tolerations((), host_network=False)
    for key, effect in (("unschedulable", "NoSchedule"), ("not-ready", "NoExecute"), ("disk-pressure", "NoSchedule")):
        assert should_run((Taint(f"node.kubernetes.io/{key}", "", effect),), tolerations, matches=True)
    no_network = (Taint("node.kubernetes.io/network-unavailable", "", "NoSchedule"),)
    assert not should_run(no_network, tolerations, matches=True)
    assert should_run(no_network, with_daemon_tolerations((), host_network=True), matches=True)


def test_tolerations_that_end_give_way_to_those_that_do_not():
    own = Toleration(key="a", operator="Exists", effect="NoExecute", toleration_seconds=300)
    ends = Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=300)
    tolerations = with_daemon_tolerations((own, ends), host_network=False)
    assert own in tolerations
    assert [each.toleration_seconds for each in tolerations if each.key == ends.key] == [None]


OLD, OLD_GONE = DaemonPod("old", 1, False, True, True), DaemonPod("broken", 1, False)
NEW, STARTING = DaemonPod("new", 2, True, True, True), DaemonPod("starting", 2, True)


@pytest.mark.parametrize(
    ("pods", "surge", "expected"),
    [
        ([OLD, NEW, STARTING], False, ["new", "starting"]),
        ([OLD, STARTING], True, []),
        ([OLD, NEW], True, ["old"]),
        ([OLD_GONE, STARTING], True, ["broken"]),
        ([OLD, STARTING, STARTING._replace(name="second", created_s=3)], True, ["second"]),
        ([OLD._replace(is_going=True), NEW], False, []),
    ],
)
def test_pods_that_are_too_many_on_a_node(pods, surge, expected):
    assert [pod.name for pod in surplus_pods(pods, surge=surge)] == expected


@pytest.mark.parametrize(
    ("nodes", "unavailable", "expected"),
    [
        ([[OLD], [OLD], [OLD]], 1, 1),
        ([[OLD], [OLD], [STARTING]], 1, 0),
        ([[OLD], [OLD], []], 2, 1),
        ([[OLD], [OLD_GONE], [STARTING]], 1, 1),
        ([[OLD, OLD], [NEW]], 1, 0),
    ],
)
def test_pods_that_a_rolling_update_replaces(nodes, unavailable, expected):
    assert len(pods_to_replace(nodes, unavailable)) == expected


@pytest.mark.parametrize(
    ("nodes", "surge", "expected"),
    [
        ([[OLD], [OLD]], 1, [0]),
        ([[OLD, STARTING], [OLD]], 1, []),
        ([[OLD], [OLD_GONE], [OLD, NEW]], 1, [1, 0]),
        ([[], [NEW]], 1, []),
    ],
)
def test_nodes_that_get_a_new_pod_beside_the_old_one(nodes, surge, expected):
    assert nodes_to_surge(dict(enumerate(nodes)), surge) == expected
