"""NodeUnschedulable: cordoned nodes and who goes there anyway."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.events import Action, QueueingHint
from berth.plugins.node_unschedulable import NodeUnschedulable
from packages.scheduler.tests.plugins.support import filtered, handle_of, hint, registered

KEY = "node.kubernetes.io/unschedulable"
REASON = "node(s) were unschedulable"
CLUSTER = handle_of(
    make_node("open").build(), make_node("cordoned").unschedulable().build(), make_node("third").build()
)
PLUGIN = NodeUnschedulable(None, CLUSTER)


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (make_pod(), REASON),
        (make_pod().tolerate(KEY), None),
        (make_pod().tolerate(KEY, effect="NoSchedule"), None),
        (make_pod().tolerate(), None),
        (make_pod().tolerate(KEY, effect="NoExecute"), REASON),
        (make_pod().tolerate(KEY, "a"), REASON),
        (make_pod().tolerate("other"), REASON),
    ],
)
def test_a_cordoned_node_takes_only_pods_that_tolerate_it(pod, reason):
    assert filtered(PLUGIN, pod.info(), CLUSTER) == {"open": None, "cordoned": reason, "third": None}


def test_pods_that_tolerate_alike_share_a_signature():
    assert PLUGIN.signature(make_pod("a").info()) == PLUGIN.signature(make_pod("b").tolerate("x").info())
    assert PLUGIN.signature(make_pod("a").info()) != PLUGIN.signature(make_pod("b").tolerate(KEY).info())


OPEN, CORDONED = make_node().build(), make_node().unschedulable().build()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, OPEN, QueueingHint.QUEUE),
        (None, CORDONED, QueueingHint.SKIP),
        (CORDONED, OPEN, QueueingHint.QUEUE),
        (OPEN, CORDONED, QueueingHint.SKIP),
        (OPEN, OPEN, QueueingHint.SKIP),
        (CORDONED, CORDONED, QueueingHint.SKIP),
    ],
)
def test_an_open_node_wakes(old, new, expected):
    assert hint(PLUGIN, "Node")(make_pod().info(), old, new) is expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (make_pod("p").tolerate(KEY), QueueingHint.QUEUE),
        (make_pod("p").tolerate("other"), QueueingHint.SKIP),
        (make_pod("other").tolerate(KEY), QueueingHint.SKIP),
    ],
)
def test_the_pods_own_toleration_wakes(new, expected):
    pod = make_pod("p").info()
    assert hint(PLUGIN, "Pod")(pod, pod, new.info()) is expected


def test_events():
    assert registered(PLUGIN) == {
        ("Node", Action.ADD | Action.UPDATE_NODE_TAINT),
        ("Pod", Action.UPDATE_POD_TOLERATION),
    }
