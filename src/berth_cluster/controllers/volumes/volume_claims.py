"""What the volume controller and the provisioner read from claims, volumes and classes: class, size, binding.

Pure functions over claims, volumes, classes and nodes as JSON. Annotations and rules are those of upstream's
component-helpers/storage/volume and pkg/controller/volume/persistentvolume, v1.36.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction

import msgspec

from berth.api.meta import LabelSelector
from berth.api.quantity import QuantityError, parse
from berth.api.selectors import NOTHING, Selector, SelectorError, compile_selector
from berth_cluster.apimachinery.meta import (
    Object,
    annotations_of,
    is_being_deleted,
    key_of,
    labels_of,
    uid_of,
)
from berth_cluster.strategies.storage_classes import BETA_CLASS

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


def is_bound_to(volume: Object, claim: Object) -> bool:
    """The volume is bound, or pre-bound, to this very claim."""
    uid = (volume["spec"].get("claimRef") or {}).get("uid")
    return claim_ref_key(volume) == key_of(claim) and uid in (None, "", uid_of(claim))


def mismatch(volume: Object, claim: Object) -> str:
    """Why a volume cannot serve a claim, or an empty string if it can."""
    if storage_of(volume["spec"].get("capacity")) < wanted_of(claim):
        return "requested PV is too small"
    if class_name_of(volume) != class_name_of(claim):
        return "storageClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    return "" if _has_modes(volume, claim) else "incompatible accessMode"


def best_volume(volumes: Iterable[Object], claim: Object, *, only_prebound: bool) -> Object | None:
    """The volume a claim gets: one pre-bound to it, else the smallest free one that fits; None when there is none.

    With `only_prebound` (the claim waits for its first consumer) a free volume is not taken.
    """
    selector = _selector(claim)
    fitting: list[tuple[Fraction, str, Object]] = []
    for volume in volumes:
        if volume["spec"].get("claimRef"):
            if is_bound_to(volume, claim) and not mismatch(volume, claim):
                return volume
        elif not only_prebound and _is_offered(volume, claim, selector):
            fitting.append((storage_of(volume["spec"].get("capacity")), volume["metadata"]["name"], volume))
    return min(fitting, key=lambda one: one[:2])[2] if fitting else None


def _is_offered(volume: Object, claim: Object, selector: Selector | None) -> bool:
    if is_being_deleted(volume) or (volume.get("status") or {}).get("phase") != "Available":
        return False
    return not mismatch(volume, claim) and (selector is None or selector.matches(labels_of(volume)))


def _selector(claim: Object) -> Selector | None:
    given = claim["spec"].get("selector")
    if not given:
        return None
    try:
        return compile_selector(msgspec.convert(given, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return NOTHING


def storage_of(quantities: Object | None) -> Fraction:
    """The amount under `storage`; 0 where there is none or it cannot be read."""
    try:
        return parse((quantities or {}).get("storage", 0))
    except QuantityError:
        return Fraction(0)


def wanted_of(claim: Object) -> Fraction:
    """How much a claim asks for, in bytes."""
    return storage_of((claim["spec"].get("resources") or {}).get("requests"))


def _mode(obj: Object) -> str:
    return obj["spec"].get("volumeMode") or "Filesystem"


def _has_modes(volume: Object, claim: Object) -> bool:
    offered = volume["spec"].get("accessModes") or []
    return all(mode in offered for mode in claim["spec"].get("accessModes") or [])


def claims_of(pod: Object) -> Iterator[str]:
    """The keys of all claims that a pod's volumes are on, those made for the pod included."""
    metadata = pod["metadata"]
    for volume in pod["spec"].get("volumes") or []:
        named = volume.get("persistentVolumeClaim")
        if named:
            yield f"{metadata['namespace']}/{named.get('claimName', '')}"
        elif volume.get("ephemeral"):
            yield f"{metadata['namespace']}/{metadata['name']}-{volume.get('name', '')}"
