"""Which changes wake a pod that hard spread constraints rejected, and which leave it asleep."""

import pytest

from berth.core.builders import expression, make_node, make_pod, make_service
from berth.framework.events import Action, QueueingHint
from berth.plugins.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from berth.plugins.pod_topology_spread.args import DefaultConstraint
from packages.scheduler.tests.plugins.topology_support import HOST, ZONE, cluster, hint_of, zoned

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
WEB = {"app": "web"}
HARD_DEFAULT = DefaultConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")


def plugin(*defaults):
    args = PodTopologySpreadArgs(defaults, "List") if defaults else PodTopologySpreadArgs()
    return PodTopologySpread(args, cluster(zoned("a1", "a")))


WAITING = make_pod("waiting").labels(WEB).spread(ZONE, WEB).info()


def on_node(labels, namespace="default"):
    return make_pod("other", namespace).labels(labels).node("a1").info()


# Pods that are being deleted are not counted: pkg/scheduler/framework/plugins/podtopologyspread, countPodsMatchSelector
LEAVING = make_pod("other").labels(WEB).node("a1").terminating().info()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, on_node(WEB), QUEUE),
        (None, on_node({"app": "db"}), SKIP),
        (None, on_node(WEB, "prod"), SKIP),
        (None, make_pod("other").labels(WEB).info(), SKIP),
        (on_node(WEB), None, QUEUE),
        (on_node({"app": "db"}), None, SKIP),
        (on_node(WEB), on_node({"app": "db"}), QUEUE),
        (on_node({"app": "db"}), on_node(WEB), QUEUE),
        (on_node(WEB), on_node({**WEB, "tier": "gold"}), SKIP),
        (on_node(WEB), LEAVING, QUEUE),
        (LEAVING, None, SKIP),
        (None, LEAVING, SKIP),
        (make_pod("waiting").info(), WAITING, QUEUE),
        (WAITING, make_pod("waiting").labels(WEB).tolerate("gpu").info(), QUEUE),
        (WAITING, WAITING, SKIP),
    ],
)
def test_pods(old, new, expected):
    assert hint_of(plugin(), "Pod")(WAITING, old, new) is expected


GPU_POD = (
    make_pod("gpu")
    .labels(WEB)
    .spread(ZONE, WEB, nodeTaintsPolicy="Honor")
    .spread(HOST, WEB)
    .require_node(expression("disk", "In", "ssd"))
    .info()
)
SSD = zoned("n", "a").label("disk", "ssd")


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        (WAITING, None, zoned("n", "a"), QUEUE),
        (WAITING, None, make_node("n"), SKIP),
        (WAITING, zoned("n", "a"), None, QUEUE),
        (WAITING, make_node("n"), None, SKIP),
        (WAITING, make_node("n"), zoned("n", "a"), QUEUE),
        (WAITING, zoned("n", "a"), make_node("n"), QUEUE),
        (WAITING, zoned("n", "a"), zoned("n", "b"), QUEUE),
        (WAITING, zoned("n", "a"), zoned("n", "a").label("disk", "ssd"), SKIP),
        (WAITING, zoned("n", "a"), zoned("n", "a").taint("gpu"), SKIP),
        (GPU_POD, SSD, SSD.copy().taint("gpu"), QUEUE),
        (GPU_POD, SSD.copy().taint("gpu"), SSD, QUEUE),
        (GPU_POD, SSD, SSD.copy().label("disk", "hdd"), QUEUE),
        (GPU_POD, SSD, SSD.copy().label("cores", "8"), SKIP),
    ],
)
def test_nodes(pod, old, new, expected):
    built = (None if node is None else node.build() for node in (old, new))
    assert hint_of(plugin(), "Node")(pod, *built) is expected


def test_what_is_registered():
    events = {(r.event.resource, r.event.action) for r in plugin().events_to_register()}
    pod_actions = Action.ADD | Action.UPDATE | Action.DELETE
    node_actions = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
    assert events == {("Pod", pod_actions), ("Node", node_actions)}


def test_workloads_matter_only_where_default_constraints_reject():
    resources = {r.event.resource for r in plugin(HARD_DEFAULT).events_to_register()}
    assert resources == {"Pod", "Node", "Service", "ReplicationController", "ReplicaSet", "StatefulSet"}
    hint, service = hint_of(plugin(HARD_DEFAULT), "Service"), make_service("s", WEB)
    assert hint(make_pod().info(), None, service) is QUEUE
    assert hint(make_pod().info(), service, None) is QUEUE
    assert hint(make_pod("p", "prod").info(), None, service) is SKIP
    assert hint(WAITING, None, service) is SKIP
