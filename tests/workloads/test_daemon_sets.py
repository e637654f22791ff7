"""Where a DaemonSet's pods run and stay. Expectations follow NodeShouldRunDaemonPod upstream."""

import pytest

from berth.api.taints import Taint, Toleration
from berth_workloads.daemon_sets import should_continue, should_run, with_daemon_tolerations


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
