"""Preemption on behalf of groups, pod by pod and as a whole.

Expectations: KEP-5710; kubernetes.io "Workload-Aware Preemption" and "Pod Group Disruption and Priority" of v1.36;
pkg/scheduler/framework/preemption (PodGroupEvaluator), pkg/scheduler/framework/plugins/defaultpreemption,
pkg/scheduler/schedule_one_podgroup.go (runWorkloadAwarePreemption).
"""

import msgspec

from berth.api.codec import decode
from berth.core.builders import make_pod, make_pod_group
from berth.framework.effects import EvictPod
from berth.testing.invariants import check
from packages.scheduler.tests.groups.support import (
    GANG,
    PREEMPTING,
    bound,
    cluster,
    condition,
    member,
    members,
    node,
    reason,
    settle,
)
from packages.scheduler.tests.support import requests_of


def running(name, on, cpu="1", priority=0):
    return make_pod(name).request(cpu=cpu).node(on).priority(priority).label("app", "low")


def victims(found):
    return sorted(eviction.pod.name for eviction in requests_of(found, EvictPod))


def high(count, cpu="1"):
    return [pod.priority(1000) for pod in members(count, cpu=cpu)]


def budget(allowed):
    spec = {"selector": {"matchLabels": {"app": "low"}}}
    meta = {"name": "keep", "namespace": "default"}
    return decode("PodDisruptionBudget", {"metadata": meta, "spec": spec, "status": {"disruptionsAllowed": allowed}})


def test_a_gang_preempts_pod_by_pod_and_is_bound_as_a_whole():
    lows = [running(f"low-{index}", f"n{index}", "4") for index in range(2)]
    found = cluster(node("n0"), node("n1"), make_pod_group("g", 2), *lows, *high(2, "3"), gates=GANG)
    assert len(bound(settle(found))) == 2
    assert victims(found) == ["low-0", "low-1"]


def test_nobody_is_evicted_for_a_gang_that_does_not_fit_even_so():
    low, firm = running("low", "n0", "4"), running("firm", "n1", "4", priority=2000)
    found = cluster(node("n0"), node("n1"), make_pod_group("g", 2), low, firm, *high(2, "3"), gates=GANG)
    settle(found)
    assert victims(found) == []
    assert bound(found) == {}
    assert reason(found, "g-0") == "waiting for minCount pods from a gang to be scheduled"
    assert not any(pod.status.nominated_node_name for (kind, _), pod in found.objects.items() if kind == "Pod")


def test_members_hold_the_room_while_victims_leave_and_nobody_slips_in():
    lows = [running(f"low-{index}", f"n{index}", "4") for index in range(2)]
    found = cluster(node("n0"), node("n1"), make_pod_group("g", 2), *lows, *high(2, "3"), gates=GANG)
    found.evicts_at_once = False
    settle(found)
    assert condition(found)[:2] == ("False", "Unschedulable")
    assert {pod.status.nominated_node_name for name, pod in pods(found) if name.startswith("g-")} == {"n0", "n1"}
    found.delete("Pod", "default/low-0")
    found.put(make_pod("thief").request(cpu="3").priority(500))
    settle(found)
    assert found.nodes_of()["thief"] == ""
    assert bound(found) == {}
    found.delete("Pod", "default/low-1")
    assert len(bound(settle(found))) == 2


def test_the_whole_group_preempts_only_whom_it_must():
    """Cluster-wide: of three pods of lower priority the two least important go."""
    lows = [running("low-0", "n0", "4", 10), running("low-1", "n1", "4", 5), running("low-2", "n2", "4", 1)]
    group = make_pod_group("g", 2, priority=1000)
    found = cluster(node("n0"), node("n1"), node("n2"), group, *lows, *high(2, "3"), gates=PREEMPTING)
    assert len(bound(settle(found))) == 2
    assert victims(found) == ["low-1", "low-2"]
    notes = found.events("Preempted")
    assert all(note.startswith("Preempted by podgroup default/g on node n") for note in notes)
    message = requests_of(found, EvictPod)[0].message
    assert message == "default-scheduler: preempting to accommodate a higher priority podgroup"


