"""The hooks that the store calls while it creates or updates an object, and what they do for any kind."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Protocol

from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import Addressed, ResourceType
from berth_cluster.strategies import defaults, names
from berth_cluster.strategies.checks import IMMUTABLE, Check, nothing, unchanged

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
            ("configmaps", "daemonsets", "deviceclasses", "jobs", "nodes", "persistentvolumeclaims",
             "persistentvolumes", "pods", "resourceclaims", "secrets", "storageclasses"), 4,
        ),
    }
)  # fmt: skip


def _is_other_generation(new: Object, old: Object) -> bool:
    return bool(new["metadata"].get("generation") != old["metadata"].get("generation"))


@dataclass(slots=True, eq=False, repr=False)
class RESTStrategy:
    """What the store calls while it creates or updates an object; kinds that need more override what they need.

    Objects that are passed to `prepare_create` and `prepare_update` as new are private copies, which may be edited;
    `old` is shared and may not.
    """

    check: Check = nothing
    """Says what is wrong with an object itself."""
    status: Object | None = None
    """The status of a new object, whatever its maker says; None leaves it as it is."""
    fixed: tuple[str, ...] = ()
    """What cannot change."""
    fixed_why: str = IMMUTABLE
    change: Callable[[Object, Object, FieldErrors], None] | None = None
    """Says what is wrong with the change to the first object from the second."""
    kept: tuple[str, ...] = ()
    """What an update that leaves it out does not change: fields, or fields of the spec."""
    complete: Callable[[Object, ClusterView], None] | None = None
    """What admission computes for a new object beyond its defaults."""
    amend: Callable[[Object, Object, ClusterView], None] | None = None
    """The same for the first object in place of the second; not for subresources."""
    admission: Callable[[Object, ClusterView], None] | None = None
    """Refuses a new object, which is valid, for what else there is in the cluster."""
    change_admission: Callable[[Object, Object, ClusterView], None] | None = None
    """The same for the first object in place of the second; not for subresources."""
    name: Check = names.check_subdomain
    host_name: str = ""
    """What upstream says that the name is used in, where it becomes part of the host names of pods."""
    told: Callable[[Object], list[str]] | None = None
    """What the client that makes an object is warned of."""
    told_again: Callable[[Object, Object], bool] = _is_other_generation
    """Whether the client that puts the first object in place of the second is warned, too."""
    times: int = 1
    """How often upstream checks an updated object, before the change; each time counts as causes of its own."""

    def prepare_create(self, obj: Object, view: ClusterView) -> None:
        """Fill in defaults, the first status, and what admission computes."""
        defaults.fill_in(obj)
        if self.status is not None:
            obj["status"] = dict(self.status)
        if self.complete is not None:
            self.complete(obj, view)

    def prepare_update(self, new: Object, old: Object, subresource: str, view: ClusterView) -> None:
        """Fill in defaults again: an update may leave out what the creation left out."""
        if subresource:
            return
        for path in self.kept:
            holder, _, name = path.rpartition(".")
            was = (old.get(holder) or {}) if holder else old
            if name in was:
                (new[holder] if holder else new).setdefault(name, was[name])
        defaults.fill_in(new)
        if self.amend is not None:
            self.amend(new, old, view)

    def admit(self, obj: Object, view: ClusterView) -> None:
        """Refuse a new object, which is valid, for what else there is in the cluster."""
        if self.admission is not None:
            self.admission(obj, view)

    def warnings(self, obj: Object) -> list[str]:
        """What the client that makes an object is warned of."""
        said = self.told(obj) if self.told is not None else []
        mistakes = names.label_mistakes(obj["metadata"]["name"]) if self.host_name else []
        if not mistakes:
            return said
        why = f"which can result in surprising behavior; a DNS label is recommended: [{' '.join(mistakes)}]"
        return [f"metadata.name: this is used in {self.host_name}, {why}", *said]

    def change_warnings(self, new: Object, old: Object) -> list[str]:
        """What the client that changes an object is warned of."""
        return self.told(new) if self.told is not None and self.told_again(new, old) else []

    def check_update(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Report what is wrong with an update."""
        for _ in range(self.times):
            self.check(new, "", errors)
        self.check_change(new, old, errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """Report what is wrong with the change from `old` to `new`."""
        unchanged(self.fixed, new, old, errors, self.fixed_why)
        if self.change is not None:
            self.change(new, old, errors)

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """Report what is wrong with the name."""
        self.name(obj["metadata"]["name"], "metadata.name", errors)

    def validate_create(self, kind: ResourceType, obj: Object, empties: Object | None = None) -> None:
        """Refuse a new object that is invalid; `empties` are the empty lists and maps that its maker wrote."""
        errors = FieldErrors(empties)
        meta = obj["metadata"]
        if meta["name"]:
            self.check_name(obj, errors)
        else:
            errors.required("metadata.name", "name or generateName is required")
        names.check_meta(meta, errors)
        self.check(obj, "", errors)
        errors.raise_for(kind.kind, kind.group, meta["name"])

    def validate_update(
        self, kind: ResourceType, new: Object, old: Object, subresource: str, empties: Object | None = None
    ) -> None:
        """Refuse an invalid update. Subresources are not checked here: status is the controllers' own."""
        if subresource:
            return
        errors = FieldErrors(empties)
        names.check_meta(new["metadata"], errors)
        errors.repeat(_META_CHECKS.get(kind.plural, 3))
        self.check_update(new, old, errors)
        errors.raise_for(kind.kind, kind.group, new["metadata"]["name"])
