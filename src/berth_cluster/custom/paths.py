"""JSONPath as CustomResourceDefinitions have it: where columns and scales find their values.

The dialect is that of `kubectl get -o jsonpath`, without its templates: names, keys in quotes, indexes, slices,
wildcards, and filters that compare one field with a constant.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

Step = Callable[[Any], Iterable[Any]]

_STEP = re.compile(
    r"""\.?\*|\[\*\]|\.(?P<name>(?:[^.\[\]\\*]|\\.)+)|\[(?P<quoted>'[^']*'|"[^"]*")\]|\[(?P<index>-?\d+)\]"""
    r"""|\[(?P<first>-?\d*):(?P<last>-?\d*)\]"""
    r"""|\[\?\(\s*@(?P<field>(?:\.[\w-]+)+)\s*(?P<operator>==|!=|<=?|>=?)\s*(?P<constant>'[^']*'|"[^"]*"|[\w.+-]+)\s*\)\]"""
)
_COMPARE = MappingProxyType(
    {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
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
    if found["index"] is not None or found["first"] is not None:
        first, last = found["first"], found["last"]
        part = (
            slice(int(found["index"]), int(found["index"]) + 1 or None)
            if found["index"] is not None
            else slice(int(first) if first else None, int(last) if last else None)
        )
        return lambda holder: holder[part] if isinstance(holder, list) else []
    if found["field"] is not None:
        return _filter(found["field"], _COMPARE[found["operator"]], _constant(found["constant"]))
    return _values


def _values(holder: Any) -> Iterable[Any]:
    return holder.values() if isinstance(holder, dict) else holder if isinstance(holder, list) else ()


def _filter(path: str, compare: Callable[[Any, Any], Any], constant: Any) -> Step:
    def kept(holder: Any) -> Iterator[Any]:
        for element in _values(holder):
            found = find(element, path)
            if found and type(found[0]) is type(constant) and compare(found[0], constant):
                yield element

    return kept


def _constant(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
