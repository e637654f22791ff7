"""Who set which field of an object: what server-side apply needs to find conflicts, and fields that nobody wants.

The store tells of the writes of its clients. Of a new object only the name of its creator is kept, since most objects
are never applied to; what the creator owns is everything in the object that nobody else owns, and is worked out when
somebody else writes. A set of fields is a set of paths. An element of a path is the name of a field or the key of a
map, or tells an entry of a list: by the values of its keys, or as a value of a set. Lists without keys have one owner.

Source: kubernetes.io "Server-Side Apply", sigs.k8s.io/structured-merge-diff.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from berth_cluster.apimachinery.errors import StoreError
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.schema import Field, Message, message, message_of, type_of
from berth_cluster.apimachinery.strategic_merge import identity
from berth_cluster.custom.version import CustomType

_NOT_OWNED = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "deletionTimestamp",
     "deletionGracePeriodSeconds", "managedFields", "generateName"}
)  # fmt: skip

Path = tuple[Any, ...]
Fields = dict[Path, Any]
"""The leaves of an object by their paths."""
Owner = tuple[str, str, bool]
"""What `Writer.identity` says."""
Owners = dict[Owner, set[Path] | None]
"""With None for the creator, who owns what nobody else does."""


Permit = Callable[[ResourceType, Object, Object | None], None]
"""Refuses what a client may not write: the object, and the one that it replaces."""


class Writer(NamedTuple):
    """Who writes, and in which way: `is_apply` for server-side apply, else by any other request."""

    manager: str
    api_version: str
    warnings: list[str]  # to which what the client should be told is added
    is_apply: bool = False
    force: bool = False
    permit: Permit | None = None
    empties: dict[str, Any] | None = None  # empty lists and maps of what is written, by their paths

    @property
    def identity(self) -> Owner:
        """What two requests of the same owner have in common."""
        return (self.manager, self.api_version, self.is_apply)


class _Entry(msgspec.Struct, frozen=True, array_like=True, tag="entry"):
    """The key of an entry of a list with keys."""

    keys: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        shown = ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in self.keys)
        return f"[{shown}]"


class _Value(msgspec.Struct, frozen=True, array_like=True, tag="value"):
    """A value in a set."""

    value: Any

    def __str__(self) -> str:
        return f"[={msgspec.json.encode(self.value).decode()}]"


_decoder = msgspec.msgpack.Decoder(dict[Owner, set[tuple[str | _Entry | _Value, ...]] | None])


class FieldManagers:
    """The owners of the fields of all objects, by uid; `types` says of what type an object is."""

    __slots__ = ("_owners", "_types")

    def __init__(self, types: Callable[[Object], Message | None] = type_of) -> None:
        self._types = types
        self._owners: dict[str, Owners] = {}

    def created(self, obj: Object, writer: Writer, applied: Object | None = None) -> None:
        """Note who made an object; what was applied where it was made so."""
        paths = None if applied is None else set(leaves(applied, self._types(obj)))
        self._owners[obj["metadata"]["uid"]] = {writer.identity: paths}

    def updated(self, old: Object, new: Object, writer: Writer) -> None:
        """Give a writer the fields that it changed."""
        owners = self._known(old)
        if owners is None:
            return
        before, after = leaves(old, self._types(old)), leaves(new, self._types(old))
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        for paths in owners.values():
            paths -= changed
        owners.setdefault(writer.identity, set()).update(changed & after.keys())
        self.keep(old["metadata"]["uid"], owners)

    def saved(self, uid: str) -> bytes | None:
        """The owners of an object's fields, for `load`; None where nobody owns any."""
        owners = self._owners.get(uid)
        return None if owners is None else msgspec.msgpack.encode(owners)

    def load(self, uid: str, saved: bytes) -> None:
        """Know the owners again. Raises `msgspec.MsgspecError`."""
        self._owners[uid] = _decoder.decode(saved)

    def gone(self, uid: str) -> None:
        """Forget an object."""
        self._owners.pop(uid, None)

    def apply(self, live: Object, applied: Object, writer: Writer) -> tuple[Object, dict[Owner, set[Path]]]:
        """The object with what is applied, and who owns it then; 409 where others own what would change."""
        owners = self._known(live) or {}
        known = self._types(live)
        wanted, present = leaves(applied, known), leaves(live, known)
        merged = _merged(live, applied, known)
        changed = {path for path, value in wanted.items() if present.get(path) != value}
        conflicts = {who: sorted(paths & changed, key=shown) for who, paths in owners.items() if who != writer.identity}
        conflicts = {who: paths for who, paths in conflicts.items() if paths}
        if conflicts and not writer.force:
            raise _conflict(conflicts)
        others = {who: paths - changed for who, paths in owners.items() if who != writer.identity}
        abandoned = (owners.get(writer.identity) or set()) - wanted.keys()
        for path in abandoned - set().union(*others.values()):
            _remove(merged, path)
        return merged, {**others, writer.identity: set(wanted)}

    def keep(self, uid: str, owners: dict[Owner, set[Path]]) -> None:
        """Note what `apply` said, once the object is written."""
        self._owners[uid] = {who: paths for who, paths in owners.items() if paths}

    def _known(self, obj: Object) -> dict[Owner, set[Path]] | None:
        """The owners of an object, each with its paths; None for one that no client made."""
        found = self._owners.get(obj["metadata"]["uid"])
        if found is None:
            return None
        owned = set().union(*(paths for paths in found.values() if paths is not None))
        rest = {path for path in leaves(obj, self._types(obj)) if path[0] != "status"} - owned
        return {who: rest if paths is None else set(paths) for who, paths in found.items()}


