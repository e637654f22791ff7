"""Checks the schemas of CustomResourceDefinitions: they have to be *structural*.

Such a schema says of every value which type it has, outside of `allOf`, `anyOf`, `oneOf` and `not`, so that unknown
fields can be pruned and defaults be set. A schema and its place in the definition come in, findings go into
`FieldErrors`, in upstream's words. Called when a definition is written.

Source: kubernetes.io "Extend the Kubernetes API with CustomResourceDefinitions", "Specifying a structural schema".
"""

from collections.abc import Iterator
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors, Raw, as_text
from berth_cluster.apimachinery.meta import Object
from berth_cluster.custom.rules import REASONS, compile_mistake, pattern_mistake
from berth_cluster.custom.validation import SchemaValidator
from berth_cluster.custom.values import EMBEDDED, INT_OR_STRING, PRESERVE, VALIDATIONS, unknown_fields

TYPES = ("array", "boolean", "integer", "number", "object", "string")
MAX_DEPTH = 100
_LIST_TYPES, _MAP_TYPES = ("atomic", "set", "map"), ("atomic", "granular")
_LISTS = ("allOf", "anyOf", "oneOf")
_NOT_SUPPORTED = ("patternProperties", "definitions", "dependencies", "$ref", "additionalItems", "id", "$schema")
# What value validation (allOf and so on) may not say, and how that is put.
_NOT_NESTED = {
    "description": "must be empty to be structural",
    "type": "must be empty to be structural",
    "title": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "additionalProperties": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    PRESERVE: "must be undefined to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
}


def check_schema(schema: Object, field: str, errors: FieldErrors) -> None:
    """Report everything that is wrong with the schema of a kind."""
    kind = schema.get("type")
    if not kind:
        errors.required(f"{field}.type", "must not be empty at the root")
    elif kind != "object":
        errors.invalid(f"{field}.type", kind, "must be object at the root")
    metadata = (schema.get("properties") or {}).get("metadata")
    if metadata and set(metadata.get("properties") or {}) - {"name", "generateName"}:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.forbidden(f"{field}.properties[metadata]", why)
    _check_node(schema, field, errors, 0)
    if not errors:  # else they could not be understood
        _check_defaults(schema, field, errors)
        _check_rules(schema, field, errors)