def test_members_do_not_preempt_by_themselves_then():
    firm = running("firm", "n0", "4", 2000)
    found = cluster(node("n0"), make_pod_group("g", 1, priority=1000), firm, *high(1, "3"), gates=PREEMPTING)
    settle(found)
    assert "preemption: not eligible due to workload aware preemption enabled" in reason(found, "g-0")
    assert "No preemption victims found for incoming preemptor" in condition(found)[2]


def test_the_priority_of_the_group_counts_not_that_of_its_pods():
    low = running("low", "n0", "4", 500)
    found = cluster(node("n0"), make_pod_group("g", 1, priority=100), low, *high(1, "3"), gates=PREEMPTING)
    settle(found)
    assert victims(found) == []
    # And the other way round for victims: the pods' own priority is above the preemptor's, their group's is below.
    weak = make_pod_group("w", 1, priority=1)
    worker = member("w-0", "w", "4").node("n0").priority(5000)
    found = cluster(node("n0"), make_pod_group("g", 1, priority=100), weak, worker, *members(1), gates=PREEMPTING)
    settle(found)
    assert victims(found) == ["w-0"]


def test_a_group_that_is_disrupted_as_a_whole_goes_as_a_whole():
    weak = make_pod_group("w", 1, priority=1, disruptionMode="PodGroup")
    workers = [member(f"w-{index}", "w", "4").node(f"n{index}") for index in range(2)]
    nodes = [node("n0"), node("n1")]
    group = make_pod_group("g", 1, priority=100)
    found = settle(cluster(*nodes, group, weak, *workers, *members(1), gates=PREEMPTING))
    assert victims(found) == ["w-0", "w-1"]
    single = make_pod_group("w", 1, priority=1, disruptionMode="Pod")
    found = settle(cluster(*nodes, group, single, *workers, *members(1), gates=PREEMPTING))
    assert len(victims(found)) == 1


def test_pods_are_spared_before_groups_of_the_same_priority_are_not():
    """Of equals a PodGroup is more important than a single pod."""
    weak = make_pod_group("w", 1, priority=1, disruptionMode="PodGroup")
    worker = member("w-0", "w", "4").node("n0")
    single = running("single", "n1", "4", 1)
    group = make_pod_group("g", 1, priority=100)
    found = settle(cluster(node("n0"), node("n1"), group, weak, worker, single, *members(1), gates=PREEMPTING))
    assert victims(found) == ["single"]


def test_disruption_budgets_are_kept_where_that_is_possible():
    protected, free = running("a-protected", "n0", "4", 1), running("b-free", "n1", "4", 5)
    free.document["metadata"]["labels"] = {"app": "other"}
    group = make_pod_group("g", 1, priority=100)
    found = settle(cluster(node("n0"), node("n1"), group, protected, free, budget(0), *members(1), gates=PREEMPTING))
    assert victims(found) == ["b-free"]


def test_pods_that_never_preempt_do_not():
    low = running("low", "n0", "4")
    pod = member("g-0", cpu="3").priority(1000, "Never")
    found = settle(cluster(node("n0"), make_pod_group("g", 1, priority=1000), low, pod, gates=PREEMPTING))
    assert victims(found) == []
    assert "not eligible due to preemptionPolicy=Never." in condition(found)[2]


def test_victims_on_their_way_are_waited_for():
    lows = [running(f"low-{index}", f"n{index}", "4") for index in range(2)]
    group = make_pod_group("g", 2, priority=1000)
    found = cluster(node("n0"), node("n1"), group, *lows, *high(2, "3"), gates=PREEMPTING)
    found.evicts_at_once = False
    settle(found)
    assert victims(found) == ["low-0", "low-1"]
    found.delete("Pod", "default/low-0")
    settle(found)
    assert victims(found) == ["low-0", "low-1"]  # nobody else, and nobody twice
    assert {pod.status.nominated_node_name for name, pod in pods(found) if name.startswith("g-")} == {"n0", "n1"}
    found.delete("Pod", "default/low-1")
    assert len(bound(settle(found))) == 2


