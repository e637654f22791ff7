"""Reads objects from what people have: manifests and kubectl's output, as YAML or JSON, in files and directories.

Everything that takes objects (`--cluster`, `-f`) reads them here. A document is kept as it came, and is parsed no
further than its kind and name until somebody needs more, since a cluster has a hundred thousand of them.
"""

import gzip
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from berth.api.codec import KINDS, decode
from berth.api.meta import Struct
from berth.api.untrusted import UNREADABLE, problem_of, read_deep
from berth.api.yaml_census import PARSER, UnreasonableYAML, refuse_bombs, yaml_problem

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
"""The files of a directory that are read; each may be compressed, with `.gz` after it."""
MAX_YAML_NODES = 50_000_000
"""A YAML file with more values than this is refused; a cluster of that size belongs into a snapshot."""


class SnapshotError(ValueError):
    """What was given cannot be read as objects; the message is one line that says which file, which object, and why."""


class Document(NamedTuple):
    """An object as it was given."""

    kind: str
    body: bytes | Mapping[str, Any]
    """JSON, or the same parsed."""
    where: str
    """The file, and which object of it."""

    @property
    def manifest(self) -> dict[str, Any]:
        """The object parsed, a copy of its own."""
        if isinstance(self.body, bytes):
            found: dict[str, Any] = msgspec.json.decode(self.body)
            return found
        return dict(self.body)

    def struct(self) -> Struct:
        """The object as the scheduler reads it. Raises `ObjectError`; KeyError where it reads none of that kind."""
        found: Struct = decode(self.kind, self.body)
        return found

    @property
    def is_read_by_scheduler(self) -> bool:
        """Whether decisions can depend on objects of this kind."""
        return self.kind in KINDS


def read_documents(paths: Sequence[str | Path]) -> list[Document]:
    """Return the objects of files and directories, in order; `-` is standard input. Raises `SnapshotError`.

    Lists (`kind: List`, `PodList`, …) are taken apart. Of a directory, files with one of `SUFFIXES` are read, those of
    its directories too, by name.
    """
    return [document for path in paths for document in _read(path)]


def _read(path: str | Path) -> Iterator[Document]:
    if str(path) == "-":
        yield from parse_documents(sys.stdin.buffer.read(), "standard input")
        return
    place = Path(path)
    if place.is_dir():
        files = [each for each in sorted(place.rglob("*")) if each.is_file() and _is_wanted(each)]
        if not files:
            raise SnapshotError(f"{place}: no file with objects in it; looked for {', '.join(SUFFIXES)}")
    else:
        files = [place]
    for file in files:
        yield from parse_documents(read_bytes(file), str(file))


def _is_wanted(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(SUFFIXES)


def read_bytes(file: Path) -> bytes:
    """Return what a file holds, unpacked where it is compressed. Raises `SnapshotError`."""
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError) as error:
        raise SnapshotError(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def parse_documents(content: bytes, source: str) -> Iterator[Document]:
    """Yield the objects of a text, JSON (one value, or one a line) or YAML. Raises `SnapshotError`."""
    if content.lstrip()[:1] in (b"{", b"["):
        yield from _parse_json(content, source)
    else:
        yield from _parse_yaml(content, source)


class _Listed(msgspec.Struct):
    """What has to be known of a document: whether it is a list, and of what."""

    kind: str = ""
    items: list[msgspec.Raw] | None = None


def _parse_json(content: bytes, source: str) -> Iterator[Document]:
    try:
        whole = read_deep(msgspec.json.decode, content, type=msgspec.Raw)
        pieces = [bytes(whole)]
    except UNREADABLE as error:
        pieces = [line for line in content.splitlines() if line.strip()]
        if len(pieces) < 2:
            raise SnapshotError(f"{source}: not readable as JSON: {problem_of(error)}") from None
    for number, piece in enumerate(pieces, 1):
        where = source if len(pieces) == 1 else f"{source}:{number}"
        try:
            parts = read_deep(msgspec.json.decode, piece, type=list[msgspec.Raw]) if piece[:1] == b"[" else [piece]
        except UNREADABLE as error:
            raise SnapshotError(f"{where}: not readable as JSON: {problem_of(error)}") from None
        for part in parts:
            yield from _taken_apart(bytes(part), where)


def _taken_apart(content: bytes, where: str) -> Iterator[Document]:
    try:
        head = read_deep(msgspec.json.decode, content, type=_Listed)
    except UNREADABLE as error:
        raise SnapshotError(f"{where}: not readable as an object: {problem_of(error)}") from None
    if head.items is None or not head.kind.endswith("List"):
        yield _document(head.kind, content, where)
        return
    of_items = head.kind.removesuffix("List")
    for number, item in enumerate(head.items):
        place = f"{where}: items[{number}]"
        kind = of_items
        try:
            kind = read_deep(msgspec.json.decode, item, type=_Listed).kind or of_items
        except UNREADABLE as error:
            raise SnapshotError(f"{place}: not readable as an object: {problem_of(error)}") from None
        yield _document(kind, bytes(item), place)


def _parse_yaml(content: bytes, source: str) -> Iterator[Document]:
    try:
        refuse_bombs(content, max_nodes=MAX_YAML_NODES)
        values = list(yaml.load_all(content, Loader=PARSER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise SnapshotError(f"{source}{line}: not readable as YAML: {yaml_problem(error)}") from None
    except (yaml.YAMLError, UnreasonableYAML, UnicodeDecodeError, ValueError) as error:
        raise SnapshotError(f"{source}: not readable as YAML: {yaml_problem(error)}") from None
    for number, value in enumerate(values, 1):
        if value is None:
            continue
        where = source if len(values) == 1 else f"{source}, document {number}"
        if not isinstance(value, Mapping):
            raise SnapshotError(f"{where}: an object is expected, not {type(value).__name__}")
        # Through JSON, so that a date is text as in the API, and every later step has one form to deal with.
        yield from _taken_apart(msgspec.json.encode(value), where)


def _document(kind: str, body: bytes, where: str) -> Document:
    if not kind:
        raise SnapshotError(f"{where}: an object without a kind")
    return Document(kind, body, where)
