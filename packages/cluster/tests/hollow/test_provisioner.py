"""The hollow provisioner: volumes made where the class, the driver and the scheduler say, and deleted again.

What it stands in for: kubernetes-csi/external-provisioner (controller.go, topology.go) and the claim annotations of
sig-storage-lib-external-provisioner.
"""

import pytest

from packages.cluster.tests.controllers.world import World, claim, storage_class

SELECTED = "volume.kubernetes.io/selected-node"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DELAYED = "WaitForFirstConsumer"
DRIVER = "volumes.berth.dev"


def made(world, name="data"):
    bound = world.get("PersistentVolumeClaim", name)
    assert bound["status"]["phase"] == "Bound"
    return world.get("PersistentVolume", bound["spec"]["volumeName"], "")


def expressions(volume):
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return [{one["key"]: one["values"] for one in term["matchExpressions"]} for term in terms]


def choose(world, node, name="data"):
    world.patch("PersistentVolumeClaim", name, {"metadata": {"annotations": {SELECTED: node}}})
    world.run()


def topologies(*zones):
    return [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]


def test_a_claim_bound_at_once_gets_a_volume_reached_from_anywhere():
    world = World()
    world.create(storage_class("disk", mountOptions=["ro"]))
    world.create(claim("data", "3Gi", storageClassName="disk", accessModes=["ReadWriteMany"]))
    world.run()
    volume = made(world)
    uid = world.get("PersistentVolumeClaim", "data")["metadata"]["uid"]
    assert volume["metadata"]["name"] == f"pvc-{uid}"
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "disks.example.com"
    spec = volume["spec"]
    assert (spec["capacity"], spec["accessModes"]) == ({"storage": "3Gi"}, ["ReadWriteMany"])
    assert (spec["persistentVolumeReclaimPolicy"], spec["storageClassName"]) == ("Delete", "disk")
    assert (spec["mountOptions"], spec["csi"]["driver"]) == (["ro"], "disks.example.com")
    assert "nodeAffinity" not in spec


def test_a_delayed_claim_gets_its_volume_on_the_node_chosen():
    world = World(drivers=True)
    world.create(claim("data"))
    world.run()
    assert world.all("PersistentVolume") == []
    choose(world, "node-1")
    assert expressions(made(world)) == [{HOST: ["node-1"]}]


def test_allowed_topologies_bound_a_volume_without_registered_driver():
    world = World()
    world.create(storage_class("disk", allowedTopologies=topologies("zone-a", "zone-b")))
    world.create(claim("data", storageClassName="disk"))
    world.run()
    assert expressions(made(world)) == [{ZONE: ["zone-a", "zone-b"]}]


def test_a_local_volume_bound_at_once_is_on_one_node_of_the_allowed_topologies():
    world = World(nodes=6, drivers=True)
    world.create(storage_class("near", DRIVER, allowedTopologies=topologies("zone-b")))
    for number in range(8):
        world.create(claim(f"data-{number}", storageClassName="near"))
    world.run()
    hosts = {tuple(expressions(made(world, f"data-{number}"))[0][HOST]) for number in range(8)}
    assert hosts == {("node-1",), ("node-4",)}  # the nodes of zone-b, and both get some


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("node-9", 'error getting node: node "node-9" not found'),
        ("node-2", 'topology of node "node-2" is not in allowed topologies'),
    ],
)
def test_a_node_that_cannot_have_the_volume_is_given_back_to_the_scheduler(node, why):
    world = World(drivers=True)
    world.create(storage_class("near", DRIVER, DELAYED, allowedTopologies=topologies("zone-a")))
    world.create(claim("data", storageClassName="near"))
    world.run()
    choose(world, node)
    waiting = world.get("PersistentVolumeClaim", "data")
    assert SELECTED not in waiting["metadata"]["annotations"]
    said = f'failed to provision volume with StorageClass "near": {why}'
    assert world.events("PersistentVolumeClaim", "ProvisioningFailed") == [said]
    choose(world, "node-0")
    assert expressions(made(world)) == [{HOST: ["node-0"]}]


@pytest.mark.parametrize(("policy", "left"), [("Delete", 0), ("Retain", 1)])
def test_a_released_volume_is_deleted_if_the_class_says_so(policy, left):
    world = World()
    world.create(storage_class("disk", reclaimPolicy=policy))
    world.create(claim("data", storageClassName="disk"))
    world.run()
    assert len(world.all("PersistentVolume")) == 1
    world.delete("PersistentVolumeClaim", "data")
    world.run()
    assert [one["status"]["phase"] for one in world.all("PersistentVolume")] == ["Released"] * left
