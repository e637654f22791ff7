"""Validates values against the schema of a CustomResourceDefinition, in upstream's words.

The work is done by jsonschema. Here a schema of OpenAPI 3 becomes one of JSON Schema's draft 4, whose keywords those of
CustomResourceDefinitions are, and what is found becomes entries in `FieldErrors`. Patterns are those of RE2, as in Go.
"""

import base64
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_network
from types import MappingProxyType
from typing import Any
from uuid import UUID

from berth.cel.delegated import matches
from berth_cluster.apimachinery.errors import FieldErrors, Raw, as_text
from berth_cluster.apimachinery.meta import Object
from berth_cluster.custom.values import EMBEDDED, INT_OR_STRING, parts_of_value

_KEPT = frozenset(
    {"enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maximum", "maxItems", "maxLength", "maxProperties",
     "minimum", "minItems", "minLength", "minProperties", "multipleOf", "pattern", "required"}
)  # fmt: skip
_BLOCKING = frozenset({"type", "required", "enum", "maxLength", "maxItems", "maxProperties"})
_DURATION = re.compile(r"-?(\d+(\.\d+)?(ns|us|µs|ms|s|m|h|d|w))+|0")
_BITS = MappingProxyType({"int32": 32, "int64": 64})
_BOUNDS = MappingProxyType(
    {
        "maximum": ("exclusiveMaximum", "less than"),
        "minimum": ("exclusiveMinimum", "greater than"),
    }
)
_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object")
)  # fmt: skip


class SchemaValidator:
    """A schema, ready to check values."""

    __slots__ = ("_schema", "_validator")

    def __init__(self, schema: Object) -> None:
        self._schema = schema
        self._validator = _validator_class()(_plain(schema))

    def check(self, value: Any, errors: FieldErrors, field: str = "", body: str | None = None) -> bool:
        """Report what is wrong; whether something is so wrong that rules in CEL cannot be asked."""
        is_blocking = False
        for error in self._validator.iter_errors(value):
            is_blocking |= _tell(error, field, body, errors)
        return _tell_duplicates(value, self._schema, field, errors) or is_blocking


def type_name(value: Any) -> str:
    """The type of a value as JSON names it."""
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "null")


