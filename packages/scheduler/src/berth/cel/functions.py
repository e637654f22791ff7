"""What functions do: CEL's own, those of its strings library, and Kubernetes' for quantities and versions.

Each takes the evaluation, which counts how large values become, and values; it returns a value or raises
`EvaluationError`, in upstream's words. Logic, selection and loops are in `program.py`, costs in `costs.py`.
Source: the CEL specification, cel-go's common/types and ext, and k8s.io/apiserver/pkg/cel/library, v1.36.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from berth.api.quantity import QuantityError, nano_value
from berth.cel.delegated import formatted, matches, parse_duration, parse_timestamp, quoted, shown
from berth.cel.semver import Semver, SemverError, normalized, parse_semver
from berth.cel.times import PARTS, in_years, part_of_time
from berth.cel.values import (
    ABSENT,
    ELEMENT,
    INT64,
    NANO,
    POINTER,
    UINT64,
    CelQuantity,
    EvaluationError,
    OptionalValue,
    Uint,
    WorkCounter,
    as_key,
    compare,
    equal,
    no_overload,
    type_of,
)

Function = Callable[..., Any]
STEPS_TO_ASK = 7
"""How many microseconds it takes to have the library do something."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)
_TRUE, _FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


class GrowingList(list[Any]):
    """A list that a macro is still adding to, which only it knows of."""


# Arithmetic


def _add(work: WorkCounter, one: Any, other: Any) -> Any:
    if type(one) is GrowingList and isinstance(other, list):
        one += other
        return one
    if isinstance(one, list) and isinstance(other, list):
        work.grow((len(one) + len(other)) * POINTER)
        return one + other
    if type(one) is type(other) and type(one) in (str, bytes):
        work.grow(len(one) + len(other))
        return one + other
    if isinstance(one, timedelta) and isinstance(other, datetime | timedelta):
        return in_years(lambda: other + one)
    if isinstance(one, datetime) and isinstance(other, timedelta):
        return in_years(lambda: one + other)
    return _number("_+_", operator.add, one, other)


def _subtract(_work: WorkCounter, one: Any, other: Any) -> Any:
    if isinstance(one, datetime) and isinstance(other, datetime | timedelta):
        return in_years(lambda: one - other)
    if isinstance(one, timedelta) and isinstance(other, timedelta):
        return in_years(lambda: one - other)
    return _number("_-_", operator.sub, one, other)


