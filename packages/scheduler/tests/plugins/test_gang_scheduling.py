"""GangScheduling: PreEnqueue, Permit and hints.

pkg/scheduler/framework/plugins/gangscheduling/gangscheduling.go of v1.36.
"""

import msgspec
import pytest

from berth.core.builders import make_pod, make_pod_group
from berth.framework.events import QueueingHint
from berth.framework.status import Code
from packages.scheduler.tests.groups.support import cluster, member, node
from packages.scheduler.tests.plugins.test_queueing_hints import plugins

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def plugin_of(*objects):
    found = cluster(node("n1", cpu="1"), *objects)
    profile = found.core.profiles["default-scheduler"]
    return next(plugin for plugin in profile.permit if plugin.name == "GangScheduling")


@pytest.mark.parametrize(
    ("objects", "pod", "message"),
    [
        ([], make_pod("p"), None),
        ([], member("g-0"), 'waiting for pods\'s pod group "g" to appear in scheduling queue'),
        ([make_pod_group("g", 1, namespace="other")], member("g-0"), "waiting for pods's pod group"),
        ([make_pod_group("g")], member("g-0"), None),
        ([make_pod_group("g", 2), member("g-0")], member("g-0"), "waiting for minCount pods from a gang to appear"),
        ([make_pod_group("g", 2), member("g-0"), member("h-1", "h")], member("g-0"), "waiting for minCount pods"),
        ([make_pod_group("g", 2), member("g-0"), member("g-1")], member("g-0"), None),
        ([make_pod_group("g", 2), member("g-0"), member("g-1").node("n1")], member("g-0"), None),
        ([make_pod_group("g", 2), member("g-0"), member("g-1").phase("Failed")], member("g-0"), "waiting for minCount"),
    ],
    ids=[
        "no group",
        "group missing",
        "other namespace",
        "basic",
        "too few",
        "other group",
        "enough",
        "running",
        "failed",
    ],
)
def test_pre_enqueue(objects, pod, message):
    status = plugin_of(*objects).pre_enqueue(pod.info())
    if message is None:
        assert status is None
    else:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert message in status.message


@pytest.mark.parametrize(
    ("objects", "code"),
    [
        ([make_pod_group("g")], None),
        ([make_pod_group("g", 2), member("g-1").node("n1")], Code.WAIT),
        ([make_pod_group("g", 2), member("g-1").node("n1"), member("g-2").node("n1")], None),
        ([], Code.ERROR),
    ],
    ids=["basic", "too few placed", "enough placed", "group gone"],
)
def test_permit(objects, code):
    status, timeout_s = plugin_of(*objects).permit(None, member("g-0").info(), "n1")
    assert (status and status.code) == code
    assert timeout_s == (300.0 if code is Code.WAIT else 0.0)
    if code is Code.WAIT:
        assert status.message == "waiting for minCount pods from a gang to be scheduled"


WAITING = [make_pod_group("g", 2), member("g-0"), member("g-1")]


@pytest.mark.parametrize(
    ("objects", "other", "expected"),
    [
        (WAITING, member("g-1"), QUEUE),
        (WAITING, member("g-1").node("n1"), QUEUE),
        (WAITING, member("h-1", "h"), SKIP),
        (WAITING, make_pod("single"), SKIP),
        (WAITING[:2], member("g-0"), SKIP),
        (WAITING[1:], member("g-1"), SKIP),
    ],
    ids=["member", "bound member", "other group", "no group", "still too few", "group missing"],
)
def test_hint_for_pods(objects, other, expected):
    assert plugin_of(*objects).after_member(member("g-0").info(), None, other.info()) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_pod_group("g", 2), QUEUE),
        (None, make_pod_group("h", 2), SKIP),
        (None, make_pod_group("g", 2, namespace="other"), SKIP),
        (make_pod_group("g", 3), make_pod_group("g", 2), QUEUE),
        (make_pod_group("g", 2), make_pod_group("g", 3), SKIP),
        (make_pod_group("g", 2), make_pod_group("g"), QUEUE),
        (make_pod_group("g"), make_pod_group("g", 2), SKIP),
    ],
)
def test_hint_for_groups(old, new, expected):
    assert plugin_of().after_group_change(member("g-0").info(), old, new) is expected


def test_the_condition_that_the_scheduler_writes_itself_wakes_nobody():
    group = make_pod_group("g", 2)
    told = msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, resource_version="2"))
    assert plugin_of(*WAITING).after_group_change(member("g-0").info(), group, told) is SKIP


def test_with_the_gate_off_a_configured_plugin_does_nothing():
    from packages.scheduler.tests.support import document

    found = cluster(node("n1"), member("g-0"), gates={}, config=document("GangScheduling")).run()
    assert found.nodes_of()["g-0"] == "n1"


@pytest.mark.parametrize(
    ("labels", "before", "expected"),
    [
        ({"rack": "a"}, None, QUEUE),
        ({}, None, SKIP),
        ({"rack": "a"}, {}, QUEUE),
        ({"rack": "a"}, {"rack": "b"}, QUEUE),
        ({"rack": "a", "x": "1"}, {"rack": "a"}, SKIP),
        ({}, {"rack": "a"}, SKIP),
    ],
)
def test_placements_are_made_by_nodes_that_get_the_label(labels, before, expected):
    assert "TopologyPlacementGenerator" in plugins()
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    found = cluster(make_pod_group("g", 2, topology="rack"), gates=gates)
    (generator,) = found.core.profiles["default-scheduler"].placement_generate
    old = None if before is None else labelled(before)
    assert generator.after_node_change(member("g-0").info(), old, labelled(labels)) is expected
    assert generator.after_node_change(member("h-0", "h").info(), old, labelled(labels)) is SKIP


def labelled(labels):
    found = node("n1")
    for key, value in labels.items():
        found.label(key, value)
    return found.build()
