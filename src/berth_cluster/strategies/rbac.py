"""The API group rbac.authorization.k8s.io: names that are path segments, and references that do not change."""

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.strategies.base import RESTStrategy


class AccessStrategy(RESTStrategy):
    """Roles and bindings of both scopes; their names may have colons, as `system:kube-scheduler` has."""

    __slots__ = ()

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """Anything that can stand in a path."""
        name = obj["metadata"]["name"]
        if name in (".", ".."):
            errors.invalid("metadata.name", name, f"may not be '{name}'")
        for character in "/%":
            if character in name:
                errors.invalid("metadata.name", name, f"may not contain '{character}'")

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """A binding stays with its role, so that a user who may edit its subjects cannot raise what they may do."""
        if new.get("roleRef") != old.get("roleRef"):
            errors.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")
