"""Pods that say the same but for a few texts: what a snapshot file holds of them is said once, with a row for each pod.

A cluster's pods are replicas: name, uid, node and times differ, and the rest is that of the workload. So the file has
a `ReplicaTemplate`, an object in which the places of `DIFFER` are empty, and for each pod the texts that stand there.
What reads the file need not parse, check and share a hundred thousand objects then, but some thousand: a pod's struct
is that of its template with other texts (`struct`). Where the whole object is asked for, it is put together again.

The invariant: a filled template is, as JSON, the object that was given, to the order of its fields.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from berth.api.meta import Struct
from berth.api.read_only import ReadOnlyDict
from berth.api.shared_parts import shallow_copy
from berth.api.untrusted import UNREADABLE, problem_of, read_deep

Path = tuple[str | int, ...]
"""Where a text stands in an object: names of fields, and places in lists."""

_DAEMONS_NODE: Path = (
    "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", 0,
    "matchFields", 0, "values", 0,
)  # fmt: skip
STARTED: Path = ("status", "startTime")
"""All in which the status of replicas differs."""
DIFFER: tuple[Path, ...] = (
    ("metadata", "name"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
    ("metadata", "creationTimestamp"),
    ("spec", "nodeName"),
    _DAEMONS_NODE,
    STARTED,
    ("metadata", "labels", "apps.kubernetes.io/pod-index"),
    ("metadata", "labels", "statefulset.kubernetes.io/pod-name"),
    ("metadata", "labels", "batch.kubernetes.io/job-completion-index"),
    ("metadata", "annotations", "batch.kubernetes.io/job-completion-index"),
)
"""The texts in which replicas differ, as far as a snapshot keeps them; a DaemonSet's pods name their node twice."""

UNIQUE = frozenset({("metadata", "name"), ("metadata", "uid"), ("metadata", "resourceVersion")})
"""Those that no other object has."""

_encode = msgspec.json.Encoder().encode
_MARK = re.compile(rb'"\\u0000berth (\d+)\\u0000"')


class ReplicaTemplateError(ValueError):
    """What a file gives as a template is none; the message says why."""


class Filled(msgspec.Struct, frozen=True, gc=False):
    """A template with the texts of one object."""

    template: "ReplicaTemplate"
    texts: list[str]

    def json(self) -> bytes:
        """Return the object as JSON."""
        return self.template.json(self.texts)


