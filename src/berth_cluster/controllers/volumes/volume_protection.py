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

    __slots__ = ("_users",)

    name = "volume-protection-controller"
    kinds = frozenset({*FINALIZERS, "Pod"})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._users: dict[str, dict[str, None]] = {}  # the pods that are on a node with a claim, by claim

    def handle(self, change: ObjectChange) -> None:
        """Look at claims and volumes that change, and at the claims of pods that come and go."""
        if change.kind in FINALIZERS:
            super().handle(change)
        elif node_of(change.obj) and change.obj["spec"].get("volumes"):
            self._handle_pod(change)

    def _handle_pod(self, change: ObjectChange) -> None:
        pod_key = key_of(change.obj)
        for claim_key in claims_of(change.obj):
            if change.type != "DELETED":
                self._users.setdefault(claim_key, {})[pod_key] = None
                continue
            users = self._users.get(claim_key, {})
            users.pop(pod_key, None)
            if not users:
                self._users.pop(claim_key, None)
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
            return key_of(obj) in self._users
        return (obj.get("status") or {}).get("phase") == "Bound"
