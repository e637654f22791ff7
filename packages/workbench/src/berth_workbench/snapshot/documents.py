"""Reads objects from snapshots, manifests and kubectl's output, as JSON or YAML, in files and directories.

Everything that takes objects (`--cluster`, `-f`) reads them here. A document is kept as it came, and parsed no further
than its kind and name until more is needed, since a cluster has a hundred thousand of them. The one thing that is
changed on the way in is the version: what comes in an older one than that of the structs is converted.

What comes from a cluster (`read_given`) may have been written by a newer API server, so that unknown fields are passed
over. What people write for a question (`read_manifests`, `parse_manifests`) is read as strictly as a server reads it.
"""

import io
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import yaml
from msgspec.structs import force_setattr

from berth.api.codec import KINDS, ObjectError, decode
from berth.api.conversion import is_converted, to_structs
from berth.api.meta import Struct
from berth.api.resources import RESOURCES, Resource, versions_of
from berth.api.strict import mistakes_in, repetitions_in, told
from berth.api.untrusted import UNREADABLE, problem_of, read_deep, shortened
from berth.api.yaml_census import PARSER, STRICT_PARSER, UnreasonableYAML, refuse_bombs, yaml_problem
from berth_workbench.snapshot.header import MAX_HEADER, Header, header_of
from berth_workbench.snapshot.mistaken import USUAL_KINDS, refuse_chart, refuse_template, refuse_unknown_kind
from berth_workbench.snapshot.plain_yaml import UnusualYAML, parse_plain, plain_list
from berth_workbench.snapshot.templates import KIND as TEMPLATE
from berth_workbench.snapshot.templates import START as TEMPLATES_START
from berth_workbench.snapshot.templates import (
    TEMPLATES_SINCE,
    Filled,
    Folding,
    ReplicaRows,
    ReplicaTemplate,
    ReplicaTemplateError,
    read_rows,
    read_template,
)
from berth_workbench.snapshot.text import MAX_LINE, SnapshotError, opened, refuse_foreign, room_of, unpacked

__all__ = [
    "Document",
    "FileContents",
    "SnapshotError",
    "UnreadableObject",
    "files_of",
    "parse_documents",
    "parse_manifests",
    "read_documents",
    "read_given",
    "read_manifests",
]

SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
"""The files of a directory that are read; each may be compressed, with `.gz` after it."""
MAX_OBJECTS = 2_000_000
"""More objects than this are refused; Kubernetes itself is made for a tenth of it."""
OBJECT_BYTES = 1024
"""The room that an object takes beside its text, and that counts against what a small file may unpack to."""
MAX_YAML_NODES = 2_000_000
"""A YAML file that PyYAML has to read, and with more values than this, is refused: each takes `NODE_BYTES`."""
NODE_BYTES = 700
FREE_NODES, TEXT_A_NODE = 100_000, 8
"""PyYAML is given so many values whatever the text, and one more for so many bytes of it; kubectl writes 40 for one."""
NOT_READ = frozenset({"ConfigMap", "Event", "Lease"})
"""Kinds that the scheduler's structs know, and that no decision depends on."""


class UnreadableObject(SnapshotError, ObjectError):  # noqa: N818 - an `ObjectError` that knows its file
    """An object that cannot be read; the message says in which file it is as well."""

    def __init__(self, where: str, error: ObjectError) -> None:
        ObjectError.__init__(self, error.kind, error.name, error.reason)
        self.args = (f"{where}: {error}",)


