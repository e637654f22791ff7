"""NodeName: a pod that names its node."""

import pytest

from berth.core.builders import make_node, make_pod
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action
from berth.framework.status import SKIP
from berth.plugins.node_name import NodeName
from packages.scheduler.tests.plugins.support import filtered, handle_of, registered

REASON = "node(s) didn't match the requested node name"
CLUSTER = handle_of(make_node("a").build(), make_node("b").build(), make_node("c").build())
PLUGIN = NodeName(None, CLUSTER)


@pytest.mark.parametrize(
    ("pod", "fits"),
    [(make_pod(), {"a", "b", "c"}), (make_pod().node("b"), {"b"}), (make_pod().node("gone"), set())],
)
def test_only_the_named_node_fits(pod, fits):
    expected = {name: None if name in fits else REASON for name in ("a", "b", "c")}
    assert filtered(PLUGIN, pod.info(), CLUSTER) == expected


def test_pods_that_name_no_node_are_skipped():
    assert PLUGIN.pre_filter(CycleState(), make_pod().info()) is SKIP
    assert PLUGIN.pre_filter(CycleState(), make_pod().node("a").info()) is None


def test_the_node_may_come_later():
    assert registered(PLUGIN) == {("Node", Action.ADD)}