def leaves(obj: Object, known: Message | None) -> Fields:
    """Everything in an object of a type that somebody may own."""
    return dict(_leaves(obj, known, ())) if known is not None else {}


def _leaves(value: Object, known: Message | None, path: Path) -> Iterator[tuple[Path, Any]]:
    for name, part in value.items():
        if (not path and name in ("apiVersion", "kind")) or (path == ("metadata",) and name in _NOT_OWNED):
            continue
        field = known.fields.get(name) if known is not None else None
        yield from _of_field(part, field, (*path, name))


def _of_field(value: Any, field: Field | None, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, list) and field is not None and not field.is_atomic:
        for entry in value:
            element = _element(entry, field)
            if isinstance(element, _Entry):
                yield (*path, element), None
                yield from _leaves(entry, message(field.type), (*path, element))
            else:
                yield (*path, element), None
    elif isinstance(value, dict) and value and field is not None and field.is_map:
        for key, part in value.items():
            yield (*path, key), part
    elif isinstance(value, dict) and value and field is not None and not field.is_scalar and not _is_atomic(field):
        yield from _leaves(value, message(field.type), path)
    else:
        yield path, value


def refuse_untyped(kind: ResourceType, applied: Object) -> None:
    """500, as upstream, for what is applied and has fields that its kind does not have."""
    known = (
        kind.custom.applied_message if isinstance(kind, CustomType) else message_of(kind.group, kind.version, kind.kind)
    )
    meta = applied.get("metadata")
    mistakes = []
    if meta is not None and not isinstance(meta, dict):
        mistakes, meta = [f".metadata: expected map, got &{{{meta}}}"], None
    elif known is not None:
        mistakes = [f"{shown(path)}: field not declared in schema" for path in _undeclared(applied, known, ())]
    if mistakes:
        place = f"{(meta or {}).get('namespace', '')}/{(meta or {}).get('name', '')}"
        said = mistakes[0] if len(mistakes) == 1 else "\n  ".join(("errors:", *mistakes))
        why = f"({place}; {kind.group}/{kind.version}, Kind={kind.kind}): {said}"
        raise StoreError(500, "", f"failed to create typed patch object {why}")


