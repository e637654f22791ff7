"""The kinds that the CustomResourceDefinitions in a store declare.

What is served beside the table of resources follows from the stored definitions alone. Whenever one changes, by whose
hand ever, the store asks here whether its names are accepted (`status_of`), and has its types made anew.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import no_such_path
from berth_cluster.apimachinery.meta import Object, is_being_deleted, is_condition_true, set_condition
from berth_cluster.apimachinery.releases import Release
from berth_cluster.apimachinery.resource_types import RESOURCE_TYPES, Addressed, ResourceType
from berth_cluster.apimachinery.schema import Message, type_of
from berth_cluster.custom.version import CustomType, types_of

_NAMES = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_KINDS = ("kind", "listKind")


class CustomKinds:
    """The kinds that a store's definitions declare."""

    __slots__ = ("_known", "_types", "served", "version")

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}  # of each definition, what its types were made of
        self._types: dict[str, list[CustomType]] = {}  # by definition, all versions
        self.served: tuple[CustomType, ...] = ()
        """What clients may ask for, in every version."""
        self.version = 0
        """Counts the changes of what is served."""

    def find(self, group: str, version: str, plural: str) -> CustomType | None:
        """The resource of that version, if it is served."""
        place = (group, version, plural)
        return next((kind for kind in self.served if (kind.group, kind.version, kind.plural) == place), None)

    def beside(self, release: Release) -> Release:
        """A release with what is served beside its own kinds."""
        return msgspec.structs.replace(release, types=(*release.types, *self.served))

    def stored(self) -> list[CustomType]:
        """Each resource once, in the version in which it is stored."""
        return [kind for kinds in self._types.values() for kind in kinds if kind.custom.is_storage]

    def all_types(self) -> list[ResourceType]:
        """Everything that the store holds, each resource once."""
        return [*RESOURCE_TYPES, *self.stored()]

    def of_kind(self, unique_kind: str) -> CustomType:
        """The resource that controllers call so; raises `StoreError` (404) where it is gone."""
        found = next((kind for kind in self.stored() if kind.unique_kind == unique_kind), None)
        if found is None:
            raise no_such_path()
        return found

    def addressed(self, resource: Addressed) -> CustomType | None:
        """What `resource` names, in its version if it says one; None where no definition declares it."""
        version = getattr(resource, "version", "")
        if version:
            return self.find(resource.group, version, resource.plural)
        return next((kind for kind in self.stored() if kind.key == (resource.group, resource.plural)), None)

    def message_of(self, obj: Object) -> Message | None:
        """The type that an object says it has."""
        group, _, version = str(obj.get("apiVersion")).rpartition("/")
        asked = (group, version, obj.get("kind"))
        for kind in self.served:
            if (kind.group, kind.version, kind.kind) == asked:
                return kind.custom.message
        return type_of(obj)

    def declare(self, definition: Object) -> tuple[CustomType, bool] | None:
        """Serve what a definition declares, if its names are accepted and that is not what is served already.

        Returns the version that is stored, and whether those who watch its objects have to begin again.
        """
        name, meta = definition["metadata"]["name"], definition["metadata"]
        known = (meta["uid"], meta["generation"], definition["status"]["acceptedNames"], is_being_deleted(definition))
        before = self._known.get(name)
        if before == known or not is_condition_true(definition, "Established"):
            return None
        self._known[name] = known
        self._types[name] = types_of(definition)
        self._serve()
        stored = next(kind for kind in self._types[name] if kind.custom.is_storage)
        return stored, before is not None and before[:2] != known[:2]

    def declared_by(self, name: str) -> CustomType | None:
        """What a definition declares, in any version; None as long as its names are not accepted."""
        return next(iter(self._types.get(name, ())), None)

    def drop(self, name: str) -> CustomType | None:
        """Forget a definition that is gone; returns what it declared."""
        gone = self.declared_by(name)
        if gone is not None:
            del self._types[name], self._known[name]
            self._serve()
        return gone

    def _serve(self) -> None:
        self.version += 1
        kinds = [kind for _, versions in sorted(self._types.items()) for kind in versions]
        self.served = tuple(kind for kind in kinds if kind.custom.is_served)


def status_of(definition: Object, definitions: Iterable[Object], now: str) -> Object:
    """The status of a definition, with those names accepted that no other of the `definitions` in its group has."""
    wanted, status = definition["spec"]["names"], definition["status"]
    accepted = dict(status.get("acceptedNames") or {})
    conflict = None
    for field in _NAMES:
        texts, taken = wanted.get(field) or [], _taken(definition, definitions, _KINDS if field in _KINDS else _NAMES)
        found = next((text for text in ([texts] if isinstance(texts, str) else texts) if text in taken), None)
        if found is not None and field != "categories":
            conflict = (f"{field[0].upper()}{field[1:]}Conflict", f'"{found}" is already in use')
        elif texts:
            accepted[field] = texts
        else:
            accepted.pop(field, None)
    said = (False, *conflict) if conflict else (True, "NoConflicts", "no conflicts found")
    conditions = _with_condition(now, status.get("conditions") or [], "NamesAccepted", *said)
    if conflict is None:
        why = ("InitialNamesAccepted", "the initial names have been accepted")
        conditions = _with_condition(now, conditions, "Established", True, *why)
    elif not is_condition_true(definition, "Established"):
        conditions = _with_condition(now, conditions, "Established", False, "NotAccepted", "not all names are accepted")
    return {**status, "conditions": conditions, "acceptedNames": accepted}


def _taken(definition: Object, definitions: Iterable[Object], fields: tuple[str, ...]) -> set[str]:
    """The names of resources, or of kinds, that others in the group have been granted."""
    group, own = definition["spec"]["group"], definition["metadata"]["name"]
    own_kinds = [kind for kind in RESOURCE_TYPES if kind.group == group]
    taken = {
        text for kind in own_kinds for text in ((kind.kind,) if fields is _KINDS else (kind.plural, kind.singular))
    }
    for other in definitions:
        if other["spec"]["group"] == group and other["metadata"]["name"] != own:
            names = other["status"].get("acceptedNames") or {}
            for field in fields if fields is _KINDS else ("plural", "singular", "shortNames"):
                texts = names.get(field) or ()
                taken.update([texts] if isinstance(texts, str) else texts)
    return taken


def waiting_for_objects(status: Object, now: str) -> Object:
    """The status of a definition that is being deleted and still has objects."""
    why = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
    return {**status, "conditions": _with_condition(now, status["conditions"], "Terminating", True, *why)}


def _with_condition(
    now: str, conditions: list[Object], name: str, is_true: bool, reason: str, message: str
) -> list[Object]:
    said = {"type": name, "status": str(is_true), "lastTransitionTime": now}
    return set_condition(conditions, {**said, "reason": reason, "message": message})
