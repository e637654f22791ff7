"""YAML bodies, read without trust: what is nested too deeply or grows too much by its aliases is refused unread.

The C parser recurses without a limit of its own, and a few lines of aliases can stand for billions of values, so the
events of a body are counted before anything is built from it.
"""

from typing import Any

import yaml

MAX_DEPTH = 200
MAX_NODES = 500_000

_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreasonableYAML(ValueError):  # noqa: N818 - it says what the body is
    """A body that no client with an object in mind sends."""


def load_yaml(body: bytes) -> Any:
    """The body as plain values; raises `yaml.YAMLError` or `UnreasonableYAML`."""
    _Census().take(body)
    return yaml.load(body, Loader=_PARSER)


class _Census:
    """Counts the nodes of a document as they will be once every alias is followed."""

    __slots__ = ("_anchored", "_open", "_total")

    def __init__(self) -> None:
        self._anchored: dict[str, int] = {}
        self._open: list[tuple[str | None, int]] = []  # anchor, and the total when the collection began
        self._total = 0

    def take(self, body: bytes) -> None:
        """Raise for a document that is too deep or too large."""
        for event in yaml.parse(body, Loader=_PARSER):
            if isinstance(event, yaml.CollectionStartEvent):
                self._begin(event.anchor)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._add(self._size_of(event.anchor or ""))
            elif isinstance(event, yaml.ScalarEvent):
                self._add(1)
                if event.anchor:
                    self._anchored[event.anchor] = 1

    def _begin(self, anchor: str | None) -> None:
        self._open.append((anchor, self._total))
        if len(self._open) > MAX_DEPTH:
            raise UnreasonableYAML(f"it is nested more than {MAX_DEPTH} levels deep")
        if anchor:
            self._anchored.pop(anchor, None)
        self._add(1)

    def _end(self) -> None:
        anchor, before = self._open.pop()
        if anchor:
            self._anchored[anchor] = self._total - before

    def _size_of(self, anchor: str) -> int:
        if any(anchor == name for name, _ in self._open):
            raise UnreasonableYAML(f"the alias *{anchor} stands inside of what it names")
        return self._anchored.get(anchor, 1)  # one that nothing defines is told by the loader

    def _add(self, nodes: int) -> None:
        self._total += nodes
        if self._total > MAX_NODES:
            raise UnreasonableYAML(f"it stands for more than {MAX_NODES} values")
