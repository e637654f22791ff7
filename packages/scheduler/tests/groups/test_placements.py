"""Groups that must share a topology domain.

Expectations: KEP-5732; pkg/scheduler/framework/plugins/topologyaware and podgrouppodscount, and
pkg/scheduler/schedule_one_podgroup.go (podGroupSchedulingPlacementAlgorithm) of v1.36.
"""

import numpy as np
import pytest

from berth.core.builders import make_pod, make_pod_group
from berth.framework.interface import Assignment, Placement, PodGroupAssignments, PodGroupInfo
from berth.framework.status import Code, unschedulable
from berth.state.pod_groups import GroupKey
from packages.scheduler.tests.groups.support import (
    PLACING,
    RACK,
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

GROUP = GroupKey("default", "g")


def racks(found):
    """The racks that the group's members are on."""
    return {found.objects["Node", name].metadata.labels.get(RACK) for name in bound(found).values()}


def plugin_of(found, name):
    profile = found.core.profiles["default-scheduler"]
    return next(each.plugin for each in profile.plugins if each.name == name)


def generated(found):
    """What the generator proposes for the group g, by name, as names of nodes."""
    table = found.core.cache.table
    generator = plugin_of(found, "TopologyPlacementGenerator")
    answer = generator.placement_generate(PodGroupInfo(GROUP, ()), Placement("all", table.rows()))
    return answer if not isinstance(answer, list) else {p.name: sorted(table.names[r] for r in p.rows) for p in answer}


NODES = [node("a1", "2", "a"), node("a2", "1", "a"), node("b1", "2", "b"), node("b2", "2", "b"), node("c1", "9")]


def test_each_value_of_the_label_is_a_placement():
    found = cluster(*NODES, make_pod_group("g", 2, topology=RACK), gates=PLACING)
    assert generated(found) == {"a": ["a1", "a2"], "b": ["b1", "b2"]}


def test_without_a_constraint_all_nodes_are_one_placement():
    found = cluster(*NODES, make_pod_group("g", 2), gates=PLACING)
    assert generated(found) == {"all": ["a1", "a2", "b1", "b2", "c1"]}


def test_members_that_run_decide_the_domain():
    running = member("g-0").node("b1")
    found = cluster(*NODES, make_pod_group("g", 2, topology=RACK), running, gates=PLACING)
    assert generated(found) == {"b": ["b1", "b2"]}


@pytest.mark.parametrize(
    ("on", "why"),
    [
        (("a1", "b1"), "more than 1 domain found for pod group: a, b"),
        (("c1",), "no topology domain found for pod default/g-0"),
    ],
)
def test_members_that_run_in_no_domain_or_in_two_are_an_error(on, why):
    running = [member(f"g-{index}").node(name) for index, name in enumerate(on)]
    found = cluster(*NODES, make_pod_group("g", 1, topology=RACK), *running, gates=PLACING)
    status = generated(found)
    assert status.code is Code.ERROR
    assert status.message == f"cannot determine domain for already scheduled pods: {why}"


def test_the_group_goes_to_the_only_rack_with_room():
    found = settle(cluster(*NODES, make_pod_group("g", 4, topology=RACK), *members(4), gates=PLACING))
    assert len(bound(found)) == 4
    assert racks(found) == {"b"}


# TestEvaluateNominatedNode (schedule_one_test.go of a later release): a member goes where it is nominated if that is in
# the placement, and is no worse off otherwise.
@pytest.mark.parametrize(
    ("nominated", "goes_to"), [("b1", {"b1"}), ("b2", {"b2"}), ("a1", {"b1", "b2"}), ("gone", {"b1", "b2"})]
)
def test_a_member_is_tried_where_it_is_nominated_first(nominated, goes_to):
    nominee, *others = members(4)
    group = make_pod_group("g", 4, topology=RACK)
    found = settle(cluster(*NODES, group, nominee.nominated(nominated), *others, gates=PLACING))
    assert len(bound(found)) == 4
    assert racks(found) == {"b"}
    assert found.nodes_of()["g-0"] in goes_to


def test_it_waits_where_no_rack_alone_has_room():
    found = settle(cluster(*NODES, make_pod_group("g", 5, topology=RACK), *members(5), gates=PLACING))
    assert bound(found) == {}
    assert found.core.cache.assumed_count == 0
    assert condition(found)[2].startswith(
        "0/2 placements are available, first placement status: pod group is unschedulable"
    )
    # Of the first placement, rack a with two nodes, the pods are told why.
    assert reason(found, "g-4").startswith("0/2 nodes are available: 2 Insufficient cpu.")
    found.put(node("b3", "1", "b"))
    assert racks(settle(found)) == {"b"}
    assert len(bound(found)) == 5


def test_a_label_that_a_node_gets_makes_a_placement():
    found = settle(cluster(node("n1"), make_pod_group("g", 2, topology=RACK), *members(2), gates=PLACING))
    assert bound(found) == {}
    assert condition(found)[:2] == ("False", "Unschedulable")
    found.put(node("n1", rack="a"))
    assert len(bound(settle(found))) == 2


def test_the_placement_that_takes_most_pods_is_best():
    nodes = [node("a1", "3", "a"), node("b1", "5", "b"), node("c1", "4", "c")]
    found = settle(cluster(*nodes, make_pod_group("g", 2, topology=RACK), *members(5), gates=PLACING))
    assert len(bound(found)) == 5
    assert racks(found) == {"b"}


def test_later_members_join_the_rack_of_those_that_run():
    nodes = [node("a1", "2", "a"), node("b1", "9", "b")]
    running = [member(f"g-{index}").node("a1") for index in range(1)]
    found = settle(cluster(*nodes, make_pod_group("g", 2, topology=RACK), *running, member("g-1"), gates=PLACING))
    assert found.nodes_of()["g-1"] == "a1"
    found.put(member("g-2"))
    settle(found)
    assert found.nodes_of()["g-2"] == ""


def test_without_the_gate_the_constraint_means_nothing():
    from packages.scheduler.tests.groups.support import GANG

    found = settle(cluster(*NODES, make_pod_group("g", 5, topology=RACK), *members(5), gates=GANG))
    assert len(bound(found)) == 5


def test_pods_count_scores_by_the_largest_count():
    running = member("g-9").node("a1")
    found = cluster(*NODES, make_pod_group("g", 1), running, gates=PLACING)
    scorer = plugin_of(found, "PodGroupPodsCount")
    group = PodGroupInfo(GROUP, ())
    raw = []
    for count in (1, 3, 5):
        proposed = tuple(Assignment(make_pod(f"p{n}").info(), "a1") for n in range(count))
        placement = Placement("x", np.array([0], dtype=np.intp))
        raw.append(scorer.placement_score(group, PodGroupAssignments(placement, proposed)))
    assert raw == [2, 4, 6]  # the member that runs counts with each
    assert scorer.normalize_placement_scores(group, raw) == [33, 66, 100]
    assert scorer.normalize_placement_scores(group, [0, 0]).message == (
        "no pods from pod group are assigned to any of the candidate placements"
    )


def test_where_no_placement_has_room_whatever_helps_in_any_of_them_wakes_the_pods():
    """Rack a lacks room, rack b is tainted: both plugins are named, though the message speaks of the first only."""
    nodes = [node("a1", "1", "a"), node("b1", "9", "b").taint("no")]
    found = cluster(*nodes, make_pod_group("g", 2, topology=RACK), *members(2), gates=PLACING)
    settle(found)
    assert not bound(found)
    rejectors = found.core.queue.find("default/g-0").unschedulable_plugins
    assert {"NodeResourcesFit", "TaintToleration"} <= rejectors
    found.put(node("b1", "9", "b"))
    settle(found)
    assert set(bound(found).values()) == {"b1"}


def test_other_peoples_plugins_take_part():
    halves = plugin("Halves", placement_generate=lambda _group, parent: [
        Placement(f"{parent.name}/0", parent.rows[:1]), Placement(f"{parent.name}/1", parent.rows[1:]),
    ])  # fmt: skip
    last = plugin("Last", placement_score=lambda _group, one: 100 if one.placement.name.endswith("/1") else 0)
    nodes = [node("n1"), node("n2")]
    found = cluster(*nodes, make_pod_group("g", 2), *members(2), gates=PLACING,
                    plugins={"Halves": halves, "Last": last}, config=document("Halves", "Last"))  # fmt: skip
    assert set(bound(settle(found)).values()) == {"n2"}


def test_a_generator_may_refuse():
    closed = plugin("Closed", placement_generate=lambda _group, _parent: unschedulable("closed on Sundays"))
    found = cluster(node("n1"), make_pod_group("g", 1), *members(1), gates=PLACING, plugins={"Closed": closed},
                    config=document("Closed"))  # fmt: skip
    settle(found)
    assert reason(found, "g-0") == "closed on Sundays"
    assert found.core.queue.find("default/g-0").unschedulable_plugins == {"Closed"}
