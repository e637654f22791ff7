"""Fields that a text gives twice, which a strict API server refuses: of two values of `replicas`, which is meant?

Parsers take the last without a word. The embedded API server asks here, and whoever reads what people have written.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

_KEY = re.compile(rb'(?<!\\)"\s*:')


def repeated_fields(text: bytes, decoded: Any = None) -> list[str]:
    """Return the paths of fields that occur twice in one object of a JSON text; none of a text that is not JSON.

    Hardly any text has some. With what a parser has `decoded` of it, that is known without reading it once more.
    """
    # A colon follows the closing quote of every key, so that there are never fewer of these pairs than keys. But for a
    # key that ends in a backslash: its quote looks like one that is escaped in a string, which is none.
    if decoded is not None and len(_KEY.findall(text)) == _keys(decoded) and b'\\\\"' not in text:
        return []

    def note(pairs: list[tuple[str, Any]]) -> _Noted:
        made, known = _Noted(pairs), set[str]()
        for name, count in Counter(name for name, _ in pairs).items():
            made.found.extend([name] * (count > 1))
        for name, value in pairs:
            made.found.extend(f"{name}{rest}" for rest in _within(value) if name not in known)
            known.add(name)
        return made

    try:
        noted = json.loads(text, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return []
    return noted.found if isinstance(noted, _Noted) else []


def _keys(value: Any) -> int:
    number, left = 0, [value]
    for part in left:
        if isinstance(part, dict):
            number += len(part)
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
    return number


class _Noted(dict[str, Any]):
    """An object, with the paths of what occurs twice in it."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.found: list[str] = []


def _within(value: Any) -> Iterator[str]:
    if isinstance(value, _Noted):
        yield from (f".{path}" for path in value.found)
    elif isinstance(value, list):
        for number, element in enumerate(value):
            yield from (f"[{number}]{rest}" for rest in _within(element))


def repeated_keys(root: Any) -> list[Any]:
    """Return the keys of a composed YAML document that occur a second time in their mapping, in their order.

    To be asked before merge keys (`<<`) are followed, which may repeat some.
    """
    found, seen, left = [], set[int](), [root]
    while left:
        node = left.pop()
        if isinstance(node, yaml.ScalarNode) or id(node) in seen:  # several aliases may name one node
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            known: set[str] = set()
            for key, value in node.value:
                left.append(value)
                if isinstance(key, yaml.ScalarNode):
                    found += [key] if key.value in known else []
                    known.add(key.value)
    return sorted(found, key=lambda key: (key.start_mark.index, key.value))