class Document(NamedTuple):
    """An object as it was given."""

    kind: str
    body: bytes | Filled | Mapping[str, Any]
    """JSON, what differs from a template, or the object parsed."""
    where: str
    """The file, and which object of it."""
    api_version: str = ""
    """Empty where the object does not say."""
    namespace: str = ""
    name: str = ""

    @property
    def manifest(self) -> dict[str, Any]:
        """The object parsed, a copy of its own. Raises `UnreadableObject`."""
        if isinstance(self.body, Mapping):
            return dict(self.body)
        try:
            found: dict[str, Any] = read_deep(msgspec.json.decode, self.json())
        except UNREADABLE as error:  # texts that were skipped until now may not be UTF-8
            raise UnreadableObject(self.where, ObjectError(self.kind, self.name, problem_of(error))) from None
        return found

    def struct(self) -> Struct:
        """The object as the scheduler reads it, with the namespace and uid that manifests leave out.

        Raises `UnreadableObject`; KeyError where the scheduler reads none of that kind.
        """
        try:
            found: Struct = decode(self.kind, self.body if isinstance(self.body, Mapping) else self.json())
        except ObjectError as error:
            raise UnreadableObject(self.where, error) from None
        complete(self.kind, found)
        return found

    def json(self) -> bytes:
        """Return the object as JSON."""
        if isinstance(self.body, bytes):
            return self.body
        return self.body.json() if isinstance(self.body, Filled) else msgspec.json.encode(self.body)

    def may_mention(self, *fields: bytes) -> bool:
        """Say whether the object may have one of these fields; False is certain, and costs less than parsing it."""
        body = self.body
        if isinstance(body, bytes):
            return any(field in body for field in fields)
        return not isinstance(body, Filled) or any(map(body.template.mentions, fields))

    @property
    def is_read_by_scheduler(self) -> bool:
        """Whether decisions can depend on this object."""
        return is_read(self.kind, self.api_version)


def is_read(kind: str, api_version: str = "") -> bool:
    """Say whether decisions can depend on objects of a kind; kinds of other groups may have the same name."""
    if kind not in KINDS or kind in NOT_READ:
        return False
    return not api_version or api_version.rpartition("/")[0] == RESOURCES[kind].group


def complete(kind: str, found: Struct) -> None:
    """Give an object that was just decoded what the API server would: the default namespace, and a uid.

    The uid is made of namespace and name, so that references by uid, of which manifests have none, cannot be met.
    """
    meta = found.metadata  # type: ignore[attr-defined]
    if not meta.namespace and RESOURCES[kind].namespaced:
        force_setattr(meta, "namespace", "default")
    if not meta.uid:
        force_setattr(meta, "uid", f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name)


Part = Document | ReplicaRows


def count_of(part: Part) -> int:
    """Return how many objects a part of a file has."""
    return len(part) if isinstance(part, ReplicaRows) else 1


def documents_of(parts: Iterable[Part]) -> Iterator[Document]:
    """Yield the objects of parts of files, each as a document."""
    for part in parts:
        if isinstance(part, Document):
            yield part
            continue
        for filled in part.filled():
            of = filled.template
            yield Document(of.kind, filled, part.where, of.api_version, of.namespace, filled.texts[of.name_at])


class FileContents(NamedTuple):
    """What some files held: objects, and the headers of those that are snapshots."""

    parts: list[Part]
    headers: list[Header]

    @property
    def documents(self) -> list[Document]:
        """The objects, each as a document."""
        return list(documents_of(self.parts))


def read_documents(paths: Sequence[str | Path]) -> list[Document]:
    """Return the objects of files and directories, in order; `-` is standard input. Raises `SnapshotError`.

    Lists (`kind: List`, `PodList`, …) are taken apart. Of a directory, files with one of `SUFFIXES` are read, those of
    its directories too, by name.
    """
    return read_given(paths).documents


def read_manifests(paths: Sequence[str | Path], namespace: str = "default") -> list[Document]:
    """Return the objects of what people have written, as `read_documents` does.

    Raises `SnapshotError`, also for what an API server would not take. `namespace` is that of objects that name none.
    """
    return read_given(paths, strictly_in=namespace).documents


