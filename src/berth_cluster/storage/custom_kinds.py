"""The kinds that the CustomResourceDefinitions in a store declare.

What is served beside the table of resources follows from the stored definitions alone: whenever one changes, by whose
hand ever, its names are accepted or refused, and its types made anew. A definition that is being deleted waits until
its objects are gone; then their collection goes, too. The store makes one `CustomKinds` for itself, which is the first
to be told of changes.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from berth_cluster.apimachinery.errors import no_such_path
from berth_cluster.apimachinery.meta import (
    Object,
    is_being_deleted,
    is_condition_true,
    set_condition,
    without_finalizer,
)
from berth_cluster.apimachinery.releases import Release
from berth_cluster.apimachinery.resource_types import DEFINITIONS, RESOURCE_TYPES, Addressed, ResourceType
from berth_cluster.apimachinery.schema import Message, type_of
from berth_cluster.custom.version import types_of
from berth_cluster.storage.deletion import CLEANUP_FINALIZER

if TYPE_CHECKING:
    from berth_cluster.storage.store import Store

_NAMES = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_KINDS = ("kind", "listKind")


class CustomKinds:
    """The kinds that a store's definitions declare."""

    __slots__ = ("_known", "_store", "_types", "served", "version")

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._known: dict[str, Any] = {}  # of each definition, what its types were made of
        self._types: dict[str, list[ResourceType]] = {}  # by definition, all versions
        self.served: tuple[ResourceType, ...] = ()
        """What clients may ask for, in every version."""
        self.version = 0
        """Counts the changes of what is served."""
        store.subscribe(self._on_change)

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The resource of that version, if it is served."""
        place = (group, version, plural)
        return next((kind for kind in self.served if (kind.group, kind.version, kind.plural) == place), None)

    def beside(self, release: Release) -> Release:
        """A release with what is served beside its own kinds."""
        return msgspec.structs.replace(release, types=(*release.types, *self.served))

    def stored(self) -> list[ResourceType]:
        """Each resource once, in the version in which it is stored."""
        return [kind for kinds in self._types.values() for kind in kinds if kind.custom and kind.custom.is_storage]

    def of_kind(self, unique_kind: str) -> ResourceType:
        """The resource that controllers call so; raises `StoreError` (404) where it is gone."""
        found = next((kind for kind in self.stored() if kind.unique_kind == unique_kind), None)
        if found is None:
            raise no_such_path()
        return found

    def addressed(self, resource: Addressed) -> ResourceType | None:
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
            if kind.custom is not None and (kind.group, kind.version, kind.kind) == asked:
                return kind.custom.message
        return type_of(obj)

    def _on_change(self, change_type: str, resource: ResourceType, obj: Object, _old: Object | None) -> None:
        if resource.custom is not None and change_type == "DELETED":
            self._settle(resource.custom.definition)
        elif resource is DEFINITIONS:
            self._settle(obj["metadata"]["name"])
            if change_type == "DELETED" or is_condition_true(obj, "Established"):
                for other in self._store.objects(DEFINITIONS):  # which may have waited for a name
                    if not is_condition_true(other, "NamesAccepted"):
                        self._settle(other["metadata"]["name"])

    def _settle(self, name: str) -> None:
        """Bring everything about a definition up to date with it."""
        definition = self._store.find(DEFINITIONS, "", name)
        if definition is None:
            self._drop(name)
            return
        status = self._status_of(definition)
        if status != definition["status"]:
            self._store.update(DEFINITIONS, "", name, {**definition, "status": status}, "status")
            return  # to be called again by that change
        self.load(definition)
        if is_being_deleted(definition):
            self._empty(definition)

    def load(self, definition: Object) -> None:
        """Serve what a definition declares, if its names are accepted."""
        name, meta = definition["metadata"]["name"], definition["metadata"]
        known = (meta["uid"], meta["generation"], definition["status"]["acceptedNames"], is_being_deleted(definition))
        before = self._known.get(name)
        if before == known or not is_condition_true(definition, "Established"):
            return
        self._known[name] = known
        self._types[name] = types_of(definition)
        stored = next(kind for kind in self._types[name] if kind.custom and kind.custom.is_storage)
        self._store.open_collection(stored, begin_again=before is not None and before[:2] != known[:2])
        self._serve()

    def _drop(self, name: str) -> None:
        for key in {kind.key for kind in self._types.pop(name, ())}:
            self._store.close_collection(key)
        if self._known.pop(name, None) is not None:
            self._serve()

    def _serve(self) -> None:
        self.version += 1
        kinds = [kind for _, versions in sorted(self._types.items()) for kind in versions]
        self.served = tuple(kind for kind in kinds if kind.custom is not None and kind.custom.is_served)

    def _empty(self, definition: Object) -> None:
        """Delete the objects of a definition that is being deleted, and let it go when there are none."""
        store, name = self._store, definition["metadata"]["name"]
        for kind in self._types.get(name, ())[:1]:  # the versions share a collection
            for entry in list(store.collection(kind).entries()):
                if not is_being_deleted(entry.obj):
                    store.delete(kind, *entry.place)
            if len(store.collection(kind)):
                why = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
                conditions = self._with_condition(definition["status"]["conditions"], "Terminating", True, *why)
                status = {**definition["status"], "conditions": conditions}
                store.update(DEFINITIONS, "", name, {**definition, "status": status}, "status")
                return
        latest = store.entry(DEFINITIONS, "", name).obj
        store.update(DEFINITIONS, "", name, without_finalizer(latest, CLEANUP_FINALIZER))

    def _status_of(self, definition: Object) -> Object:
        """The status with names accepted that nobody else in the group has."""
        wanted, status = definition["spec"]["names"], definition["status"]
        accepted = dict(status.get("acceptedNames") or {})
        conflict = None
        for field in _NAMES:
            texts, taken = wanted.get(field) or [], self._taken(definition, _KINDS if field in _KINDS else _NAMES)
            found = next((text for text in ([texts] if isinstance(texts, str) else texts) if text in taken), None)
            if found is not None and field != "categories":
                conflict = (f"{field[0].upper()}{field[1:]}Conflict", f'"{found}" is already in use')
            elif texts:
                accepted[field] = texts
            else:
                accepted.pop(field, None)
        said = (False, *conflict) if conflict else (True, "NoConflicts", "no conflicts found")
        conditions = self._with_condition(status.get("conditions") or [], "NamesAccepted", *said)
        if conflict is None:
            why = ("InitialNamesAccepted", "the initial names have been accepted")
            conditions = self._with_condition(conditions, "Established", True, *why)
        elif not is_condition_true(definition, "Established"):
            conditions = self._with_condition(
                conditions, "Established", False, "NotAccepted", "not all names are accepted"
            )
        return {**status, "conditions": conditions, "acceptedNames": accepted}

    def _taken(self, definition: Object, fields: tuple[str, ...]) -> set[str]:
        """The names of resources, or of kinds, that others in the group have been granted."""
        group, own = definition["spec"]["group"], definition["metadata"]["name"]
        own_kinds = [kind for kind in RESOURCE_TYPES if kind.group == group]
        taken = {
            text for kind in own_kinds for text in ((kind.kind,) if fields is _KINDS else (kind.plural, kind.singular))
        }
        for other in self._store.objects(DEFINITIONS):
            if other["spec"]["group"] == group and other["metadata"]["name"] != own:
                names = other["status"].get("acceptedNames") or {}
                for field in fields if fields is _KINDS else ("plural", "singular", "shortNames"):
                    texts = names.get(field) or ()
                    taken.update([texts] if isinstance(texts, str) else texts)
        return taken

    def _with_condition(
        self, conditions: list[Object], name: str, is_true: bool, reason: str, message: str
    ) -> list[Object]:
        said = {"type": name, "status": str(is_true), "lastTransitionTime": self._store.now()}
        return set_condition(conditions, {**said, "reason": reason, "message": message})


def all_types(store: "Store") -> list[ResourceType]:
    """Everything that a store holds, each resource once."""
    return [*RESOURCE_TYPES, *store.custom.stored()]
