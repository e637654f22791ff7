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
    """Adds and removes the finalizers. A queue key is `Kind key`."""

    __slots__ = ("_client", "_index", "_users")

    name = "volume-protection-controller"

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._index = client.index
        self._users: dict[str, dict[str, None]] = {}  # the pods that are on a node with a claim, by claim

    def handle(self, change: ObjectChange) -> None:
        """Look at claims and volumes that change, and at the claims of pods that come and go."""
        if change.kind in FINALIZERS and change.type != "DELETED":
            self.queue.add(f"{change.kind} {key_of(change.obj)}")
        elif change.kind == "Pod" and node_of(change.obj) and change.obj["spec"].get("volumes"):
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
                self.queue.add(f"{CLAIM} {claim_key}")

    def sync(self, key: str, now_s: float) -> None:
        """Add or remove one object's finalizer."""
        kind, _, name = key.partition(" ")
        obj = self._index.get(kind, name)
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or []
        if not is_being_deleted(obj) and FINALIZERS[kind] not in finalizers:
            self._client.update(kind, with_metadata(obj, finalizers=[*finalizers, FINALIZERS[kind]]))
        elif is_being_deleted(obj) and FINALIZERS[kind] in finalizers and not self._is_used(kind, obj):
            self._client.update(kind, without_finalizer(obj, FINALIZERS[kind]))

    def _is_used(self, kind: str, obj: Object) -> bool:
        if kind == CLAIM:
            return key_of(obj) in self._users
        return (obj.get("status") or {}).get("phase") == "Bound"
