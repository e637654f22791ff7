"""Times for people."""

from datetime import UTC, datetime


def age(since: str) -> str:
    """How long ago an RFC 3339 time was, in its two largest units; empty where it is no time."""
    try:
        passed_s = max(0, int((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()))
    except (ValueError, TypeError):
        return ""
    for size, unit, smaller, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if passed_s >= size:
            return f"{passed_s // size} {unit} {passed_s % size // smaller} {part}"
    return f"{passed_s} s"


def ago(since: str) -> str:
    """`2 min 5 s ago`; empty where it is no time."""
    passed = age(since)
    return f"{passed} ago" if passed else ""


def lasting(since: str) -> str:
    """` for 2 min 5 s`, to go on with; empty where it is no time."""
    passed = age(since)
    return f" for {passed}" if passed else ""
