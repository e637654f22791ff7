"""What an expression may cost at most, told before it is evaluated: what an API server refuses expressions by.

A syntax tree comes in, and the shapes of its variables, in which lengths have bounds; an amount in the units of
`costs.py` comes out. As upstream does, values are followed by their *paths*: the fields, items, keys and values that
lead to them from a variable, by which bounds are looked up. What has no bound is estimated beyond all limits.
Source: cel-go's checker/cost.go (v0.26) and k8s.io/apiserver/pkg/cel/library/cost.go (v1.36), oddities included.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from berth.cel.costs import FIELD_COST, LIST_COST, MAP_COST, PER_CHARACTER, PER_PATTERN_CHARACTER, VARIABLE_COST
from berth.cel.syntax import (
    Comprehension,
    FieldSelection,
    FunctionCall,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    SyntaxNode,
)
from berth.cel.times import PARTS
from berth.cel.values import size_of, type_of

BEYOND = 2**64 - 1
"""What stands for all that is larger."""
MESSAGE_COST = 40
ITEMS, KEYS, VALUES = "@items", "@keys", "@values"
Path = tuple[str, ...]


class Shape(msgspec.Struct, frozen=True):
    """What is known of the values of a variable or field, or of what an expression gives."""

    kind: str
    """`int`, `string`, `list`, `map`, `object`, `dyn` …"""
    most: int = 0
    """How many characters, elements or entries it has at most."""
    element: "Shape | None" = None
    key: "Shape | None" = None
    fields: Mapping[str, "Shape"] = MappingProxyType({})
    names_elements: bool = False
    """Whether a map's entries may be selected as fields are."""


class Size(NamedTuple):
    """From how large to how large a value is."""

    least: int
    most: int


class _Entries(NamedTuple):
    """How large what is in a list or map is."""

    kind: str
    keys: Size
    values: Size


class _Estimate(NamedTuple):
    """What is known of an expression."""

    cost: int
    shape: Shape
    size: Size | None = None
    entries: _Entries | None = None
    path: Path = ()

    @property
    def bounds(self) -> Size:
        """The size, known or not."""
        return self.size or UNKNOWN


UNKNOWN = Size(0, BEYOND)
_ONE = Size(1, 1)
_DYN, _BOOL, _INT, _STRING = (Shape(kind) for kind in ("dyn", "bool", "int", "string"))
_SCALARS = frozenset(
    {"bool", "double", "int", "uint", "google.protobuf.Timestamp", "google.protobuf.Duration"}
)  # fmt: skip
_FIXED = frozenset({"kubernetes.Quantity", "kubernetes.Semver"})
_ORDERS = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
# type -> the functions that give values of it, beside those whose result depends on their arguments
_GIVING = {
    "string": "charAt format join lowerAscii replace string strings.quote substring trim upperAscii",
    "int": "asInteger compareTo indexOf int lastIndexOf major minor patch sign size " + " ".join(PARTS),
    "double": "asApproximateFloat double",
    "kubernetes.Quantity": "add quantity sub",
    "kubernetes.Semver": "semver",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    **{kind: kind for kind in ("bytes", "type", "uint")},
}
_RESULTS = MappingProxyType({name: Shape(kind) for kind, names in _GIVING.items() for name in names.split()})


def estimated_cost(tree: SyntaxNode, variables: Mapping[str, Shape], root: Shape, root_name: str = "") -> int:
    """Return the most that an expression may cost.

    Paths lead to bounds from the shape of the root, if they begin with its name; they all do where it has none.
    """
    return _Estimator(variables, root, root_name).visit(tree).cost


def plus(*costs: int) -> int:
    """Return a sum, or `BEYOND`."""
    return min(sum(costs), BEYOND)


def times(one: int, other: int) -> int:
    """Return a product, or `BEYOND`."""
    return min(one * other, BEYOND)


def _traversal(size: int, factor: float = PER_CHARACTER) -> int:
    cost = math.ceil(float(size) * factor)
    return min(cost, BEYOND)


def _sum(one: Size, other: Size) -> Size:
    return Size(plus(one.least, other.least), plus(one.most, other.most))


