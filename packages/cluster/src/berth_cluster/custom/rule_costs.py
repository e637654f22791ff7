"""What the rules of a CustomResourceDefinition might cost, by which an API server refuses some of them.

A schema comes in when a definition is written; rules that might cost too much, each or all together, become findings,
in upstream's words. What has no bound (`maxLength`, `maxItems`, `maxProperties`) may be as large as a request.

Source: apiextensions-apiserver's pkg/apis/apiextensions/validation and k8s.io/apiserver's pkg/cel/common, v1.36.
"""

from types import MappingProxyType

from berth.cel.estimate import Shape, estimated_cost, plus, times
from berth.cel.syntax import SyntaxNode
from berth_cluster.apimachinery.errors import FieldErrors
from berth_cluster.apimachinery.meta import Object
from berth_cluster.custom.rules import escaped
from berth_cluster.custom.values import EMBEDDED, INT_OR_STRING

RULE_LIMIT = 10_000_000
"""The most that a rule may cost by estimate, for all the values that it is about (StaticEstimatedCostLimit)."""
DEFINITION_LIMIT = 100_000_000
"""The most that all rules of a schema may cost by estimate (StaticEstimatedCRDCostLimit)."""
REQUEST_BYTES = 3 * 1024 * 1024
_MOST_NAMED = 4
_ADVICE = "adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared"
_TEXT = Shape("string")
# format of a text -> its type, how long it is at most, and the least that it takes in a request
_FORMATS = MappingProxyType(
    {
        "duration": ("google.protobuf.Duration", 32, 3),
        "date": ("google.protobuf.Timestamp", 12, 12),
        "date-time": ("google.protobuf.Timestamp", 32, 21),
    }
)
_SCALARS = MappingProxyType({"boolean": ("bool", 4), "number": ("double", 1), "integer": ("int", 1)})


class RuleCosts:
    """The costs of the rules of one schema."""

    def __init__(self) -> None:
        self._total = 0
        self._most: list[tuple[int, str]] = []

    def note(self, name: str, cost: int, place: str, errors: FieldErrors) -> None:
        """Report a rule or message that might cost too much (`name` says which it is), and remember all."""
        if cost > RULE_LIMIT:
            errors.forbidden(place, _exceeds(f"estimated {name} cost", cost, RULE_LIMIT))
        self._total = plus(self._total, cost)
        if cost >= DEFINITION_LIMIT // 100:
            self._most = sorted([*self._most, (cost, place)], key=lambda each: -each[0])[:_MOST_NAMED]

    def tell(self, field: str, errors: FieldErrors) -> None:
        """Report rules that might cost too much together."""
        if self._total > DEFINITION_LIMIT:
            what = "estimated rule cost total"
            for _, place in self._most:
                errors.forbidden(place, f"contributed to {what} exceeding cost limit for entire OpenAPIv3 schema")
            named = f"x-kubernetes-validations {what} for entire OpenAPIv3 schema"
            errors.forbidden(field, _exceeds(named, self._total, DEFINITION_LIMIT))


def rule_cost(tree: SyntaxNode, rule: Object, schema: Object, *, is_root: bool) -> tuple[int, int]:
    """What asking a rule of one value of a schema might cost, and how many such values find room in a request."""
    shape, least = shape_of(schema, is_root=is_root) or (Shape("dyn"), 0)
    before = Shape("optional_type", element=shape) if rule.get("optionalOldSelf") else shape
    return estimated_cost(tree, {"self": shape, "oldSelf": before}, shape), REQUEST_BYTES // (least + 1)


def parts_at_most(schema: Object, values: int | None) -> int | None:
    """How many values a part of a schema has at most, if the schema itself has so many; None where nothing says."""
    bound = {"array": "maxItems", "object": "maxProperties" if schema.get("additionalProperties") else ""}
    name = bound.get(schema.get("type") or "", "")
    if values is None or (name and schema.get(name) is None):
        return None
    return times(values, max(schema[name], 0)) if name else values


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or {_ADVICE})"


def shape_of(schema: Object, *, is_root: bool = False) -> tuple[Shape, int] | None:
    """What rules know of a schema's values, and how many bytes one takes at least; None for what they cannot see."""
    if schema.get(INT_OR_STRING):
        length = schema.get("maxLength")
        return Shape("dyn", REQUEST_BYTES - 2 if length is None else max(length, 0) * 4), 1
    kind = str(schema.get("type") or "")
    if kind == "array":
        return _list(schema)
    if kind == "object":
        return _object(schema, is_root=is_root or bool(schema.get(EMBEDDED)))
    if kind == "string":
        return _string(schema)
    if kind in _SCALARS:
        name, least = _SCALARS[kind]
        return Shape(name), least
    return None


def _list(schema: Object) -> tuple[Shape, int] | None:
    items = schema.get("items")
    inside = shape_of(items) if isinstance(items, dict) else None
    if inside is None:
        return None
    most = schema.get("maxItems")
    count = (REQUEST_BYTES - 2) // (inside[1] + 1) if most is None else max(most, 0)
    return Shape("list", count, element=inside[0]), 2


def _object(schema: Object, *, is_root: bool) -> tuple[Shape, int] | None:
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        inside = shape_of(values)
        if inside is None:
            return None
        most = schema.get("maxProperties")
        count = (REQUEST_BYTES - 2) // (inside[1] + 6) if most is None else max(most, 0)
        return Shape("map", count, element=inside[0], key=_TEXT), 2
    parts = dict(schema.get("properties") or {})
    if is_root:
        text = {"type": "string"}
        named = {"type": "object", "properties": {"name": text, "generateName": text}}
        parts |= {"apiVersion": text, "kind": text, "metadata": named}
    fields, least = {}, 2
    for name, part in parts.items():
        found = shape_of(part)
        if found is not None:
            fields[escaped(name)] = found[0]
            if name in (schema.get("required") or ()) and part.get("default") is None:
                least += len(name) + found[1] + 4
    return Shape("object", fields=fields), least


def _string(schema: Object) -> tuple[Shape, int]:
    form = str(schema.get("format") or "")
    if form in _FORMATS:
        name, most, least = _FORMATS[form]
        return Shape(name, most), least
    length = schema.get("maxLength")
    if form == "byte":
        return Shape("bytes", REQUEST_BYTES - 2 if length is None else max(length, 0)), 2
    if length is not None:
        return Shape("string", max(length, 0) * 4), 2
    words = [len(word.encode()) for word in schema.get("enum") or () if isinstance(word, str)]
    return Shape("string", max(words, default=0) if schema.get("enum") else REQUEST_BYTES - 2), 2
