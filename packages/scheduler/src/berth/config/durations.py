"""Durations as Go writes them (`1h2m3s`, `1.5s`, `300ms`), the form of every metav1.Duration and duration flag.

Documents and flags are read with `parse_duration_s` and written with `format_duration_s`; structs of plugin
args that hold a duration declare the field as `Duration`, which the strict decoder reads and
`--write-config-to` writes.
"""

import re
from fractions import Fraction
from typing import Final

_UNIT_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_TERM: Final = r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?P<unit>ns|us|µs|μs|ms|s|m|h)"
_TERMS: Final = re.compile(_TERM)
_WHOLE: Final = re.compile(rf"(?P<sign>[-+]?)(?P<terms>(?:{_TERM.replace('?P<number>', '').replace('?P<unit>', '')})+)")
_MAX_NS: Final = 2**63 - 1


class Duration(float):
    """A duration in seconds, which documents write as Go does."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Read a duration as Go writes it; raises ValueError."""
        return cls(parse_duration_s(text))

    def __str__(self) -> str:
        """Return the duration as Go writes it."""
        return format_duration_s(self)


def parse_duration_s(text: str) -> float:
    """Return the seconds in a Go duration; raises ValueError that says what one looks like."""
    if text in {"0", "+0", "-0"}:
        return 0.0
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise ValueError(f'"{text}" is not a duration: write numbers with units (ns, us, ms, s, m, h), as in 1m30s')
    ns = sum(int(Fraction(term["number"].rstrip(".")) * _UNIT_NS[term["unit"]]) for term in _TERMS.finditer(text))
    if ns > _MAX_NS:
        raise ValueError(f'"{text}" is too long a duration: the longest is about 290 years')
    return (-ns if whole["sign"] == "-" else ns) / 10**9


def format_duration_s(seconds: float) -> str:
    """Return a duration as Go writes it: `10m0s`, `1.5s`, `300ms`, `0s`."""
    ns = round(seconds * 10**9)
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    if ns == 0:
        return "0s"
    if ns < 10**9:
        unit = next(unit for unit in ("ms", "µs", "ns") if ns >= _UNIT_NS[unit])
        return f"{sign}{_decimal(ns, _UNIT_NS[unit])}{unit}"
    minutes, rest_ns = divmod(ns, _UNIT_NS["m"])
    hours, minutes_left = divmod(minutes, 60)
    head = f"{hours}h{minutes_left}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(rest_ns, 10**9)}s"


def _decimal(ns: int, unit_ns: int) -> str:
    """`ns` in units, exactly, without trailing zeros."""
    whole, part = divmod(ns, unit_ns)
    digits = str(part).zfill(len(str(unit_ns)) - 1).rstrip("0") if part else ""
    return f"{whole}.{digits}" if digits else str(whole)