def _number(name: str, does: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    kind = type(one)
    if kind is not type(other) or kind not in (int, Uint, float):
        raise no_overload() if kind in (int, Uint, float, str, bytes, datetime, timedelta) else no_overload(name)
    made = does(one, other)
    return made if kind is float else _in_range(kind, made)


def _in_range(kind: type, made: int) -> int:
    if kind is Uint:
        if made not in UINT64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(made)
    if made not in INT64:
        raise EvaluationError("integer overflow")
    return made


def _multiply(_work: WorkCounter, one: Any, other: Any) -> Any:
    return _number("_*_", operator.mul, one, other)


def _divide(_work: WorkCounter, one: Any, other: Any) -> Any:
    if isinstance(one, float) and isinstance(other, float):
        if other == 0:
            return math.nan if one == 0 or math.isnan(one) else math.copysign(math.inf, one) * math.copysign(1, other)
        return one / other
    return _number("_/_", lambda a, b: _quotient(a, b, "division"), one, other)


def _modulo(_work: WorkCounter, one: Any, other: Any) -> Any:
    if isinstance(one, float):
        raise no_overload("_%_")
    return _number("_%_", lambda a, b: a - _quotient(a, b, "modulus") * b, one, other)


def _quotient(one: int, other: int, operation: str) -> int:
    if other == 0:
        raise EvaluationError(f"{operation} by zero")
    whole = abs(one) // abs(other)
    return whole if (one < 0) == (other < 0) else -whole


def _negate(_work: WorkCounter, value: Any) -> Any:
    if type(value) is float:
        return -value
    if type(value) is int:
        return _in_range(int, -value)
    if isinstance(value, timedelta):
        return in_years(lambda: -value)
    raise no_overload("-_")


def _not(_work: WorkCounter, value: Any) -> bool:
    if value is True or value is False:
        return not value
    raise no_overload("!_")


def _ordered(accepts: Callable[[int, int], bool]) -> Function:
    return lambda _work, one, other: accepts(compare(one, other), 0)


def _in(work: WorkCounter, value: Any, group: Any) -> bool:
    if isinstance(group, list):
        work.grow(len(group) * ELEMENT)
        return any(equal(value, each, work) for each in group)
    if isinstance(group, dict):
        return as_key(value) in group
    raise no_overload("@in")


# Conversions


def _failed(value: Any, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_of(value)}' to '{wanted}'")


def _int(_work: WorkCounter, value: Any) -> int:
    if type(value) in (int, Uint):
        return _in_range(int, int(value))
    if isinstance(value, float):
        return _in_range(int, _truncated(value, "integer overflow"))
    if isinstance(value, datetime):
        return math.floor(value.timestamp())
    if isinstance(value, timedelta):
        return _in_range(int, value // timedelta(microseconds=1) * 1000)
    if type(value) is str and len(value) < 30 and _INTEGER.fullmatch(value) and int(value) in INT64:
        return int(value)
    raise _failed(value, "int")


def _uint(_work: WorkCounter, value: Any) -> Uint:
    if type(value) in (int, Uint):
        return Uint(_in_range(Uint, int(value)))
    if isinstance(value, float):
        return Uint(_in_range(Uint, _truncated(value, "unsigned integer overflow")))
    if type(value) is str and len(value) < 30 and value.isascii() and value.isdigit() and int(value) in UINT64:
        return Uint(value)
    raise _failed(value, "uint")


def _truncated(value: float, overflow: str) -> int:
    # Doubles next to the bounds are refused, as upstream does to be sure.
    if not -(2**63) < value < 2**64 or (overflow == "integer overflow" and value >= 2**63):
        raise EvaluationError(overflow)
    return int(value)


def _to_double(_work: WorkCounter, value: Any) -> float:
    if type(value) in (int, Uint, float) or (type(value) is str and len(value) < 1000 and _DECIMAL.fullmatch(value)):
        return float(value)
    raise _failed(value, "double")


def _string(work: WorkCounter, value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float | datetime | timedelta):
        work.spend(STEPS_TO_ASK)
        return shown(value)
    if isinstance(value, bytes):
        work.grow(len(value))
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    raise _failed(value, "string")


def _bytes(work: WorkCounter, value: Any) -> bytes:
    if type(value) is str:
        work.grow(4 * len(value))
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise _failed(value, "bytes")


def _bool(_work: WorkCounter, value: Any) -> bool:
    if value is True or (type(value) is str and value in _TRUE):
        return True
    if value is False or (type(value) is str and value in _FALSE):
        return False
    raise _failed(value, "bool")


def _timestamp(work: WorkCounter, value: Any) -> datetime:
    work.spend(STEPS_TO_ASK)
    if isinstance(value, datetime):
        return value
    if type(value) is int:
        moment: datetime = in_years(lambda: _EPOCH + timedelta(seconds=value))
        return moment
    found = parse_timestamp(value) if type(value) is str else None
    if found is None:
        raise _failed(value, "google.protobuf.Timestamp")
    return found


def _duration(work: WorkCounter, value: Any) -> timedelta:
    work.spend(STEPS_TO_ASK)
    if isinstance(value, timedelta):
        return value
    if type(value) is int:
        return timedelta(microseconds=value // 1000)
    found = parse_duration(value) if type(value) is str else None
    if found is None:
        raise _failed(value, "google.protobuf.Duration")
    return found


def _part_of_time(name: str) -> Function:
    return lambda _work, value, *zone: part_of_time(name, value, *zone)


# Texts and lists


def _size(_work: WorkCounter, value: Any) -> int:
    if type(value) in (str, bytes) or isinstance(value, list | dict):
        return len(value)
    raise no_overload("size")


def _text(name: str, does: Callable[..., Any], *kinds: type) -> Function:
    """Return a function of a text and of arguments of these types, the last of which may be left out."""

    def call(work: WorkCounter, text: Any, *args: Any) -> Any:
        if type(text) is not str or any(type(arg) is not kind for arg, kind in zip(args, kinds, strict=False)):
            raise no_overload(name)
        return does(work, text, *args)

    return call


def _matches(work: WorkCounter, text: str, pattern: str) -> bool:
    work.spend(STEPS_TO_ASK)
    return matches(text, pattern)


def _char_at(_work: WorkCounter, text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(_work: WorkCounter, text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise EvaluationError(f"index out of range: {index}")
    return text[start:last]


def _index_of(_work: WorkCounter, text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return text.find(part, offset)


def _last_index_of(_work: WorkCounter, text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else offset
    if offset is None or offset >= len(text):
        return text.rfind(part) if offset is None else -1
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part))


def _replace(work: WorkCounter, text: str, old: str, new: str, limit: int = -1) -> str:
    times = text.count(old)
    times = times if limit < 0 else min(times, limit)
    work.grow(max(len(text) + times * (len(new) - len(old)), 0))
    return text.replace(old, new, times)


def _split(work: WorkCounter, text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    work.grow(len(text) + 2 * POINTER * (text.count(separator) + 1))
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    first = len(text) if limit < 0 else limit - 1
    return [*text[:first], *filter(None, [text[first:]])]


def _join(work: WorkCounter, group: Any, separator: Any = "") -> str:
    if not isinstance(group, list) or type(separator) is not str:
        raise no_overload("join")
    for each in group:
        if type(each) is not str:
            raise EvaluationError(f"join: invalid input: {_shown(each)}")
    work.grow(sum(map(len, group)) + len(separator) * len(group))
    return separator.join(group)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)[:100]


def _quote(work: WorkCounter, text: str) -> str:
    work.spend(STEPS_TO_ASK)
    work.grow(2 * len(text))
    return quoted(text)


def _format(work: WorkCounter, text: Any, args: Any) -> str:
    if type(text) is not str or not isinstance(args, list):
        raise no_overload("format")
    work.spend(STEPS_TO_ASK)
    return formatted(text, args, work)


# Optional values


def _value(_work: WorkCounter, optional: Any) -> Any:
    if not isinstance(optional, OptionalValue):
        raise no_overload("value")
    if not optional.is_there:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _has_value(_work: WorkCounter, optional: Any) -> bool:
    if not isinstance(optional, OptionalValue):
        raise no_overload("hasValue")
    return optional.is_there


def _of_non_zero(_work: WorkCounter, value: Any) -> OptionalValue:
    is_zero = value is None or value in (timedelta(0), ABSENT)
    if isinstance(value, int | float | str | bytes | list | dict):
        is_zero = not value
    return ABSENT if is_zero else OptionalValue(True, value)


def _end_of_list(name: str, index: int) -> Function:
    def end(_work: WorkCounter, group: Any) -> OptionalValue:
        if not isinstance(group, list):
            raise no_overload(name)
        return OptionalValue(True, group[index]) if group else ABSENT

    return end


# Quantities and versions


def _quantity(_work: WorkCounter, text: Any) -> CelQuantity:
    if type(text) is not str:
        raise no_overload("quantity")
    try:
        return CelQuantity(nano_value(text))
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _semver(_work: WorkCounter, text: Any, normalize: Any = False) -> Semver:
    if type(text) is not str:
        raise no_overload("semver")
    try:
        return parse_semver(normalized(text) if normalize else text)
    except SemverError as error:
        raise EvaluationError(str(error)) from None


def _is(parse: Function) -> Function:
    def check(work: WorkCounter, *args: Any) -> bool:
        try:
            parse(work, *args)
        except EvaluationError:
            return False
        return True

    return check


def _comparison(name: str, says: Callable[[int], Any]) -> Function:
    def call(_work: WorkCounter, one: Any, other: Any) -> Any:
        if type(one) is not type(other) or not isinstance(one, CelQuantity | Semver):
            raise no_overload(name)
        return says((one > other) - (one < other))

    return call


def _of_quantity(name: str, does: Callable[..., Any]) -> Function:
    def call(_work: WorkCounter, quantity: Any, *args: Any) -> Any:
        if not isinstance(quantity, CelQuantity) or not all(type(arg) in (int, CelQuantity) for arg in args):
            raise no_overload(name)
        return does(quantity.nano, *(arg.nano if isinstance(arg, CelQuantity) else arg * NANO for arg in args))

    return call


def _as_integer(nano: int) -> int:
    whole, rest = divmod(nano, NANO)
    if rest or whole not in INT64:
        raise EvaluationError("cannot convert value to integer")
    return whole


def _of_version(name: str) -> Function:
    def call(_work: WorkCounter, version: Any) -> Any:
        if not isinstance(version, Semver):
            raise no_overload(name)
        return getattr(version, name)

    return call


FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "_+_": _add,
        "_-_": _subtract,
        "_*_": _multiply,
        "_/_": _divide,
        "_%_": _modulo,
        "-_": _negate,
        "!_": _not,
        "_==_": lambda work, one, other: equal(one, other, work),
        "_!=_": lambda work, one, other: not equal(one, other, work),
        "_<_": _ordered(operator.lt),
        "_<=_": _ordered(operator.le),
        "_>_": _ordered(operator.gt),
        "_>=_": _ordered(operator.ge),
        "@in": _in,
        "int": _int,
        "uint": _uint,
        "double": _to_double,
        "string": _string,
        "bytes": _bytes,
        "bool": _bool,
        "dyn": lambda _work, value: value,
        "type": lambda _work, value: type_of(value),
        "timestamp": _timestamp,
        "duration": _duration,
        **{name: _part_of_time(name) for name in PARTS},
        "size": _size,
        "contains": _text("contains", lambda _work, text, part: part in text, str),
        "startsWith": _text("startsWith", lambda _work, text, part: text.startswith(part), str),
        "endsWith": _text("endsWith", lambda _work, text, part: text.endswith(part), str),
        "matches": _text("matches", _matches, str),
        "charAt": _text("charAt", _char_at, int),
        "indexOf": _text("indexOf", _index_of, str, int),
        "lastIndexOf": _text("lastIndexOf", _last_index_of, str, int),
        "lowerAscii": _text("lowerAscii", lambda _work, text: text.translate(_LOWER)),
        "upperAscii": _text("upperAscii", lambda _work, text: text.translate(_UPPER)),
        "replace": _text("replace", _replace, str, str, int),
        "split": _text("split", _split, str, int),
        "substring": _text("substring", _substring, int, int),
        "trim": _text("trim", lambda _work, text: text.strip(_SPACE)),
        "join": _join,
        "strings.quote": _text("strings.quote", _quote),
        "format": _format,
        "optional.of": lambda _work, value: OptionalValue(True, value),
        "optional.none": lambda _work: ABSENT,
        "optional.ofNonZeroValue": _of_non_zero,
        "value": _value,
        "hasValue": _has_value,
        "first": _end_of_list("first", 0),
        "last": _end_of_list("last", -1),
        "quantity": _quantity,
        "isQuantity": _is(_quantity),
        "semver": _semver,
        "isSemver": _is(_semver),
        "isGreaterThan": _comparison("isGreaterThan", lambda order: order > 0),
        "isLessThan": _comparison("isLessThan", lambda order: order < 0),
        "compareTo": _comparison("compareTo", lambda order: order),
        "sign": _of_quantity("sign", lambda nano: (nano > 0) - (nano < 0)),
        "asApproximateFloat": _of_quantity("asApproximateFloat", lambda nano: nano / NANO),
        "asInteger": _of_quantity("asInteger", _as_integer),
        "isInteger": _of_quantity("isInteger", lambda nano: nano % NANO == 0 and nano // NANO in INT64),
        "add": _of_quantity("add", lambda nano, other: CelQuantity(nano + other)),
        "sub": _of_quantity("sub", lambda nano, other: CelQuantity(nano - other)),
        "major": _of_version("major"),
        "minor": _of_version("minor"),
        "patch": _of_version("patch"),
    }
)
