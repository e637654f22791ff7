"""What a pod's volumes ask for: claims by name, whose they are, their class, whether they are bound, and to what.

Pure functions over API objects, used by all volume plugins. Names, sentences and rules are those of
k8s.io/component-helpers/storage, v1.36.
"""

from collections.abc import Iterable, Iterator

from berth.api.pod import Volume
from berth.api.quantity import Quantity, parse
from berth.api.storage import PersistentVolume, PersistentVolumeClaim
from berth.state.pod_info import PodInfo

CLAIM = "PersistentVolumeClaim"
VOLUME = "PersistentVolume"
CLASS = "StorageClass"

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
STORAGE = "storage"

CLAIM_NOT_FOUND = 'persistentvolumeclaim "{}" not found'
VOLUME_NOT_FOUND = 'persistentvolume "{}" not found'
CLASS_NOT_FOUND = 'storageclass.storage.k8s.io "{}" not found'
NO_BINDING_MODE = 'VolumeBindingMode not set for StorageClass "{}"'


def claim_name(pod: PodInfo, volume: Volume) -> str | None:
    """Return the name of the claim behind a volume, made for the pod or not; None for a volume without."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.name}-{volume.name}" if volume.ephemeral is not None else None


def claim_names(pod: PodInfo) -> Iterator[str]:
    """Return the names of all claims of a pod, in the order of its volumes."""
    return (name for volume in pod.spec.volumes if (name := claim_name(pod, volume)) is not None)


def named_claims(pod: PodInfo) -> Iterator[str]:
    """Return the names of the claims that the pod names itself, without those made for it."""
    return (v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim is not None)


def has_claims(pod: PodInfo) -> bool:
    """Say whether any volume of the pod comes by way of a claim."""
    return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in pod.spec.volumes)


def has_no_claims(pod: PodInfo) -> bool:
    """Say whether no volume of the pod comes by way of a claim, so that nothing about claims has to be looked up."""
    return not has_claims(pod)


def has_no_volumes(pod: PodInfo) -> bool:
    """Say whether the pod has no volumes at all."""
    return not pod.spec.volumes


def is_claim_of(pod: PodInfo, claim: PersistentVolumeClaim, names: Iterable[str]) -> bool:
    """Say whether a claim is in the pod's namespace and has one of these names."""
    return claim.metadata.namespace == pod.namespace and claim.metadata.name in names


def ownership_fault(pod: PodInfo, claim: PersistentVolumeClaim) -> str:
    """Return what is wrong with a claim that is to be the pod's own, or the empty string."""
    if any(owner.controller and owner.uid == pod.uid for owner in claim.metadata.owner_references):
        return ""
    return f"PVC {key_of_claim(claim)} was not created for pod {pod.key} (pod is not owner)"


def key_of_claim(claim: PersistentVolumeClaim) -> str:
    """Return `namespace/name`."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def class_name_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """Return the storage class of a claim or volume; the old annotation comes first."""
    beta = obj.metadata.annotations.get(BETA_CLASS)
    return beta if beta is not None else obj.spec.storage_class_name or ""


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Say whether a claim has its volume and the volume controller has finished with both."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Say whether a volume is bound, or promised, to this claim."""
    ref, meta = volume.spec.claim_ref, claim.metadata
    if ref is None or (ref.name, ref.namespace) != (meta.name, meta.namespace):
        return False
    return not ref.uid or ref.uid == meta.uid


AVAILABLE = "Available"
FILESYSTEM = "Filesystem"


def requested(claim: PersistentVolumeClaim) -> Quantity:
    """Return how much storage a claim asks for."""
    return claim.spec.resources.requests.get(STORAGE, 0)


def may_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Say whether size, mode and attributes are right, and the volume is there to stay."""
    return (
        volume.metadata.deletion_timestamp is None
        and parse(volume.spec.capacity.get(STORAGE, 0)) >= parse(requested(claim))
        and (volume.spec.volume_mode or FILESYSTEM) == (claim.spec.volume_mode or FILESYSTEM)
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
    )
