"""Times for people."""

from datetime import UTC, datetime


def age(since: str) -> str:
    """How long ago an RFC 3339 time was, in its two largest units."""
    try:
        passed_s = max(0, int((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds()))
    except (ValueError, TypeError):
        return "unknown"
    for size, unit, smaller, part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if passed_s >= size:
            return f"{passed_s // size} {unit} {passed_s % size // smaller} {part}"
    return f"{passed_s} s"
