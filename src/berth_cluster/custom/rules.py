"""The rules of CustomResourceDefinitions (`x-kubernetes-validations`), which are written in CEL.

The expressions are compiled and evaluated by cel-expr-python, the CEL project's own library. `self` and `oldSelf` are
of no declared type here, so that a rule that names a field which does not exist fails when it is evaluated and not when
it is written; texts with a format (dates, say) are texts. A rule about `oldSelf` is asked only where there is an old
value. The library ends an evaluation after 10,000 iterations.

Source: kubernetes.io "Validation rules" under "Extend the Kubernetes API with CustomResourceDefinitions".
"""

import re
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from berth_cluster.apimachinery.errors import FieldErrors, as_text
from berth_cluster.apimachinery.meta import Object
from berth_cluster.custom.values import VALIDATIONS, part_of, parts_of_value

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

# reason of a rule -> what its message begins with
REASONS = MappingProxyType(
    {
        "FieldValueInvalid": "Invalid value",
        "FieldValueForbidden": "Forbidden",
        "FieldValueRequired": "Required value",
        "FieldValueDuplicate": "Duplicate value",
    }
)
_OLD = re.compile(r"\boldSelf\b")
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_RESERVED = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return"}
)  # fmt: skip


def has_rules(schema: Object) -> bool:
    """Whether there is any rule in a schema."""
    parts = [*(schema.get("properties") or {}).values(), schema.get("additionalProperties"), schema.get("items")]
    return bool(schema.get(VALIDATIONS)) or any(has_rules(part) for part in parts if isinstance(part, dict))


def check_rules(value: Any, old: Any, schema: Object, field: str, errors: FieldErrors) -> None:
    """Ask the rules of a value and of all values in it; `old` is None where there was none."""
    for rule in schema.get(VALIDATIONS) or ():
        _ask(rule, value, old, schema, field, errors)
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    known = {_key_of(one, keys): one for one in old} if keys and isinstance(old, list) else {}
    for key, element, part, step in parts_of_value(value, schema):
        if isinstance(part, dict):
            if isinstance(value, list):
                before = known.get(_key_of(element, keys))
            else:
                before = old.get(key) if isinstance(old, dict) else None
            check_rules(element, before, part, f"{field}{step}".removeprefix("."), errors)


def _key_of(element: Any, keys: Any) -> str:
    return as_text([element.get(key) for key in keys]) if isinstance(element, dict) else ""


def _ask(rule: Object, value: Any, old: Any, schema: Object, field: str, errors: FieldErrors) -> None:
    text = rule["rule"].strip()
    if _OLD.search(text) and old is None and not rule.get("optionalOldSelf"):
        return
    known = {"self": _in_cel(value, schema), "before": None if old is None else _in_cel(old, schema)}
    optional = "optional.none()" if old is None else "optional.of(before)"
    given = optional if rule.get("optionalOldSelf") else "before"
    result = _evaluated(text, given, known)
    if result.value is True:
        return
    message = (rule.get("message") or "").strip()
    if rule.get("messageExpression"):
        made = _evaluated(rule["messageExpression"], given, known).value
        message = made.strip() if isinstance(made, str) and made.strip() and "\n" not in made else message
    message = message or f"failed rule: {text}"
    if result.error:
        message = f"{result.error} evaluating rule: {rule.get('message') or text}"
    reason = rule.get("reason") or "FieldValueInvalid"
    shown = "" if isinstance(value, dict | list) or reason != "FieldValueInvalid" else f"{as_text(value)}: "
    place = f"{field}{rule.get('fieldPath') or ''}".removeprefix(".")
    errors.note(reason, place, f"{REASONS[reason]}: {shown}{message}")


def _in_cel(value: Any, schema: Object) -> Any:
    """A value as rules see it: names that CEL could not read are escaped, and numbers are all of one type."""
    if isinstance(value, dict):
        names = schema.get("properties") or {}
        return {
            _escaped(key) if key in names else key: _in_cel(element, part if isinstance(part, dict) else {})
            for key, element in value.items()
            for part in (part_of(schema, key),)
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [_in_cel(element, items if isinstance(items, dict) else {}) for element in value]
    return float(value) if schema.get("type") == "number" and isinstance(value, int) else value


def _escaped(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    for plain, escape in _ESCAPES:
        name = name.replace(plain, escape)
    return name


class _Result(NamedTuple):
    value: Any
    error: str = ""


def _evaluated(text: str, old: str, known: Object) -> _Result:
    """What an expression gives, with `oldSelf` as the expression `old` says."""
    try:
        result = _compiled(text, old).eval(data=known)
    except RuntimeError as error:
        return _Result(None, _told(error))
    if result.type().name() == "ERROR":
        return _Result(None, str(result.value()).partition(": ")[2] or str(result.value()))
    return _Result(result.value())


@lru_cache(maxsize=2048)
def _compiled(text: str, old: str) -> "cel.Expression":
    """An expression, compiled; raises RuntimeError."""
    return _environment().compile(f"cel.bind(oldSelf, {old}, {text}\n)" if _OLD.search(text) else text)


def compile_mistake(text: str, kind: str) -> str:
    """What is wrong with an expression that is to give a value of this type (`bool`, `string`); empty if nothing is."""
    try:
        found = _compiled(text, "before").return_type().name().lower()
    except RuntimeError as error:
        return _told(error)
    return "" if found in (kind, "dyn") else f"must evaluate to {kind}"


def matches(text: str, pattern: str) -> bool:
    """Whether a text has a match of a regular expression, in RE2's syntax and time."""
    return _evaluated("self.matches(before)", "", {"self": text, "before": pattern}).value is True


def pattern_mistake(pattern: str) -> str:
    """What is wrong with a regular expression; empty if nothing is."""
    return _evaluated("self.matches(before)", "", {"self": "", "before": pattern}).error.partition(": ")[2]


def _told(error: Exception) -> str:
    return re.sub(r"^\w+: | \[\w+\]$", "", str(error))


@cache
def _environment() -> "cel.Env":
    """Make CEL's environment, once, and only where there is a rule."""
    from cel_expr_python import cel
    from cel_expr_python.ext import (  # type: ignore[import-untyped]
        ext_bindings,
        ext_math,
        ext_optional,
        ext_strings,
    )

    extensions = [ext_optional.ExtOptional(), ext_bindings.ExtBindings(), ext_strings.ExtStrings(), ext_math.ExtMath()]
    return cel.NewEnv(variables={"self": cel.Type.DYN, "before": cel.Type.DYN}, extensions=extensions)
