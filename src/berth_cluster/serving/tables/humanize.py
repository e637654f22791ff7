"""Ages and other values as kubectl's tables print them."""

from datetime import UTC, datetime
from typing import Any

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_YEAR = 365 * _DAY
UNKNOWN = "<unknown>"
NONE = "<none>"


def duration(seconds: float) -> str:
    """A duration with two or three significant digits: 90s, 5m10s, 3h, 2d4h, 1y20d."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, unit: int, name: str, part: int, part_name: str) -> str:
    big, small = seconds // unit, seconds % unit // part
    return f"{big}{name}{small}{part_name}" if small else f"{big}{name}"


def age(timestamp: Any, now: datetime) -> str:
    """How long ago an RFC 3339 time was."""
    moment = parse_time(timestamp)
    return UNKNOWN if moment is None else duration((now - moment).total_seconds())


def parse_time(timestamp: Any) -> datetime | None:
    """An RFC 3339 time, or None where there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def labels(mapping: Any) -> str:
    """A map of labels on one line."""
    if not isinstance(mapping, dict) or not mapping:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(mapping.items()))


def selector(value: Any) -> str:
    """A label selector on one line."""
    if not isinstance(value, dict) or not value:
        return NONE
    terms = [f"{key}={label}" for key, label in sorted((value.get("matchLabels") or {}).items())]
    terms.extend(_expression(term) for term in value.get("matchExpressions") or [])
    return ",".join(terms) if terms else NONE


def _expression(term: dict[str, Any]) -> str:
    key, operator, values = term.get("key", ""), term.get("operator"), ",".join(term.get("values") or [])
    if operator in ("In", "NotIn"):
        return f"{key} {operator.lower()} ({values})"
    return f"!{key}" if operator == "DoesNotExist" else str(key)


def access_modes(modes: Any) -> str:
    """The short names of a volume's access modes."""
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short.get(mode, mode) for mode in modes or [])
