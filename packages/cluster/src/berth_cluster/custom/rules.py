"""The rules of CustomResourceDefinitions (`x-kubernetes-validations`), which are written in CEL.

A schema comes in with the definition; objects come in to be checked, and findings go into `FieldErrors`, in upstream's
words. `self` and `oldSelf` are of no declared type, so that a rule that names a field which does not exist fails when
it is evaluated and not when it is written. A rule about `oldSelf` is asked only where there is an old value. What the
rules of one object may cost is bounded as upstream bounds it, each and together.

Source: kubernetes.io "Validation rules" under "Extend the Kubernetes API with CustomResourceDefinitions", and
apiextensions-apiserver's pkg/apiserver/schema/cel, v1.36.
"""

import base64
import re
from binascii import Error as NotBase64
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Any

from berth.cel.delegated import parse_duration, parse_timestamp
from berth.cel.library import Environment
from berth.cel.program import CompileError, LimitError, Program
from berth.cel.syntax import SyntaxNode
from berth.cel.values import ABSENT, EvaluationError, OptionalValue
from berth_cluster.apimachinery.errors import FieldErrors, as_text
from berth_cluster.apimachinery.meta import Object
from berth_cluster.custom.values import VALIDATIONS, part_of, parts_of_value

# reason of a rule -> what its message begins with
REASONS = MappingProxyType(
    {
        "FieldValueInvalid": "Invalid value",
        "FieldValueForbidden": "Forbidden",
        "FieldValueRequired": "Required value",
        "FieldValueDuplicate": "Duplicate value",
    }
)
CALL_LIMIT = 1_000_000
"""The most that evaluating one rule may cost, in upstream's units (PerCallLimit)."""
OBJECT_LIMIT = 10_000_000
"""The most that all rules of an object may cost together (RuntimeCELCostBudget)."""
MAX_MESSAGE_BYTES = 5 * 1024
_SHOWING = ("FieldValueInvalid", "FieldValueDuplicate")
_NO_FURTHER = "no further validation rules will be run"
_OLD = re.compile(r"\boldSelf\b")
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_RESERVED = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return"}
)  # fmt: skip


class SchemaRules:
    """The rules of a schema, compiled when they are first asked."""

    __slots__ = ("_programs", "_schema", "are_none")

    def __init__(self, schema: Object) -> None:
        self._schema = schema
        self._programs: dict[str, Program | CompileError] = {}
        self.are_none = not _has_rules(schema)

    def check(self, value: Any, old: Any, field: str, errors: FieldErrors) -> None:
        """Ask the rules of a value and of all values in it; `old` is None where there was none."""
        if self.are_none:
            return
        with suppress(_OutOfBudgetError):  # which has been told; what is left is not asked
            _Check(self._program, errors).visit(value, old, self._schema, field)

    def _program(self, text: str) -> Program:
        found = self._programs.get(text)
        if found is None:
            try:
                found = _environment().program(_environment().check(text).tree)
            except CompileError as error:
                found = error
            self._programs[text] = found
        if isinstance(found, CompileError):
            raise found
        return found


class _OutOfBudgetError(Exception):
    """The rules of an object have cost what they may; the text says which of them too much."""


