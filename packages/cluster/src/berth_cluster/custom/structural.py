"""Checks the schemas of CustomResourceDefinitions: they have to be *structural*.

Such a schema says of every value which type it has, outside of `allOf`, `anyOf`, `oneOf` and `not`, so that unknown
fields can be pruned and defaults be set. A schema and its place in the definition come in, findings go into
`FieldErrors`, in upstream's words. Called when a definition is written.

Source: kubernetes.io "Extend the Kubernetes API with CustomResourceDefinitions", "Specifying a structural schema".
"""

from collections.abc import Iterator

from berth.cel.delegated import pattern_mistake
from berth.cel.estimate import times
from berth.cel.program import CompileError
from berth.cel.syntax import SyntaxNode
from berth_cluster.apimachinery.errors import FieldErrors, Raw, as_text
from berth_cluster.apimachinery.field_checks import FieldCheck
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.schema import message
from berth_cluster.custom.rule_costs import RuleCosts, parts_at_most, rule_cost
from berth_cluster.custom.rules import REASONS, compiled
from berth_cluster.custom.validation import SchemaValidator
from berth_cluster.custom.values import INT_OR_STRING, PRESERVE, VALIDATIONS, unknown_fields

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES = ("atomic", "set", "map")
_NOT_SUPPORTED = ("patternProperties", "definitions", "dependencies", "$ref")
_NOT_NESTED = ("description", "type", "title", "default", "additionalProperties", "nullable", PRESERVE)


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
    _check_node(schema, field, errors)
    if not errors:  # else they could not be understood
        _check_values(schema, field, errors)
    if not errors:
        _RuleCheck(errors).check(schema, field)


def parts_of(schema: Object, field: str = "") -> Iterator[tuple[str, Object, str]]:
    """The schemas of the values in a value: where each stands, and what holds it."""
    for name, part in sorted((schema.get("properties") or {}).items()):
        yield f"{field}.properties[{name}]", part, "object fields"
    for name, holder in (("additionalProperties", "object fields"), ("items", "array items")):
        if isinstance(schema.get(name), dict):
            yield f"{field}.{name}", schema[name], holder


