"""Gangs, from the first pod to the last binding.

Expectations: KEP-4671 (Gang Scheduling), kubernetes.io "Gang Scheduling" and "PodGroup Scheduling" of v1.36;
pkg/scheduler/framework/plugins/gangscheduling and pkg/scheduler/schedule_one_podgroup.go for the texts.
"""

import msgspec
import pytest

from berth.core.builders import make_pod, make_pod_group
from berth.framework.status import Code, Status
from berth.testing.invariants import check
from packages.scheduler.tests.groups.support import (
    GANG,
    bound,
    cluster,
    condition,
    member,
    members,
    node,
    reason,
    settle,
)
from packages.scheduler.tests.support import document, plugin

NO_GROUP = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
TOO_FEW_PLACED = "waiting for minCount pods from a gang to be scheduled"


def gated_by(found):
    return {q.pod.name: q.gating_plugin for q in found.core.queue.unschedulable.values() if q.is_gated}


def test_all_members_are_bound_when_all_fit():
    found = settle(cluster(node("n1"), make_pod_group("g", 3), *members(3)))
    assert bound(found) == {"g-0": "n1", "g-1": "n1", "g-2": "n1"}
    assert condition(found) == ("True", "Scheduled", "")


def test_none_is_bound_when_one_does_not_fit():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3)))
    assert bound(found) == {}
    assert found.core.cache.assumed_count == 0
    assert reason(found, "g-0") == reason(found, "g-1") == TOO_FEW_PLACED
    assert reason(found, "g-2").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    status, why, message = condition(found)
    assert (status, why) == ("False", "Unschedulable")
    assert message.startswith("pod group is unschedulable, 2 of 3 pods have a place, g-2 has none: 0/1 nodes are ")


def test_room_that_comes_lets_the_whole_gang_in():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3)))
    found.put(node("n2", cpu="1"))
    settle(found)
    assert sorted(bound(found)) == ["g-0", "g-1", "g-2"]
    assert condition(found) == ("True", "Scheduled", "")


def test_min_count_may_be_less_than_the_number_of_pods():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 2), *members(4)))
    assert len(bound(found)) == 2
    assert condition(found)[:2] == ("True", "Scheduled")
    waiting = next(name for name in ("g-0", "g-1", "g-2", "g-3") if name not in bound(found))
    assert "Insufficient cpu" in reason(found, waiting)
    # What was scheduled stays so: later cycles of the members that are left do not take the condition back.
    found.put(node("n2", cpu="1"))
    assert len(bound(settle(found))) == 3
    assert condition(found)[:2] == ("True", "Scheduled")


def test_pods_wait_for_their_group_and_then_for_each_other():
    found = settle(cluster(node("n1"), *members(2)))
    assert gated_by(found) == {"g-0": "GangScheduling", "g-1": "GangScheduling"}
    status = found.core.profiles["default-scheduler"].run_pre_enqueue(member("g-0").info())
    assert status.message == NO_GROUP

    found.put(make_pod_group("g", 3))
    settle(found)
    assert gated_by(found) == {"g-0": "GangScheduling", "g-1": "GangScheduling"}
    status = found.core.profiles["default-scheduler"].run_pre_enqueue(member("g-0").info())
    assert status.message == "waiting for minCount pods from a gang to appear in scheduling queue"

    found.put(member("g-2"))
    assert len(bound(settle(found))) == 3


def test_a_basic_group_takes_whoever_fits():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g"), *members(3)))
    assert len(bound(found)) == 2
    assert condition(found)[:2] == ("True", "Scheduled")


def test_a_basic_group_waits_for_its_pod_group_too():
    found = settle(cluster(node("n1"), *members(1)))
    assert gated_by(found) == {"g-0": "GangScheduling"}
    found.put(make_pod_group("g"))
    assert len(bound(settle(found))) == 1


@pytest.mark.parametrize("gates", [{}, {"GenericWorkload": True}], ids=["all gates off", "GangScheduling off"])
def test_gates_that_are_off_change_nothing(gates):
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3), gates=gates))
    assert len(bound(found)) == 2
    if not gates:
        assert condition(found) is None


def test_other_pods_are_scheduled_as_ever_beside_a_gang_that_waits():
    found = cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3))
    found.put(make_pod("single").request(cpu="2"))
    settle(found)
    assert found.nodes_of()["single"] == "n1"
    assert bound(found) == {}


def test_running_members_count_after_a_restart():
    running = [member(f"g-{index}").node("n1") for index in range(2)]
    found = settle(cluster(node("n1", cpu="3"), make_pod_group("g", 3), *running, member("g-2")))
    assert found.nodes_of()["g-2"] == "n1"


def test_a_member_that_finished_counts_no_more():
    done = member("g-0").node("n1").phase("Succeeded")
    found = settle(cluster(node("n1"), make_pod_group("g", 2), done, member("g-1")))
    assert gated_by(found) == {"g-1": "GangScheduling"}


