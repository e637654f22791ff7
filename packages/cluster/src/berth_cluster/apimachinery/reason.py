"""How much one JSON value may be: the limits that hold before anything else looks at it.

A body of three megabytes may hold a million values, or be nested a hundred thousand times. Everything behind this check
takes time in proportion to the number of values, and recurses as deep as they are nested.
"""

from typing import Any

from berth_cluster.apimachinery.errors import bad_request, too_large

MAX_VALUES = 100_000  # objects, lists, their keys and elements; the largest real objects have a few ten thousand
MAX_DEPTH = 100  # upstream's own types go to about 20


def refuse_unreasonable(value: Any, what: str) -> None:
    """Refuse a value with too many parts (413) or levels (400). Looks at no more parts than there may be."""
    level: list[Any] = [value]
    seen = depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise bad_request(f"{what} is nested too deeply: more than {MAX_DEPTH} levels")
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                seen += 2 * len(one)
                parts: Any = one.values()
            elif isinstance(one, list):
                seen += len(one)
                parts = one
            else:
                continue
            if seen > MAX_VALUES:
                raise too_large(f"{what} has too many values: at most {MAX_VALUES} are taken, keys included")
            below.extend([part for part in parts if isinstance(part, dict | list)])
        level = below
