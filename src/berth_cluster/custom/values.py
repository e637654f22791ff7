"""What a structural schema does to an object: unknown fields are found and pruned, defaults are set.

Values are plain JSON, and the functions that prune and set defaults edit them. `apiVersion`, `kind` and `metadata` are
part of every object and of every embedded one, whatever the schema says.
"""

from collections.abc import Iterator
from typing import Any

from berth_cluster.apimachinery.field_checks import FieldCheck
from berth_cluster.apimachinery.meta import Object
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


def unknown_fields(value: Any, schema: Object, *, is_root: bool = True) -> list[str]:
    """The paths of the fields that the schema does not have, in order."""
    return sorted(_unknown(value, schema, "", is_object=is_root))


def _unknown(value: Any, schema: Object, path: str, *, is_object: bool = False) -> Iterator[str]:
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, element in enumerate(value):
            yield from _unknown(element, schema["items"], f"{path}[{number}]")
    elif isinstance(value, dict):
        for key, element in value.items():
            part = part_of(schema, key)
            place = f"{path}.{key}" if path else key
            if key in OBJECT_FIELDS and (is_object or schema.get(EMBEDDED)):
                if key == "metadata" and not is_object and isinstance(element, dict):
                    check = FieldCheck("", "", partial=True)
                    yield from (f"{place}.{each}" for each in check.run(message(OBJECT_META), element))
                continue
            if part is None:
                yield place
            elif isinstance(part, dict):
                yield from _unknown(element, part, place)


def prune(value: Any, schema: Object, *, is_object: bool = True) -> None:
    """Drop what the schema does not have, and nulls where it allows none; whole numbers become integers."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        value[:] = [_whole(element) for element in value]
        for element in value:
            prune(element, schema["items"], is_object=False)
    elif isinstance(value, dict):
        for key, element in list(value.items()):
            part = part_of(schema, key)
            if key in OBJECT_FIELDS and (is_object or schema.get(EMBEDDED)):
                continue
            if part is None or (element is None and isinstance(part, dict) and not _allows_null(part)):
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
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for element in value:
            set_defaults(element, schema["items"])
    elif isinstance(value, dict):
        for key, part in (schema.get("properties") or {}).items():
            if key not in value and part.get("default") is not None:
                value[key] = _copied(part["default"])
        for key, element in value.items():
            part = part_of(schema, key)
            if isinstance(part, dict):
                set_defaults(element, part)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(element) for key, element in value.items()}
    return [_copied(element) for element in value] if isinstance(value, list) else value
