"""The storage class of a claim that names none. Admission sets it, or the volume controller if the class comes later.

Pure functions over claims and classes as JSON. Upstream: the admission plugin DefaultStorageClass, v1.36.
"""

from collections.abc import Iterable

from berth_cluster.apimachinery.meta import Object, annotations_of

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def says_no_class(claim: Object) -> bool:
    """Whether the claim leaves its class open, which is how it asks for the default one."""
    return (claim.get("spec") or {}).get("storageClassName") is None and BETA_CLASS not in annotations_of(claim)


def default_class(classes: Iterable[Object]) -> Object | None:
    """The class that is marked as default: of several the youngest, and of equally young ones the first by name."""
    marked = [one for one in classes if annotations_of(one).get(DEFAULT_CLASS) == "true"]
    marked.sort(key=lambda one: str(one["metadata"]["name"]))
    return max(marked, key=lambda one: str(one["metadata"].get("creationTimestamp", "")), default=None)