def read_given(paths: Sequence[str | Path], *, strictly_in: str = "") -> FileContents:
    """Return the objects as `read_documents` does, and the headers of snapshots. Raises `SnapshotError`.

    With a namespace, for objects that name none, they are read as manifests are.
    """
    given = FileContents([], [])
    for path in paths:
        if str(path) == "-":
            _take(unpacked(sys.stdin.buffer, "standard input"), "standard input", given, strictly_in)
            continue
        try:
            files = files_of(Path(path))
        except OSError as error:  # a name that is too long
            raise SnapshotError(f"{path}: {error.strerror}") from None
        for file in files:
            with opened(file) as stream:
                _take(stream, str(file), given, strictly_in)
    return given


def files_of(place: Path) -> Sequence[Path]:
    """Return the file, or those of a directory that may hold objects, by name. Raises `SnapshotError`, `OSError`."""
    if not place.is_dir():
        return (place,)
    refuse_chart(place)
    files = [each for each in sorted(place.rglob("*")) if each.name.removesuffix(".gz").endswith(SUFFIXES)]
    files = [each for each in files if each.is_file()]
    if not files:
        raise SnapshotError(f"{place}: no file with objects in it; looked for {', '.join(SUFFIXES)}")
    return files


def _take(stream: io.BufferedReader, source: str, given: FileContents, strictly_in: str) -> None:
    """Add the objects of one stream. A stream with a snapshot's header is not a manifest, and never read strictly."""
    room = room_of(stream)
    taken = _Taken(given, source, room)

    def parse(content: bytes) -> Iterator[Document]:
        way = _YamlWay(STRICT_PARSER if strictly_in else PARSER, room // NODE_BYTES)
        found = _parsed(content, source, way)
        return _strictly(found, strictly_in) if strictly_in else found

    start = stream.peek(512)[:512]
    if not start.strip():
        content = stream.read()
        if not content.strip():
            raise SnapshotError(f"{source}: nothing in it")
        taken.add(parse(content))
        return
    refuse_foreign(start, source)
    header = header_of(stream.peek(1)[:MAX_HEADER], source)
    if header is None:
        start_of_list = _LIST_START.match(stream.peek(1)[:512])
        if start_of_list is not None:
            listed = _indented_list(stream, start_of_list, source)
            taken.add(_strictly(listed, strictly_in) if strictly_in else listed)
        else:
            taken.add(parse(stream.read()))
        return
    stream.readline()
    given.headers.append(header)
    _take_snapshot(stream, header, source, taken)


class _Taken:
    """The objects of one stream on their way to the others, as long as there may be more, and as they have room."""

    __slots__ = ("_count", "_given", "_room", "_source")

    def __init__(self, given: FileContents, source: str, room: int) -> None:
        self._given, self._source, self._room = given, source, room
        self._count = sum(map(count_of, given.parts))

    def add(self, documents: Iterable[Document]) -> None:
        """Add objects that were read one by one."""
        for document in documents:
            self.add_part(document, len(document.json()))

    def add_replicas(self, folded: Iterable[tuple[ReplicaRows, int]]) -> None:
        """Add objects that were put under templates, with the bytes that they took."""
        for rows, size in folded:
            self.add_part(rows, size)

    def add_part(self, part: Part, size: int) -> None:
        """Add an object, or several, that say so much together."""
        count = count_of(part)
        self._count += count
        if self._count > MAX_OBJECTS:
            raise SnapshotError(f"{self._source}: more than {MAX_OBJECTS:,} objects; no cluster has as many")
        self._room -= size + OBJECT_BYTES * count
        if self._room < 0:
            raise SnapshotError(f"{self._source}: it unpacks to more objects than a file of its size has")
        self._given.parts.append(part)


def _take_snapshot(stream: io.BufferedReader, header: Header, source: str, taken: _Taken) -> None:
    counted: Counter[str] = Counter()
    templates: list[ReplicaTemplate] = []
    texts: dict[str, str] = {}
    folding = Folding(texts) if header.format < TEMPLATES_SINCE else None
    number = 1
    while line := stream.readline(MAX_LINE):
        number += 1
        if folding is not None:
            is_taken = folding.takes(line.rstrip(), number)
            if folding.is_full or not is_taken:
                taken.add_replicas(folding.given_up(source))
            if is_taken:
                counted["Pod"] += 1
                continue
        where = f"{source}:{number}"
        if len(line) >= MAX_LINE:
            raise SnapshotError(f"{where}: the line is longer than {MAX_LINE >> 20} MiB")
        if line.isspace():
            continue
        try:
            if line[0] == _BRACKET:
                replicas = read_rows(line, where, templates, texts)
                counted.update(template.kind for template in replicas.templates)
                taken.add_part(replicas, len(line))
                continue
            head = _TEMPLATES_HEAD if line.startswith(TEMPLATES_START) else _head(line, where)
            if head.kind == TEMPLATE:
                templates.append(read_template(line))
                continue
        except ReplicaTemplateError as error:
            raise SnapshotError(f"{where}: not readable as objects that are alike: {error}") from None
        document = _document(head, line.rstrip(), where)  # the rest is written without space
        counted[document.kind] += 1
        taken.add((document,))
    if folding is not None:
        taken.add_replicas(folding.given_up(source))
    for kind, count in header.counts.items():
        if counted[kind] != count:
            raise SnapshotError(
                f"{source}: its header counts {count} of kind {kind}, and {counted[kind]} are there: "
                "it is cut short, or was edited without its header"
            )


def parse_documents(content: bytes, source: str) -> Iterator[Document]:
    """Yield the objects of a text, JSON (one value or several, one a line or not) or YAML. Raises `SnapshotError`."""
    return _parsed(content, source, _YamlWay(PARSER))


def parse_manifests(content: bytes, source: str, namespace: str = "default") -> Iterator[Document]:
    """Yield the objects of what a person has written; what an API server would not take raises `SnapshotError`."""
    return _strictly(_parsed(content, source, _YamlWay(STRICT_PARSER)), namespace)


class _YamlWay(NamedTuple):
    """How YAML that is not plain is read."""

    parser: Any
    nodes_at_most: int = MAX_YAML_NODES

    def nodes_of(self, text: bytes) -> int:
        """Return how many values a text may stand for."""
        return min(MAX_YAML_NODES, self.nodes_at_most, FREE_NODES + len(text) // TEXT_A_NODE)


def _parsed(content: bytes, source: str, way: _YamlWay) -> Iterator[Document]:
    """Yield the objects of a text."""
    if _BEGINS_AS_JSON.match(content):
        yield from _parse_json(content, source)
    else:
        yield from _parse_yaml(content, source, way)


def _strictly(documents: Iterator[Document], namespace: str) -> Iterator[Document]:
    """Yield objects that an API server would take as well. Raises `UnreadableObject`."""
    for document in documents:
        mistakes = mistakes_in(document.kind, document.api_version, document.manifest)
        mistakes += repetitions_in(document.body) if isinstance(document.body, bytes) else []
        if mistakes:
            known = RESOURCES.get(document.kind)
            is_namespaced = known.namespaced if known is not None else document.kind != "RuntimeClass"
            place = f"{document.namespace or namespace}/" if is_namespaced and document.name else ""
            raise UnreadableObject(document.where, ObjectError(document.kind, place + document.name, told(mistakes)))
        yield document


_BEGINS_AS_JSON = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*[{\[][ \t\r\n]*(?:[\"{}\[\]]|$)")
"""What begins with a bracket and no quote or bracket after it is YAML in flow style."""


class _Metadata(msgspec.Struct, gc=False):
    name: str | None = None
    namespace: str | None = None


class _Head(msgspec.Struct, rename="camel", gc=False):
    """What has to be known of a document: what it is, and whether it is a list."""

    kind: str | None = None
    api_version: str | None = None
    metadata: _Metadata | None = None


class _List(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    items: msgspec.Raw = msgspec.Raw(b"null")


_NO_HEAD, _TEMPLATES_HEAD = _Head(), _Head(TEMPLATE)
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_list = msgspec.json.Decoder(_List).decode


def _head(content: bytes | memoryview | msgspec.Raw, where: str) -> _Head:
    try:
        return read_deep(_decode_head, content)
    except UNREADABLE as error:
        raise SnapshotError(f"{where}: not readable as an object: {problem_of(error)}") from None


class _Skipped(NamedTuple):
    """How much of a text was read before the current part: items of its list, and lines."""

    items: int = 0
    lines: int = 0


_NOTHING = _Skipped()
CHUNK = 8 << 20
_LIST_START = re.compile(rb'\{\n( +)((?:"(?:apiVersion|kind)": "[^"]{0,100}",\n\1)*)"items": \[\n(?=\1\1\{\n)')
"""A list as kubectl and jq indent it."""


def _indented_list(stream: io.BufferedReader, start: "re.Match[bytes]", source: str) -> Iterator[Document]:
    """Yield the objects of a list that kubectl has printed, without holding all of its text at once.

    JSON has no line ends inside of strings, so the bracket that ends an item stands in a line of its own, and no other
    bracket is indented by as much. Should that be wrong of some text, what was taken for an item is no JSON. From
    there on, and for the last item and what follows the list, the text is parsed as a whole.
    """
    stream.read(start.end())
    end = b"\n" + start[1] * 2 + b"}"
    between = end + b",\n"
    beginning = b"{" + start[2].replace(b"\n", b" ") + b'"items":['
    skipped = _Skipped(0, start[0].count(b"\n"))
    left = b""
    while chunk := stream.read(CHUNK):
        *items, left = (left + chunk).split(between)
        for number, item in enumerate(items):
            try:
                head = read_deep(_decode_head, item + end)
            except UNREADABLE:
                head = _NO_HEAD
            if not head.kind or head.kind.endswith("List"):
                rest = between.join([*items[number:], left]) + stream.read()
                yield from _parse_json(beginning + rest, source, skipped)
                return
            yield _document(head, item + end, f"{source}: items[{skipped.items}]")
            skipped = _Skipped(skipped.items + 1, skipped.lines + item.count(b"\n") + 2)
        if len(left) > MAX_LINE:
            left += stream.read()
    yield from _parse_json(beginning + left, source, skipped)


def _parse_json(content: bytes, source: str, skipped: _Skipped = _NOTHING) -> Iterator[Document]:
    """Yield the objects of one JSON value after the other."""
    rest = memoryview(content.removeprefix(b"\xef\xbb\xbf"))
    by_line, number = True, 0
    while len(rest := rest[_SPACE.match(rest).end() :]):  # type: ignore[union-attr]
        number += 1
        value = _first_line(rest) if by_line else None
        if value is None:
            # From here on lines are not looked for: that would search the rest again for every value.
            by_line, value = False, _first_value(rest, content, source, skipped.lines)
        rest = rest[len(value) :]
        where = source if number == 1 and not len(rest) else f"{source}, value {number}"
        if value[0] == _BRACKET:
            for index, part in enumerate(_elements(value, where)):
                yield from _taken_apart(part, f"{where}[{index}]")
        else:
            yield from _taken_apart(value, where, skipped.items if number == 1 else 0)


_BRACKET = ord("[")
_SPACE = re.compile(rb"[ \t\r\n]*")
_BYTE = re.compile(r" \(byte (\d+)\)")
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode


def _elements(array: memoryview, where: str) -> Iterator[memoryview]:
    """Yield the values of a JSON array one by one: all at once, empty ones would take 30 times the room of their text.

    What is no array is refused. The text is JSON as a whole, as whoever calls has seen.
    """
    if array[0] != _BRACKET:
        raise SnapshotError(f"{where}: not readable as a list: Expected `array` - at `$.items`")
    rest = array[1:]
    while (rest := rest[_BETWEEN.match(rest).end() :])[0] != _END:  # type: ignore[union-attr]
        value = _first_value(rest, b"", where, 0)
        yield value
        rest = rest[len(value) :]


_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_END = ord("]")


def _first_line(rest: memoryview) -> memoryview | None:
    """Return the first line of a text where that is a JSON value and not the whole text, else None."""
    end = _LINE_END.search(rest)
    if end is None:
        return None
    line = rest[: end.end()]
    try:
        read_deep(_decode_raw, line)
    except UNREADABLE:
        return None
    return line


_LINE_END = re.compile(rb"\n")


def _first_value(rest: memoryview, content: bytes, source: str, skipped_lines: int) -> memoryview:
    """Return the first JSON value of a text.

    msgspec reads whole texts. Where something follows, it has read no further, and names the byte after the first one
    that is too many.
    """
    try:
        read_deep(_decode_raw, rest)
    except UNREADABLE as error:
        said = problem_of(error)
        place = _BYTE.search(said)
        if place is not None and "trailing characters" in said and 1 < int(place[1]) <= len(rest):
            return rest[: int(place[1]) - 1]
        line = ""
        if place is not None:
            before = content.count(b"\n", 0, len(content) - len(rest) + int(place[1]))
            line = f":{skipped_lines + before + 1}"
            said = _BYTE.sub("", said)
            refuse_template(content, source, skipped_lines + before + 1)
        if "truncated" in said:
            said = "it ends in the middle"
        raise SnapshotError(f"{source}{line}: not readable as JSON: {said.removeprefix('JSON is ')}") from None
    return rest


def _taken_apart(content: bytes | memoryview | msgspec.Raw, where: str, skipped_items: int = 0) -> Iterator[Document]:
    """Yield an object, or those of a list."""
    head = _head(content, where)
    if not (head.kind or "").endswith("List"):
        yield _document(head, bytes(content), where)
        return
    try:
        found = read_deep(_decode_list, content)
    except UNREADABLE as error:
        raise SnapshotError(f"{where}: not readable as a list: {problem_of(error)}") from None
    items = memoryview(found.items)
    if bytes(items[:4]) == b"null":
        yield _document(head, bytes(content), where)
        return
    for number, item in enumerate(_elements(items, where), skipped_items):
        yield _item(head, item, f"{where}: items[{number}]")


def _item(of: _Head, content: bytes | memoryview, where: str) -> Document:
    """Return an item of a list. Servers leave out what the list says already; kubectl's `List` says nothing of them."""
    head = _head(content, where)
    kind = (of.kind or "").removesuffix("List")
    if not head.kind and kind:
        head = _Head(kind, head.api_version or of.api_version, head.metadata)
    if (head.kind or "").endswith("List"):
        raise SnapshotError(f"{where}: a list in a list")
    return _document(head, bytes(content), where)


def _document(head: _Head, body: bytes, where: str) -> Document:
    """Return an object in the version of its struct, without the space that kubectl indents with."""
    if not head.kind:
        raise SnapshotError(f"{where}: an object without a kind")
    kind, api_version = head.kind, head.api_version or ""
    if kind not in USUAL_KINDS:
        refuse_unknown_kind(kind, api_version, where)
    if b"\n" in body:
        body = read_deep(msgspec.json.format, body, indent=-1)
    served = _older(kind, api_version)
    if served is not None:
        try:
            body = msgspec.json.encode(to_structs(served, read_deep(msgspec.json.decode, body)))
        except ObjectError as error:
            raise UnreadableObject(where, error) from None
        api_version = RESOURCES[kind].api_version
    meta = head.metadata or _NO_METADATA
    return Document(sys.intern(kind), body, where, sys.intern(api_version), meta.namespace or "", meta.name or "")


_NO_METADATA = _Metadata()


def _older(kind: str, api_version: str) -> Resource | None:
    """Return the version that an object is in, where that has to be converted."""
    known = RESOURCES.get(kind)
    if known is None or not api_version or known.api_version == api_version:
        return None
    return next((each for each in versions_of(kind) if each.api_version == api_version and is_converted(each)), None)


NOT_CONSTRUCTED = (ValueError, KeyError, AttributeError, TypeError, IndexError, OverflowError, RecursionError)
"""What PyYAML's constructors raise for `!!bool maybe`, `!!int x`, `!!timestamp now` and the like."""


def _parse_yaml(content: bytes, source: str, way: _YamlWay) -> Iterator[Document]:
    try:
        found = _plain_documents(content, source, way)
    except UnusualYAML:
        yield from _parse_any_yaml(content, source, way)
    else:
        yield from found


def _plain_documents(content: bytes, source: str, way: _YamlWay) -> list[Document]:
    """Return the objects of YAML as kubectl writes it; PyYAML is asked about single objects only.

    Raises `UnusualYAML` where it has to read the text as a whole, and to say what is wrong with it. The text is cut
    where a line says `---` or begins an item. A cut inside of a scalar or a flow collection leaves the part before it
    without its end, and an alias whose anchor is in another part is an error, so that no part means something else
    than it does in the whole.
    """
    if _MARKERS.search(content):
        raise UnusualYAML
    texts = content.removeprefix(b"---\n").split(b"\n---\n")
    found: list[Document] = []
    for number, text in enumerate(texts, 1):
        where = source if len(texts) == 1 else f"{source}, document {number}"
        head, items = _NO_HEAD, _NO_ITEMS
        with suppress(UnusualYAML):
            list_, items = plain_list(text)
            head = _head(_encoded(list_, where), where)
        if (head.kind or "").endswith("List"):
            found += (
                _item(head, _encoded(_yaml_value(item, 2, way), where), f"{where}: items[{at}]")
                for at, item in enumerate(items)
            )
        elif text.strip():
            found += _objects_of(_yaml_value(text, 0, way), where)
    return found


_NO_ITEMS: Iterator[bytes] = iter(())
_MARKERS = re.compile(rb"(?m)^(?:---[ \t\r]|\.\.\.|%|\xef\xbb\xbf)")


def _yaml_value(text: bytes, indent: int, way: _YamlWay) -> Any:
    """Return the value of a part of a text, which has no aliases that make it larger. Raises `UnusualYAML`."""
    try:
        return parse_plain(text, indent)
    except UnusualYAML:
        try:
            refuse_bombs(text, max_nodes=min(len(text), way.nodes_of(text)))
            return yaml.load(text, Loader=way.parser)
        except (yaml.YAMLError, *NOT_CONSTRUCTED):
            raise UnusualYAML from None


def _parse_any_yaml(content: bytes, source: str, way: _YamlWay) -> Iterator[Document]:
    try:
        refuse_bombs(content, max_nodes=way.nodes_of(content))
        values = list(yaml.load_all(content, Loader=way.parser))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        refuse_template(content, source, mark.line + 1 if mark else 1)
        raise SnapshotError(f"{source}{line}: not readable as YAML: {shortened(yaml_problem(error))}") from None
    except (yaml.YAMLError, UnreasonableYAML, UnicodeDecodeError) as error:
        raise SnapshotError(f"{source}: not readable as YAML: {shortened(yaml_problem(error))}") from None
    except NOT_CONSTRUCTED as error:
        said = f"a value that is not what its tag says ({type(error).__name__}: {shortened(str(error))})"
        raise SnapshotError(f"{source}: not readable as YAML: {said}") from None
    for number, value in enumerate(values, 1):
        yield from _objects_of(value, source if len(values) == 1 else f"{source}, document {number}")


def _objects_of(value: Any, where: str) -> Iterator[Document]:
    """Yield the objects that a YAML document holds."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise SnapshotError(f"{where}: an object is expected, not {_WORDS.get(type(value), 'a value')}")
    yield from _taken_apart(_encoded(value, where), where)


def _encoded(value: Any, where: str) -> bytes:
    """Return YAML's value as JSON: so a date is text as in the API, and every later step has one form to deal with."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SnapshotError(f"{where}: not readable as an object: {shortened(str(error))}") from None


_WORDS: Mapping[type, str] = MappingProxyType({list: "a list", str: "text", int: "a number", float: "a number"})
