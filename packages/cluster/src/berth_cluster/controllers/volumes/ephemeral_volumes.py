"""The ephemeral volume controller: makes the claims that pods carry in their volumes, and makes them again.

A claim is owned by its pod and goes with it. Upstream: pkg/controller/volume/ephemeral.
"""

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object, controller_reference, is_being_deleted, uid_of
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.pods import made_from
from berth_cluster.controllers.volumes.volume_claims import CLAIM


class EphemeralVolumes(KeyedController):
    """The claims of generic ephemeral volumes."""

    __slots__ = ()

    name = "ephemeral_volume"
    kinds = frozenset({CLAIM, "Pod"})

    def handle(self, change: ObjectChange) -> None:
        """Look at new pods, and at those that have lost a claim."""
        owner = controller_reference(change.obj)
        if change.kind == "Pod" and change.type == "ADDED":
            if any("ephemeral" in volume for volume in change.obj["spec"].get("volumes") or ()):
                self.look_at(change.obj)
        elif change.kind == CLAIM and change.type == "DELETED" and owner is not None and owner["kind"] == "Pod":
            self.look_up("Pod", f"{change.obj['metadata']['namespace']}/{owner['name']}")

    def sync(self, obj: Object, now_s: float) -> None:
        """Make the claims that one pod lacks."""
        for volume in obj["spec"].get("volumes") or () if not is_being_deleted(obj) else ():
            if not volume.get("ephemeral"):
                continue
            try:
                self._make_claim(obj, volume)
            except StoreError as error:
                self.tell(obj, "FailedBinding", f"ephemeral volume {volume['name']}: {error}", now_s, warns=True)
                raise

    def _make_claim(self, pod: Object, volume: Object) -> None:
        namespace, pod_name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        name = f"{pod_name}-{volume['name']}"
        known = self.index.get(CLAIM, f"{namespace}/{name}")
        if known is None:
            self.client.create(CLAIM, made_from(pod, volume["ephemeral"]["volumeClaimTemplate"], name=name))
        elif (controller_reference(known) or {}).get("uid") != uid_of(pod):
            why = f"PVC {namespace}/{name} was not created for pod {namespace}/{pod_name} (pod is not owner)"
            raise StoreError(409, "Conflict", why)