class ReplicaTemplate:
    """An object in which some texts are left out."""

    __slots__ = (
        "_made", "_mentioned", "_parts", "_places", "_plan", "api_version", "common", "kind", "name_at", "namespace",
        "paths",
    )  # fmt: skip

    def __init__(self, manifest: Any, paths: Sequence[Path]) -> None:
        """`paths` say which texts of the manifest are left out, whatever stands there.

        Raises `ReplicaTemplateError`.
        """
        marked = manifest
        for place, path in enumerate(paths):
            marked = _with(marked, path, f"\0berth {place}\0")
        # Texts and, between them, which of the texts that are left out stands there.
        parts = _MARK.split(read_deep(_encode, marked))
        self._parts, self._places = parts[::2], [int(place) for place in parts[1::2]]
        if sorted(self._places) != list(range(len(paths))):
            raise ReplicaTemplateError("it leaves a place out twice, or has the mark for one in its text")
        metadata = manifest.get("metadata")
        said = manifest.get("kind"), manifest.get("apiVersion", ""), metadata.get("namespace", "")
        if ("metadata", "name") not in paths or not all(isinstance(each, str) for each in said) or not said[0]:
            raise ReplicaTemplateError("it has no kind, or no name is left out")
        self.kind, self.api_version, self.namespace = said
        self.paths = tuple(paths)
        self.name_at = self.paths.index(("metadata", "name"))
        self.common = [place for place, path in enumerate(self.paths) if path not in UNIQUE]
        """Where texts stand that other objects have, too."""
        self._mentioned: dict[bytes, bool] = {}
        """What was asked for, which are some names of fields."""
        self._made: Struct | None = None
        self._plan: list[_Part] = []

    def json(self, texts: Sequence[str]) -> bytes:
        """Return the object with these texts, one for each path, as JSON."""
        found = [self._parts[0]]
        for place, part in zip(self._places, self._parts[1:], strict=True):
            found += (_encode(texts[place]), part)
        return b"".join(found)

    def texts_of(self, body: bytes) -> list[str] | None:
        """Return the texts with which the template is this object, byte for byte; None where it is another one.

        None as well where a text is not plain: that is left to a reader of JSON.
        """
        texts = [""] * len(self._places)
        at = len(self._parts[0])
        if not body.startswith(self._parts[0]):
            return None
        for place, part in zip(self._places, self._parts[1:], strict=True):
            end = body.find(b'"', at + 1)
            raw = body[at + 1 : end]
            if not body.startswith(b'"', at) or end < 0 or b"\\" in raw or not body.startswith(part, end + 1):
                return None
            texts[place] = raw.decode(errors="replace")
            if not raw.isascii() or not texts[place].isprintable():
                return None
            at = end + 1 + len(part)
        return texts if at == len(body) else None

    def mentions(self, words: bytes) -> bool:
        """Say whether these words are in what all its objects say; asked once for each of thousands of objects."""
        found = self._mentioned.get(words)
        if found is None:
            found = self._mentioned[words] = any(words in part for part in self._parts)
        return found

    def struct(self, texts: Sequence[str], read: Callable[[bytes], Struct]) -> Struct:
        """Return the object with these texts as the scheduler reads it, which shares all else with the others.

        `read` reads the first one, and raises where it cannot.
        """
        if self._made is None:
            self._made = read(self.json(texts))
            self._plan = _plan(self._made, self.paths)
        found: Struct = shallow_copy(self._made)
        for part in self._plan:
            if part.repeats_at is not None and part.text == texts[part.repeats_at]:
                force_setattr(found, part.name, part.last)
                continue
            value = shallow_copy(getattr(self._made, part.name))
            for field, place in part.own:
                force_setattr(value, field, texts[place])
            for path, place in part.deep:
                force_setattr(value, path[0], _put(getattr(value, path[0]), path, texts[place], 1))
            force_setattr(found, part.name, value)
            if part.repeats_at is not None:
                part.text, part.last = texts[part.repeats_at], value
        return found


class ReplicaRows(msgspec.Struct, frozen=True):
    """Objects that stand together in a file, as their templates and texts: there are a hundred thousand of them."""

    templates: list[ReplicaTemplate]
    """That of each."""
    texts: list[list[str]]
    where: str

    def __len__(self) -> int:
        return len(self.texts)

    def filled(self) -> Iterator[Filled]:
        """Yield them one by one."""
        return map(Filled, self.templates, self.texts)


class _Part(msgspec.Struct):
    """What of a struct differs: the name of a field that is a struct, the fields of that, and what lies deeper."""

    name: str
    own: list[tuple[str, int]]
    """Each with the place of its text."""
    deep: list[tuple[Any, int]]
    repeats_at: int | None = None
    """The place of the only text, if objects that come together often have the same one there: pods of a workload, the
    second in which they started."""
    text: str | None = None
    last: Any = None
    """The value that was made last, and its text."""


def _plan(made: Struct, paths: Sequence[Path]) -> list[_Part]:
    parts: dict[str, _Part] = {}
    for place, path in enumerate(paths):
        fields = _fields_at(made, path)
        if fields is None or len(fields) < 2:  # the scheduler does not read it
            continue
        part = parts.setdefault(fields[0], _Part(fields[0], [], []))
        if len(fields) == 2:
            part.own.append((fields[1], place))
        else:
            part.deep.append((fields[1:], place))
        if path == STARTED:
            part.repeats_at = place
    return list(parts.values())


def _fields_at(made: Any, path: Path) -> list[Any] | None:
    """Return the way to a text in a struct, with its own names of fields; None where it has no such text."""
    found: list[Any] = []
    for step in path:
        if isinstance(made, msgspec.Struct):
            if step not in made.__struct_encode_fields__:
                return None
            found.append(made.__struct_fields__[made.__struct_encode_fields__.index(str(step))])
            made = getattr(made, found[-1])
        elif (isinstance(made, Mapping) and step in made) or (
            isinstance(made, tuple) and isinstance(step, int) and 0 <= step < len(made)
        ):
            found.append(step)
            made = made[step]  # type: ignore[index] # a number where it is a tuple
        else:
            return None
    return found if isinstance(made, str) else None


