"""The provisioner behind every storage class of the cluster: makes volumes out of nothing, and deletes them again.

Driven by claims that the volume controller has handed to a provisioner, and by volumes that were released. From where a
volume can be reached follows from the class's allowedTopologies, and from the topology keys under which the driver is
registered on nodes (CSINode). It stands in for the sidecar external-provisioner of every CSI driver, whatever its name.
"""

import zlib

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object, annotations_of, is_being_deleted, labels_of, uid_of, with_metadata
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.volumes.volume_claims import (
    BIND_COMPLETED,
    CLAIM,
    CLASS,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    VOLUME,
    class_name_of,
    new_claim_ref,
    waits_for_consumer,
)

Term = list[tuple[str, list[str]]]
"""Label keys, and the values that they may have."""


class TopologyError(Exception):
    """A volume that cannot be made where it is wanted."""


class HollowProvisioner(KeyedController):
    """Makes and deletes volumes."""

    __slots__ = ()

    name = "hollow-provisioner"
    kinds = frozenset({CLAIM, VOLUME})

    def sync(self, obj: Object, now_s: float) -> None:
        """Make the volume of a claim that asks for one, or delete one that was made here and is released."""
        annotations, status = annotations_of(obj), obj.get("status") or {}
        if is_being_deleted(obj):
            return
        if obj["kind"] == CLAIM and STORAGE_PROVISIONER in annotations:
            self._provision(obj, now_s)
        is_released = PROVISIONED_BY in annotations and status.get("phase") == "Released"
        if is_released and obj["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self.client.delete(VOLUME, obj)

    def _provision(self, claim: Object, now_s: float) -> None:
        storage_class = self.index.get(CLASS, class_name_of(claim))
        provisioner = annotations_of(claim)[STORAGE_PROVISIONER]
        if claim["spec"].get("volumeName") or BIND_COMPLETED in annotations_of(claim) or storage_class is None:
            return
        if waits_for_consumer(claim, storage_class) or storage_class.get("provisioner") != provisioner:
            return
        try:
            volume = _volume(claim, storage_class, self._topology(claim, storage_class))
        except TopologyError as error:
            message = f'failed to provision volume with StorageClass "{class_name_of(claim)}": {error}'
            self.client.events.record(provisioner, claim, "ProvisioningFailed", message, now_s, warns=True)
            self._give_back(claim)
            return
        try:
            self.client.create(VOLUME, volume)
        except StoreError as error:
            if error.reason != "AlreadyExists":
                raise
            return
        message = f"Successfully provisioned volume {volume['metadata']['name']}"
        self.client.events.record(provisioner, claim, "ProvisioningSucceeded", message, now_s)

    def _give_back(self, claim: Object) -> None:
        """Have the scheduler choose again, since the node that it chose cannot reach such a volume."""
        if SELECTED_NODE in annotations_of(claim):
            kept = {name: value for name, value in annotations_of(claim).items() if name != SELECTED_NODE}
            self.client.update(CLAIM, with_metadata(claim, annotations=kept))

    def _topology(self, claim: Object, storage_class: Object) -> Object | None:
        """From where a volume can be reached, as a node selector, None for anywhere. Raises `TopologyError`.

        Where no consumer says where, it is the topology of some node, always the same one for a claim, but spread over
        claims.
        """
        terms, driver = allowed_topologies(storage_class), str(storage_class["provisioner"])
        selected = annotations_of(claim).get(SELECTED_NODE)
        if selected is None:
            nodes = sorted(self.index.all_of("Node"), key=lambda node: str(node["metadata"]["name"]))
        else:
            node = self.index.get("Node", selected)
            if node is None:
                raise TopologyError(f'error getting node: node "{selected}" not found')
            if not _is_allowed(node, terms):
                raise TopologyError(f'topology of node "{selected}" is not in allowed topologies')
            nodes = [node]
        nodes = [node for node in nodes if self._segment(node, driver) is not None and _is_allowed(node, terms)]
        if not nodes:
            return _node_selector([term for term in terms if term])
        segment = self._segment(nodes[zlib.crc32(uid_of(claim).encode()) % len(nodes)], driver)
        return _node_selector([segment or []])

    def _segment(self, node: Object, driver: str) -> Term | None:
        """Where a node is in the eyes of a driver; None if the driver is not registered on it with topology keys."""
        csi_node, labels = self.index.get("CSINode", node["metadata"]["name"]) or {}, labels_of(node)
        drivers = (csi_node.get("spec") or {}).get("drivers") or []
        keys = next((entry.get("topologyKeys") or [] for entry in drivers if entry.get("name") == driver), [])
        return [(key, [labels[key]]) for key in keys if key in labels] if keys else None


def allowed_topologies(storage_class: Object) -> list[Term]:
    """The terms of a class's allowedTopologies."""
    given = (term.get("matchLabelExpressions") or [] for term in storage_class.get("allowedTopologies") or [])
    return [[(one.get("key", ""), one.get("values") or []) for one in term] for term in given]


def _is_allowed(node: Object, terms: list[Term]) -> bool:
    labels = labels_of(node)
    return not terms or any(all(labels.get(key) in values for key, values in term) for term in terms)


def _node_selector(terms: list[Term]) -> Object | None:
    found = [[{"key": key, "operator": "In", "values": values} for key, values in term] for term in terms]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in found]} if terms else None


def _volume(claim: Object, storage_class: Object, selector: Object | None) -> Object:
    """The volume for a claim; it names the claim, so that no other claim is bound to it."""
    spec = claim["spec"]
    provisioner, name = storage_class["provisioner"], f"pvc-{uid_of(claim)}"
    volume_spec: Object = {
        "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")},
        "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
        "claimRef": new_claim_ref(claim),
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
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
        "spec": volume_spec,
    }
