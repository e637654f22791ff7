"""Strategic merge patches: like merge patches, but the common lists of objects merge by a key.

Upstream reads the merge keys from tags on its Go types. Here they are one table by field name; the few names that mean
different things in different places are told apart by the name of the field above them.

Entries are found by hashing what tells them apart, so that a merge takes time in proportion to object and patch. Parts
of objects that have no schema may hold anything under any name, hence the checks of what is merged.
"""

from types import MappingProxyType
from typing import Any

import msgspec

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object

_DIRECTIVE = "$patch"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"
_GONE = object()
_MAX_SHOWN_FIELDS = 8
_encode = msgspec.json.Encoder(order="deterministic").encode

# list field -> the key that tells its entries apart
_MERGE_KEYS = MappingProxyType(
    {
        "addresses": "type",
        "conditions": "type",
        "containers": "name",
        "ephemeralContainers": "name",
        "initContainers": "name",
        "env": "name",
        "hostAliases": "ip",
        "imagePullSecrets": "name",
        "ownerReferences": "uid",
        "resizePolicy": "resourceName",
        "resourceClaims": "name",
        "schedulingGates": "name",
        "secrets": "name",
        "topologySpreadConstraints": "topologyKey",
        "volumeDevices": "devicePath",
        "volumeMounts": "mountPath",
        "volumes": "name",
    }
)
# (field above, list field) -> key, where the name alone does not say
_MERGE_KEYS_BY_PARENT = MappingProxyType({("containers", "ports"): "containerPort", ("spec", "ports"): "port"})
# lists of plain values that merge as sets
_SETS = frozenset({"finalizers", "podCIDRs"})
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


def strategic_merge(target: Object, patch: Object) -> Object:
    """The object after the patch."""
    return _merge_objects(target, patch, "")


def merge_key(parent: str, field: str) -> str | None:
    """The key by which a list merges, or None when it is replaced as a whole."""
    if parent in _CONTAINER_LISTS:
        parent = "containers"
    return _MERGE_KEYS_BY_PARENT.get((parent, field)) or _MERGE_KEYS.get(field)


def _merge_objects(target: Object, patch: Object, name: str) -> Object:
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"invalid value for {_DIRECTIVE}: {directive!r}; expected merge, replace or delete")
    merged = _retained(target, patch)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_field(merged.get(key), value, name, key, patch.get(_ORDER + key))
    for key, gone in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            _drop_primitives(merged, key.removeprefix(_DELETE_PRIMITIVES), gone)
    _reorder_unpatched(merged, patch, name)
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


def _merge_field(current: Any, value: Any, parent: str, field: str, order: Any) -> Any:
    if isinstance(value, dict):
        return _merge_objects(current if isinstance(current, dict) else {}, value, field)
    if not isinstance(value, list):
        return value
    known = current if isinstance(current, list) else []
    key = merge_key(parent, field)
    if key is not None and all(isinstance(item, dict) for item in value):
        return _merge_lists(known, value, key, field, order)
    if field in _SETS:
        there = {identity(item) for item in known}
        return [*known, *(item for item in value if identity(item) not in there)]
    return [item for item in value if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "replace")]


def identity(value: Any) -> Any:
    """What two equal JSON values have in common: a hashable stand-in, found in one pass over the value."""
    if isinstance(value, dict | list):
        return _encode(value)
    # 1 and true are equal in Python, and different in JSON.
    return (isinstance(value, bool), value)


def _merge_lists(current: list[Any], patch: list[Any], key: str, field: str, order: Any) -> list[Any]:
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
            merged.append(_merge_objects({}, item, field))
        else:
            merged[place] = _merge_objects(merged[place], item, field)
    return _ordered([item for item in merged if item is not _GONE], order, key)


def _cut(item: Object) -> str:
    return str(item) if len(item) <= _MAX_SHOWN_FIELDS else f"an entry of {len(item)} fields"


def _ordered(items: list[Any], order: Any, key: str) -> list[Any]:
    """Entries in the order the patch asks for; those it does not name stay behind the entry they stood behind.

    Each named entry is ranked by its place in the order; an unnamed one is ranked just above its predecessor and below
    the next whole number, so that it moves along with the entry before it.
    """
    if not isinstance(order, list):
        return items
    wanted = [entry.get(key) if isinstance(entry, dict) else entry for entry in order]
    rank = {identity(value): number for number, value in enumerate(wanted)}
    last = -1.0
    ranked = []
    for number, item in enumerate(items):
        place = rank.get(identity(item.get(key) if isinstance(item, dict) else item))
        last = float(place) if place is not None else last + 0.5 / (number + 1)
        ranked.append((last, number, item))
    ranked.sort(key=lambda entry: entry[:2])
    return [item for _, _, item in ranked]


def _reorder_unpatched(merged: Object, patch: Object, parent: str) -> None:
    """Reorder lists for which the patch gives an order and nothing else."""
    for name, order in patch.items():
        field = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and field not in patch and isinstance(merged.get(field), list):
            merged[field] = _ordered(merged[field], order, merge_key(parent, field) or "")


def _drop_primitives(merged: Object, field: str, gone: Any) -> None:
    if isinstance(merged.get(field), list) and isinstance(gone, list):
        dropped = {identity(item) for item in gone}
        merged[field] = [item for item in merged[field] if identity(item) not in dropped]
