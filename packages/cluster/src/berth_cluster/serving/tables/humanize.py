"""Ages and other values as kubectl's tables print them."""

from datetime import UTC, datetime
from typing import Any

from berth_cluster.apimachinery.selection import selector_text

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_YEAR = 365 * _DAY
UNKNOWN = "<unknown>"
NONE = "<none>"


# from how many seconds on -> the unit that is shown, and the smaller one beside it
_UNITS = (
    (8 * _YEAR, _YEAR, "y", 0, ""),
    (2 * _YEAR, _YEAR, "y", _DAY, "d"),
    (8 * _DAY, _DAY, "d", 0, ""),
    (2 * _DAY, _DAY, "d", _HOUR, "h"),
    (8 * _HOUR, _HOUR, "h", 0, ""),
    (3 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (10 * _MINUTE, _MINUTE, "m", 0, ""),
    (2 * _MINUTE, _MINUTE, "m", 1, "s"),
)


def duration(seconds: float) -> str:
    """A duration with two or three significant digits: 90s, 5m10s, 3h, 2d4h, 1y20d."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    for least, unit, name, part, part_name in _UNITS:
        if whole >= least:
            small = whole % unit // part if part else 0
            return f"{whole // unit}{name}{small}{part_name}" if small else f"{whole // unit}{name}"
    return f"{whole}s"


def age(timestamp: Any, now: datetime, unknown: str = UNKNOWN) -> str:
    """How long ago an RFC 3339 time was."""
    moment = parse_time(timestamp)
    return unknown if moment is None else duration((now - moment).total_seconds())


def parse_time(timestamp: Any) -> datetime | None:
    """An RFC 3339 time, or None where there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def selector(value: Any) -> str:
    """A label selector, or a map of labels, on one line."""
    return (selector_text(value) if isinstance(value, dict) else "") or NONE


def access_modes(modes: Any) -> str:
    """The short names of a volume's access modes."""
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(short.get(mode, mode) for mode in modes or [])


def first_few(found: list[Any], none: str) -> str:
    """The first three, and how many more there are."""
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(map(str, found[:3])) + more if found else none