def _either(one: Size, other: Size) -> Size:
    return Size(min(one.least, other.least), max(one.most, other.most))


def _either_entries(one: _Entries | None, other: _Entries | None) -> _Entries | None:
    if one is None or other is None:
        return None
    return _Entries(one.kind, _either(one.keys, other.keys), _either(one.values, other.values))


class _Estimator:
    def __init__(self, variables: Mapping[str, Shape], root: Shape, root_name: str) -> None:
        self._variables = variables
        self._root = root
        self._root_name = root_name
        self._scope: dict[str, _Estimate] = {}

    def visit(self, node: SyntaxNode) -> _Estimate:
        """Estimate an expression."""
        if isinstance(node, Literal):
            return _Estimate(0, Shape(type_of(node.value)), Size(size_of(node.value), size_of(node.value)))
        if isinstance(node, Identifier):
            return self._identifier(node)
        if isinstance(node, FieldSelection):
            return self._field(node)
        if isinstance(node, FunctionCall):
            return self._call(node)
        if isinstance(node, ListLiteral):
            return self._list(node)
        if isinstance(node, MapLiteral):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._bind(node) if node.is_bind else self._loop(node)
        return _Estimate(MESSAGE_COST, _DYN)

    # Variables and fields

    def _identifier(self, node: Identifier) -> _Estimate:
        local = self._scope.get(node.name)
        if local is None:
            return self._at((node.name,), VARIABLE_COST, self._variables.get(node.name))
        found = self._at(local.path, VARIABLE_COST, local.shape)
        return found._replace(size=found.size or local.size, entries=local.entries)

    def _field(self, node: FieldSelection) -> _Estimate:
        operand = self.visit(node.operand)
        if node.is_test:
            return _Estimate(operand.cost, _BOOL, _ONE)
        shape = operand.shape.fields.get(node.field) or operand.shape.element or _DYN
        cost = FIELD_COST if operand.shape.kind in ("map", "object") else 0
        return self._at((*operand.path, node.field), plus(operand.cost, cost), shape)

    def _at(self, path: Path, cost: int, shape: Shape | None = None) -> _Estimate:
        """Estimate what a path leads to."""
        declared = self._declared(path)
        shape = shape or declared or _DYN
        size = None if declared is None else Size(0, declared.most)
        return _Estimate(cost, shape, size or _size_of_type(shape), None, path)

    def _declared(self, path: Path) -> Shape | None:
        if not path or (self._root_name and path[0] != self._root_name):
            return None
        found: Shape | None = self._root
        for name in path[1:]:
            if found is None:
                return None
            if name in (ITEMS, VALUES):
                found = found.element
            elif name == KEYS:
                found = found.key
            else:
                found = found.fields.get(name) or (found.element if found.names_elements else None)
        return found

    # Calls

    def _call(self, node: FunctionCall) -> _Estimate:
        name = node.function
        args = [self.visit(each) for each in node.args]
        costs = plus(*(arg.cost for arg in args))
        if name == "dyn":
            return args[0]._replace(cost=plus(costs, 1), shape=_DYN, path=())
        if name == "_?_:_":
            condition, one, other = args
            cost = plus(condition.cost, max(one.cost, other.cost))
            shape = _DYN if "dyn" in (one.shape.kind, other.shape.kind) else max(one.shape, other.shape, key=_known)
            size = _either(one.bounds, other.bounds)
            return _Estimate(cost, shape, size, _either_entries(one.entries, other.entries))
        if name in ("_&&_", "_||_"):
            return _Estimate(costs, _BOOL, _ONE)
        if name == "_[_]":
            return self._index(args[0], plus(costs, 1))
        called = self._joined(args) if name == "join" else _called(node, args)
        shape = _result_shape(name, args)
        entries = _either_entries(args[0].entries, args[1].entries) if name == "_+_" else None
        return _Estimate(plus(costs, called[0]), shape, called[1] or _size_of_type(shape), entries)

    def _index(self, group: _Estimate, cost: int) -> _Estimate:
        path = (*group.path, ITEMS if group.shape.kind == "list" else VALUES)
        found = self._at(path, cost, group.shape.element)
        return found if group.entries is None else found._replace(size=group.entries.values)

    def _joined(self, args: Sequence[_Estimate]) -> tuple[int, Size]:
        """The size of texts in a list is known only where they are declared."""
        group = args[0]
        text = self._declared((*group.path, ITEMS)) if group.path else None
        most = times(group.bounds.most, BEYOND if text is None else text.most)
        if len(args) > 1:
            most = plus(most, times(args[1].bounds.most, max(group.bounds.most - 1, 0)))
        return _traversal(most), Size(0, most)

    # Lists, maps, loops

    def _list(self, node: ListLiteral) -> _Estimate:
        elements = [self.visit(each) for each in node.elements]
        within = _Entries("list", _ONE, _of_all(elements))
        cost = plus(LIST_COST, *(each.cost for each in elements))
        shape = Shape("list", element=elements[0].shape if elements else _DYN)
        return _Estimate(cost, shape, Size(len(elements), len(elements)), within)

    def _map(self, node: MapLiteral) -> _Estimate:
        keys = [self.visit(key) for key, _, _ in node.entries]
        values = [self.visit(value) for _, value, _ in node.entries]
        within = _Entries("map", _of_all(keys), _of_all(values))
        cost = plus(MAP_COST, *(each.cost for each in (*keys, *values)))
        shape = Shape("map", key=keys[0].shape if keys else _DYN, element=values[0].shape if values else _DYN)
        return _Estimate(cost, shape, Size(len(keys), len(keys)), within)

    def _bind(self, node: Comprehension) -> _Estimate:
        start = self.visit(node.start)
        result = self._with({node.accumulator: start}, node.result)
        return result._replace(cost=plus(LIST_COST, start.cost, result.cost), path=())

    def _loop(self, node: Comprehension) -> _Estimate:
        group, start = self.visit(node.range), self.visit(node.start)
        is_list = (group.entries.kind if group.entries is not None else group.shape.kind) == "list"
        inside = None if group.entries is None else group.entries.values if is_list else group.entries.keys
        shape = (group.shape.element if is_list else group.shape.key) or _DYN
        variable = _Estimate(0, shape, inside, None, (*group.path, ITEMS if is_list else KEYS))
        names = {node.accumulator: start, node.variable: variable}
        turn = plus(self._with(names, node.condition).cost, (step := self._with(names, node.step)).cost)
        made = start if start.shape.kind != "list" else start._replace(shape=step.shape)
        result = self._with({node.accumulator: made}, node.result)
        cost = plus(group.cost, start.cost, result.cost, times(group.bounds.most, turn))
        size = start.size if isinstance(node.start, Literal) else group.bounds
        return _Estimate(cost, result.shape, size, None if isinstance(node.start, Literal) else step.entries)

    def _with(self, names: Mapping[str, _Estimate], node: SyntaxNode) -> _Estimate:
        outer = self._scope
        self._scope = {**outer, **names}
        try:
            return self.visit(node)
        finally:
            self._scope = outer