def _check_node(schema: Object, field: str, errors: FieldErrors) -> None:
    kind = schema.get("type")
    for name in _NOT_SUPPORTED:
        if schema.get(name):
            errors.forbidden(f"{field}.{name}", f"{name} is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.forbidden(f"{field}.uniqueItems", why)
    if kind and kind not in TYPES:
        errors.unsupported(f"{field}.type", kind, TYPES)
    if schema.get("pattern") and (mistake := pattern_mistake(schema["pattern"])):
        why = f"must be a valid regular expression, but isn't: {mistake}"
        errors.invalid(f"{field}.pattern", schema["pattern"], why)
    if schema.get(PRESERVE) is False:
        errors.invalid(f"{field}.{PRESERVE}", False, "must be true or undefined")
    if schema.get("properties") and schema.get("additionalProperties") not in (None, False):
        errors.forbidden(f"{field}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if kind == "array" and not schema.get("items"):
        errors.required(f"{field}.items", "must be specified")
    for place, part, holder in parts_of(schema, field):
        if not place.endswith("]"):  # which may be other than schemas, so that nobody has checked them
            FieldCheck("CustomResourceDefinition", "v1").run(message("apiextensions.v1.JSONSchemaProps"), part)
        if not part.get("type") and not (part.get(PRESERVE) or part.get(INT_OR_STRING) or part.get("$ref")):
            errors.required(f"{place}.type", f"must not be empty for specified {holder}")
        _check_node(part, place, errors)
    _check_nested(schema, field, errors, is_number_or_text=bool(schema.get(INT_OR_STRING)))
    _check_list(schema, field, errors)


def _check_nested(schema: Object, field: str, errors: FieldErrors, *, is_number_or_text: bool) -> None:
    """What value validation may not say."""
    nested = [(f"{field}.{name}[{number}]", part) for name in ("allOf", "anyOf", "oneOf")
              for number, part in enumerate(schema.get(name) or ())]  # fmt: skip
    for place, part in [*nested, *([(f"{field}.not", schema["not"])] if schema.get("not") else [])]:
        for name in _NOT_NESTED:
            if part.get(name) not in (None, False, "") and not (name == "type" and is_number_or_text):
                must = "false" if name == "nullable" else "empty" if name in _NOT_NESTED[:3] else "undefined"
                errors.forbidden(f"{place}.{name}", f"must be {must} to be structural")
        _check_nested(part, place, errors, is_number_or_text=is_number_or_text)


def _check_list(schema: Object, field: str, errors: FieldErrors) -> None:
    """How lists merge."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    if kind and kind not in _LIST_TYPES:
        errors.unsupported(f"{field}.x-kubernetes-list-type", kind, _LIST_TYPES)
    elif kind == "map":
        items = schema.get("items") or {}
        properties, place = items.get("properties") or {}, f"{field}.x-kubernetes-list-map-keys"
        if not keys:
            errors.required(place, "must not be empty if x-kubernetes-list-type is map")
        if set(keys) - set(properties):
            errors.invalid(place, Raw(as_text(keys)), "entries must all be names of item properties")
        for key in keys:
            if key in properties and key not in (items.get("required") or ()) and "default" not in properties[key]:
                why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                errors.required(f"{field}.items.properties[{key}].default", f"{why}property")


def _check_values(schema: Object, field: str, errors: FieldErrors) -> None:
    """The defaults."""
    default = schema.get("default")
    if default is not None:
        SchemaValidator(schema).check(default, errors, f"{field}.default", body="")
        if unknown_fields(default, schema, is_root=False):
            errors.invalid(f"{field}.default", Raw(as_text(default)), "must not have unknown fields")
    for place, part, _ in parts_of(schema, field):
        _check_values(part, place, errors)


class _RuleCheck:
    """The rules in CEL, on their way through a schema."""

    def __init__(self, errors: FieldErrors) -> None:
        self._errors = errors
        self._costs = RuleCosts()

    def check(self, schema: Object, field: str) -> None:
        """Report rules that are wrong, or might cost too much, each or together."""
        self._visit(schema, field, 1, is_root=True)
        self._costs.tell(field, self._errors)

    def _visit(self, schema: Object, field: str, values: int | None, *, is_root: bool) -> None:
        """`values` says how many of this schema there are in an object at most."""
        for number, rule in enumerate(schema.get(VALIDATIONS) or ()):
            self._check(rule, f"{field}.{VALIDATIONS}[{number}]", schema, values, is_root=is_root)
        within = parts_at_most(schema, values)
        for place, part, _ in parts_of(schema, field):
            self._visit(part, place, within, is_root=False)

    def _check(self, rule: Object, place: str, schema: Object, values: int | None, *, is_root: bool) -> None:
        text, message = str(rule.get("rule") or "").strip(), rule.get("messageExpression")
        tree = self._compiled(text, "bool", f"{place}.rule", "cel expression") if text else None
        if not text:
            self._errors.required(f"{place}.rule", "rule is not specified")
        if tree is not None:
            cost, room = rule_cost(tree, rule, schema, is_root=is_root)
            self._costs.note("rule", times(cost, room if values is None else values), f"{place}.rule", self._errors)
            place_of_message = f"{place}.messageExpression"
            if message and (told := self._compiled(message, "string", place_of_message, "messageExpression")):
                cost, _ = rule_cost(told, rule, schema, is_root=is_root)
                self._costs.note("messageExpression", cost, place_of_message, self._errors)
        if rule.get("reason") and rule["reason"] not in REASONS:
            self._errors.unsupported(f"{place}.reason", rule["reason"], tuple(sorted(REASONS)))

    def _compiled(self, text: str, kind: str, place: str, name: str) -> SyntaxNode | None:
        try:
            return compiled(text, kind)
        except CompileError as error:
            is_named = name == "messageExpression" or str(error).startswith("must")
            self._errors.invalid(place, text, f"{name} {error}" if is_named else str(error))
            return None
