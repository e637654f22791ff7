"""The volume controller: brings claims and volumes together and keeps their phases.

    claim  Pending ──volume found, chosen by the scheduler, or provisioned──▶ Bound ──volume gone──▶ Lost
    volume Pending ──▶ Available ──claim bound──▶ Bound ──claim gone──▶ Released (deleted by its provisioner, or kept)

Driven by changes of claims, volumes and classes. A claim that no volume fits is handed to a provisioner, or waits for
its first consumer. Claim and volume name each other once they are bound. The volume is written first, then the claim;
so if the two writes are interrupted, the volume names its claim already and the next look goes on from there. Upstream:
pkg/controller/volume/persistentvolume, v1.36.
"""

from berth_cluster.apimachinery.meta import Object, annotations_of, is_being_deleted, key_of, uid_of, with_metadata
from berth_cluster.controllers.client import Client
from berth_cluster.controllers.controller import KeyedController
from berth_cluster.controllers.index import ObjectChange
from berth_cluster.controllers.volumes.volume_claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    CLAIM,
    CLASS,
    NO_PROVISIONER,
    PROVISIONED_BY,
    STORAGE_PROVISIONER,
    VOLUME,
    best_volume,
    claim_ref_key,
    class_name_of,
    fault_between,
    is_bound_to,
    new_claim_ref,
    waits_for_consumer,
)
from berth_cluster.strategies.storage_classes import default_class, says_no_class

OLD_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
PROVISIONING = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


