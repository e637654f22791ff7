"""Nodes that play dead, in virtual time: what the control plane says of them, of their pods, and when they come back.

Expectations: documentation of v1.36, Nodes (Heartbeats, Node controller) and Taint-based Evictions.
"""

from berth_cluster.apimachinery.meta import format_micro_time, format_time
from berth_cluster.hollow.template import NodeTemplate
from packages.cluster.tests.controllers.world import World, condition, deployment, pod, stateful_set

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


class TestNodesThatAreNotHollow:
    """Expectations: pkg/controller/nodelifecycle, v1.36: 50 s (node-monitor-grace-period), 60 s for one that is new."""

    def conditions(self, world):
        return {
            one["type"]: (one["status"], one["reason"]) for one in world.get("Node", "real", "")["status"]["conditions"]
        }

    def real(self, world, **status):
        return world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}, "status": status})

    def heartbeat(self, world):
        return {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": format_time(world.now_s),
        }

    def lease(self, world):
        spec = {"holderIdentity": "real", "renewTime": format_micro_time(world.now_s)}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "real", "namespace": "kube-node-lease"}, "spec": spec}  # fmt: skip

    def test_one_that_nobody_speaks_for_is_given_up(self):
        world = World(nodes=1, binds=False)
        self.real(world, conditions=[self.heartbeat(world)])
        world.run(49)
        assert (ready(world, "real")[0], taints(world, "real")) == ("True", [])
        world.run(1)
        assert self.conditions(world) == {
            "Ready": ("Unknown", "NodeStatusUnknown"),
            **dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), ("Unknown", "NodeStatusNeverUpdated")),
        }
        assert taints(world, "real") == [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")]
        assert world.events("Node", "NodeNotReady") == ["Node real status is now: NodeNotReady"]

    def test_one_whose_lease_is_renewed_lives_on(self):
        world = World(nodes=1, binds=False)
        self.real(world, conditions=[self.heartbeat(world)])
        world.create(self.lease(world))
        for _ in range(3):
            world.run(40)
            world.patch("Lease", "real", {"spec": self.lease(world)["spec"]}, namespace="kube-node-lease")
        world.run(49)
        assert ready(world, "real")[0] == "True"
        world.run(1)
        assert ready(world, "real")[0] == "Unknown"

    def test_one_that_says_how_it_is_lives_on_and_comes_back(self):
        world = World(nodes=1, binds=False)
        self.real(world, conditions=[self.heartbeat(world)])
        for wait_s in (40, 40, 70, 40):
            world.run(wait_s)
            world.patch("Node", "real", {"status": {"conditions": [self.heartbeat(world)]}}, "", "status")
            world.run()
            assert (ready(world, "real")[0], taints(world, "real")) == ("True", [])

    def test_one_that_has_never_said_anything_has_a_minute(self):
        world = World(nodes=1, binds=False)
        self.real(world)
        world.run(59)
        assert "conditions" not in world.get("Node", "real", "")["status"]
        world.run(1)
        assert ready(world, "real") == ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.")
        assert not world.events("Node", "NodeNotReady")