def _of_all(parts: Sequence[_Estimate]) -> Size:
    sizes = [part.bounds for part in parts]
    return Size(min((size.least for size in sizes), default=0), max((size.most for size in sizes), default=0))


def _size_of_type(shape: Shape) -> Size | None:
    if shape.kind == "optional_type" and shape.element is not None:
        return _size_of_type(shape.element)
    return _ONE if shape.kind in _SCALARS else None


def _result_shape(name: str, args: Sequence[_Estimate]) -> Shape:
    if name in _RESULTS:
        return _RESULTS[name]
    if name == "split":
        return Shape("list", element=_STRING)
    if name in ("_+_", "_-_", "_*_", "_/_", "_%_", "-_"):
        return max((arg.shape for arg in args), key=_known)
    if name in ("optional.of", "optional.ofNonZeroValue", "_?._", "_[?_]", "first", "last"):
        inside = args[0].shape if name.startswith("optional") else args[0].shape.element or _DYN
        return Shape("optional_type", element=inside)
    if name in ("value", "orValue"):
        return args[0].shape.element or _DYN
    if name == "or":
        return args[0].shape
    return Shape("optional_type", element=_DYN) if name == "optional.none" else _BOOL


def _known(shape: Shape) -> int:
    """Return how much is known: a list of anything may be the empty list, to which a macro adds."""
    return 0 if shape.kind == "dyn" else 1 if shape.element is not None and shape.element.kind == "dyn" else 2