class VolumeController(KeyedController):
    """Binds claims."""

    __slots__ = ("_told",)

    name = "persistentvolume-controller"
    kinds = frozenset({CLAIM, VOLUME, CLASS})

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._told: dict[str, str] = {}  # the message of a claim's last event, by uid; it is not repeated
        self.index.add_indexer(VOLUME, lambda volume: (_place(volume),))
        self.index.add_indexer(CLAIM, _open_class)

    # --- changes ---------------------------------------------------------------------------------------------

    def handle(self, change: ObjectChange) -> None:
        """Look at what changed and at what it is bound to, and at claims that may have waited for it."""
        if change.kind == CLAIM:
            self._handle_claim(change)
        elif change.kind == VOLUME:
            self._handle_volume(change)
        elif change.type != "DELETED":
            self._look_at_unbound("", key_of(change.obj))

    def _handle_claim(self, change: ObjectChange) -> None:
        claim = change.obj
        for volume in self.index.grouped("bound to", key_of(claim)):
            self.look_at(volume)
        if claim["spec"].get("volumeName"):
            self.look_up(VOLUME, claim["spec"]["volumeName"])
        if change.type == "DELETED":
            self._told.pop(uid_of(claim), None)
        else:
            self.look_at(claim)

    def _handle_volume(self, change: ObjectChange) -> None:
        for volume in filter(None, (change.old, change.obj)):
            if claim_key := claim_ref_key(volume):
                self.look_up(CLAIM, claim_key)
        if change.type != "DELETED":
            self.look_at(change.obj)
            if not claim_ref_key(change.obj):
                self._look_at_unbound(class_name_of(change.obj))

    def _look_at_unbound(self, *class_names: str) -> None:
        for claim in (claim for name in class_names for claim in self.index.grouped("unbound", name)):
            self.look_at(claim)

    def sync(self, obj: Object, now_s: float) -> None:
        """Do the next step for one claim or volume."""
        if obj["kind"] == VOLUME:
            self._sync_volume(obj, now_s)
        elif BIND_COMPLETED in annotations_of(obj):
            self._sync_bound(obj, now_s)
        elif obj["spec"].get("volumeName"):
            self._sync_named(obj, now_s)
        elif not is_being_deleted(obj):
            self._sync_unbound(obj, now_s)

    # --- claims ----------------------------------------------------------------------------------------------

    def _sync_unbound(self, claim: Object, now_s: float) -> None:
        """Find a volume for the claim, ask a provisioner for one, or wait."""
        if says_no_class(claim) and (default := default_class(self.index.all_of(CLASS))) is not None:
            spec = {**claim["spec"], "storageClassName": default["metadata"]["name"]}
            claim = self.client.update(CLAIM, {**claim, "spec": spec})
        class_name = class_name_of(claim)
        storage_class = self.index.get(CLASS, class_name) if class_name else None
        waits = waits_for_consumer(claim, storage_class)
        bound, free = self.index.grouped("bound to", key_of(claim)), self.index.grouped("free", class_name)
        volume = best_volume([*bound, *free], claim, only_prebound=waits)
        if volume is not None:
            self._bind(volume, claim)
        elif waits:
            message = "waiting for first consumer to be created before binding"
            self._tell(claim, "WaitForFirstConsumer", message, now_s)
        elif storage_class is not None and storage_class.get("provisioner") != NO_PROVISIONER:
            self._order(claim, str(storage_class.get("provisioner", "")), now_s)
        elif storage_class is not None:
            message = f"no volume plugin matched name: {NO_PROVISIONER}"
            self._tell(claim, "ProvisioningFailed", message, now_s, warns=True)
        elif class_name:
            message = f'storageclass.storage.k8s.io "{class_name}" not found'
            self._tell(claim, "ProvisioningFailed", message, now_s, warns=True)
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            self._tell(claim, "FailedBinding", message, now_s)

    def _order(self, claim: Object, provisioner: str, now_s: float) -> None:
        """Note in the claim which provisioner is to make its volume."""
        told = {STORAGE_PROVISIONER: provisioner, OLD_STORAGE_PROVISIONER: provisioner}
        annotations = annotations_of(claim) | told
        if annotations != annotations_of(claim):
            claim = self.client.update(CLAIM, with_metadata(claim, annotations=annotations))
        self._tell(claim, "ExternalProvisioning", PROVISIONING.format(provisioner), now_s)

    def _sync_named(self, claim: Object, now_s: float) -> None:
        """Bind a claim that names its volume to that volume, or to none."""
        name = claim["spec"]["volumeName"]
        volume = self.index.get(VOLUME, name)
        if volume is None:
            return
        if claim_ref_key(volume) and not is_bound_to(volume, claim):
            message = f'volume "{name}" already bound to a different claim.'
            self._tell(claim, "FailedBinding", message, now_s, warns=True)
            return
        fault = "" if claim_ref_key(volume) else fault_between(volume, claim)
        if fault:
            message = f'Cannot bind to requested volume "{name}": {fault}'
            self._tell(claim, "VolumeMismatch", message, now_s, warns=True)
        else:
            self._bind(volume, claim)

    def _sync_bound(self, claim: Object, now_s: float) -> None:
        """Check that a bound claim still has its volume; if not, it is Lost for good."""
        name = claim["spec"].get("volumeName")
        volume = self.index.get(VOLUME, name) if name else None
        if not name:
            fault = ("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
        elif volume is None:
            fault = ("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        elif claim_ref_key(volume) and not is_bound_to(volume, claim):
            why = "Two claims are bound to the same volume, this one is bound incorrectly"
            fault = ("ClaimMisbound", why)
        else:
            self._bind(volume, claim)
            return
        self._set_phase(claim, "Lost")
        self._tell(claim, *fault, now_s, warns=True)

    def _bind(self, volume: Object, claim: Object) -> None:
        """Bind both to each other, the volume first (see the module's docstring)."""
        volume = self.client.update(VOLUME, _bound_volume(volume, claim))
        self._set_phase(volume, "Bound")
        claim = self.client.update(CLAIM, _bound_claim(claim, volume))
        spec = volume["spec"]
        shown = {"accessModes": spec.get("accessModes") or [], "capacity": spec.get("capacity") or {}}
        self.client.set_status(claim, {**(claim.get("status") or {}), "phase": "Bound", **shown})

    # --- volumes ---------------------------------------------------------------------------------------------

    def _sync_volume(self, volume: Object, now_s: float) -> None:
        reference = volume["spec"].get("claimRef") or {}
        claim = self.index.get(CLAIM, claim_ref_key(volume)) if reference else None
        if not reference.get("uid"):  # free, or pre-bound to a claim that has yet to come
            self._set_phase(volume, "Available")
        elif claim is None or uid_of(claim) != reference["uid"]:
            self._release(volume, now_s)
        elif claim["spec"].get("volumeName") == volume["metadata"]["name"]:
            self._set_phase(volume, "Bound")
        elif claim["spec"].get("volumeName"):  # the claim has another one
            self._set_free(volume, now_s)

    def _set_free(self, volume: Object, now_s: float) -> None:
        """Free a volume that was meant for a claim which is now bound to another one."""
        annotations = annotations_of(volume)
        if PROVISIONED_BY in annotations and _policy(volume) == "Delete":
            self._release(volume, now_s)
            return
        spec = dict(volume["spec"])
        if BOUND_BY_CONTROLLER in annotations:
            del spec["claimRef"]
            kept = {name: value for name, value in annotations.items() if name != BOUND_BY_CONTROLLER}
            volume = with_metadata(volume, annotations=kept)
        else:  # a person pre-bound it by name; that stays
            spec["claimRef"] = {name: value for name, value in spec["claimRef"].items() if name != "uid"}
        volume = self.client.update(VOLUME, {**volume, "spec": spec})
        self._set_phase(volume, "Available")

    def _release(self, volume: Object, now_s: float) -> None:
        """Release a volume whose claim is gone: its provisioner deletes it, or a person decides what becomes of it."""
        if (volume.get("status") or {}).get("phase") == "Failed":
            return
        volume = self._set_phase(volume, "Released")
        if _policy(volume) != "Delete" or PROVISIONED_BY in annotations_of(volume) or is_being_deleted(volume):
            return
        name = volume["metadata"]["name"]
        message = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
        self._set_phase(volume, "Failed", message)
        self.tell(volume, "VolumeFailedDelete", message, now_s, warns=True)

    # --- writing ---------------------------------------------------------------------------------------------

    def _set_phase(self, obj: Object, phase: str, message: str = "") -> Object:
        said = {"phase": phase} | ({"message": message} if message else {})
        return self.client.set_status(obj, (obj.get("status") or {}) | said)

    def _tell(self, claim: Object, reason: str, message: str, now_s: float, *, warns: bool = False) -> None:
        if self._told.get(uid_of(claim)) != message:
            self._told[uid_of(claim)] = message
            self.tell(claim, reason, message, now_s, warns=warns)


def _place(volume: Object) -> tuple[str, str]:
    """The claim that a volume is bound or pre-bound to, or the class among whose volumes it is free."""
    claim_key = claim_ref_key(volume)
    return ("bound to", claim_key) if claim_key else ("free", class_name_of(volume))


def _open_class(claim: Object) -> tuple[tuple[str, str], ...]:
    """The class of a claim that has no volume yet."""
    return () if BIND_COMPLETED in annotations_of(claim) else (("unbound", class_name_of(claim)),)


def _policy(volume: Object) -> str:
    return volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain"


def _bound_volume(volume: Object, claim: Object) -> Object:
    """The volume with a full reference to the claim; marked where it was not pre-bound before."""
    known = volume["spec"].get("claimRef") or {}
    if is_bound_to(volume, claim) and known.get("uid"):
        return volume
    if not is_bound_to(volume, claim):
        volume = with_metadata(volume, annotations={**annotations_of(volume), BOUND_BY_CONTROLLER: "yes"})
    return {**volume, "spec": {**volume["spec"], "claimRef": {**known, **new_claim_ref(claim)}}}


def _bound_claim(claim: Object, volume: Object) -> Object:
    """The claim with its volume's name and the mark that binding is complete."""
    annotations = {**annotations_of(claim), BIND_COMPLETED: "yes"}
    name = volume["metadata"]["name"]
    if claim["spec"].get("volumeName") != name:
        annotations[BOUND_BY_CONTROLLER] = "yes"
    return {**with_metadata(claim, annotations=annotations), "spec": {**claim["spec"], "volumeName": name}}
