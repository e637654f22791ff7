"""Reads the plain sort of YAML that kubectl writes, about ten times as fast as PyYAML, or says that it is another sort.

A cluster of 100,000 pods is some 900 MB of YAML, which PyYAML reads in a quarter of an hour. What kubectl writes makes
little use of the language: blocks of mappings and sequences, a key or a value a line, quoted or plain scalars, and
literal blocks. `parse_plain` reads these line by line. Whatever else it meets (flow collections, folded scalars,
anchors, tags, comments, tabs, a key for the second time, …) raises `UnusualYAML`, and the caller hands the text to
PyYAML. So it never has to decide what such a text means; a test holds the two against each other. Nothing here can grow
beyond its text: there are no aliases, and flow collections are empty.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from berth.api.yaml_census import PARSER

MAX_DEPTH = 100
"""Of blocks; what is nested more deeply is left to the census."""
MAX_KEY = 1000
"""Characters of a key; YAML has a limit of 1,024."""


class UnusualYAML(ValueError):  # noqa: N818 - it says what the text is
    """Text that is YAML of another sort, or none."""


_FOREIGN = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML forbids, and those that it takes for line ends or tabs."""
_LINE = re.compile(r"( *)((?:- )*)(?:([A-Za-z0-9_./$(][^\s]*?):(?: (.+))?|(.+))")
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\[nrtbf"\\/])*"')
_RESOLVERS = PARSER.yaml_implicit_resolvers
_INDICATORS = frozenset("[]{},#&*!|>'\"%@`-?:")
_EMPTY = {"{}": dict, "[]": list}


def parse_plain(content: bytes, base: int = 0) -> Any:
    """Return what a block indented by `base` stands for, a mapping. Raises `UnusualYAML`."""
    text = _decoded(content)
    if _FOREIGN.search(text):
        raise UnusualYAML
    root: dict[str, Any] = {}
    containers: list[Any] = [root]
    indents = [base]
    # A key whose value has not come yet: it is in the following lines, or there is none.
    waiting: tuple[dict[str, Any], str, int] | None = None
    lines = text.split("\n")
    number, count = 0, len(lines)
    while number < count:
        line = lines[number]
        number += 1
        if not line:
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise UnusualYAML
        spaces, dashes, key, value, alone = found.groups()
        indent = len(spaces)
        if waiting is not None:
            mapping, name, its_indent = waiting
            waiting = None
            opened: Any = None
            if dashes and indent >= its_indent:
                opened = []
            elif not dashes and indent > its_indent:
                opened = {}
            mapping[name] = opened
            if opened is not None:
                containers.append(opened)
                indents.append(indent)
        while indents[-1] > indent or (not dashes and indents[-1] == indent and type(containers[-1]) is list):
            indents.pop()
            containers.pop()
            if not indents:
                raise UnusualYAML
        container = containers[-1]
        if indents[-1] != indent or len(indents) > MAX_DEPTH:
            raise UnusualYAML
        if dashes:
            for _ in range(len(dashes) // 2 - 1):
                container = _appended(container, [])
                indent += 2
                containers.append(container)
                indents.append(indent)
            if key is None:
                if type(container) is not list:
                    raise UnusualYAML
                container.append(_scalar(alone))
                continue
            container = _appended(container, {})
            indent += 2
            containers.append(container)
            indents.append(indent)
        if key is None or type(container) is not dict or key in container or len(key) > MAX_KEY or _resolves(key):
            raise UnusualYAML
        if value is None:
            waiting = (container, key, indent)
        elif value in ("|", "|-"):
            container[key], number = _literal(lines, number, indent, keeps_end=value == "|")
        else:
            container[key] = _scalar(value)
    if waiting is not None:
        waiting[0][waiting[1]] = None
    return root


def _appended(container: Any, opened: Any) -> Any:
    if type(container) is not list:
        raise UnusualYAML
    container.append(opened)
    return opened


def _scalar(text: str) -> Any:
    first = text[0]
    if first not in _INDICATORS or (first in "-?:" and text[1:2] not in ("", " ")):
        if first == " " or text[-1] in " :" or ": " in text or " #" in text:
            raise UnusualYAML
        return _resolved(text) if _resolves(text) else text
    if first == "'":
        if (quoted := _SINGLE.fullmatch(text)) is not None:
            return quoted[1].replace("''", "'")
    elif first == '"':
        if _DOUBLE.fullmatch(text) is not None:
            return msgspec.json.decode(text)
    elif (empty := _EMPTY.get(text)) is not None:
        return empty()
    raise UnusualYAML


def _resolves(text: str) -> bool:
    """Whether a plain scalar may be something else than text."""
    resolvers = _RESOLVERS.get(text[0])
    return resolvers is not None and any(pattern.match(text) for _, pattern in resolvers)


@lru_cache(maxsize=4096)
def _resolved(text: str) -> Any:
    try:
        return yaml.load(text, Loader=PARSER)
    except (yaml.YAMLError, ValueError):
        raise UnusualYAML from None


def _literal(lines: list[str], number: int, indent: int, *, keeps_end: bool) -> tuple[str, int]:
    """Return the text of a literal block, and the number of the line after it."""
    start = number
    while number < len(lines) and (not lines[number] or lines[number].startswith(" " * (indent + 1))):
        number += 1
    block = lines[start:number]
    while block and not block[-1]:
        block.pop()
    if not block or not block[0].strip():
        raise UnusualYAML
    width = len(block[0]) - len(block[0].lstrip(" "))
    if any(line and (len(line) < width or line[:width].strip()) for line in block):
        raise UnusualYAML
    return "\n".join([line[width:] for line in block]) + ("\n" if keeps_end else ""), number


_ITEMS = b"items:\n- "
_NEXT_KEY = re.compile(rb"\n(?=[^ \n-])")


def plain_list(document: bytes) -> tuple[Any, Iterator[bytes]]:
    """Return a list without its items, and the text of each item, indented by two. Raises `UnusualYAML`."""
    start = 0 if document.startswith(_ITEMS) else document.find(b"\n" + _ITEMS) + 1
    if not document.startswith(_ITEMS, start):
        raise UnusualYAML
    first = start + len(_ITEMS)
    last = _NEXT_KEY.search(document, first)
    end = len(document) if last is None else last.start()
    head = document[:start] + document[end:].lstrip(b"\n")
    if head.startswith(b"- ") or b"\n- " in head:
        raise UnusualYAML
    return parse_plain(head), _items(document, first, end)


def _items(document: bytes, start: int, end: int) -> Iterator[bytes]:
    """One after the other: many that say nothing would take more room together than their text does."""
    while start <= end:
        following = document.find(b"\n- ", start, end)
        stop = following if following >= 0 else end
        yield b"  " + document[start:stop]
        start = stop + len(b"\n- ") if following >= 0 else end + 1


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise UnusualYAML from None
