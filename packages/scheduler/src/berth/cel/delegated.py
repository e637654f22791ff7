"""Functions that the CEL project's library carries out itself: regular expressions, texts made of values, times read.

Regular expressions are RE2's, in its syntax and time.
"""

from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from berth.cel.values import ELEMENT, EvaluationError, TypeName, Uint, WorkCounter, keys_of, type_of

if TYPE_CHECKING:
    from cel_expr_python import cel  # type: ignore[import-untyped]

MAX_PRECISION = 1000
"""How many digits the library writes at most."""
_TEXTS = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"


def matches(text: str, pattern: str) -> bool:
    """Say whether a text has a match of a pattern. Raises `EvaluationError` for what is no pattern."""
    return bool(_asked("a.matches(b)", text, pattern))


def pattern_mistake(pattern: str) -> str:
    """Return what is wrong with a pattern; empty if nothing is."""
    try:
        matches("", pattern)
    except EvaluationError as error:
        return str(error)
    return ""


def parse_timestamp(text: str) -> datetime | None:
    """Return the moment that a text in RFC 3339's form names; None where it names none."""
    read = _read("timestamp(a)", text)
    return read if isinstance(read, datetime) else None


def parse_duration(text: str) -> timedelta | None:
    """Return the span of time that a text such as `1h2.5s` names; None where it names none."""
    read = _read("duration(a)", text)
    return read if isinstance(read, timedelta) else None


def shown(value: float | datetime | timedelta) -> str:
    """Return a double or a time as text."""
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat().removesuffix('000')}Z"
    if isinstance(value, timedelta):
        return f"{_asked('string(a)', value.total_seconds())}s"
    return str(_asked("string(a)", value))


def quoted(text: str) -> str:
    """Return a text in quotation marks."""
    return str(_asked("strings.quote(a)", text))


def formatted(text: str, args: list[Any], work: WorkCounter) -> str:
    """Return a text with a value in the place of each clause (`%s`). Raises `EvaluationError`."""
    work.grow(len(text) + len(args) * (MAX_PRECISION if "%." in text else ELEMENT))
    return str(_asked("a.format(b)", text, _plain(args, work)))


def _plain(value: Any, work: WorkCounter) -> Any:
    """Return a value as the library takes it; all that is in it is counted, and written once."""
    if isinstance(value, list):
        work.grow(len(value) * ELEMENT)
        return [_plain(each, work) for each in value]
    if isinstance(value, dict):
        work.grow(len(value) * ELEMENT)
        return {_plain(key, work): _plain(each, work) for key, each in zip(keys_of(value), value.values(), strict=True)}
    if isinstance(value, TypeName | str | bytes):
        work.grow(len(value))
        return str(value) if isinstance(value, TypeName) else value
    if isinstance(value, datetime | timedelta):
        return shown(value)
    if value is None or isinstance(value, int | float):
        return int(value) if isinstance(value, Uint) else value
    raise EvaluationError(
        f"error during formatting: string clause can only be used on {_TEXTS}, was given {type_of(value)}"
    )


def _read(function: str, text: str) -> Any:
    try:
        return _asked(function, text)
    except EvaluationError:
        return None


def _asked(text: str, a: Any, b: Any = None) -> Any:
    result = _expression(text).eval(data={"a": a, "b": b})
    if result.type().name() == "ERROR":
        told = str(result.value()).partition(": ")[2]
        raise EvaluationError(told.replace("invalid regular expression", "error parsing regexp"))
    return result.plain_value()


@cache
def _expression(text: str) -> "cel.Expression":
    from cel_expr_python import cel  # not needed before there is something to ask, and it takes memory
    from cel_expr_python.ext import ext_strings  # type: ignore[import-untyped]

    environment = cel.NewEnv(variables={"a": cel.Type.DYN, "b": cel.Type.DYN}, extensions=[ext_strings.ExtStrings()])
    return environment.compile(text)
