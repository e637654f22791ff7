"""The hooks that the store calls while it creates or updates an object, and what they do for any kind."""

from collections.abc import Callable
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import Addressed, ResourceType
from berth_cluster.strategies import names

Objects = list[Object]


class ClusterView(Protocol):
    """What a strategy may read of the cluster while it prepares an object."""

    clock: Callable[[], datetime]
    service_accounts: bool

    def find(self, resource: Addressed, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        ...

    def objects(self, resource: Addressed, namespace: str = "") -> Objects:
        """All objects of a resource."""
        ...


# How often upstream checks the metadata of an update; each time counts as a cause of its own.
_META_CHECKS = MappingProxyType(
    {
        "poddisruptionbudgets": 2,
        **dict.fromkeys(
            ("configmaps", "deviceclasses", "jobs", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
             "resourceclaims", "secrets", "storageclasses"), 4,
        ),
    }
)  # fmt: skip


class RESTStrategy:
    """What the store calls while it creates or updates an object; does nothing special by itself.

    Kinds override what they need. Objects that are passed to `prepare_create` and `prepare_update` as new are private
    copies, which may be edited; `old` is shared and may not.
    """

    __slots__ = ()
    checks = 1
    """How often upstream checks an updated object; each time counts as causes of its own."""

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Fill in defaults and what admission computes."""

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """Fill in defaults again, and undo what an update cannot change."""

    def admit(self, obj: Object, view: ClusterView) -> None:
        """Refuse a new object, which is valid, for what else there is in the cluster."""

    def warnings(self, obj: Object) -> list[str]:
        """What the client that makes an object is warned of."""
        return []

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Report what is wrong with the object itself."""

    def check_update(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Report what is wrong with an update."""
        for _ in range(self.checks):
            self.check(new, errors)
        self.check_change(new, old, errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Report what is wrong with the change from `old` to `new`."""

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """Report what is wrong with the name."""
        names.check_subdomain(obj["metadata"]["name"], "metadata.name", errors)

    def validate_create(self, kind: ResourceType, obj: Object) -> None:
        """Refuse a new object that is invalid."""
        errors = FieldErrors()
        meta = obj["metadata"]
        if meta["name"]:
            self.check_name(obj, errors)
        else:
            errors.required("metadata.name", "name or generateName is required")
        names.check_meta(meta, errors)
        self.check(obj, errors)
        errors.raise_for(kind.kind, kind.group, meta["name"])

    def validate_update(self, kind: ResourceType, new: Object, old: Object, subresource: str) -> None:
        """Refuse an invalid update. Subresources are not checked here: status is the controllers' own."""
        if subresource:
            return
        errors = FieldErrors()
        names.check_meta(new["metadata"], errors)
        errors.repeat(_META_CHECKS.get(kind.plural, 3))
        self.check_update(new, old, errors)
        errors.raise_for(kind.kind, kind.group, new["metadata"]["name"])


class IdleStrategy(RESTStrategy):
    """Kinds on which nothing in the cluster acts."""

    __slots__ = ()

    def warnings(self, obj: Object) -> list[str]:
        """That nothing will come of it."""
        return [f"{obj['kind']} is stored, and nothing in this cluster acts on it"]


class DefaultsStrategy(RESTStrategy):
    """Kinds with defaults for some fields and nothing else that is special."""

    __slots__ = ("_defaults", "_spec_defaults", "_status")

    def __init__(self, defaults: Object, spec_defaults: Object, status: Object | None) -> None:
        self._defaults = defaults
        self._spec_defaults = spec_defaults
        self._status = status

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """The defaults, and the first status."""
        self.set_defaults(obj)
        if self._status is not None:
            obj["status"] = dict(self._status)

    def set_defaults(self, obj: Object) -> None:
        """Fill in what is left open."""
        for key, value in self._defaults.items():
            obj.setdefault(key, value)
        if self._spec_defaults:
            spec = obj.setdefault("spec", {})
            for key, value in self._spec_defaults.items():
                spec.setdefault(key, value)

    def prepare_update(self, new: Object, _old: Object, subresource: str, view: ClusterView) -> None:
        """Defaults again."""
        if subresource != "status":
            self.set_defaults(new)


class RequiredFieldsStrategy(RESTStrategy):
    """Kinds with some required fields and nothing else that is checked."""

    __slots__ = ("_required",)

    def __init__(self, *required: str) -> None:
        self._required = required

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """The fields, given as dotted paths."""
        for path in self._required:
            found: Any = obj
            for name in path.split("."):
                found = found.get(name) if isinstance(found, dict) else None
            if found in (None, ""):
                errors.required(path)
