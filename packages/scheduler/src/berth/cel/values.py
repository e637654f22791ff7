"""Values of CEL, and what holds for all of them: types, sizes, when two are equal, which comes first.

Most are Python's own, so that JSON is a value as it was read; the others have a class here, but for versions
(`semver.py`). Integers are of 64 bits, unsigned ones are `Uint`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from berth.cel.semver import Semver

INT64 = range(-(2**63), 2**63)
UINT64 = range(2**64)
NANO = 10**9


class EvaluationError(Exception):
    """An expression fails on the values that it was given; the text says why, in upstream's words."""


ELEMENT = 64
"""As how many characters an element counts that is compared: as long as writing so many takes."""
POINTER = 8
"""As how many characters an element counts that a list is made of."""


class WorkCounter(Protocol):
    """Who counts what an evaluation does beyond what its costs say (`program.Evaluation`)."""

    def grow(self, size: int) -> None:
        """Note that so many characters are about to be made or gone through. Raises where they are too many."""

    def spend(self, steps: int) -> None:
        """Note so many microseconds' work."""


class Uint(int):
    """An unsigned integer."""


class TypeName(str):
    """A type, as a value."""


class OptionalValue(NamedTuple):
    """A value that may be there or not."""

    is_there: bool
    value: Any = None


class CelQuantity(NamedTuple):
    """An amount, in units of 1e-9."""

    nano: int


ABSENT = OptionalValue(False)
_TYPES = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    TypeName: "type",
    OptionalValue: "optional_type",
    CelQuantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    datetime: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
}
TYPES = frozenset({*_TYPES.values(), "list", "map"})
_PLAIN = frozenset({bool, bytes, float, int, str})
_ORDERED = (bool, str, bytes, datetime, timedelta)
_TRUE_KEY, _FALSE_KEY = ("key", True), ("key", False)  # Python takes booleans for 1 and 0 among the keys of a dict


def type_of(value: Any) -> TypeName:
    """Return a value's type."""
    return TypeName(_TYPES.get(type(value)) or ("list" if isinstance(value, list) else "map"))


def no_overload(function: str = "") -> EvaluationError:
    """Return the error of a function that there is not for values of these types."""
    return EvaluationError(f"no such overload: {function}" if function else "no such overload")


def size_of(value: Any) -> int:
    """Return how large a value counts: its characters, bytes, elements or entries, and 1 for what has no size."""
    kind = type(value)
    if kind is str or kind is bytes or isinstance(value, list | dict):
        return len(value)
    return size_of(value.value) if kind is OptionalValue and value.is_there else 1


def is_number(value: Any) -> bool:
    """Say whether a value is an integer or a double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_key(value: Any) -> Any:
    """Return what stands for a value among the keys of a dict. Raises `EvaluationError` for what is never a key."""
    if isinstance(value, bool):
        return _TRUE_KEY if value else _FALSE_KEY
    if type(value) is str or is_number(value):
        return value
    raise EvaluationError(f"unsupported key type: {type_of(value)}")


def keys_of(entries: Mapping[Any, Any]) -> Iterable[Any]:
    """Return the keys of a map as values."""
    return (key[1] if type(key) is tuple else key for key in entries)


def equal(one: Any, other: Any, work: WorkCounter) -> bool:
    """Say whether two values are equal. Numbers of any type may be, other values of different types never are.

    All that is inside of lists and maps counts as work: a short expression can make a list that holds another many
    times over, and that another.
    """
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        work.grow(len(one) * ELEMENT)
        pairs = zip(one, other, strict=True)
        return all(a == b if type(a) is type(b) in _PLAIN else equal(a, b, work) for a, b in pairs)
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        work.grow(len(one) * ELEMENT)
        return all(key in other and equal(value, other[key], work) for key, value in one.items())
    if type(one) is OptionalValue and type(other) is OptionalValue:
        return one.is_there == other.is_there and equal(one.value, other.value, work)
    return bool(one == other) and (type(one) is type(other) or (is_number(one) and is_number(other)))


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1. Raises `EvaluationError` where values have no order."""
    if is_number(one) and is_number(other):
        if one != one or other != other:  # which only NaN is
            raise EvaluationError("NaN values cannot be ordered")
    elif type(one) is not type(other) or not isinstance(one, _ORDERED):
        raise no_overload()
    return int(one > other) - int(one < other)
