"""Where in which file each object of some manifests is, for whoever has to point at it.

A document that was read says for people which one of its file it is; the line is looked for here, when it is wanted.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from berth.api.resources import RESOURCES
from berth_workbench.snapshot.documents import Document, files_of, parse_manifests, read_manifests
from berth_workbench.snapshot.mistaken import refuse_kustomization
from berth_workbench.snapshot.text import opened, unpacked

ObjectName = tuple[str, str]
"""Kind and `namespace/name`, or the name alone where the kind has no namespaces."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SOURCE = "# Source: "
"""What `helm template` writes above each object: the file of the chart that it comes from."""


class ManifestPlace(NamedTuple):
    """Where a manifest is."""

    file: str
    line: int
    """Where it begins, from 1; 0 where it was made of a chart's template, whose lines are others."""


class ManifestSide(NamedTuple):
    """The manifests that were given together."""

    documents: Sequence[Document]
    places: Mapping[ObjectName, ManifestPlace]


def object_name(kind: str, namespace: str, name: str) -> ObjectName:
    """Return what an object of a kind is known by."""
    known = RESOURCES.get(kind)
    return (kind, name) if known is not None and not known.namespaced else (kind, f"{namespace}/{name}")


def read_side(paths: Sequence[str | Path], namespace: str = "default") -> ManifestSide:
    """Return the manifests of files, directories and, as `-`, standard input, with their places.

    Raises `SnapshotError`. `namespace` is that of objects that name none.
    """
    documents: list[Document] = []
    places: dict[ObjectName, ManifestPlace] = {}
    for path in paths:
        if str(path) == "-":
            content = unpacked(sys.stdin.buffer, "standard input").read()
            documents += parse_manifests(content, "standard input", namespace)
            places |= _places_in(content, "", namespace)
            continue
        files = files_of(Path(path))
        for file in files:
            refuse_kustomization(file)
        documents += read_manifests([path], namespace)
        for file in files:
            with opened(file) as stream:
                places |= _places_in(stream.read(), file.as_posix(), namespace)
    return ManifestSide(documents, places)


def _places_in(content: bytes, file: str, namespace: str) -> dict[ObjectName, ManifestPlace]:
    """Return the places of the objects of a text that has been read as manifests; none where PyYAML cannot read it."""
    found: dict[ObjectName, ManifestPlace] = {}
    lines = content.decode("utf-8", "replace").splitlines() if not file else []
    try:
        for node in yaml.compose_all(content, Loader=_LOADER):
            for made in _objects_in(node):
                fields = _fields(made)
                metadata = _fields(fields.get("metadata"))
                kind, of, name = map(_text, (fields.get("kind"), metadata.get("namespace"), metadata.get("name")))
                line = made.start_mark.line
                source = _source_above(lines, line)
                if file or source:
                    place = ManifestPlace(source or file, 0 if source else line + 1)
                    found[object_name(kind, of or namespace, name)] = place
    except yaml.YAMLError:
        return found
    return found


def _objects_in(node: yaml.Node | None) -> Iterator[yaml.Node]:
    """Yield the node of each object, those of lists one by one."""
    if isinstance(node, yaml.SequenceNode):
        yield from node.value
        return
    items = _fields(node).get("items")
    if isinstance(items, yaml.SequenceNode):
        yield from items.value
    elif node is not None:
        yield node


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    return {_text(key): value for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _source_above(lines: Sequence[str], line: int) -> str:
    """Return what the comments above a line say of where an object comes from."""
    for above in reversed(lines[max(0, line - 5) : line]):
        if above.startswith(_SOURCE):
            return above.removeprefix(_SOURCE).strip()
        if not above.startswith("#"):
            break
    return ""
