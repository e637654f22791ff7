"""Strategic merge patches: like merge patches, but the common lists of objects merge by a key.

Upstream reads the merge keys from tags on its Go types. Here they are one table by field name; the few names that mean
different things in different places are told apart by the name of the field above them.
"""

from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.errors import bad_request
from berth_cluster.apimachinery.meta import Object

_DIRECTIVE = "$patch"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"

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
    return {key: value for key, value in target.items() if key in kept}


def _merge_field(current: Any, value: Any, parent: str, field: str, order: Any) -> Any:
    if isinstance(value, dict):
        return _merge_objects(current if isinstance(current, dict) else {}, value, field)
    if not isinstance(value, list):
        return value
    key = merge_key(parent, field)
    if key is not None and all(isinstance(item, dict) for item in value):
        return _merge_lists(current if isinstance(current, list) else [], value, key, field, order)
    if field in _SETS:
        merged = list(current or [])
        return merged + [item for item in value if item not in merged]
    return [item for item in value if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "replace")]


def _merge_lists(current: list[Any], patch: list[Any], key: str, field: str, order: Any) -> list[Any]:
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if _DIRECTIVE not in item]
    merged = list(current)
    for item in patch:
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        place = next((n for n, known in enumerate(merged) if known.get(key) == item[key]), None)
        if item.get(_DIRECTIVE) == "delete":
            if place is not None:
                del merged[place]
        elif place is None:
            merged.append(_merge_objects({}, item, field))
        else:
            merged[place] = _merge_objects(merged[place], item, field)
    return _ordered(merged, order, key)


def _ordered(items: list[Any], order: Any, key: str) -> list[Any]:
    """Entries in the order the patch asks for; those it does not name stay behind the entry they stood behind.

    Each named entry is ranked by its place in the order; an unnamed one is ranked just above its predecessor and below
    the next whole number, so that it moves along with the entry before it.
    """
    if not isinstance(order, list):
        return items
    wanted = [entry.get(key) if isinstance(entry, dict) else entry for entry in order]
    rank = {value: number for number, value in enumerate(wanted)}
    last = -1.0
    ranked = []
    for number, item in enumerate(items):
        place = rank.get(item.get(key) if isinstance(item, dict) else item)
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
        merged[field] = [item for item in merged[field] if item not in gone]