def _plain(schema: Object) -> Object:
    """The schema in the words of JSON Schema."""
    plain = {key: value for key, value in schema.items() if key in _KEPT and (key != "multipleOf" or value > 0)}
    kinds = ["integer", "string"] if schema.get(INT_OR_STRING) else [schema["type"]] if schema.get("type") else []
    if kinds:
        plain["type"] = [*kinds, "null"] if schema.get("nullable") else kinds
    if schema.get(EMBEDDED):
        plain["required"] = sorted({*plain.get("required", ()), "apiVersion", "kind"})
    if schema.get("properties"):
        plain["properties"] = {key: _plain(part) for key, part in schema["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            plain[key] = _plain(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if schema.get(key):
            plain[key] = [_plain(part) for part in schema[key]]
    return plain


@cache
def _validator_class() -> Any:
    import jsonschema  # type: ignore[import-untyped]  # not needed before there is a custom resource

    def required(_validator: Any, names: list[str], value: Any, _schema: Object) -> Iterator[Any]:
        missing = [name for name in names if name not in value] if isinstance(value, dict) else []
        return (jsonschema.ValidationError("", path=[name]) for name in missing)

    def pattern(_validator: Any, wanted: str, value: Any, _schema: Object) -> Iterator[Any]:
        if isinstance(value, str) and not matches(value, wanted):
            yield jsonschema.ValidationError("")

    def format_of(_validator: Any, wanted: str, value: Any, _schema: Object) -> Iterator[Any]:
        if not _has_format(value, wanted):
            yield jsonschema.ValidationError("")

    changed = {"required": required, "pattern": pattern, "format": format_of}
    return jsonschema.validators.extend(jsonschema.Draft4Validator, changed)


def _tell(error: Any, field: str, body: str | None, errors: FieldErrors) -> bool:
    """Put one finding into words; whether it is one after which rules are not asked."""
    keyword, wanted, value = error.validator, error.validator_value, error.instance
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    place = f"{field}{path}".removeprefix(".")
    named = place if body is None else f"{body}{path}"
    shown = Raw(as_text(value)) if isinstance(value, dict | list) else value
    if keyword == "type" or (keyword == "format" and isinstance(value, str)):
        kind = wanted if isinstance(wanted, str) else ",".join(name for name in wanted if name != "null")
        found = type_name(value) if keyword == "type" else value
        why = f'Invalid value: "{found}": {named} in body must be of type {kind}: "{found}"'
        errors.note("FieldValueTypeInvalid", place, why)
    elif keyword == "format":
        errors.invalid("<nil>", "", f"Checked value must be of type {type_name(value)} with format {wanted} in {named}")
    elif keyword == "required":
        errors.required(place)
    elif keyword == "enum":
        errors.unsupported(place, value, tuple(wanted))
    elif keyword == "maxLength":
        errors.too_long(place, wanted)
    elif keyword in ("maxItems", "maxProperties"):
        errors.too_many(place, len(value), wanted)
    elif keyword in ("anyOf", "oneOf", "not"):
        _tell_choice(error, named, errors)
        # Upstream tells what is missing for one of the choices.
        inners = [inner for inner in error.context or () if inner.schema_path[0] == 0]
        return any(map(bool, [_tell(inner, field, body, errors) for inner in inners]))
    else:
        errors.invalid(place, shown, f"{named} in body {_demand(error)}")
    return keyword in _BLOCKING or (keyword == "format" and isinstance(value, str))


def _demand(error: Any) -> str:
    keyword, wanted = error.validator, error.validator_value
    if keyword in _BOUNDS:
        exclusive, word = _BOUNDS[keyword]
        return f"should be {word} {'' if error.schema.get(exclusive) else 'or equal to '}{wanted}"
    if keyword == "minLength":
        return f"should be at least {wanted} chars long"
    if keyword == "pattern":
        return f"should match '{wanted}'"
    if keyword == "multipleOf":
        return f"should be a multiple of {wanted}"
    return f"should have at least {wanted} {'items' if keyword == 'minItems' else 'properties'}"


def _tell_choice(error: Any, named: str, errors: FieldErrors) -> None:
    if error.validator == "not":
        why = "must not validate the schema (not)"
    elif error.validator == "anyOf":
        why = "must validate at least one schema (anyOf)"
    else:
        valid = sum(1 for part in error.validator_value if _validator_class()(part).is_valid(error.instance))
        said = f"Found {valid} valid alternatives" if valid else "Found none valid"
        why = f"must validate one and only one schema (oneOf). {said}"
    errors.invalid("<nil>", "", f'"{named}" {why}')


def _tell_duplicates(value: Any, schema: Object, field: str, errors: FieldErrors) -> bool:
    """Report entries that sets and lists with keys have twice; whether a list with keys holds anything but objects."""
    is_blocking = False
    kind, seen = schema.get("x-kubernetes-list-type"), set()
    for _, element, part, step in parts_of_value(value, schema):
        place = f"{field}{step}".removeprefix(".")
        if isinstance(value, list) and kind in ("map", "set"):
            if kind == "map" and not isinstance(element, dict):
                errors.invalid(place, element, "must be an object for an array of list-type map")
                is_blocking = True
                continue
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            told = as_text({key: element[key] for key in keys if key in element} if kind == "map" else element)
            if told in seen:
                errors.duplicate(place, Raw(told))
            seen.add(told)
        if isinstance(part, dict):
            is_blocking |= _tell_duplicates(element, part, place, errors)
    return is_blocking


_FORMATS: MappingProxyType[str, Callable[[str], Any]] = MappingProxyType(
    {
        "byte": lambda text: base64.b64decode(text, validate=True),
        "cidr": lambda text: ip_network(text, strict=False),
        "date": date.fromisoformat,
        "date-time": datetime.fromisoformat,
        "ipv4": IPv4Address,
        "ipv6": IPv6Address,
        "uuid": UUID,
    }
)


def _has_format(value: Any, wanted: str) -> bool:
    """Formats that are not known here count as none."""
    if wanted in _BITS and isinstance(value, int):
        return bool(-(2 ** (_BITS[wanted] - 1)) <= value < 2 ** (_BITS[wanted] - 1))
    if isinstance(value, str) and wanted == "duration":
        return _DURATION.fullmatch(value) is not None
    try:
        return not isinstance(value, str) or wanted not in _FORMATS or bool(_FORMATS[wanted](value) or True)
    except ValueError:
        return False