def test_a_group_with_a_topology_constraint_does_not_preempt():
    low = running("low", "n0", "4")
    group = make_pod_group("g", 1, priority=1000, topology="rack")
    gates = {**PREEMPTING, "TopologyAwareWorkloadScheduling": True}
    found = settle(cluster(node("n0").label("rack", "a"), group, low, *high(1, "3"), gates=gates))
    assert victims(found) == []
    said = "preemption: not eligible due to placement-based pod group scheduling limitation"
    assert said in reason(found, "g-0")
    limit = "workload aware preemption is not supported for pod groups with scheduling constraints"
    assert limit in condition(found)[2]


def test_a_refused_eviction_is_tried_again():
    low = running("low", "n0", "4")
    group = make_pod_group("g", 1, priority=1000)
    found = cluster(node("n0"), group, low, *high(1, "3"), gates=PREEMPTING)
    found.answers_evictions = False
    found.run()
    check(found.core)
    (request,) = found.requests
    pre_enqueue = found.core.profiles["default-scheduler"].run_pre_enqueue
    assert pre_enqueue(member("g-0").info()).message == ("waiting for the preemption for this pod group to be finished")
    found.answer(request, error="forbidden")
    found.answers_evictions = True
    assert len(bound(settle(found))) == 1


def test_a_member_that_comes_while_room_is_being_made_is_not_left_lying():
    low = running("low", "n0", "4")
    group = make_pod_group("g", 1, priority=1000)
    found = cluster(node("n0"), group, low, *high(1, "3"), gates=PREEMPTING)
    found.answers_evictions = False
    found.run()
    found.put(member("g-9").priority(1000))
    found.delete("Pod", "default/g-0")
    found.answer(found.requests[0])
    assert bound(settle(found)) == {"g-9": "n0"}


def test_a_group_whose_pods_are_on_a_node_that_is_gone_may_be_a_victim():
    weak = make_pod_group("w", 1, priority=1, disruptionMode="PodGroup")
    workers = [member("w-0", "w", "4").node("n0"), member("w-1", "w", "4").node("gone")]
    group = make_pod_group("g", 1, priority=100)
    found = cluster(node("n0"), node("gone"), group, weak, *workers, gates=PREEMPTING)
    found.delete("Node", "gone")
    found.put(high(1)[0])
    assert bound(settle(found)) == {"g-0": "n0"}
    assert victims(found) == ["w-0", "w-1"]


def test_the_question_leaves_no_trace():
    """What a what-if changes in the cache is as before when nothing comes of it."""
    lows = [running(f"low-{index}", "n0", "1") for index in range(4)]
    firm = running("firm", "n1", "4", 2000)
    found = cluster(node("n0"), node("n1"), make_pod_group("g", 2, priority=1000), *lows, firm, gates=PREEMPTING)
    table = found.core.cache.table
    before = [list(pods) for pods in table.pods]
    for pod in high(2, "3"):
        found.put(pod)
    settle(found)
    assert victims(found) == []
    assert [list(pods) for pods in table.pods] == before


def test_members_left_over_by_a_group_that_was_bound_get_room_too():
    low = running("low", "n1", "4")
    group = make_pod_group("g", 1, priority=1000)
    found = settle(cluster(node("n0"), node("n1"), group, low, *high(2, "3"), gates=PREEMPTING))
    assert victims(found) == ["low"]
    assert len(bound(found)) == 2


def pods(found):
    return [(obj.metadata.name, obj) for (kind, _), obj in found.objects.items() if kind == "Pod"]


def test_a_running_member_is_never_a_victim_of_its_own_group():
    group = make_pod_group("g", 2, priority=1000)
    here = msgspec.structs.replace(group)
    found = cluster(node("n0"), here, member("g-0", cpu="4").node("n0"), member("g-1", cpu="3"), gates=PREEMPTING)
    settle(found)
    assert victims(found) == []