def _called(node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    """Return what a call costs beside its arguments, and how large its result is, if that is known."""
    known = _BY_FUNCTION.get(node.function)
    if known is not None:
        return known(node, args)
    kinds = {arg.shape.kind for arg in args}
    if node.function in ("_==_", "_!=_", *_ORDERS):
        if node.function == "_==_" and len(kinds) == 1 and kinds <= _FIXED:
            return 1, None
        compared = _traversal(min(arg.bounds.most for arg in args))
        if node.function not in _ORDERS or kinds <= {"string", "bytes"}:
            return compared, None
        return (max(1, compared) if kinds <= {"dyn", "string", "bytes"} else 1), None
    if node.function == "_+_":
        return _added(args, kinds)
    return 1, None


def _added(args: Sequence[_Estimate], kinds: set[str]) -> tuple[int, Size | None]:
    size = _sum(args[0].bounds, args[1].bounds)
    if kinds & {"string", "bytes"}:
        return _traversal(size.most), size
    if "list" in kinds:
        return 1, size
    return (max(1, _traversal(size.most)), size) if kinds == {"dyn"} else (1, None)


_Call = Callable[[FunctionCall, Sequence[_Estimate]], tuple[int, Size | None]]


def _same_size(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    return _traversal(args[0].bounds.most), args[0].bounds


def _through(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    return _traversal(args[0].bounds.most), None


def _through_argument(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    return _traversal(args[1].bounds.most), None


def _contains(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    return times(_traversal(args[0].bounds.most), _traversal(args[1].bounds.most)), None


def _matches(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    text = _traversal(plus(args[0].bounds.most, 1))
    return times(text, _traversal(args[1].bounds.most, PER_PATTERN_CHARACTER)), None


def _in(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    return (1 if args[1].shape.kind == "map" else args[1].bounds.most), None


def _to_bytes(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    size = args[0].bounds
    if args[0].shape.kind not in ("string", "dyn"):
        return 1, None
    return _traversal(size.most), Size(size.least, times(size.most, 4))


def _to_string(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    size = args[0].bounds
    if args[0].shape.kind not in ("bytes", "dyn"):
        return 1, None
    return max(1, _traversal(size.most)), Size(size.least // 4, size.most)


def _quoted(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    size = args[0].bounds
    return _traversal(size.most), Size(plus(size.least, 2), plus(times(size.most, 2), 2))


def _replaced(_node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    text, old, new = (arg.bounds for arg in args[:3])
    if old.least == 0:  # then the new text may stand around every character
        most = plus(times(plus(text.most, 1), new.most), text.most)
    elif new.most <= old.least:
        most = text.most
    else:
        most = times(math.ceil(text.most / old.least), new.most)
    if old.most == 0:
        least = plus(times(plus(text.least, 1), new.least), text.least)
    elif old.most <= new.least:
        least = text.least
    else:
        least = times(math.ceil(text.least / old.most), new.least)
    return _traversal(text.most, 2 * PER_CHARACTER), Size(least, most)


def _split(node: FunctionCall, args: Sequence[_Estimate]) -> tuple[int, Size | None]:
    limit = node.args[2] if len(node.args) > 2 else None
    most = args[0].bounds.most
    if isinstance(limit, Literal) and isinstance(limit.value, int):
        most = limit.value % 2**64
    return _traversal(args[0].bounds.most, 2 * PER_CHARACTER), Size(0, most)


_BY_FUNCTION: Mapping[str, _Call] = MappingProxyType(
    {
        **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_size),
        **dict.fromkeys(("indexOf", "lastIndexOf", "quantity", "isQuantity", "semver", "isSemver", "format"), _through),
        **dict.fromkeys(("startsWith", "endsWith"), _through_argument),
        "contains": _contains,
        "matches": _matches,
        "@in": _in,
        "bytes": _to_bytes,
        "string": _to_string,
        "strings.quote": _quoted,
        "replace": _replaced,
        "split": _split,
    }
)
