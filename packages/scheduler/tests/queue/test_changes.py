"""What an update changed, in the words that plugins register for."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.queue.changes import is_schedulers_own, node_changes, pod_changes


def node():
    return make_node("n").capacity(cpu="4")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (node(), []),
        (make_node("n").capacity(cpu="8"), ["UPDATE_NODE_ALLOCATABLE"]),
        (node().label("a", "b"), ["UPDATE_NODE_LABEL"]),
        (node().taint("a"), ["UPDATE_NODE_TAINT"]),
        (node().unschedulable(), ["UPDATE_NODE_TAINT"]),
        (node().annotation("a", "b"), ["UPDATE_NODE_ANNOTATION"]),
        (node().set_status(conditions=[{"type": "Ready", "status": "True"}]), ["UPDATE_NODE_CONDITION"]),
        (node().label("a", "b").taint("c"), ["UPDATE_NODE_LABEL", "UPDATE_NODE_TAINT"]),
    ],
)
def test_node_changes(new, expected):
    assert [change.action.name for change in node_changes(node().build(), new.build())] == expected


def test_a_heartbeat_changes_nothing():
    def at(time):
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": time}
        return node().set_status(conditions=[ready]).build()

    assert node_changes(at("2030-01-01T00:00:00Z"), at("2030-01-01T00:05:00Z")) == []


def pod():
    return make_pod("a").request(cpu="2")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pod(), pod().label("a", "b"), ["UPDATE_POD_LABEL"]),
        (pod(), make_pod("a").request(cpu="1"), ["UPDATE_POD_SCALE_DOWN"]),
        (pod(), make_pod("a").request(cpu="3"), ["UPDATE_OTHER"]),
        (pod(), pod().tolerate("x"), ["UPDATE_POD_TOLERATION"]),
        (pod().gate("g"), pod(), ["UPDATE_POD_SCHEDULING_GATES_ELIMINATED"]),
        (pod().gate("g", "h"), pod().gate("g"), ["UPDATE_OTHER"]),
        (pod(), pod().annotation("a", "b"), ["UPDATE_OTHER"]),
    ],
)
def test_pod_changes(old, new, expected):
    assert [change.action.name for change in pod_changes(old.info(), new.info())] == expected


def condition(kind, status="False"):
    return {"type": kind, "status": status}


@pytest.mark.parametrize(
    ("new", "own"),
    [
        (pod(), True),
        (pod().nominated("n1"), True),
        (pod().set_status(conditions=[condition("PodScheduled")]), True),
        (pod().set_status(conditions=[condition("PodScheduled"), condition("Other")]), False),
        (pod().label("a", "b"), False),
        (pod().annotation("a", "b"), False),
        (pod().terminating(), False),
        (make_pod("a").request(cpu="1"), False),
    ],
)
def test_what_a_scheduler_itself_writes(new, own):
    assert is_schedulers_own(pod().info(), new.info()) is own
