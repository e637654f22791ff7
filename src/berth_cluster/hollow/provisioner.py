"""The provisioner behind every storage class of the cluster: makes volumes out of nothing, and deletes them again.

Driven by claims that the volume controller has handed to a provisioner, and by volumes that were released. From where a
volume can be reached follows from the class's allowedTopologies, and from the topology keys under which the driver is
registered on nodes (CSINode). It stands in for the sidecar external-provisioner of every CSI driver, whatever its name.
"""

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    is_being_deleted,
    key_of,
    labels_of,
    uid_of,
    with_metadata,
)
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange, ObjectIndex
from berth_cluster.controllers.volumes.volume_claims import (
    BIND_COMPLETED,
    CLAIM,
    CLASS,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    VOLUME,
    class_name_of,
    waits_for_consumer,
)


class AccessibleTopology(NamedTuple):
    """From where a volume can be reached (a node selector, None for anywhere), or why it cannot be made."""

    selector: Object | None = None
    fault: str = ""


class HollowProvisioner(KeyedController):
    """Makes and deletes volumes. A queue key is `Kind key`."""

    __slots__ = ("_client", "_index")

    name = "hollow-provisioner"

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index

    def handle(self, change: ObjectChange) -> None:
        """Look at claims that ask for a volume, and at volumes that were made here."""
        if change.type == "DELETED":
            return
        if change.kind == CLAIM and STORAGE_PROVISIONER in annotations_of(change.obj):
            self.queue.add(f"{CLAIM} {key_of(change.obj)}")
        elif change.kind == VOLUME and PROVISIONED_BY in annotations_of(change.obj):
            self.queue.add(f"{VOLUME} {key_of(change.obj)}")

    def sync(self, key: str, now_s: float) -> None:
        """Make the volume of one claim, or delete one volume."""
        kind, _, name = key.partition(" ")
        obj = self._index.get(kind, name)
        if obj is None or is_being_deleted(obj):
            return
        if kind == CLAIM:
            self._provision(obj, now_s)
        elif _is_released(obj) and obj["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._client.delete(VOLUME, obj)

    def _provision(self, claim: Object, now_s: float) -> None:
        storage_class = self._index.get(CLASS, class_name_of(claim))
        provisioner = annotations_of(claim)[STORAGE_PROVISIONER]
        if claim["spec"].get("volumeName") or BIND_COMPLETED in annotations_of(claim) or storage_class is None:
            return
        if waits_for_consumer(claim, storage_class) or storage_class.get("provisioner") != provisioner:
            return
        topology = self._topology(claim, storage_class)
        if topology.fault:
            message = f'failed to provision volume with StorageClass "{class_name_of(claim)}": {topology.fault}'
            self._client.events.warning(provisioner, CLAIM, claim, "ProvisioningFailed", message, now_s)
            self._give_back(claim)
            return
        volume = _volume(claim, storage_class, topology.selector)
        try:
            self._client.create(VOLUME, volume)
        except StoreError as error:
            if error.reason != "AlreadyExists":
                raise
            return
        message = f"Successfully provisioned volume {volume['metadata']['name']}"
        self._client.events.normal(provisioner, CLAIM, claim, "ProvisioningSucceeded", message, now_s)

    def _give_back(self, claim: Object) -> None:
        """Have the scheduler choose again, since the node that it chose cannot reach such a volume."""
        if SELECTED_NODE in annotations_of(claim):
            kept = {name: value for name, value in annotations_of(claim).items() if name != SELECTED_NODE}
            self._client.update(CLAIM, with_metadata(claim, annotations=kept))

    def _topology(self, claim: Object, storage_class: Object) -> AccessibleTopology:
        terms = storage_class.get("allowedTopologies") or []
        provisioner = str(storage_class["provisioner"])
        node_name = annotations_of(claim).get(SELECTED_NODE)
        if node_name is not None:
            node = self._index.get("Node", node_name)
            if node is None:
                return AccessibleTopology(fault=f'error getting node: node "{node_name}" not found')
            if terms and not any(_allows(term, labels_of(node)) for term in terms):
                return AccessibleTopology(fault=f'topology of node "{node_name}" is not in allowed topologies')
            keys = topology_keys(self._index, node_name, provisioner)
            return AccessibleTopology(_labels_selector(labels_of(node), keys) if keys else _allowed_selector(terms))
        nodes = [node for node in _nodes_with(self._index, provisioner) if _in_any(terms, labels_of(node))]
        if not nodes:
            return AccessibleTopology(_allowed_selector(terms))
        # No consumer says where: take the topology of some node, always the same one for a claim, but spread over
        # claims.
        node = nodes[zlib.crc32(uid_of(claim).encode()) % len(nodes)]
        keys = topology_keys(self._index, node["metadata"]["name"], provisioner)
        return AccessibleTopology(_labels_selector(labels_of(node), keys))


def topology_keys(index: ObjectIndex, node_name: str, driver: str) -> list[str]:
    """The label keys by which a driver tells locations apart, as registered on a node; empty if it is not."""
    csi_node = index.get("CSINode", node_name)
    drivers = ((csi_node or {}).get("spec") or {}).get("drivers") or []
    return next((entry.get("topologyKeys") or [] for entry in drivers if entry.get("name") == driver), [])


def _nodes_with(index: ObjectIndex, driver: str) -> Iterator[Object]:
    nodes = (node for node in index.all_of("Node") if topology_keys(index, node["metadata"]["name"], driver))
    return iter(sorted(nodes, key=lambda node: str(node["metadata"]["name"])))


def _is_released(volume: Object) -> bool:
    return (volume.get("status") or {}).get("phase") == "Released"


def _in_any(terms: list[Object], labels: dict[str, str]) -> bool:
    return not terms or any(_allows(term, labels) for term in terms)


def _allows(term: Object, labels: dict[str, str]) -> bool:
    expressions = term.get("matchLabelExpressions") or []
    return all(labels.get(one.get("key", "")) in (one.get("values") or []) for one in expressions)


def _labels_selector(labels: dict[str, str], keys: list[str]) -> Object:
    found = [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels]
    return {"nodeSelectorTerms": [{"matchExpressions": found}]}


def _allowed_selector(terms: list[Object]) -> Object | None:
    """The class's topologies as a node selector; None where it says nothing."""
    found = [
        [
            {"key": one.get("key", ""), "operator": "In", "values": one.get("values") or []}
            for one in term["matchLabelExpressions"]
        ]
        for term in terms
        if term.get("matchLabelExpressions")
    ]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in found]} if found else None


def _volume(claim: Object, storage_class: Object, selector: Object | None) -> Object:
    """The volume for a claim; it names the claim, so that no other claim is bound to it."""
    metadata, spec = claim["metadata"], claim["spec"]
    provisioner, name = storage_class["provisioner"], f"pvc-{uid_of(claim)}"
    volume_spec: Object = {
        "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")},
        "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
        "claimRef": {
            "kind": CLAIM,
            "apiVersion": "v1",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": uid_of(claim),
            "resourceVersion": metadata["resourceVersion"],
        },
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": spec.get("volumeMode") or "Filesystem",
        "csi": {"driver": provisioner, "volumeHandle": name},
    }
    if storage_class.get("mountOptions"):
        volume_spec["mountOptions"] = storage_class["mountOptions"]
    if selector is not None:
        volume_spec["nodeAffinity"] = {"required": selector}
    return {
        "apiVersion": "v1",
        "kind": VOLUME,
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
        "spec": volume_spec,
    }
