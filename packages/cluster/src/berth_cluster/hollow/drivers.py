"""The drivers of hollow nodes: a CSI driver for volumes, and one that publishes devices.

When the cluster starts, there are a CSIDriver and the default storage class `standard`, whose volumes are as local to a
node as a disk in it, and (if nodes have devices) a device class. Each hollow node is then registered with the drivers:
by a CSINode, and by a ResourceSlice with its devices. Called by the embedded cluster.
"""

from berth_cluster.apimachinery.meta import Object, new_owner_reference
from berth_cluster.apimachinery.resource_types import resource_of
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.hollow.template import is_hollow
from berth_cluster.storage.store import Store
from berth_cluster.strategies.storage_classes import DEFAULT_CLASS

VOLUME_DRIVER = "volumes.berth.dev"
TOPOLOGY_KEY = "kubernetes.io/hostname"
STANDARD_CLASS = "standard"
DEVICE_DRIVER = "gpu.berth.dev"
EXTENDED_RESOURCE = "berth.dev/gpu"
DEVICE_MEMORY = "16Gi"


def create_driver_objects(store: Store, devices_per_node: int) -> None:
    """Create the objects that drivers have once for the whole cluster."""
    for kind, obj in _cluster_objects(devices_per_node):
        if store.find(resource_of(kind), "", obj["metadata"]["name"]) is None:
            store.create(resource_of(kind), "", obj)


def _cluster_objects(devices_per_node: int) -> list[tuple[str, Object]]:
    metadata = {"name": STANDARD_CLASS, "annotations": {DEFAULT_CLASS: "true"}}
    storage_class = {
        "metadata": metadata,
        "provisioner": VOLUME_DRIVER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    driver = {"metadata": {"name": VOLUME_DRIVER}, "spec": {"attachRequired": False}}
    found: list[tuple[str, Object]] = [("CSIDriver", driver), ("StorageClass", storage_class)]
    if devices_per_node:
        selector = {"cel": {"expression": f"device.driver == '{DEVICE_DRIVER}'"}}
        spec = {"selectors": [selector], "extendedResourceName": EXTENDED_RESOURCE}
        found.append(("DeviceClass", {"metadata": {"name": DEVICE_DRIVER}, "spec": spec}))
    return found


class NodeDrivers(KeyedController):
    """Registers the drivers on each hollow node."""

    __slots__ = ("_devices",)

    name = "node-drivers"
    kinds = frozenset({"Node", "CSINode", "ResourceSlice"})

    def __init__(self, client: Client, devices_per_node: int) -> None:
        super().__init__(client)
        self._devices = devices_per_node

    def handle(self, change: ObjectChange) -> None:
        """Look at a new node, and again when one of its objects is deleted.

        That object may have been left over from an earlier node of the same name, and the garbage collector deletes it
        only after this node was looked at.
        """
        if change.kind == "Node" and change.type == "ADDED":
            self.look_at(change.obj)
        elif change.type == "DELETED" and change.kind == "CSINode":
            self.look_up("Node", change.obj["metadata"]["name"])
        elif change.type == "DELETED" and change.kind == "ResourceSlice":
            self.look_up("Node", (change.obj.get("spec") or {}).get("nodeName") or "")

    def sync(self, obj: Object, now_s: float) -> None:
        """Create what is missing of one node's objects."""
        name = obj["metadata"]["name"]
        if not is_hollow(obj):
            return
        if self.index.get("CSINode", name) is None:
            entry = {"name": VOLUME_DRIVER, "nodeID": name, "topologyKeys": [TOPOLOGY_KEY]}
            metadata: Object = {"name": name, "ownerReferences": [new_owner_reference(obj)]}
            self.client.create("CSINode", {"metadata": metadata, "spec": {"drivers": [entry]}})
        if self._devices and self.index.get("ResourceSlice", f"{name}-{DEVICE_DRIVER}") is None:
            self.client.create("ResourceSlice", _resource_slice(obj, self._devices))


def _resource_slice(node: Object, count: int) -> Object:
    name = node["metadata"]["name"]
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"index": {"int": number}, "model": {"string": "hollow-1"}},
            "capacity": {"memory": {"value": DEVICE_MEMORY}},
        }
        for number in range(count)
    ]
    owner = {**new_owner_reference(node), "controller": True}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{name}-{DEVICE_DRIVER}", "ownerReferences": [owner]},
        "spec": {"driver": DEVICE_DRIVER, "nodeName": name, "pool": pool, "devices": devices},
    }
