"""Plays the API server, and the controllers that answer to it, for what PreBind plugins write and wait for.

Volumes: a claim that is told its node gets a volume of its size there, as a provisioner would make it, and a volume
that is promised to a claim is bound to it. Devices: a claim's allocation and reservations are stored as they are
written. Everything happens at once.
"""

from typing import Any

import msgspec

from berth.api.codec import decode
from berth.api.meta import ObjectReference
from berth.api.pools import HOSTNAME
from berth.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.core.api_calls import Json, ObjectCalls
from berth.plugins.volumes.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    class_name_of,
)
from berth_workbench.simulation.volumes import smallest_for


class ApiCalls(ObjectCalls):
    """Carries out calls on the objects of a cluster; the change is known before the answer."""

    __slots__ = ()

    def written(self, obj: Any) -> None:
        """Do what the controllers of volumes do about a volume or claim that was written."""
        if isinstance(obj, PersistentVolume):
            self._bind_promised(obj)
        elif isinstance(obj, PersistentVolumeClaim) and not obj.spec.volume_name:
            self._provision(obj)

    def provide(self, claim: PersistentVolumeClaim) -> None:
        """Give a new claim its volume where its class does not wait for a pod.

        That is the smallest volume that is there and may hold it, or one that is made of its size, to be reached from
        everywhere that the class allows: which zone a provisioner would choose is not known.
        """
        made_by: StorageClass | None = self._cluster.objects.get(("StorageClass", class_name_of(claim)))
        if claim.spec.volume_name or (made_by is not None and made_by.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER):
            return
        there = (each for (kind, _), each in self._cluster.objects.items() if kind == "PersistentVolume")
        volume = smallest_for(claim, there)
        if volume is None and made_by is not None and made_by.provisioner not in ("", NO_PROVISIONER):
            terms = [
                {
                    "matchExpressions": [
                        {"key": each.key, "operator": "In", "values": list(each.values)}
                        for each in term.match_label_expressions
                    ]
                }
                for term in made_by.allowed_topologies
            ]
            volume = self._made_volume(claim, made_by, terms)
        if volume is not None:
            promised = ObjectReference(
                kind="PersistentVolumeClaim",
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
                uid=claim.metadata.uid,
            )
            spec = msgspec.structs.replace(volume.spec, claim_ref=promised)
            self._cluster.put(msgspec.structs.replace(volume, spec=spec))
            self._bind(claim, volume)

    # -- the controllers of volumes --------------------------------------------------------------------------------

    def _bind_promised(self, volume: PersistentVolume) -> None:
        wanted = volume.spec.claim_ref
        if wanted is None:
            return
        claim = self._cluster.objects.get(("PersistentVolumeClaim", f"{wanted.namespace}/{wanted.name}"))
        if claim is not None and claim.metadata.uid == wanted.uid and not claim.spec.volume_name:
            self._bind(claim, volume)

    def _provision(self, claim: PersistentVolumeClaim) -> None:
        node_name = claim.metadata.annotations.get(SELECTED_NODE)
        node = self._cluster.objects.get(("Node", node_name or ""))
        name = claim.spec.storage_class_name
        made_by: StorageClass | None = self._cluster.objects.get(("StorageClass", name or ""))
        if node is None or made_by is None or made_by.provisioner in ("", NO_PROVISIONER):
            return
        labels = {HOSTNAME: node.metadata.name, **node.metadata.labels}
        reachable_by = [key for key in self._topology_keys(node.metadata.name, made_by.provisioner) if key in labels]
        here = {"matchExpressions": [{"key": key, "operator": "In", "values": [labels[key]]} for key in reachable_by]}
        self._bind(claim, self._made_volume(claim, made_by, [here]))

    def _made_volume(
        self, claim: PersistentVolumeClaim, made_by: StorageClass, reachable_from: list[Json]
    ) -> PersistentVolume:
        """Make a volume of a claim's size, which can be reached from nodes that one of some terms matches."""
        self.made += 1
        name = (claim.metadata.uid or str(self.made)).replace("/", "-")
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": reachable_from}}} if reachable_from else {}
        volume: PersistentVolume = decode(
            "PersistentVolume",
            {
                "metadata": {"name": f"pvc-{name}", "uid": f"made/{self.made}"},
                "spec": {
                    "capacity": dict(claim.spec.resources.requests),
                    "accessModes": list(claim.spec.access_modes),
                    "storageClassName": made_by.metadata.name,
                    "claimRef": _reference(claim),
                    **affinity,
                    "csi": {"driver": made_by.provisioner, "volumeHandle": f"made-{self.made}"},
                },
                "status": {"phase": "Bound"},
            },
        )
        self._cluster.put(volume)
        return volume

    def _topology_keys(self, node_name: str, driver: str) -> tuple[str, ...]:
        """The labels that say from where a driver's volumes can be reached; the node itself where nobody says."""
        csi_node: CSINode | None = self._cluster.objects.get(("CSINode", node_name))
        drivers = () if csi_node is None else csi_node.spec.drivers
        return next((each.topology_keys for each in drivers if each.name == driver), ()) or (HOSTNAME,)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
        self._cluster.put(
            msgspec.structs.replace(
                claim,
                metadata=msgspec.structs.replace(claim.metadata, annotations=annotations),
                spec=msgspec.structs.replace(claim.spec, volume_name=volume.metadata.name),
                status=msgspec.structs.replace(claim.status, phase="Bound"),
            )
        )


def _reference(claim: PersistentVolumeClaim) -> Json:
    meta = claim.metadata
    return {"kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