def _undeclared(obj: Any, known: Message, path: Path) -> Iterator[Path]:
    for name, value in obj.items() if isinstance(obj, dict) else ():
        field = known.fields.get(name)
        if field is None:
            yield (*path, name)
        elif field.is_scalar:
            continue
        elif isinstance(value, list):
            for number, part in enumerate(value):
                element = _element(part, field) if field.list_keys else number
                yield from _undeclared(part, message(field.type), (*path, name, element))
        else:
            for place, part in value.items() if field.is_map and isinstance(value, dict) else [(None, value)]:
                inside = (*path, name) if place is None else (*path, name, place)
                yield from _undeclared(part, message(field.type), inside)


def _is_atomic(field: Field) -> bool:
    return field.is_atomic or message(field.type).is_atomic


def _element(entry: Any, field: Field) -> _Entry | _Value:
    if field.list_keys and isinstance(entry, dict):
        # A key that is left out has its default, and the only key that has one is a protocol.
        return _Entry(tuple((key, entry.get(key, "TCP" if key == "protocol" else "")) for key in field.list_keys))
    return _Value(identity(entry) if isinstance(entry, dict | list) else entry)


def _merged(live: Object, applied: Object, known: Message | None) -> Object:
    """The object with what is applied laid over it."""
    result = dict(live)
    for name, value in applied.items():
        field = known.fields.get(name) if known is not None else None
        result[name] = _merged_field(result.get(name), value, field)
    return result


def _merged_field(live: Any, value: Any, field: Field | None) -> Any:
    if field is None or live is None:
        return value
    if isinstance(value, list) and isinstance(live, list) and not field.is_atomic:
        places = {_element(entry, field): number for number, entry in enumerate(live)}
        result = list(live)
        for entry in value:
            place = places.get(_element(entry, field))
            if place is None:
                result.append(entry)
            elif isinstance(entry, dict):
                result[place] = _merged(live[place], entry, message(field.type))
        return result
    if isinstance(value, dict) and isinstance(live, dict):
        if field.is_map:
            return {**live, **value}
        if not field.is_scalar and not _is_atomic(field):
            return _merged(live, value, message(field.type))
    return value


def _remove(obj: Any, path: Path) -> None:
    """Take one leaf out of an object, whose parts are copied on the way."""
    *holders, last = path
    for name in holders:
        if isinstance(name, _Entry):
            place = next((at for at, one in enumerate(obj) if _is_entry(one, name)), None)
        else:
            place = name if isinstance(obj, dict) and name in obj else None
        if place is None or not isinstance(obj[place], dict | list):
            return
        part = obj[place]
        obj[place] = part = dict(part) if isinstance(part, dict) else list(part)
        obj = part
    if isinstance(obj, dict):
        obj.pop(last, None)
    elif isinstance(last, _Entry):
        obj[:] = [one for one in obj if not _is_entry(one, last)]
    elif isinstance(last, _Value):
        obj[:] = [one for one in obj if one != last.value]


def _is_entry(value: Any, entry: _Entry) -> bool:
    return isinstance(value, dict) and all(value.get(key) == wanted for key, wanted in entry.keys)


def shown(path: Path) -> str:
    """A path as conflicts name it: `.spec.containers[name="c"].image`."""
    return "".join(
        f".{part}" if isinstance(part, str) else f"[{part}]" if isinstance(part, int) else str(part) for part in path
    )


def _place(item: tuple[Owner, list[Path]]) -> tuple[str, bool, str]:
    manager, api_version, is_apply = item[0]
    return (manager, not is_apply, api_version)


def _conflict(conflicts: dict[Owner, list[Path]]) -> StoreError:
    causes, said = [], []
    for (manager, api_version, is_apply), paths in sorted(conflicts.items(), key=_place):
        who = f'with "{manager}"' if is_apply else f'with "{manager}" using {api_version}'
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict {who}", "field": shown(path)} for path in paths
        ]
        said.append("\n- ".join([f"conflicts {who}:", *map(shown, paths)]))
    if len(causes) == 1:
        why = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        why = f"{len(causes)} conflicts: " + "\n".join(said)
    return StoreError(409, "Conflict", f"Apply failed with {why}", {"causes": causes})
