"""Keeps claims that pods use, and volumes that are bound, from disappearing while they are in use.

Each gets a finalizer, which is removed once it is being deleted and nobody uses it any more. Driven by changes
of claims, volumes and pods. Upstream: pkg/controller/volume/pvcprotection and pvprotection; there the finalizer is
added by an admission plugin as well.
"""

from berth_cluster.apimachinery.meta import Object, is_being_deleted, key_of, with_metadata, without_finalizer
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import node_of
from berth_cluster.controllers.volumes.volume_claims import CLAIM, VOLUME, claims_of

FINALIZERS = {CLAIM: "kubernetes.io/pvc-protection", VOLUME: "kubernetes.io/pv-protection"}


class VolumeProtection(KeyedController):
    """Adds and removes the finalizers."""

    __slots__ = ()

    name = "volume-protection-controller"
    kinds = frozenset({*FINALIZERS, "Pod"})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.index.add_indexer("Pod", _uses)

    def handle(self, change: ObjectChange) -> None:
        """Look at claims and volumes that change, and at the claims of pods that are gone."""
        if change.kind in FINALIZERS:
            super().handle(change)
        elif change.type == "DELETED":
            for claim_key in claims_of(change.obj):
                self.look_up(CLAIM, claim_key)

    def sync(self, obj: Object, now_s: float) -> None:
        """Add or remove one object's finalizer."""
        own, finalizers = FINALIZERS[obj["kind"]], obj["metadata"].get("finalizers") or []
        if not is_being_deleted(obj) and own not in finalizers:
            self.client.update(obj["kind"], with_metadata(obj, finalizers=[*finalizers, own]))
        elif is_being_deleted(obj) and own in finalizers and not self._is_used(obj):
            self.client.update(obj["kind"], without_finalizer(obj, own))

    def _is_used(self, obj: Object) -> bool:
        if obj["kind"] == CLAIM:
            return bool(self.index.grouped("uses", key_of(obj)))
        return (obj.get("status") or {}).get("phase") == "Bound"


def _uses(pod: Object) -> tuple[tuple[str, str], ...]:
    """The claims that a pod uses, once it is on a node."""
    return tuple([("uses", key) for key in claims_of(pod)]) if pod["spec"].get("volumes") and node_of(pod) else ()
