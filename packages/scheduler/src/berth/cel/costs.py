"""What calls cost in upstream's units, of which a million take a tenth of a second there.

What all else costs (variables, fields, lists, loops) is in `program.py`. A call of a function that is not here costs 1.
Source: cel-go's interpreter/runtimecost.go and k8s.io/apiserver/pkg/cel/library/cost.go, v1.36.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from berth.cel.values import size_of

CallCost = Callable[..., int]
VARIABLE_COST = 1
FIELD_COST = 1
LIST_COST = 10
MAP_COST = 30
PER_CHARACTER = 0.1
PER_PATTERN_CHARACTER = 0.25


def traversal(size: int, times: int = 1) -> int:
    """Return what going through so many characters costs."""
    return math.ceil(size * times * PER_CHARACTER)


def _of_first(*args: Any) -> int:
    return traversal(size_of(args[0]))


def _of_both(one: Any, other: Any) -> int:
    return traversal(size_of(one) + size_of(other))


def _of_smaller(one: Any, other: Any) -> int:
    return traversal(min(size_of(one), size_of(other)))


def _rebuilt(*args: Any) -> int:
    return traversal(size_of(args[0]), 2)


def _joined(group: Any, separator: Any = "") -> int:
    texts = group if isinstance(group, list) else ()
    return traversal(sum(map(size_of, texts)) + size_of(separator) * max(len(texts) - 1, 0), 2)


def _matched(text: Any, pattern: Any) -> int:
    return traversal(1 + size_of(text)) * math.ceil(size_of(pattern) * PER_PATTERN_CHARACTER)


def _searched(text: Any, part: Any) -> int:
    return traversal(size_of(text)) * traversal(size_of(part))


def _gone_through(*args: Any) -> int:
    return int(len(args[0].encode()) * PER_CHARACTER) if isinstance(args[0], str) else 1


def _listed(_value: Any, group: Any) -> int:
    return size_of(group)


_BY_FUNCTION: Mapping[str, CallCost] = MappingProxyType(
    {
        "_==_": _of_smaller,
        "_!=_": _of_smaller,
        "startsWith": _of_first,
        "endsWith": _of_first,
        "contains": _searched,
        "strings.quote": _of_first,
        "format": _of_first,
        "indexOf": _gone_through,
        "lastIndexOf": _gone_through,
        "lowerAscii": _of_first,
        "upperAscii": _of_first,
        "substring": _of_first,
        "trim": _of_first,
        "replace": _rebuilt,
        "split": _rebuilt,
        "join": _joined,
        "quantity": _of_first,
        "isQuantity": _of_first,
        "semver": _of_first,
        "isSemver": _of_first,
    }
)
# These cost more than 1 only where the compiler knows the types of their arguments: overload -> cost.
_BY_OVERLOAD: Mapping[str, CallCost] = MappingProxyType(
    {
        "add_string": _of_both,
        "add_bytes": _of_both,
        "in_list": _listed,
        "matches_string": _matched,
        "string_to_bytes": _of_first,
        "bytes_to_string": _of_first,
        **{f"{order}_{kind}": _of_smaller for kind in ("string", "bytes") for order in
           ("less", "less_equals", "greater", "greater_equals")},
    }
)  # fmt: skip
# The same where the compiler knows no types: function -> type of the first argument -> cost.
_BY_TYPE: Mapping[str, Mapping[type, CallCost]] = MappingProxyType(
    {
        "_+_": {str: _of_both, bytes: _of_both},
        **{order: {str: _of_smaller, bytes: _of_smaller} for order in ("_<_", "_<=_", "_>_", "_>=_")},
        "bytes": {str: _of_first},
        "string": {bytes: _of_first},
    }
)


def _by_type(function: str) -> CallCost | None:
    if function == "@in":
        return lambda value, group: _listed(value, group) if isinstance(group, list) else 1
    costs = _BY_TYPE.get(function)
    return None if costs is None else lambda *args: costs[type(args[0])](*args) if type(args[0]) in costs else 1


def call_cost(function: str, overload: str, *, types_are_known: bool) -> CallCost | None:
    """Return the function that says what a call with given arguments costs; None where it always costs 1.

    `types_are_known` says whether the compiler was told the types of all variables, as upstream's is.
    """
    found = _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(overload)
    return _by_type(function) if found is None and not overload and not types_are_known else found
