"""Counts YAML before it is read, and refuses what is nested too deeply or grows too much through its aliases.

The C parser recurses without a limit of its own, and a few lines of aliases can stand for billions of values, so the
events of a document are counted before anything is built from it. Configuration files, kubeconfigs and the bodies that
are sent to the embedded API server all pass through here.
"""

import re
from typing import Any

import yaml

from berth.api.repetitions import repeated_keys

MAX_DEPTH = 200
MAX_NODES = 500_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Parser(_LOADER):  # type: ignore[misc]
    def construct_document(self, node: Any) -> Any:
        try:
            return super().construct_document(node)
        except (AttributeError, KeyError, TypeError):  # what PyYAML raises differs by tag
            said = "a value is not what its tag says"
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None


PARSER: Any = _Parser
"""PyYAML's loader, the one on libyaml where that is installed: it is faster, and otherwise the same.

What cannot be read is a `yaml.YAMLError`, or a ValueError where a value is not what it looks like.
"""


class _StrictParser(_Parser):
    def construct_document(self, node: Any) -> Any:
        for key in repeated_keys(node):
            raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
        return super().construct_document(node)


STRICT_PARSER: Any = _StrictParser
"""The same, but a key that stands twice in a mapping is refused, as an API server that is strict refuses it."""


class UnreasonableYAML(ValueError):  # noqa: N818 - it says what the document is
    """A document that is too deep or too large to have been written in good faith."""


def refuse_bombs(text: str | bytes, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES) -> None:
    """Raise `UnreasonableYAML` for a document that is too deep or too large; `yaml.YAMLError` where it is no YAML."""
    _Census(max_depth, max_nodes).take(text)


def yaml_problem(error: Exception) -> str:
    """Return what a parser says of a document, without what it quotes from it: that may be a password."""
    if isinstance(error, yaml.MarkedYAMLError):
        said = ", ".join(part for part in (error.context, error.problem) if part)
    else:
        said = str(error)
    return _QUOTED.sub("'…'", " ".join(said.split()))


_QUOTED = re.compile(r"""'(?!<)[^']{4,}'|"(?!<)[^"]{4,}\"""")


class _Census:
    """Counts the nodes of a document as they will be once every alias is followed."""

    __slots__ = ("_anchored", "_max_depth", "_max_nodes", "_open", "_total")

    def __init__(self, max_depth: int, max_nodes: int) -> None:
        self._max_depth = max_depth
        self._max_nodes = max_nodes
        self._anchored: dict[str, int] = {}
        self._open: list[tuple[str | None, int]] = []  # anchor, and the total when the collection began
        self._total = 0

    def take(self, text: str | bytes) -> None:
        """Raise for a document that is too deep or too large."""
        for event in yaml.parse(text, Loader=PARSER):
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
        if len(self._open) > self._max_depth:
            raise UnreasonableYAML(f"it is nested more than {self._max_depth} levels deep")
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
        return self._anchored.get(anchor, 1)  # the loader reports an alias that nothing defines

    def _add(self, nodes: int) -> None:
        self._total += nodes
        if self._total > self._max_nodes:
            raise UnreasonableYAML(f"it stands for more than {self._max_nodes} values")
