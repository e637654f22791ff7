"""Nodes that play dead, in virtual time: what the control plane says of them, of their pods, and when they come back.

Expectations: documentation of v1.36, Nodes (Heartbeats, Node controller) and Taint-based Evictions.
"""

from berth_cluster.apimachinery.meta import format_time
from berth_cluster.hollow.template import NodeTemplate
from tests.cluster.controllers.world import World, condition, deployment, pod, stateful_set

UNREACHABLE = "node.kubernetes.io/unreachable"


def down(world, *nodes):
    annotation = {"berth.dev/down-since": format_time(world.now_s)}
    for node in nodes:
        world.patch("Node", node, {"metadata": {"annotations": annotation}}, namespace="")
    world.run()


def up(world, node):
    world.patch("Node", node, {"metadata": {"annotations": {"berth.dev/down-since": None}}}, namespace="")
    world.run()


def taints(world, node="node-0"):
    return sorted((one["key"], one["effect"]) for one in world.get("Node", node, "")["spec"].get("taints", []))


def ready(world, node="node-0"):
    return condition(world.get("Node", node, ""), "Ready")


def test_a_node_without_heartbeats_is_given_up_after_a_while():
    world = World(nodes=2, binds=False)
    world.bind(world.create(pod("web")), "node-0")
    world.run()
    down(world, "node-0")
    world.run(49)
    assert (ready(world)[0], taints(world)) == ("True", [])
    world.run(1)
    words = "Kubelet stopped posting node status."
    assert ready(world) == ("Unknown", "NodeStatusUnknown", words)
    assert condition(world.get("Node", "node-0", ""), "MemoryPressure") == ("Unknown", "NodeStatusUnknown", words)
    assert taints(world) == [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")]
    assert condition(world.get("Pod", "web"), "Ready")[0] == "False"
    assert world.events("Node", "NodeNotReady") == ["Node node-0 status is now: NodeNotReady"]


def test_a_node_that_comes_back_has_its_pods_ready_again():
    world = World(nodes=2, binds=False)
    world.bind(world.create(pod("web")), "node-0")
    world.run()
    down(world, "node-0")
    world.run(60)
    up(world, "node-0")
    assert (ready(world)[0], taints(world)) == ("True", [])
    assert condition(world.get("Pod", "web"), "Ready")[0] == "True"
    world.run(600)
    assert world.get("Pod", "web")["status"]["phase"] == "Running"


def test_pods_are_evicted_after_five_minutes_and_hang_until_the_node_is_back():
    """The default toleration: 300 seconds. Nobody confirms the end of a pod on a node that does not answer."""
    world = World(nodes=3)
    world.create(deployment("web", 3))
    world.create(stateful_set("db", 3, podManagementPolicy="Parallel"))
    world.run(5)
    victims = {one["metadata"]["name"] for one in world.pods() if one["spec"]["nodeName"] == "node-0"}
    world.node_names.remove("node-0")
    down(world, "node-0")
    world.run(349)
    assert not [one for one in world.pods() if "deletionTimestamp" in one["metadata"]]
    world.run(1)
    going = {one["metadata"]["name"] for one in world.pods() if "deletionTimestamp" in one["metadata"]}
    assert going == victims
    world.run(600)
    assert victims <= {one["metadata"]["name"] for one in world.pods()}
    assert world.status("Deployment", "web")["availableReplicas"] == 3
    assert world.status("StatefulSet", "db")["availableReplicas"] == 2
    up(world, "node-0")
    world.run(5)
    assert world.status("StatefulSet", "db")["availableReplicas"] == 3
    assert len(world.pods()) == 6


def test_what_is_bound_to_a_node_that_is_down_waits():
    world = World(nodes=2, binds=False)
    down(world, "node-0")
    world.bind(world.create(pod("web")), "node-0")
    world.run(30)
    assert world.status("Pod", "web")["phase"] == "Pending"
    up(world, "node-0")
    assert world.status("Pod", "web")["phase"] == "Running"


def test_nodes_of_a_zone_are_emptied_one_after_the_other():
    world = World(nodes=6, template=NodeTemplate(zones=("a", "b")))
    zone = ("node-0", "node-2", "node-4")
    down(world, *zone)
    world.run(50)
    assert sum((UNREACHABLE, "NoExecute") in taints(world, node) for node in zone) == 1
    world.run(10)
    assert sum((UNREACHABLE, "NoExecute") in taints(world, node) for node in zone) == 2
    world.run(10)
    assert all((UNREACHABLE, "NoExecute") in taints(world, node) for node in zone)


def test_no_pod_is_evicted_while_no_node_at_all_is_ready():
    world = World(nodes=3)
    world.create(deployment("web", 3))
    world.run(5)
    down(world, *world.node_names)
    world.run(1000)
    for node in world.node_names:
        assert taints(world, node) == [(UNREACHABLE, "NoSchedule")]
    assert not [one for one in world.pods() if "deletionTimestamp" in one["metadata"]]
    up(world, "node-1")
    world.run(10)
    assert sorted((UNREACHABLE, "NoExecute") in taints(world, node) for node in world.node_names) == [False, True, True]


def test_a_cordoned_node_is_tainted_and_others_taints_stay():
    world = World(nodes=1)
    own = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    world.patch("Node", "node-0", {"spec": {"unschedulable": True, "taints": [own]}}, namespace="")
    world.run()
    assert taints(world) == [("dedicated", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")]
    world.patch("Node", "node-0", {"spec": {"unschedulable": None}}, namespace="")
    world.run()
    assert taints(world) == [("dedicated", "NoSchedule")]
