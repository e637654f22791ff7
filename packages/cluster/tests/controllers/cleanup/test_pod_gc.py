"""Pods of nodes that no longer exist."""

from packages.cluster.tests.controllers.world import World, pod, replica_set


def test_pods_of_a_deleted_node_go_after_a_quarantine():
    world = World(nodes=2, binds=False)
    for number in range(2):
        world.bind(world.create(pod(f"p{number}")), f"node-{number}")
    world.run()
    world.delete("Node", "node-1", namespace="")
    world.run(39)
    assert len(world.pods()) == 2
    world.run(2)
    assert [one["metadata"]["name"] for one in world.pods()] == ["p0"]


def test_a_node_that_comes_back_in_time_keeps_its_pods():
    world = World(nodes=1, binds=False)
    world.bind(world.create(pod("p")), "node-0")
    world.run()
    node = world.get("Node", "node-0", "")
    world.delete("Node", "node-0", namespace="")
    world.run(20)
    world.create({**node, "metadata": {name: node["metadata"][name] for name in ("name", "annotations", "labels")}})
    world.run(60)
    assert world.get("Pod", "p")["status"]["phase"] == "Running"


def test_a_pod_on_a_missing_node_is_replaced_by_its_controller():
    world = World(nodes=1, binds=False)
    world.create(replica_set("web", 1))
    world.run()
    (lost,) = world.pods()
    world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "short-lived"}})
    world.bind(lost, "short-lived")
    world.delete("Node", "short-lived", namespace="")
    world.run(41)
    (replacement,) = world.pods()
    assert replacement["metadata"]["uid"] != lost["metadata"]["uid"]
