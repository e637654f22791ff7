"""Strategic merge patches: like merge patches, but the common lists of objects merge by a key.

Which lists merge, and by which key, is part of the types (`schema`). What has no known type merges like a merge patch.

Entries are found by hashing what tells them apart, so that a merge takes time in proportion to object and patch. Parts
of objects that have no schema may hold anything under any name, hence the checks of what is merged.
"""

from collections import deque
from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.schema import Field, Message, message

_DIRECTIVE = "$patch"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"
_GONE = object()
_MAX_SHOWN_FIELDS = 8
_encode = msgspec.json.Encoder(order="deterministic").encode


def strategic_merge(target: Object, patch: Object, known: Message | None) -> Object:
    """The object after the patch; `known` is its type."""
    return _merge_objects(target, patch, known)


def _merge_objects(target: Object, patch: Object, known: Message | None) -> Object:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"invalid value for {_DIRECTIVE}: {directive!r}; expected merge, replace or delete")
    merged = _retained(target, patch)
    fields = known.fields if known is not None else {}
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_field(merged.get(key), value, fields.get(key), patch.get(_ORDER + key))
    for key, gone in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            _drop_primitives(merged, key.removeprefix(_DELETE_PRIMITIVES), gone)
    _reorder_unpatched(merged, patch, fields)
    return merged


def _retained(target: Object, patch: Object) -> Object:
    """`$retainKeys` names the only fields that survive (a Deployment's strategy, a volume's source)."""
    kept = patch.get(_RETAIN)
    if kept is None:
        return dict(target)
    if not isinstance(kept, list) or not all(isinstance(name, str) for name in kept):
        raise bad_request(f"{_RETAIN} must be a list of field names")
    names = set(kept)
    return {key: value for key, value in target.items() if key in names}


def _merge_field(current: Any, value: Any, field: Field | None, order: Any) -> Any:
    if isinstance(value, dict):
        return _merge_objects(current if isinstance(current, dict) else {}, value, _type_of(field))
    if not isinstance(value, list):
        return value
    there = current if isinstance(current, list) else []
    if field is not None and field.merges:
        if field.merge_key and all(isinstance(item, dict) for item in value):
            return _merge_lists(there, value, field, order)
        known = {identity(item) for item in there}
        merged = [*there, *(item for item in value if identity(item) not in known)]
        return _ordered(merged, order if isinstance(order, list) else value, there, "")
    return [item for item in value if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "replace")]


def _type_of(field: Field | None) -> Message | None:
    """The type of what a field holds; None for a map too, which merges like a merge patch."""
    return None if field is None or field.is_scalar or field.is_map else message(field.type)


def identity(value: Any) -> Any:
    """What two equal JSON values have in common: a hashable stand-in, found in one pass over the value."""
    if isinstance(value, dict | list):
        return _encode(value)
    # 1 and true are equal in Python, and different in JSON.
    return (isinstance(value, bool), value)


def _merge_lists(current: list[Any], patch: list[Any], field: Field, order: Any) -> list[Any]:
    key, known_type = field.merge_key, _type_of(field)
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    merged: list[Any] = list(current)
    places: dict[Any, int] = {}
    for number, known in enumerate(merged):
        if isinstance(known, dict):
            places.setdefault(identity(known.get(key)), number)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {_cut(item)} does not contain declared merge key: {key}")
        name = identity(item[key])
        place = places.get(name)
        if item.get(_DIRECTIVE) == "delete":
            if place is not None:
                merged[place] = _GONE
                del places[name]
        elif place is None:
            places[name] = len(merged)
            merged.append(_merge_objects({}, item, known_type))
        else:
            merged[place] = _merge_objects(merged[place], item, known_type)
    left = [item for item in merged if item is not _GONE]
    return _ordered(left, order if isinstance(order, list) else patch, current, key)


def _cut(item: Object) -> str:
    return str(item) if len(item) <= _MAX_SHOWN_FIELDS else f"an entry of {len(item)} fields"


def _ordered(items: list[Any], wanted: list[Any], before: list[Any], key: str) -> list[Any]:
    """Entries in the order that is wanted; those that it does not name keep that of before.

    As upstream: one of the latter comes in front of the first that is named and stood behind it before, and so behind
    all that are new.
    """

    def name_of(entry: Any) -> Any:
        return identity(entry.get(key) if isinstance(entry, dict) else entry)

    ranks = {name_of(entry): number for number, entry in reversed(list(enumerate(wanted)))}
    places = {name_of(entry): number for number, entry in reversed(list(enumerate(before)))}
    known = [(name_of(item), item) for item in items]
    named = deque(sorted([one for one in known if one[0] in ranks], key=lambda one: ranks[one[0]]))
    rest = deque(sorted([one for one in known if one[0] not in ranks], key=lambda one: places.get(one[0], -1)))
    made = []
    while named and rest:
        is_behind = 0 <= places.get(rest[0][0], -1) < places.get(named[0][0], -1)
        made.append((rest if is_behind else named).popleft()[1])
    return [*made, *(item for _, item in (*named, *rest))]


def _reorder_unpatched(merged: Object, patch: Object, fields: dict[str, Field]) -> None:
    """Reorder lists for which the patch gives an order and nothing else."""
    for name, order in patch.items():
        key = name.removeprefix(_ORDER)
        if (
            name.startswith(_ORDER)
            and key not in patch
            and isinstance(merged.get(key), list)
            and isinstance(order, list)
        ):
            merged[key] = _ordered(merged[key], order, merged[key], fields[key].merge_key if key in fields else "")


def _drop_primitives(merged: Object, field: str, gone: Any) -> None:
    if isinstance(merged.get(field), list) and isinstance(gone, list):
        dropped = {identity(item) for item in gone}
        merged[field] = [item for item in merged[field] if identity(item) not in dropped]
