"""API objects as a recording holds them: each as what distinguishes it from an object that came before.

`ObjectWriter` turns objects into plain values for the encoder, `RecordedObjects` turns these back into equal objects.
The newer state of an object is written as the fields that have changed. A new object is written as the fields in which
it differs from the last one of its owner, or of its kind, since most pods of a cluster are replicas. Both sides number
objects in the order in which they come, so a reader has to see everything from the beginning of a segment on.

Annotations that hold secrets, and kubectl's copy of the whole manifest, are replaced by a salted hash: what compares
two states still sees that they differ, and nobody sees more.
"""

import hashlib
import secrets
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from itertools import compress
from operator import is_not
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, astuple, replace

from berth.api.codec import KINDS
from berth.api.custom import CustomObject
from berth.api.meta import ObjectMeta, Struct
from berth.api.redaction import REDACTED, is_secret
from berth.recording.errors import RecordingError

WHOLE, LIKE, NEWER, FOREIGN = range(4)
"""How an object is written: with all fields, as a new one like another, as a newer state, or as a document."""

MOST_BASES: Final = 10_000
"""Of how many owners the last object is remembered; Jobs come and go, and each is an owner."""
APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

Plain = list[Any]

_ENCODE = msgspec.msgpack.Encoder().encode
_SCALARS = frozenset({str, int, float, bool, type(None)})


def plain_mapping(value: Any) -> Any:
    """Turn what the encoder does not know into something that it does: read-only mappings and sets."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be recorded")


class ObjectWriter:
    """Writes the objects of one segment."""

    __slots__ = ("_bases", "_known", "_next", "_salt")

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[int, Struct]] = {}
        self._bases: dict[tuple[str, str, str], tuple[str, str, str]] = {}
        """The object that came last of an owner, and of a kind, by (kind, namespace, the owner's uid)."""
        self._next = 0
        self._salt = secrets.token_bytes(16)

    def write(self, kind: str, obj: Any, *, is_last: bool = False) -> Plain:
        """Return what stands for an object in this state; `is_last` where it is deleted, so that it can be forgotten.

        `kind` is what events call it. The values returned are plain but for API structs, which encoders know.
        """
        if not _is_ours(kind, obj):
            return [FOREIGN, kind, obj.content if isinstance(obj, CustomObject) else msgspec.to_builtins(obj)]
        meta: ObjectMeta = obj.metadata
        key = (kind, meta.namespace, meta.name)
        found = self._known.get(key)
        if found is not None:
            number, old = found
            if is_last:
                del self._known[key]
            else:
                self._known[key] = (number, obj)
            return [NEWER, number, self._changes(old, obj)]
        number, self._next = self._next, self._next + 1
        owner = meta.owner_references[0].uid if meta.owner_references else ""
        like = self._base((kind, meta.namespace, owner)) or self._base((kind, "", ""))
        if is_last:
            return [WHOLE, number, kind, self._clean(obj)]
        self._known[key] = (number, obj)
        if len(self._bases) >= MOST_BASES:
            self._bases.clear()
        self._bases[kind, meta.namespace, owner] = self._bases[kind, "", ""] = key
        if like is None:
            return [WHOLE, number, kind, self._clean(obj)]
        return [LIKE, number, like[0], self._changes(like[1], obj)]

    def _base(self, place: tuple[str, str, str]) -> tuple[int, Struct] | None:
        """Return the last object of a place, if it is still there: readers forget what was deleted, too."""
        key = self._bases.get(place)
        found = None if key is None else self._known.get(key)
        if key is not None and found is None:
            del self._bases[place]
        return found

    def _changes(self, old: Any, new: Any) -> list[Plain]:
        """Return the fields that differ; of structs within, the fields of these that differ."""
        found: list[Plain] = []
        for field, before, after in _differing(old, new):
            if isinstance(before, Struct) and type(before) is type(after):
                changed = [[part, self._cleaned(part, value)] for part, _, value in _differing(before, after)]
                found.append([field, changed, True])
            else:
                found.append([field, after, False])
        return found

    def _clean(self, obj: Any) -> Any:
        annotations = self._cleaned("annotations", obj.metadata.annotations)
        if annotations is obj.metadata.annotations:
            return obj
        return replace(obj, metadata=replace(obj.metadata, annotations=annotations))

    def _cleaned(self, field: str, value: Any) -> Any:
        if field != "annotations" or not any(_is_left_out(name) for name in value):
            return value
        return {name: self._hidden(text) if _is_left_out(name) else text for name, text in value.items()}

    def _hidden(self, text: str) -> str:
        return f"{REDACTED} {hashlib.blake2b(text.encode(), key=self._salt, digest_size=8).hexdigest()}"


def _is_ours(kind: str, obj: Any) -> bool:
    """Say whether an object is of one of the kinds that Berth reads, and not a plugin's of the same name."""
    return KINDS.get(kind) is type(obj)


def _is_left_out(annotation: str) -> bool:
    return annotation == APPLIED or is_secret(annotation)


def _differing(old: Struct, new: Struct) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields that differ, with both values. Most are shared, so that they are the same object."""
    before, after = astuple(old), astuple(new)
    fields = zip(old.__struct_fields__, before, after, strict=True)
    return (each for each in compress(fields, map(is_not, before, after)) if not _is_same(each[1], each[2]))


def _is_same(before: Any, after: Any) -> bool:
    """Say whether two values are the same, the order of what they hold included: plugins may go by it."""
    if type(before) is not type(after) or before != after:
        return False
    return type(before) in _SCALARS or _ENCODE(before) == _ENCODE(after)


ReadForeign = Callable[[str, Mapping[str, Any]], Any]


class RecordedObjects:
    """Reads the objects of one segment."""

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: dict[int, Struct] = {}

    def read(self, written: Plain, foreign: ReadForeign, *, is_last: bool = False) -> Any:
        """Return the object that was written; `foreign` reads those of custom resources. Raises `RecordingError`."""
        try:
            return self._read(written, foreign, is_last=is_last)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, RecordingError):
                raise
            raise RecordingError(f"an object in it cannot be read: {error}") from None

    def _read(self, written: Plain, foreign: ReadForeign, *, is_last: bool) -> Any:
        how, number = written[0], written[1]
        if how == FOREIGN:
            return foreign(written[1], written[2])
        if how == WHOLE:
            found = msgspec.convert(written[3], KINDS[written[2]])
        else:
            base = written[2] if how == LIKE else number
            changes = written[3] if how == LIKE else written[2]
            found = _changed(self._objects[base], changes)
        if is_last:
            self._objects.pop(number, None)
        else:
            self._objects[number] = found
        return found


def _changed(base: Any, changes: list[Plain]) -> Any:
    if not changes:
        return base
    types = _field_types(base.__class__)
    found = {}
    for field, value, is_within in changes:
        if is_within:
            within = asdict(base)[field]
            inner = _field_types(within.__class__)
            found[field] = replace(within, **{part: msgspec.convert(each, inner[part]) for part, each in value})
        else:
            found[field] = msgspec.convert(value, types[field])
    return replace(base, **found)


@lru_cache(maxsize=256)
def _field_types(struct: Hashable) -> Mapping[str, Any]:
    return MappingProxyType({field.name: field.type for field in msgspec.structs.fields(struct)})  # type: ignore[arg-type]  # a Struct class, which is hashable
