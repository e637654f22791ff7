"""What the drivers of hollow nodes register, and that it goes with the node."""

from packages.cluster.tests.controllers.world import World


def test_each_node_is_registered_with_the_volume_driver():
    world = World(nodes=2, drivers=True)
    registered = {one["metadata"]["name"]: one["spec"]["drivers"] for one in world.all("CSINode")}
    entry = {"name": "volumes.berth.dev", "topologyKeys": ["kubernetes.io/hostname"]}
    assert registered == {name: [{**entry, "nodeID": name}] for name in ("node-0", "node-1")}
    (standard,) = world.all("StorageClass")
    assert (standard["provisioner"], standard["volumeBindingMode"]) == ("volumes.berth.dev", "WaitForFirstConsumer")
    assert world.all("ResourceSlice") == world.all("DeviceClass") == []


def test_devices_are_published_for_each_node():
    world = World(nodes=2, devices=3)
    slices = {one["spec"]["nodeName"]: one["spec"] for one in world.all("ResourceSlice")}
    assert set(slices) == {"node-0", "node-1"}
    assert [device["name"] for device in slices["node-1"]["devices"]] == ["gpu-0", "gpu-1", "gpu-2"]
    assert slices["node-1"]["pool"] == {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    (device_class,) = world.all("DeviceClass")
    assert device_class["spec"]["extendedResourceName"] == "berth.dev/gpu"


def test_what_a_node_brought_goes_with_it_and_what_is_deleted_comes_again():
    world = World(nodes=2, devices=1)
    world.delete("ResourceSlice", world.all("ResourceSlice")[1]["metadata"]["name"], "")
    world.delete("CSINode", "node-1", "")
    world.run()
    assert len(world.all("ResourceSlice")) == len(world.all("CSINode")) == 2
    world.delete("Node", "node-0", "")
    world.run()
    assert [one["spec"]["nodeName"] for one in world.all("ResourceSlice")] == ["node-1"]
    assert [one["metadata"]["name"] for one in world.all("CSINode")] == ["node-1"]