def _put(value: Any, path: Sequence[Any], text: str, at: int = 0) -> Any:
    """Return a part of a struct with another text in one place, to which `path` leads from `at` on."""
    if at == len(path):
        return text
    step = path[at]
    if isinstance(value, tuple):
        return (*value[:step], _put(value[step], path, text, at + 1), *value[step + 1 :])
    if isinstance(
        value, dict
    ):  # as all maps in structs are; to ask whether it is a `Mapping` takes longer than the rest
        changed = ReadOnlyDict(value)
        dict.__setitem__(changed, step, _put(value[step], path, text, at + 1))
        return changed
    found = shallow_copy(value)
    force_setattr(found, step, _put(getattr(value, step), path, text, at + 1))
    return found


def _with(value: Any, path: Path, text: str) -> Any:
    """Return JSON with another text in one place. Raises `ReplicaTemplateError` where there is none."""
    if not path:
        if isinstance(value, str):
            return text
    elif isinstance(value, Mapping) and path[0] in value:
        return {**value, path[0]: _with(value[path[0]], path[1:], text)}
    elif isinstance(value, list) and isinstance(path[0], int) and 0 <= path[0] < len(value):
        return [*value[: path[0]], _with(value[path[0]], path[1:], text), *value[path[0] + 1 :]]
    raise ReplicaTemplateError("there is no text in a place that is left out")


# -- in a file -------------------------------------------------------------------------------------------------------

KIND = "BerthTemplate"
START = b'{"kind":"BerthTemplate",'
"""How such a line is written, so that it need not be read to see what it is."""
TEMPLATES_SINCE = 2
"""The format of a file in which there may be templates."""
ROWS_AT_MOST = 1000
"""So many objects stand in one line."""


class _Line(msgspec.Struct, tag_field="kind", tag=KIND):
    """The line of a template."""

    object: dict[str, Any]
    differ: list[list[str | int]]


_decode_template = msgspec.json.Decoder(_Line).decode
_decode_rows = msgspec.json.Decoder(list[tuple[int, list[str]]]).decode


def read_template(line: bytes) -> ReplicaTemplate:
    """Return the template of a line. Raises `ReplicaTemplateError`."""
    try:
        found = read_deep(_decode_template, line)
        return ReplicaTemplate(found.object, [tuple(path) for path in found.differ])
    except UNREADABLE as error:
        raise ReplicaTemplateError(problem_of(error)) from None


def read_rows(line: bytes, where: str, templates: Sequence[ReplicaTemplate], known: dict[str, str]) -> ReplicaRows:
    """Return the objects of a line of rows, each a template's number and its texts. Raises `ReplicaTemplateError`.

    `known` has the texts that came before, of those that several objects may have: nodes and times.
    """
    try:
        rows = read_deep(_decode_rows, line)
    except UNREADABLE as error:
        raise ReplicaTemplateError(problem_of(error)) from None
    of_rows: list[ReplicaTemplate] = []
    for number, texts in rows:
        if not 0 <= number < len(templates) or len(texts) != len(templates[number].paths):
            raise ReplicaTemplateError(f"a row that does not fit template {number}")
        template = templates[number]
        for place in template.common:
            texts[place] = known.setdefault(texts[place], texts[place])
        of_rows.append(template)
    return ReplicaRows(of_rows, [texts for _, texts in rows], where)


