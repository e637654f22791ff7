"""NodeResourcesFit: which events wake a pod that it rejected."""

import pytest

from berth.api.codec import decode
from berth.config.plugin_args import decode_plugin_args
from berth.core.builders import make_node, make_pod
from berth.framework.events import Action, QueueingHint
from berth.plugins.resources.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from packages.scheduler.tests.plugins.support import handle_of, hint, registered

GPU = "example.com/gpu"


def fit(**raw):
    return NodeResourcesFit(decode_plugin_args("NodeResourcesFit", raw, NodeResourcesFitArgs, "args"), handle_of())


def device_class(name, extended_resource=None):
    spec = {"extendedResourceName": extended_resource} if extended_resource else {}
    return decode("DeviceClass", {"metadata": {"name": name}, "spec": spec})


def test_registered_events():
    assert registered(fit()) == {
        ("Pod", Action.DELETE | Action.UPDATE_POD_SCALE_DOWN),
        ("Node", Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        ("DeviceClass", Action.ADD | Action.UPDATE),
    }


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (make_pod("other").request(cpu="1").node("n"), None, QueueingHint.QUEUE),
        (make_pod("other").request(cpu="1").nominated("n"), None, QueueingHint.QUEUE),
        (make_pod("other").request(cpu="1"), None, QueueingHint.SKIP),
        (
            make_pod("other").request(cpu="2").node("n"),
            make_pod("other").request(cpu="1").node("n"),
            QueueingHint.QUEUE,
        ),
        (make_pod("other").request(cpu="2"), make_pod("other").request(cpu="1"), QueueingHint.SKIP),
        (
            make_pod("other").request(memory="2").node("n"),
            make_pod("other").request(memory="1").node("n"),
            QueueingHint.SKIP,
        ),
        (
            make_pod("other").pod_level(cpu="2").node("n"),
            make_pod("other").pod_level(cpu="1").node("n"),
            QueueingHint.QUEUE,
        ),
        (make_pod("waiting").request(cpu="2"), make_pod("waiting").request(cpu="1"), QueueingHint.QUEUE),
    ],
)
def test_pods(old, new, expected):
    waiting = make_pod("waiting").request(cpu="1").info()
    assert hint(fit(), "Pod")(waiting, old.info(), None if new is None else new.info()) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {"memory": "1"}, QueueingHint.SKIP),
        (None, {"memory": "4", "other.com/b": "1"}, QueueingHint.SKIP),
        (None, {"memory": "4", GPU: "2"}, QueueingHint.QUEUE),
        (None, {"memory": "4", GPU: "2", "pods": 0}, QueueingHint.SKIP),
        ({"memory": "2", GPU: "2"}, {"memory": "2", GPU: "1", "other.com/b": "2"}, QueueingHint.SKIP),
        ({"memory": "2", GPU: "1"}, {"memory": "2", GPU: "2"}, QueueingHint.QUEUE),
        ({"memory": "4", GPU: "2"}, {"memory": "1", GPU: "2"}, QueueingHint.SKIP),
        ({"memory": "1", GPU: "2"}, {"memory": "4", GPU: "2"}, QueueingHint.QUEUE),
        ({"memory": "4", GPU: "2", "pods": 1}, {"memory": "4", GPU: "2", "pods": 2}, QueueingHint.QUEUE),
    ],
)
def test_nodes(old, new, expected):
    waiting = make_pod().request({"memory": "2", GPU: "1"}).info()
    before = None if old is None else make_node("n").capacity(old).build()
    assert hint(fit(), "Node")(waiting, before, make_node("n").capacity(new).build()) is expected


def test_a_node_that_lacks_only_ignored_resources_is_worth_trying():
    plugin = fit(ignoredResources=[GPU])
    waiting = make_pod().request({GPU: "1"}).info()
    assert hint(plugin, "Node")(waiting, None, make_node("n").capacity().build()) is QueueingHint.QUEUE


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, device_class("gpus", GPU), QueueingHint.QUEUE),
        (None, device_class("gpus", "example.com/other"), QueueingHint.SKIP),
        (None, device_class("mine"), QueueingHint.QUEUE),
        (device_class("gpus"), device_class("gpus", GPU), QueueingHint.QUEUE),
        (device_class("gpus", GPU), device_class("gpus", GPU), QueueingHint.SKIP),
        (device_class("mine"), device_class("mine"), QueueingHint.SKIP),
        (device_class("gpus", GPU), device_class("gpus"), QueueingHint.SKIP),
    ],
)
def test_device_classes(old, new, expected):
    waiting = make_pod().request({GPU: "1", "deviceclass.resource.kubernetes.io/mine": "1"}).info()
    assert hint(fit(), "DeviceClass")(waiting, old, new) is expected
