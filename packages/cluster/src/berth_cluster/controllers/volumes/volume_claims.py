"""What the volume controller and the provisioner read from claims, volumes and classes: class, size, binding.

Pure functions over claims, volumes, classes and nodes as JSON. Annotations and rules are those of upstream's
component-helpers/storage/volume and pkg/controller/volume/persistentvolume, v1.36.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction

from berth.api.quantity import QuantityError, parse
from berth.api.selectors import Selector
from berth_cluster.apimachinery.meta import Object, annotations_of, is_being_deleted, key_of, labels_of, uid_of
from berth_cluster.apimachinery.selection import compile_json
from berth_cluster.strategies.storage_classes import BETA_CLASS
from berth_workloads.volume_claims import FILESYSTEM, CandidateVolume, ClaimedStorage, mismatch, volume_for

CLAIM = "PersistentVolumeClaim"
VOLUME = "PersistentVolume"
CLASS = "StorageClass"

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def class_name_of(obj: Object) -> str:
    """The storage class of a claim or volume, or an empty string; the old annotation comes first."""
    beta = annotations_of(obj).get(BETA_CLASS)
    return beta if beta is not None else obj["spec"].get("storageClassName") or ""


def waits_for_consumer(claim: Object, storage_class: Object | None) -> bool:
    """Whether the claim has to wait until the scheduler has chosen a node for its first consumer."""
    if storage_class is None or SELECTED_NODE in annotations_of(claim):
        return False
    return bool(storage_class.get("volumeBindingMode") == "WaitForFirstConsumer")


def claim_ref_key(volume: Object) -> str:
    """`namespace/name` of the claim a volume is bound or pre-bound to, or an empty string."""
    reference = volume["spec"].get("claimRef") or {}
    return f"{reference.get('namespace', '')}/{reference['name']}" if reference.get("name") else ""


def new_claim_ref(claim: Object) -> Object:
    """The claimRef of a volume that is bound to a claim."""
    metadata = claim["metadata"]
    named = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"kind": CLAIM, "apiVersion": "v1", **named}


def is_bound_to(volume: Object, claim: Object) -> bool:
    """The volume is bound, or pre-bound, to this very claim."""
    uid = (volume["spec"].get("claimRef") or {}).get("uid")
    return claim_ref_key(volume) == key_of(claim) and uid in (None, "", uid_of(claim))


def fault_between(volume: Object, claim: Object) -> str:
    """Why a volume cannot serve a claim, or an empty string if it can."""
    return mismatch(_offered(volume), _wanted(claim))


def best_volume(volumes: Iterable[Object], claim: Object, *, only_prebound: bool) -> Object | None:
    """The volume a claim gets: one pre-bound to it, else the smallest free one that fits; None when there is none.

    With `only_prebound` (the claim waits for its first consumer) a free volume is not taken.
    """
    given = claim["spec"].get("selector")
    selector = compile_json(given, key_of(claim)) if given else None
    known = {volume["metadata"]["name"]: volume for volume in volumes}
    candidates = (_candidate(volume, claim, selector) for volume in known.values())
    found = volume_for(_wanted(claim), candidates, only_meant=only_prebound)
    return None if found is None else known[found.name]


def _candidate(volume: Object, claim: Object, selector: Selector | None) -> CandidateVolume:
    is_claimed = bool(volume["spec"].get("claimRef"))
    is_available = (volume.get("status") or {}).get("phase") == "Available"
    return CandidateVolume(
        name=volume["metadata"]["name"],
        storage=_offered(volume),
        is_meant_for_it=is_claimed and is_bound_to(volume, claim),
        is_free=not is_claimed and is_available and (selector is None or selector.matches(labels_of(volume))),
        is_being_deleted=is_being_deleted(volume),
    )


def _offered(volume: Object) -> ClaimedStorage:
    return _storage(volume, storage_of(volume["spec"].get("capacity")))


def _wanted(claim: Object) -> ClaimedStorage:
    return _storage(claim, storage_of((claim["spec"].get("resources") or {}).get("requests")))


def _storage(obj: Object, size: Fraction) -> ClaimedStorage:
    spec = obj["spec"]
    attributes_class, mode = spec.get("volumeAttributesClassName") or "", spec.get("volumeMode") or FILESYSTEM
    return ClaimedStorage(size, class_name_of(obj), attributes_class, mode, frozenset(spec.get("accessModes") or ()))


def storage_of(quantities: Object | None) -> Fraction:
    """The amount under `storage`; 0 where there is none or it cannot be read."""
    try:
        return parse((quantities or {}).get("storage", 0))
    except QuantityError:
        return Fraction(0)


def claims_of(pod: Object) -> Iterator[str]:
    """The keys of all claims that a pod's volumes are on, those made for the pod included."""
    metadata = pod["metadata"]
    for volume in pod["spec"].get("volumes") or []:
        named = volume.get("persistentVolumeClaim")
        if named:
            yield f"{metadata['namespace']}/{named.get('claimName', '')}"
        elif volume.get("ephemeral"):
            yield f"{metadata['namespace']}/{metadata['name']}-{volume.get('name', '')}"