class Folding:
    """Puts pods under templates that a file of the first format has one by one, while it is read."""

    __slots__ = ("_first", "_hints", "_rows", "_seen", "_size", "_texts")

    def __init__(self, texts: dict[str, str]) -> None:
        """`texts` is what `read_rows` takes as `known`."""
        self._texts = texts
        self._seen: dict[bytes, ReplicaTemplate | None] = {}
        """By what replicas have in common; None as long as there is one only, for which a template would not pay."""
        self._hints: dict[bytes, ReplicaTemplate] = {}
        """By labels: which template to compare with first."""
        self._rows: list[tuple[ReplicaTemplate, list[str]]] = []
        self._first = self._size = 0

    def takes(self, body: bytes, line: int) -> bool:
        """Take the object of a line; say no to what is no pod, or the first of its sort."""
        row = self._row(body) if body.startswith(_POD) else None
        if row is None:
            return False
        template, texts = row
        for place in template.common:
            texts[place] = self._texts.setdefault(texts[place], texts[place])
        self._first = self._first if self._rows else line
        self._rows.append(row)
        self._size += len(body)
        return True

    @property
    def is_full(self) -> bool:
        """Whether so many objects were taken as stand in one line."""
        return len(self._rows) >= ROWS_AT_MOST

    def given_up(self, source: str) -> Iterator[tuple[ReplicaRows, int]]:
        """Yield the objects of the last few lines, and their bytes, if there are any; nothing is kept of them."""
        if self._rows:
            where = f"{source}:{self._first}" + (f" and {len(self._rows) - 1} after it" if len(self._rows) > 1 else "")
            yield ReplicaRows([each for each, _ in self._rows], [texts for _, texts in self._rows], where), self._size
            self._rows, self._size = [], 0

    def _row(self, body: bytes) -> tuple[ReplicaTemplate, list[str]] | None:
        labels = _LABELS.search(body)
        hint = b"" if labels is None else labels[0]
        template = self._hints.get(hint)
        texts = None if template is None else template.texts_of(body)
        if template is not None and texts is not None:
            return template, texts
        try:
            cut = _cut(body)
        except UNREADABLE:
            return None  # whoever reads it as it is says what is wrong
        if cut is None:
            return None
        key, texts = cut
        if key not in self._seen:
            self._seen[key] = None
            return None
        template = self._seen[key] or read_template(key)
        self._seen[key] = self._hints[hint] = template
        return template, texts


_POD = b'{"kind":"Pod",'
_LABELS = re.compile(rb'"labels":\{[^}]*\}')


def lines_of(objects: Sequence[bytes], may_be_cut: Callable[[int], bool]) -> Iterator[bytes]:
    """Yield the lines in which objects are written: templates first, then all objects in their order.

    `may_be_cut` says of an object, by its place, whether it may be one of several that say the same.
    """
    numbers: dict[bytes, int] = {}
    cuts: list[tuple[int, list[str]] | None] = []
    for place, body in enumerate(objects):
        cut = _cut(body) if may_be_cut(place) else None
        cuts.append(None if cut is None else (numbers.setdefault(cut[0], len(numbers)), cut[1]))
    counts = Counter(number for number, _ in filter(None, cuts))
    written: dict[int, int] = {}
    for key, number in numbers.items():
        if counts[number] > 1:  # what stands alone is written as it is
            written[number] = len(written)
            yield key
    rows: list[tuple[int, list[str]]] = []
    for body, row in zip(objects, cuts, strict=True):
        is_row = row is not None and row[0] in written
        if rows and (not is_row or len(rows) == ROWS_AT_MOST):
            yield _encode(rows)
            rows.clear()
        if row is not None and is_row:
            rows.append((written[row[0]], row[1]))
        else:
            yield body
    if rows:
        yield _encode(rows)


def _cut(body: bytes) -> tuple[bytes, list[str]] | None:
    """Return the line of an object's template, and its texts; None where it cannot be taken apart."""
    manifest = read_deep(msgspec.json.decode, body)
    differ: list[Path] = []
    texts: list[str] = []
    for path in DIFFER:
        holder = manifest
        try:
            for step in path[:-1]:
                holder = holder[step]
            text = holder[path[-1]]
        except (KeyError, IndexError, TypeError):  # it has no such place
            continue
        if isinstance(text, str) and not isinstance(holder, str):
            differ.append(path)
            texts.append(text)
            holder[path[-1]] = ""
    if differ[:1] != [DIFFER[0]] or not isinstance(manifest.get("kind"), str):
        return None
    key = read_deep(_encode, _Line(manifest, [list(path) for path in differ]))
    if _MARK.search(key):
        return None
    return key, texts
