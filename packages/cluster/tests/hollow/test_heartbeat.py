"""Leases of hollow nodes."""

from berth_cluster.controllers.manager import ControllerManager
from berth_cluster.hollow.heartbeat import NodeHeartbeat
from packages.cluster.tests.controllers.world import World


def lease_of(world, name):
    return world.get("Lease", name, "kube-node-lease")


def test_each_hollow_node_has_a_lease_that_goes_with_it():
    world = World(nodes=2)
    assert lease_of(world, "node-1")["spec"]["holderIdentity"] == "node-1"
    world.delete("Node", "node-1", namespace="")
    world.run()
    assert lease_of(world, "node-0") is not None
    assert lease_of(world, "node-1") is None


def test_renewals_come_at_the_interval():
    world = World(nodes=1)
    manager = ControllerManager(world.store)
    manager.add([NodeHeartbeat(manager.client, 10.0)])
    world.manager = manager
    world.run()
    first = lease_of(world, "node-0")["spec"]["renewTime"]
    world.run(9)
    assert lease_of(world, "node-0")["spec"]["renewTime"] == first
    world.run(1)
    assert lease_of(world, "node-0")["spec"]["renewTime"] > first


def test_without_an_interval_the_cluster_comes_to_rest():
    assert World(nodes=1).manager.next_deadline() is None
