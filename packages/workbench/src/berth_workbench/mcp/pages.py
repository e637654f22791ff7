"""Long answers in pages: lists are cut to what a caller can take in at once, each with a cursor by which to read on.

An answer that was cut is kept for a while, since working it out again may take minutes, and give another one where the
cluster has changed. What is kept is bounded by number and bytes; the oldest makes room.
"""

import secrets
from collections import OrderedDict
from typing import Any, Final, NamedTuple

import msgspec

from berth_workbench.mcp.refusals import CallRefused

PAGE_BYTES = 32 * 1024
"""How long an answer may be as JSON, about: some ten thousand tokens."""
LENGTHS: Final = (1000, 300, 100, 30, 10, 3, 1)
"""How many elements of each list are shown: the first of these with which it is short enough."""
MAPPING = 50
"""An object with more fields than this is one by names, of pools or nodes, and is cut as a list is."""
KEPT, KEPT_BYTES = 16, 64 << 20

Path = tuple[str | int, ...]


class AnswerPage(NamedTuple):
    """A part of an answer, and where it goes on."""

    value: Any
    pages: dict[str, Any]
    """By the place of each list that was cut, as a JSON pointer: its `total`, which are `shown`, and the `cursor`."""


class AnswerPages:
    """The answers that were too long for one page."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def first(self, document: dict[str, Any]) -> AnswerPage:
        """Return a document, or as much of it as goes on a page."""
        content = msgspec.json.encode(document)
        if len(content) <= PAGE_BYTES:
            return AnswerPage(document, {})
        name = secrets.token_hex(6)
        page = _fitted(document, name, ())
        if page.pages:
            self._kept[name] = content
            while len(self._kept) > KEPT or (len(self._kept) > 1 and self._bytes > KEPT_BYTES):
                self._kept.popitem(last=False)
        return page

    def more(self, cursor: str) -> AnswerPage:
        """Return the elements of a list from a cursor on. Raises `CallRefused`."""
        name, _, place = cursor.partition(":")
        content = self._kept.get(name)
        if content is None:
            raise CallRefused("gone", "cursor: the answer that it belongs to is not kept any more, or never was")
        self._kept.move_to_end(name)
        value = msgspec.json.decode(content)
        try:
            pointer, _, start = place.rpartition(":")
            path: Path = ()
            for part in pointer.split("/")[1:]:
                key: str | int = int(part) if isinstance(value, list) else _unescaped(part)
                value, path = value[key], (*path, key)
            begin = int(start)
            if begin < 0 or not isinstance(value, list | dict):
                raise ValueError(cursor)
        except (KeyError, IndexError, ValueError, TypeError):
            raise CallRefused("argument", "cursor: no answer has given this one") from None
        return _fitted(value, name, path, begin)

    @property
    def _bytes(self) -> int:
        return sum(map(len, self._kept.values()))


def _fitted(value: Any, name: str, path: Path, begin: int = 0) -> AnswerPage:
    """Return a value whose lists are as long as fits; that at the path itself begins with one of its elements."""
    for length in LENGTHS:
        pages: dict[str, Any] = {}
        cut = _cut(value, name, path, begin, length, pages)
        if len(msgspec.json.encode((cut, pages))) <= PAGE_BYTES:
            break
    return AnswerPage(cut, pages)


def _cut(value: Any, name: str, path: Path, begin: int, length: int, pages: dict[str, Any]) -> Any:
    if not isinstance(value, list | dict):
        return value
    most = length if isinstance(value, list) else max(length, MAPPING)
    end, total = min(begin + most, len(value)), len(value)
    if end < total:
        pointer = "".join(f"/{_escaped(str(part))}" for part in path)
        pages[pointer] = {"total": total, "shown": [begin, end], "cursor": f"{name}:{pointer}:{end}"}
    if isinstance(value, list):
        return [_cut(each, name, (*path, at), 0, length, pages) for at, each in enumerate(value[begin:end], begin)]
    return {key: _cut(value[key], name, (*path, key), 0, length, pages) for key in list(value)[begin:end]}


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
