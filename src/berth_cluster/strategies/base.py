"""The hooks that the store calls while it creates or updates an object, and what they do for any kind."""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from berth_cluster.errors import FieldErrors
from berth_cluster.resource_types import Addressed, ResourceType
from berth_cluster.strategies import names
from berth_cluster.watch import Object

Objects = list[Object]


class View(Protocol):
    """What a strategy may see of the cluster."""

    clock: Callable[[], datetime]

    def find(self, resource: Addressed, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        ...

    def objects(self, resource: Addressed, namespace: str = "") -> Objects:
        """All objects of a resource."""
        ...


class Strategy:
    """Nothing special; kinds override what they need. Objects passed in are private and may be edited."""

    __slots__ = ()

    def prepare_create(self, obj: Object, view: View) -> None:
        """Fill in defaults and what admission computes."""

    def prepare_update(self, new: Object, old: Object, subresource: str, view: View) -> None:
        """Fill in defaults again, and undo what an update cannot change."""

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Say what is wrong with the object itself."""

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Say what is wrong with the change."""

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """Say what is wrong with the name."""
        names.check_subdomain(obj["metadata"]["name"], "metadata.name", errors)

    def validate_create(self, kind: ResourceType, obj: Object) -> None:
        """Refuse a new object that is wrong."""
        errors = FieldErrors()
        meta = obj["metadata"]
        if meta["name"]:
            self.check_name(obj, errors)
        else:
            errors.required("metadata.name", "name or generateName is required")
        names.check_labels(meta.get("labels"), "metadata.labels", errors)
        names.check_annotations(meta.get("annotations"), "metadata.annotations", errors)
        self.check(obj, errors)
        errors.raise_for(kind.kind, kind.group, meta["name"])

    def validate_update(self, kind: ResourceType, new: Object, old: Object, subresource: str) -> None:
        """Refuse an update that is wrong; status is written by controllers and not checked."""
        if subresource:
            return
        errors = FieldErrors()
        names.check_labels(new["metadata"].get("labels"), "metadata.labels", errors)
        names.check_annotations(new["metadata"].get("annotations"), "metadata.annotations", errors)
        self.check(new, errors)
        self.check_change(new, old, errors)
        errors.raise_for(kind.kind, kind.group, new["metadata"]["name"])