class _Check:
    """One object, on its way through its rules."""

    def __init__(self, program: Callable[[str], Program], errors: FieldErrors) -> None:
        self._program = program
        self._errors = errors
        self._left = OBJECT_LIMIT

    def visit(self, value: Any, old: Any, schema: Object, field: str) -> None:
        """Ask the rules of a value and of all in it; raises `_OutOfBudgetError`, which has been told."""
        if value is None:
            return
        self._ask_all(value, old, schema, field)
        keys = schema.get("x-kubernetes-list-map-keys") or ()
        known = {_key_of(one, keys): one for one in old} if keys and isinstance(old, list) else {}
        for key, element, part, step in parts_of_value(value, schema):
            if isinstance(part, dict):
                if isinstance(value, list):
                    before = known.get(_key_of(element, keys))
                else:
                    before = old.get(key) if isinstance(old, dict) else None
                self.visit(element, before, part, f"{field}{step}".removeprefix("."))

    def _ask_all(self, value: Any, old: Any, schema: Object, field: str) -> None:
        rules = schema.get(VALIDATIONS)
        if not rules:
            return
        seen, before = _in_cel(value, schema), None if old is None else _in_cel(old, schema)
        for rule in rules:
            try:
                self._ask(rule, {"self": seen, "oldSelf": before}, value, schema, field)
            except _OutOfBudgetError as error:
                self._fail(field, schema, str(error))
                raise

    def _ask(self, rule: Object, known: Object, value: Any, schema: Object, field: str) -> None:
        text, old = rule["rule"].strip(), known["oldSelf"]
        if rule.get("optionalOldSelf"):
            known = {**known, "oldSelf": ABSENT if old is None else OptionalValue(True, old)}
        elif old is None and _OLD.search(text):
            return
        message = (rule.get("message") or "").strip()
        try:
            if self._evaluated(text, known, "validation") is True:
                return
        except LimitError as error:
            why = f"'{error}': {_NO_FURTHER} due to call cost exceeds limit for rule: {message or text}"
            raise _OutOfBudgetError(why) from None
        except EvaluationError as error:
            why = f"{error} evaluating rule: {message or text}"
            if str(error).startswith("no such overload"):
                told = "call arguments did not match a supported operator, function or macro signature"
                why = f"'{error}': {told} for rule: {message or text}"
            self._fail(field, schema, why)
            return
        except CompileError as error:
            self._fail(field, schema, f"rule compile error: {error}")
            return
        told = self._told(rule, known) or message or f"failed rule: {text}"
        reason = rule.get("reason") or "FieldValueInvalid"
        if not isinstance(value, dict | list) and reason in _SHOWING:
            told = as_text(value) if reason == "FieldValueDuplicate" else f"{as_text(value)}: {told}"
        self._errors.note(
            reason, f"{field}{rule.get('fieldPath') or ''}".removeprefix("."), f"{REASONS[reason]}: {told}"
        )

    def _told(self, rule: Object, known: Object) -> str:
        """What a rule's `messageExpression` says; empty where that is nothing to tell."""
        text = rule.get("messageExpression")
        try:
            made = self._evaluated(text, known, "messageExpression evaluation") if text else None
        except LimitError:
            why = f"{_NO_FURTHER} due to call cost exceeds limit for messageExpression: {as_text(text)}"
            raise _OutOfBudgetError(why) from None
        except (EvaluationError, CompileError):
            return ""
        made = made.strip() if isinstance(made, str) else ""
        return "" if "\n" in made or len(made.encode()) > MAX_MESSAGE_BYTES else made

    def _evaluated(self, text: str, known: Object, what: str) -> Any:
        """The value of an expression, whose cost is taken from what the object's rules may cost."""
        program = self._program(text)
        evaluation = program.start(known, CALL_LIMIT)
        try:
            return program.run(evaluation)
        finally:
            self._left -= evaluation.cost
            if self._left < 0:
                raise _OutOfBudgetError(f"{what} failed due to running out of cost budget, {_NO_FURTHER}")

    def _fail(self, field: str, schema: Object, why: str) -> None:
        self._errors.note("FieldValueInvalid", field, f"Invalid value: {as_text(schema.get('type') or '')}: {why}")


def _has_rules(schema: Object) -> bool:
    parts = [*(schema.get("properties") or {}).values(), schema.get("additionalProperties"), schema.get("items")]
    return bool(schema.get(VALIDATIONS)) or any(_has_rules(part) for part in parts if isinstance(part, dict))


def _key_of(element: Any, keys: Any) -> str:
    return as_text([element.get(key) for key in keys]) if isinstance(element, dict) else ""


def _in_cel(value: Any, schema: Object) -> Any:
    """A value as rules see it: names that CEL could not read are escaped; a number, or a format, is of one type."""
    if isinstance(value, dict):
        names = schema.get("properties") or {}
        return {
            escaped(key) if key in names else key: _in_cel(element, part if isinstance(part, dict) else {})
            for key, element in value.items()
            for part in (part_of(schema, key),)
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [_in_cel(element, items if isinstance(items, dict) else {}) for element in value]
    if isinstance(value, str) and schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]](value)
    return float(value) if schema.get("type") == "number" and isinstance(value, int) else value


def _bytes(text: str) -> Any:
    try:
        return base64.b64decode(text, validate=True)
    except NotBase64:
        return text


_FORMATS: MappingProxyType[str, Callable[[str], Any]] = MappingProxyType(
    {
        "byte": _bytes,
        "date": lambda text: parse_timestamp(f"{text}T00:00:00Z") or text,
        "date-time": lambda text: parse_timestamp(text) or text,
        "duration": lambda text: parse_duration(text) or text,
    }
)


def escaped(name: str) -> str:
    """The name of a field, as rules write it."""
    if name in _RESERVED:
        return f"__{name}__"
    for plain, escape in _ESCAPES:
        name = name.replace(plain, escape)
    return name


def compiled(text: str, kind: str) -> SyntaxNode:
    """An expression that is to give a value of this type (`bool`, `string`); raises CompileError."""
    checked = _environment().check(text)
    _environment().program(checked.tree)
    if checked.kind not in (kind, "dyn"):
        raise CompileError(f"must evaluate to a {kind}")
    return checked.tree


@cache
def _environment() -> Environment:
    return Environment("self", "oldSelf")
