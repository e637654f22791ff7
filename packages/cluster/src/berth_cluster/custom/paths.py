"""JSONPath as CustomResourceDefinitions have it: where columns and scales find their values.

The dialect is that of `kubectl get -o jsonpath`, without its templates: names, keys in quotes, indexes, wildcards, and
filters that compare one field with a constant.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterable[Any]]

_STEP = re.compile(
    r"""\.?\*|\[\*\]|\.(?P<name>(?:[^.\[\]\\*]|\\.)+)|\[(?P<quoted>'[^']*'|"[^"]*")\]|\[(?P<index>-?\d+)\]"""
    r"""|\[\?\(\s*@(?P<field>(?:\.[\w-]+)+)\s*(?P<operator>[=!]=)\s*['"]?(?P<constant>[^'"]*?)['"]?\s*\)\]"""
)


class PathError(ValueError):
    """A path that cannot be read."""


def find(value: Any, path: str) -> list[Any]:
    """All values at a path; raises `PathError`."""
    found = [value]
    for step in parse(path):
        found = [part for holder in found for part in step(holder)]
    return found


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[Step, ...]:
    """A path as the steps that lead to its values; raises `PathError`."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise PathError(f"cannot be read from {path[at:]!r} on")
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def simple_keys(path: str) -> list[str] | None:
    """The names on a path that consists of names only; else None."""
    names = [found["name"] for found in _STEP.finditer(path)]
    return names if names and f".{'.'.join(map(str, names))}" == path else None


def _step(found: re.Match[str]) -> Step:
    if found["name"] is not None or found["quoted"] is not None:
        name = found["quoted"][1:-1] if found["name"] is None else re.sub(r"\\(.)", r"\1", found["name"])
        return lambda holder: [holder[name]] if isinstance(holder, dict) and name in holder else []
    if found["index"] is not None:
        index = int(found["index"])
        return lambda holder: holder[index : index + 1 or None] if isinstance(holder, list) else []
    if found["field"] is not None:
        path, constant, is_equal = found["field"], found["constant"], found["operator"] == "=="
        return lambda holder: [
            one for one in _values(holder) if ([constant] == [*map(str, find(one, path))]) is is_equal
        ]
    return _values


def _values(holder: Any) -> Iterable[Any]:
    return holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ()