def test_a_member_deleted_while_the_gang_waits_leaves_it_incomplete():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3)))
    found.delete("Pod", "default/g-1")
    found.put(node("n2", cpu="4"))
    settle(found)
    assert bound(found) == {}
    found.put(member("g-1").uid("again"))
    assert len(bound(settle(found))) == 3


def test_a_member_being_deleted_before_it_has_a_node_does_not_count():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3)))
    found.put(member("g-1").terminating())
    found.put(node("n2", cpu="4"))
    assert bound(settle(found)) == {}


def test_the_departure_of_a_large_member_lets_the_others_in():
    large = member("g-0", cpu="4").priority(5)
    found = settle(cluster(node("n1"), make_pod_group("g", 2), large, member("g-1"), member("g-2")))
    assert bound(found) == {}
    found.delete("Pod", "default/g-0")
    assert sorted(bound(settle(found))) == ["g-1", "g-2"]


def test_a_group_deleted_while_its_pods_wait_holds_them_back_until_it_is_back():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3)))
    found.delete("PodGroup", "default/g")
    found.put(node("n2"))
    settle(found)
    assert bound(found) == {}
    assert set(gated_by(found).values()) == {"GangScheduling"}
    found.put(make_pod_group("g", 3))
    assert len(bound(settle(found))) == 3


def test_a_lower_min_count_lets_the_gang_in():
    found = settle(cluster(node("n1", cpu="2"), make_pod_group("g", 3), *members(3)))
    group = found.objects["PodGroup", "default/g"]
    easier = make_pod_group("g", 2)
    found.put(msgspec.structs.replace(group, spec=easier.spec))
    assert len(bound(settle(found))) == 2


def test_a_gated_member_keeps_the_gang_waiting():
    found = settle(cluster(node("n1"), make_pod_group("g", 3), *members(2), member("g-2").gate("hold")))
    assert bound(found) == {}
    assert reason(found, "g-0") == TOO_FEW_PLACED
    found.put(member("g-2"))
    assert len(bound(settle(found))) == 3


def test_members_of_two_profiles_are_refused():
    profiles = [{"schedulerName": name} for name in ("default-scheduler", "other")]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    odd = member("g-1").scheduler("other")
    found = settle(cluster(node("n1"), make_pod_group("g", 2), member("g-0"), odd, gates=GANG, config=config))
    assert bound(found) == {}
    assert reason(found, "g-0") == (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        'got: "default-scheduler" and "other"'
    )


def test_a_gang_in_a_cluster_without_nodes_waits():
    found = settle(cluster(make_pod_group("g", 2), *members(2)))
    assert reason(found, "g-0") == "no nodes available to schedule pods"
    found.put(node("n1"))
    assert len(bound(settle(found))) == 2


def test_a_binding_that_fails_is_tried_again_with_the_others_bound():
    found = cluster(node("n1"), make_pod_group("g", 3), *members(3))
    found.refuse("conflict")
    assert len(bound(settle(found))) == 3


def test_a_bug_in_a_plugin_leaves_nothing_behind():
    from packages.scheduler.tests.support import BOOM, boom, document, plugin

    broken = plugin("Broken", reserve=lambda _state, pod, _node: boom() if pod.name == "g-1" else None,
                    unreserve=lambda *_: None)  # fmt: skip
    found = cluster(node("n1"), make_pod_group("g", 2), *members(2), plugins={"Broken": broken},
                    config=document("Broken"))  # fmt: skip
    found.run()
    assert bound(found) == {}
    assert found.core.cache.assumed_count == 0
    assert reason(found, "g-1") == f'running Reserve plugin "Broken": {BOOM}'
    assert reason(found, "g-0") == f"failed to schedule other pod from a pod group: {reason(found, 'g-1')}"
    assert condition(found)[:2] == ("False", "SchedulerError")


def test_a_group_whose_members_all_wait_on_another_plugin_waits_in_permit_and_is_bound_or_undone_with_it():
    """A foreign Permit plugin waits for something that the group cannot bring about: that wait is an ordinary one."""
    waits = plugin("Wait", permit=lambda *_: (Status(Code.WAIT), 60.0))
    for ending in ("allowed", "timed out"):
        found = cluster(node("a"), make_pod_group("g", 2), config=document("Wait"), plugins={"Wait": waits})
        for pod in members(2):
            found.put(pod)
        found.advance(1.0)
        assert len(found.core.waiting) == 2, "neither undone nor bound"
        assert found.core.cache.assumed_count == 2
        if ending == "allowed":
            for waiting in found.core.waiting:
                waiting.allow("Wait")
            settle(found)
            assert bound(found) == {"g-0": "a", "g-1": "a"}
        else:
            found.advance(60.0)
            timeout = "rejected due to timeout after waiting 1m0s at plugin Wait"
            assert reason(found, "g-0") == f"0/1 nodes are available: 1 {timeout}."
            check(found.core)
