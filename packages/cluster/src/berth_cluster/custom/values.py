"""What a structural schema does to an object: unknown fields are found and pruned, defaults are set.

Values are plain JSON, and the functions that prune and set defaults edit them. `apiVersion`, `kind` and `metadata` are
part of every object and of every embedded one, whatever the schema says.
"""

from collections.abc import Iterator
from typing import Any

from berth_cluster.apimachinery.field_checks import FieldCheck
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.patches import copied
from berth_cluster.apimachinery.schema import OBJECT_META, message

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
VALIDATIONS = "x-kubernetes-validations"
OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_EXACT = 2**53  # beyond this a float is no longer exactly one whole number


def part_of(schema: Object, key: str) -> Any:
    """The schema of a field; True where any value may be, None where there is no such field."""
    found = (schema.get("properties") or {}).get(key)
    if found is None:
        found = schema.get("additionalProperties") or None
    return True if found is None and schema.get(PRESERVE) else found


def parts_of_value(value: Any, schema: Object) -> list[tuple[Any, Any, Any, str]]:
    """What a value is made of: key, value and schema (as `part_of` has it) of each, and the step of a path to it."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [(number, element, schema["items"], f"[{number}]") for number, element in enumerate(value)]
    if not isinstance(value, dict):
        return []
    return [(key, element, part_of(schema, key), f".{key}") for key, element in value.items()]


def _pruned_parts(value: Any, schema: Object, *, is_object: bool) -> list[tuple[Any, Any, Any, str]]:
    """The same without what every object has."""
    head = OBJECT_FIELDS if isinstance(value, dict) and (is_object or schema.get(EMBEDDED)) else ()
    return [part for part in parts_of_value(value, schema) if part[0] not in head]


def unknown_fields(value: Any, schema: Object, *, is_root: bool = True) -> list[str]:
    """The paths of the fields that the schema does not have, in order."""
    return sorted(_unknown(value, schema, "", is_object=is_root))


def _unknown(value: Any, schema: Object, path: str, *, is_object: bool = False) -> Iterator[str]:
    if schema.get(EMBEDDED) and isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        unknown = FieldCheck("", "", partial=True).run(message(OBJECT_META), value["metadata"])
        yield from (f"{path}.metadata.{each}" for each in unknown)
    for _, element, part, step in _pruned_parts(value, schema, is_object=is_object):
        place = path + step if path else step.removeprefix(".")
        if part is None:
            yield place
        elif isinstance(part, dict):
            yield from _unknown(element, part, place)


def prune(value: Any, schema: Object, *, is_object: bool = True) -> None:
    """Drop what the schema does not have, and nulls where it allows none; whole numbers become integers."""
    for key, element, part, _ in _pruned_parts(value, schema, is_object=is_object):
        is_null = element is None and isinstance(part, dict) and not isinstance(value, list)
        if part is None or (is_null and not _allows_null(part)):
            del value[key]
        elif isinstance(part, dict):
            value[key] = _whole(element)
            prune(element, part, is_object=False)


def _allows_null(schema: Object) -> bool:
    return bool(schema.get("nullable")) or not (schema.get("type") or schema.get(INT_OR_STRING))


def _whole(value: Any) -> Any:
    """As upstream reads numbers: 2.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else value


def set_defaults(value: Any, schema: Object) -> None:
    """Fill in what is left open."""
    for key, part in (schema.get("properties") or {}).items() if isinstance(value, dict) else ():
        if key not in value and part.get("default") is not None:
            value[key] = copied(part["default"])
    for _, element, part, _ in parts_of_value(value, schema):
        if isinstance(part, dict):
            set_defaults(element, part)
