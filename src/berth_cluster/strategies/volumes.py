"""Persistent volumes, claims to them, and storage classes; what upstream's admission adds to them is added here.

Source of the rules: pkg/apis/core/validation and pkg/apis/storage/validation, v1.36.
"""

from typing import Any

from berth.api.quantity import parse
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object, timestamp
from berth_cluster.apimachinery.resource_types import BY_KEY
from berth_cluster.strategies import limit_ranges, names
from berth_cluster.strategies.base import ClusterView, DefaultsStrategy
from berth_cluster.strategies.pod_checks import fractions_of_bytes
from berth_cluster.strategies.storage_classes import default_class, says_no_class

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_NOT_SOURCES = frozenset({"accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "storageClassName",
                          "persistentVolumeReclaimPolicy", "volumeAttributesClassName", "volumeMode"})  # fmt: skip
_MAX_DRIVER = 63
IMMUTABLE = "field is immutable"
_CLAIM_IMMUTABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _protect(obj: Object, finalizer: str) -> None:
    """Keep an object until nothing uses it any more; a controller takes the finalizer away."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def _check_modes(spec: Object, errors: FieldErrors, why: str = "") -> None:
    if not spec.get("accessModes"):
        errors.required("spec.accessModes", why)
    for mode in spec.get("accessModes") or []:
        if mode not in _MODES:
            errors.unsupported("spec.accessModes", mode, _MODES)


def _check_rest(spec: Object, errors: FieldErrors) -> None:
    if spec.get("storageClassName"):
        names.check_subdomain(spec["storageClassName"], "spec.storageClassName", errors)
    if spec.get("volumeMode") not in (None, *_VOLUME_MODES):
        errors.unsupported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES)


class PersistentVolumeStrategy(DefaultsStrategy):
    """PersistentVolumes."""

    __slots__ = ()
    checks = 2

    def __init__(self) -> None:
        spec = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}
        super().__init__({}, spec, {"phase": "Pending"})

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """The defaults, and the finalizer that protects it."""
        super().prepare_create(obj, view)
        obj["status"]["lastPhaseTransitionTime"] = timestamp(view.clock())
        _protect(obj, "kubernetes.io/pv-protection")

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """Defaults again, but neither finalizer nor time."""
        if not subresource:
            self.set_defaults(new)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """What it offers, and where it is."""
        spec = obj["spec"]
        _check_modes(spec, errors)
        capacity = spec.get("capacity")
        if not capacity:
            errors.required("spec.capacity")
        if not capacity or set(capacity) != {"storage"}:
            errors.unsupported("spec.capacity", capacity, ("storage",))
        elif parse(capacity["storage"]) <= 0:
            errors.invalid("spec.capacity[storage]", capacity["storage"], "must be greater than zero")
        if spec["persistentVolumeReclaimPolicy"] not in _RECLAIM:
            errors.unsupported("spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"], _RECLAIM)
        csi = spec.get("csi")
        if csi is not None:
            check_driver(csi.get("driver", ""), "spec.csi.driver", errors)
            if not csi.get("volumeHandle"):
                errors.required("spec.csi.volumeHandle")
        if not set(spec) - _NOT_SOURCES:
            errors.required("spec", "must specify a volume type")
        _check_rest(spec, errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """A volume stays where it is."""
        if _source(new["spec"]) != _source(old["spec"]):
            why = "spec.persistentvolumesource is immutable after creation"
            errors.forbidden("spec.persistentvolumesource", why)


def _source(spec: Object) -> Object:
    return {key: value for key, value in spec.items() if key not in _NOT_SOURCES}


def check_driver(driver: str, field: str, errors: FieldErrors) -> None:
    """The name of a CSI driver."""
    if not driver:
        errors.required(field)
        return
    if len(driver) > _MAX_DRIVER:
        errors.too_long(field, _MAX_DRIVER)
    names.check_subdomain(driver.lower(), field, errors, driver)


class PersistentVolumeClaimStrategy(DefaultsStrategy):
    """PersistentVolumeClaims: one that leaves its class open gets the default one, if there is any."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__({}, {"volumeMode": "Filesystem"}, {"phase": "Pending"})

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """The defaults, and the class; the volume controller does the same for those that came before it."""
        super().prepare_create(obj, view)
        _protect(obj, "kubernetes.io/pvc-protection")
        if says_no_class(obj):
            chosen = default_class(view.objects(BY_KEY["storage.k8s.io", "storageclasses"]))
            if chosen is not None:
                obj["spec"]["storageClassName"] = chosen["metadata"]["name"]

    def warnings(self, obj: Object) -> list[str]:
        """Fractions of bytes."""
        return fractions_of_bytes(obj["spec"].get("resources"), "spec.resources", ("storage",))

    def admit(self, obj: Object, view: ClusterView) -> None:
        """The limits of the namespace."""
        limit_ranges.limit_claim(obj, view)

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """Defaults again, but no finalizer."""
        if not subresource:
            self.set_defaults(new)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """What it asks for."""
        spec = obj["spec"]
        _check_modes(spec, errors, "at least 1 access mode is required")
        asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if asked is None:
            errors.required("spec.resources[storage]")
        elif parse(asked) <= 0:
            errors.invalid("spec.resources[storage]", asked, "must be greater than zero")
        _check_rest(spec, errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """What it asks for stays, but for the class that an open one gets, the volume, and more room."""
        now, was = dict(new["spec"]), dict(old["spec"])
        if not was.get("volumeName"):
            now.pop("volumeName", None)
        else:
            now.pop("resources", None), was.pop("resources", None)
        if was.get("storageClassName") is None:
            now.pop("storageClassName", None)
        for spec in (now, was):
            spec.pop("volumeAttributesClassName", None)
        if now != was:
            errors.forbidden("spec", _CLAIM_IMMUTABLE)


class StorageClassStrategy(DefaultsStrategy):
    """StorageClasses, of which hardly anything ever changes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}, {}, None)

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The provisioner, and two policies."""
        provisioner = obj.get("provisioner", "")
        if not provisioner:
            errors.required("provisioner")
        else:
            names.check_key(provisioner.lower(), "provisioner", errors)
        for field, allowed in (("reclaimPolicy", ("Delete", "Retain")), ("volumeBindingMode", _BINDING_MODES)):
            if obj[field] not in allowed:
                errors.unsupported(field, obj[field], allowed)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Volumes have been made by it."""
        if (new.get("parameters") or {}) != (old.get("parameters") or {}):
            errors.forbidden("parameters", "updates to parameters are forbidden.")
        defaults: dict[str, Any] = {"provisioner": ""}
        for field in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
            if new.get(field) != old.get(field):
                errors.invalid(field, new.get(field, defaults.get(field)), IMMUTABLE)
