"""The syntax tree of an expression, macros expanded.

The library gives what it has parsed and checked as a protobuf message (`cel.expr.CheckedExpr`); `read_tree` makes nodes
of it, which `program.py` evaluates and `estimate.py` judges. The message is decoded level by level, since protobuf's
decoder refuses what is nested more deeply than a hundred messages.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from berth.cel.values import Uint

# Only what is read; expressions inside expressions stay bytes until it is their turn.
_TABLE = {
    "Any": "1 type_url string, 2 value bytes",
    "CheckedExpr": "2 references []ReferenceEntry, 4 expr bytes",
    "ReferenceEntry": "1 key int64, 2 value Reference",
    "Reference": "1 name string, 3 overloads []string",
    "Expr": "2 id int64, 3 const Const, 4 ident Ident, 5 select Select, 6 call Call, 7 list List, 8 struct Struct, "
    "9 fold Fold",
    "Const": "1 null int64, 2 bool bool, 3 int int64, 4 uint uint64, 5 double double, 6 string string, 7 bytes bytes",
    "Ident": "1 name string",
    "Select": "1 operand bytes, 2 field string, 3 test_only bool",
    "Call": "1 target bytes, 2 function string, 3 args []bytes",
    "List": "1 elements []bytes, 2 optional_indices []int64",
    "Struct": "1 message_name string, 2 entries []Entry",
    "Entry": "2 field_key string, 3 map_key bytes, 4 value bytes, 5 optional_entry bool",
    "Fold": "1 iter_var string, 2 iter_range bytes, 3 accu_var string, 4 accu_init bytes, 5 loop_condition bytes, "
    "6 loop_step bytes, 7 result bytes",
}
_SCALARS = ("bool", "int", "double", "string", "bytes")


class SyntaxNode(msgspec.Struct, frozen=True):
    """A part of an expression."""


class Literal(SyntaxNode, frozen=True):
    """A constant."""

    value: Any


class Identifier(SyntaxNode, frozen=True):
    """A variable, or the name of a type."""

    name: str


class FieldSelection(SyntaxNode, frozen=True):
    """`operand.field`, or `has(operand.field)`."""

    operand: SyntaxNode
    field: str
    is_test: bool


class FunctionCall(SyntaxNode, frozen=True):
    """A call; the object of a method comes first among the arguments."""

    function: str
    args: tuple[SyntaxNode, ...]
    overload: str
    """The only overload that fits the types of the arguments; empty where more might."""
    is_method: bool = False


class ListLiteral(SyntaxNode, frozen=True):
    """`[a, ?b]`: the elements, and which of them are optional."""

    elements: tuple[SyntaxNode, ...]
    optional: frozenset[int]


class MapLiteral(SyntaxNode, frozen=True):
    """`{a: b, ?c: d}`: keys, values, and whether an entry is optional."""

    entries: tuple[tuple[SyntaxNode, SyntaxNode, bool], ...]


class Comprehension(SyntaxNode, frozen=True):
    """What a macro such as `all` becomes: a loop over a range that computes an accumulator, and a result of that."""

    variable: str
    range: SyntaxNode
    accumulator: str
    start: SyntaxNode
    condition: SyntaxNode
    step: SyntaxNode
    result: SyntaxNode

    @property
    def is_bind(self) -> bool:
        """Whether it only gives a value a name (`cel.bind`)."""
        return self.range == ListLiteral((), frozenset()) and self.condition == Literal(False)


class MessageLiteral(SyntaxNode, frozen=True):
    """A message of protobuf, which Kubernetes' objects have none of."""

    name: str


def read_tree(serialized: bytes) -> SyntaxNode:
    """Return the tree of a compiled expression, as the library serializes it."""
    messages = _messages()
    checked = messages["CheckedExpr"].FromString(messages["Any"].FromString(serialized).value)
    references = {entry.key: entry.value for entry in checked.references}
    return _Reader(messages["Expr"], references).read(checked.expr)


class _Reader:
    def __init__(self, expr: Any, references: Mapping[int, Any]) -> None:
        self._expr = expr
        self._references = references

    def read(self, data: bytes) -> SyntaxNode:
        expr = self._expr.FromString(data)
        reference = self._references.get(expr.id)
        if expr.HasField("call"):
            return self._call(expr.call, tuple(reference.overloads) if reference is not None else ())
        if expr.HasField("struct"):
            return self._struct(expr.struct)
        if reference is not None and reference.name:
            return Identifier(reference.name)  # a qualified name, too, such as that of a type
        if expr.HasField("select"):
            return FieldSelection(self.read(expr.select.operand), expr.select.field, expr.select.test_only)
        if expr.HasField("ident"):
            return Identifier(expr.ident.name)
        if expr.HasField("list"):
            return ListLiteral(tuple(map(self.read, expr.list.elements)), frozenset(expr.list.optional_indices))
        if expr.HasField("fold"):
            return self._fold(expr.fold)
        return Literal(_constant(expr.const))

    def _call(self, call: Any, overloads: tuple[str, ...]) -> SyntaxNode:
        is_method = call.HasField("target")
        args = tuple(map(self.read, (call.target, *call.args) if is_method else call.args))
        return FunctionCall(call.function, args, overloads[0] if len(overloads) == 1 else "", is_method)

    def _struct(self, struct: Any) -> SyntaxNode:
        if struct.message_name:
            return MessageLiteral(struct.message_name)
        entries = ((self.read(each.map_key), self.read(each.value), each.optional_entry) for each in struct.entries)
        return MapLiteral(tuple(entries))

    def _fold(self, fold: Any) -> SyntaxNode:
        return Comprehension(
            fold.iter_var,
            self.read(fold.iter_range),
            fold.accu_var,
            self.read(fold.accu_init),
            self.read(fold.loop_condition),
            self.read(fold.loop_step),
            self.read(fold.result),
        )


def _constant(const: Any) -> Any:
    if const.HasField("uint"):
        return Uint(const.uint)
    return next((getattr(const, kind) for kind in _SCALARS if const.HasField(kind)), None)


@cache
def _messages() -> dict[str, Any]:
    from berth.api.protobuf_messages import message_classes  # 70 ms, and most clusters have no expressions

    return message_classes("berth.cel", _TABLE)
