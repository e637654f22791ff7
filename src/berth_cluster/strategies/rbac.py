"""The API group rbac.authorization.k8s.io: names that are path segments, and references that do not change."""

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.strategies.base import RESTStrategy


def _check_path_segment(name: str, field: str, errors: FieldErrors) -> None:
    """Names may have colons, as `system:kube-scheduler` has, and anything else that can stand in a path."""
    if name in (".", ".."):
        errors.invalid(field, name, f"may not be '{name}'")
    for character in "/%":
        if character in name:
            errors.invalid(field, name, f"may not contain '{character}'")


# A binding stays with its role, so that a user who may edit its subjects cannot raise what they may do.
ACCESS = RESTStrategy(name=_check_path_segment, fixed=("roleRef",), fixed_why="cannot change roleRef")