def _check_node(schema: Object, field: str, errors: FieldErrors, depth: int) -> None:
    if depth > MAX_DEPTH:
        errors.forbidden(field, f"a schema may not be more than {MAX_DEPTH} levels deep")
        return
    _check_keywords(schema, field, errors)
    kind = schema.get("type")
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        errors.forbidden(f"{field}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if kind == "array" and not schema.get("items"):
        errors.required(f"{field}.items", "must be specified")
    for place, part, holder in _parts(schema, field):
        if not part.get("type") and not (part.get(PRESERVE) or part.get(INT_OR_STRING)):
            errors.required(f"{place}.type", f"must not be empty for specified {holder}")
        _check_node(part, place, errors, depth + 1)
    for place, part in _nested(schema, field):
        _check_nested(part, place, errors, depth + 1, is_number_or_text=bool(schema.get(INT_OR_STRING)))
    _check_lists(schema, field, errors)


def _parts(schema: Object, field: str) -> Iterator[tuple[str, Object, str]]:
    """The schemas of the values in a value: where each stands, and what holds it."""
    for name, part in sorted((schema.get("properties") or {}).items()):
        yield f"{field}.properties[{name}]", part, "object fields"
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{field}.additionalProperties", schema["additionalProperties"], "object fields"
    if isinstance(schema.get("items"), dict):
        yield f"{field}.items", schema["items"], "array items"


def _nested(schema: Object, field: str) -> Iterator[tuple[str, Object]]:
    for name in _LISTS:
        for number, part in enumerate(schema.get(name) or ()):
            yield f"{field}.{name}[{number}]", part
    if isinstance(schema.get("not"), dict):
        yield f"{field}.not", schema["not"]


def _check_nested(
    schema: Object, field: str, errors: FieldErrors, depth: int, *, is_number_or_text: bool = False
) -> None:
    if depth > MAX_DEPTH:
        errors.forbidden(field, f"a schema may not be more than {MAX_DEPTH} levels deep")
        return
    for name, why in _NOT_NESTED.items():
        if schema.get(name) not in (None, False, "") and not (name == "type" and is_number_or_text):
            errors.forbidden(f"{field}.{name}", why)
    for place, part in (*((place, part) for place, part, _ in _parts(schema, field)), *_nested(schema, field)):
        _check_nested(part, place, errors, depth + 1, is_number_or_text=is_number_or_text)


def _check_keywords(schema: Object, field: str, errors: FieldErrors) -> None:
    for name in _NOT_SUPPORTED:
        if schema.get(name):
            errors.forbidden(f"{field}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.forbidden(f"{field}.uniqueItems", why)
    kind = schema.get("type")
    if kind and kind not in TYPES:
        errors.unsupported(f"{field}.type", kind, TYPES)
        if kind == "null":
            errors.forbidden(f"{field}.type", "type cannot be set to null, use nullable as an alternative")
    if schema.get("pattern") and (mistake := pattern_mistake(schema["pattern"])):
        why = f"must be a valid regular expression, but isn't: error parsing regexp: {mistake}"
        errors.invalid(f"{field}.pattern", schema["pattern"], why)
    if schema.get(PRESERVE) is False:
        errors.invalid(f"{field}.{PRESERVE}", False, "must be true or undefined")
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not schema.get("properties"):
        why = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        errors.required(f"{field}.properties", why)


def _check_lists(schema: Object, field: str, errors: FieldErrors) -> None:
    """How lists and maps merge."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    keys_field = f"{field}.x-kubernetes-list-map-keys"
    if kind and kind not in _LIST_TYPES:
        errors.unsupported(f"{field}.x-kubernetes-list-type", kind, _LIST_TYPES)
    if schema.get("x-kubernetes-map-type") not in (None, *_MAP_TYPES):
        errors.unsupported(f"{field}.x-kubernetes-map-type", schema["x-kubernetes-map-type"], _MAP_TYPES)
    if kind != "map":
        return
    if not keys:
        errors.required(keys_field, "must not be empty if x-kubernetes-list-type is map")
    items: Any = schema.get("items") or {}
    properties = items.get("properties") or {}
    if set(keys) - set(properties):
        errors.invalid(keys_field, Raw(as_text(keys)), "entries must all be names of item properties")
    for key in keys:
        if key in properties and key not in (items.get("required") or ()) and "default" not in properties[key]:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            errors.required(f"{field}.items.properties[{key}].default", why)


def _check_defaults(schema: Object, field: str, errors: FieldErrors) -> None:
    default = schema.get("default")
    if default is not None:
        SchemaValidator(schema).check(default, errors, f"{field}.default", body="")
        if unknown_fields(default, schema, is_root=False):
            errors.invalid(f"{field}.default", Raw(as_text(default)), "must not have unknown fields")
    for place, part, _ in _parts(schema, field):
        _check_defaults(part, place, errors)


def _check_rules(schema: Object, field: str, errors: FieldErrors) -> None:
    """The rules in CEL: compiled only where all else is well."""
    texts = []
    for number, rule in enumerate(schema.get(VALIDATIONS) or ()):
        place, text = f"{field}.{VALIDATIONS}[{number}]", str(rule.get("rule") or "").strip()
        if not text:
            errors.required(f"{place}.rule", "rule is not specified")
        if "\n" in str(rule.get("message") or "").strip():
            errors.invalid(f"{place}.message", rule["message"], "must not contain line breaks")
        if rule.get("reason") and rule["reason"] not in REASONS:
            errors.unsupported(f"{place}.reason", rule["reason"], tuple(sorted(REASONS)))
        texts += [(f"{place}.rule", text, "bool")]
        if rule.get("messageExpression"):
            texts += [(f"{place}.messageExpression", rule["messageExpression"], "string")]
    for place, text, kind in texts if not errors else ():
        if mistake := compile_mistake(text, kind):
            errors.invalid(place, text, f"compilation failed: {mistake}")
    for place, part, _ in _parts(schema, field):
        _check_rules(part, place, errors)
