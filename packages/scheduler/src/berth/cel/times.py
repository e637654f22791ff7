"""What functions say of timestamps and durations, which are Python's, to the microsecond."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from berth.cel.values import EvaluationError, no_overload

_OFFSET = re.compile(r"([+-]?\d{1,9}):(\d{1,9})", re.ASCII)
_UNITS = MappingProxyType(
    {"getHours": timedelta(hours=1), "getMinutes": timedelta(minutes=1), "getSeconds": timedelta(seconds=1),
     "getMilliseconds": timedelta(milliseconds=1)}
)  # fmt: skip
_PARTS: MappingProxyType[str, Callable[[datetime], int]] = MappingProxyType(
    {
        "getFullYear": lambda moment: moment.year,
        "getMonth": lambda moment: moment.month - 1,
        "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
        "getDate": lambda moment: moment.day,
        "getDayOfMonth": lambda moment: moment.day - 1,
        "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
        "getHours": lambda moment: moment.hour,
        "getMinutes": lambda moment: moment.minute,
        "getSeconds": lambda moment: moment.second,
        "getMilliseconds": lambda moment: moment.microsecond // 1000,
    }
)
PARTS = tuple(_PARTS)


def part_of_time(function: str, value: Any, *zone: Any) -> int:
    """Return what `getHours` and the like say of a moment in a time zone, or of a span. Raises `EvaluationError`."""
    if isinstance(value, timedelta) and function in _UNITS and not zone:
        return int(value / _UNITS[function])
    if not isinstance(value, datetime) or any(type(each) is not str for each in zone):
        raise no_overload()
    try:
        return _PARTS[function](value.astimezone(_zone(zone[0]) if zone else UTC))
    except (ValueError, OverflowError, OSError):
        raise EvaluationError(f"unknown time zone {zone[0]}") from None


def in_years(compute: Callable[[], Any]) -> Any:
    """Return a time that is computed. Raises `EvaluationError` outside of the years that there are."""
    try:
        return compute()
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def _zone(name: str) -> tzinfo:
    found = _OFFSET.fullmatch(name)
    if found is None:
        return UTC if name in ("", "UTC") else ZoneInfo(name)
    hours, minutes = int(found[1]), int(found[2])
    return timezone(timedelta(minutes=hours * 60 + (-minutes if name.startswith("-") else minutes)))
