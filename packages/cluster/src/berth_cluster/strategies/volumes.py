"""Persistent volumes, claims to them, and storage classes; what upstream's admission adds to them is added here.

Source of the rules: pkg/apis/core/validation and pkg/apis/storage/validation, v1.36.
"""

import math

from berth.api.quantity import parse
from berth_cluster.apimachinery.errors import FieldErrors, forbidden
from berth_cluster.apimachinery.go_form import difference
from berth_cluster.apimachinery.meta import Object, is_being_deleted, timestamp, value_at
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import limit_ranges, names
from berth_cluster.strategies.base import ClusterView, RESTStrategy
from berth_cluster.strategies.checks import (
    IMMUTABLE,
    Check,
    always,
    both,
    given,
    may,
    need,
    one_of,
    unchanged,
    wrong_unless,
)
from berth_cluster.strategies.pod_checks import fractions_of_bytes
from berth_cluster.strategies.storage_classes import default_class, says_no_class

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_NOT_SOURCES = frozenset({"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "storageClassName",
                          "persistentVolumeReclaimPolicy", "volumeAttributesClassName", "volumeMode"})  # fmt: skip
_MAX_DRIVER = 63
_SIZE = "resources.requests.storage"
_SOURCE = "core.v1.PersistentVolumeSource@core.v1.PersistentVolumeSpec"
_CLAIM_IMMUTABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _protect(obj: Object, finalizer: str) -> None:
    """Keep an object until nothing uses it any more; a controller takes the finalizer away."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def _complete_volume(volume: Object, view: ClusterView) -> None:
    volume["status"]["lastPhaseTransitionTime"] = timestamp(view.clock())
    _protect(volume, "kubernetes.io/pv-protection")


def _complete_claim(claim: Object, view: ClusterView) -> None:
    """One that leaves its class open gets the default one, if there is any.

    The volume controller does the same for those that came before it.
    """
    _protect(claim, "kubernetes.io/pvc-protection")
    if says_no_class(claim):
        found = default_class(view.objects(BY_KEY["storage.k8s.io", "storageclasses"]))
        if found is not None:
            claim["spec"]["storageClassName"] = found["metadata"]["name"]


def _each_mode(modes: list[str], field: str, errors: FieldErrors) -> None:
    for mode in modes:
        one_of(*_MODES)(mode, field, errors)


def _check_capacity(capacity: Object | None, field: str, errors: FieldErrors) -> None:
    if not capacity:
        errors.required(field)
    if not capacity or set(capacity) != {"storage"}:
        errors.unsupported(field, capacity, ("storage",))
    for name, amount in (capacity or {}).items():
        if parse(amount) < 0:
            errors.invalid(f"{field}[{name}]", math.floor(parse(amount)), "must be a valid resource quantity")
        _POSITIVE(amount, f"{field}[{name}]", errors)


def _check_asked(resources: Object, field: str, errors: FieldErrors) -> None:
    asked = (resources.get("requests") or {}).get("storage")
    if asked is None:
        errors.required(f"{field}[storage]")
    else:
        _POSITIVE(asked, f"{field}[storage]", errors)


def _check_driver(driver: str, field: str, errors: FieldErrors) -> None:
    """The name of a CSI driver."""
    if len(driver) > _MAX_DRIVER:
        errors.too_long(field, _MAX_DRIVER)
    names.check_subdomain(driver.lower(), field, errors, driver)


def _check_source(spec: Object, field: str, errors: FieldErrors) -> None:
    if not _source(spec):
        errors.required(field, "must specify a volume type")


def _source(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if key not in _NOT_SOURCES}


def _keep_source(new: Object, old: Object, errors: FieldErrors) -> None:
    """A volume stays where it is."""
    if _source(new["spec"]) != _source(old["spec"]):
        why = "spec.persistentvolumesource is immutable after creation"
        changed = difference(_SOURCE, _source(old["spec"]), _source(new["spec"]))
        errors.forbidden("spec.persistentvolumesource", f"{why}\n{changed}")
    if new["spec"].get("volumeMode") != old["spec"].get("volumeMode"):
        errors.invalid("volumeMode", new["spec"].get("volumeMode"), IMMUTABLE)


def _keep_claim(new: Object, old: Object, errors: FieldErrors) -> None:
    """What it asks for stays, but for the class that an open one gets, the volume, and of a bound one, its size."""
    now, was = dict(new["spec"]), dict(old["spec"])
    if not was.get("volumeName") and now.get("volumeName"):
        was["volumeName"] = now["volumeName"]
    if was.get("storageClassName") is None:
        now.pop("storageClassName", None)
    size, before = (value_at(spec, _SIZE) or 0 for spec in (now, was))
    if _is_bound(new) and value_at(now, "resources.requests") is not None:
        now["resources"] = {**now["resources"], "requests": {**now["resources"]["requests"], "storage": before}}
        now.pop("volumeAttributesClassName", None), was.pop("volumeAttributesClassName", None)
    if now != was:
        changed = difference("core.v1.PersistentVolumeClaimSpec", was, now, "spec", errors.empties)
        errors.forbidden("spec", f"{_CLAIM_IMMUTABLE}\n{changed}")
    if parse(size) < parse(before) and parse(size) <= parse(value_at(old, "status.capacity.storage") or 0):
        errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    if now.get("volumeMode") != was.get("volumeMode"):
        errors.invalid("volumeMode", now.get("volumeMode"), IMMUTABLE)


def _is_bound(claim: Object) -> bool:
    return bool(value_at(claim, "status.phase") == "Bound")


def _admit_resize(new: Object, old: Object, view: ClusterView) -> None:
    """A bound claim may grow, if its class lets it: the admission plugin PersistentVolumeClaimResize."""
    if not is_being_deleted(old):
        limit_ranges.limit_claim(new, view)
    size, before = (value_at(claim["spec"], _SIZE) or 0 for claim in (new, old))
    if parse(size) <= parse(before):
        return
    name = new["spec"].get("storageClassName")
    known = view.find(BY_KEY["storage.k8s.io", "storageclasses"], "", name) if name else None
    if not _is_bound(old):
        why = "Only bound persistent volume claims can be expanded"
    elif known is None or not known.get("allowVolumeExpansion"):
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support "
            "resize"
        )
    else:
        return
    raise forbidden("persistentvolumeclaims", "", new["metadata"]["name"], why)


def _keep_parameters(new: Object, old: Object, errors: FieldErrors) -> None:
    """Volumes have been made by a class."""
    if (new.get("parameters") or {}) != (old.get("parameters") or {}):
        errors.forbidden("parameters", "updates to parameters are forbidden.")
    unchanged(("provisioner", "reclaimPolicy", "volumeBindingMode"), new, old, errors)


def _check_provisioner(provisioner: str, field: str, errors: FieldErrors) -> None:
    names.check_key(provisioner.lower(), field, errors)


_POSITIVE = wrong_unless(lambda amount: parse(amount) > 0, "must be greater than zero")
_REST: tuple[Check, ...] = (
    may("storageClassName", names.check_subdomain),
    given("volumeMode", one_of("Block", "Filesystem")),
)
_VOLUME = both(
    need("accessModes", _each_mode),
    always("capacity", _check_capacity, default=None),
    always("persistentVolumeReclaimPolicy", one_of("Delete", "Recycle", "Retain")),
    given("csi", need("driver", _check_driver), need("volumeHandle")),
    _check_source,
    *_REST,
)
check_claim_spec = both(
    need("accessModes", _each_mode, why="at least 1 access mode is required"),
    always("resources", _check_asked, default={}),
    *_REST,
)
_CLASS = both(
    need("provisioner", _check_provisioner),
    always("reclaimPolicy", one_of("Delete", "Retain")),
    always("volumeBindingMode", one_of("Immediate", "WaitForFirstConsumer")),
)
PERSISTENT_VOLUME = RESTStrategy(
    check=always("spec", _VOLUME), status={"phase": "Pending"}, complete=_complete_volume, change=_keep_source, times=2
)
PERSISTENT_VOLUME_CLAIM = RESTStrategy(
    check=always("spec", check_claim_spec),
    status={"phase": "Pending"},
    complete=_complete_claim,
    admission=limit_ranges.limit_claim,
    change_admission=_admit_resize,
    change=_keep_claim,
    told=lambda claim: fractions_of_bytes(claim["spec"].get("resources"), "spec.resources", ("storage",)),
    told_again=lambda _new, _old: True,
)
STORAGE_CLASS = RESTStrategy(check=_CLASS, change=_keep_parameters)
