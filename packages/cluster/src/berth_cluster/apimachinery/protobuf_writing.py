"""Writes objects in the Kubernetes protobuf format, for clients that prefer it, as Go's typed clients may be set to.

Writing is driven by the schemas, as reading is (`protobuf`). For each type there is a plan, made once: under the name
of each field a function that writes it with its number. An object has been checked when it came in, so that its values
have the types of their fields; texts that are no times or no base64, which nobody checks, are left out.
"""

import base64
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.protobuf import MAGIC, SCHEMA, type_on_the_wire
from berth_cluster.apimachinery.schema import OBJECT_META, Field, message

Write = Callable[[Any], bytes]

_VARINT, _FIXED64, _SIZED = 0, 1, 2  # wire types
_SHORT = tuple(bytes([number]) for number in range(128))
_KEY, _VALUE = b"\x0a", b"\x12"  # of an entry of a map, and of any other message with two fields
_MASK = (1 << 64) - 1


def encode(obj: Object) -> bytes | None:
    """An object in its envelope; None where its kind has no form in protobuf."""
    api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
    known = type_on_the_wire(api_version, kind)
    return None if known is None else in_envelope(api_version, kind, _encoded(known.name, obj))


def message_of(obj: Object) -> bytes:
    """An object of a kind that has a form in protobuf, without an envelope, as lists have it."""
    known = type_on_the_wire(obj["apiVersion"], obj["kind"])
    assert known is not None, obj["kind"]
    return _encoded(known.name, obj)


def metadata_message(meta: Object) -> bytes:
    """A `PartialObjectMetadata`."""
    return _KEY + _sized(_encoded(OBJECT_META, meta))


def list_message(meta: Object, items: Iterable[bytes]) -> bytes:
    """A list of messages."""
    parts = [_KEY, _sized(_encoded("meta.v1.ListMeta", meta))]
    for item in items:
        parts += (_VALUE, _varint(len(item)), item)
    return b"".join(parts)


def in_envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """A message as `runtime.Unknown` has it, which says of what kind it is."""
    about = _KEY + _text(api_version) + _VALUE + _text(kind)
    return b"".join((MAGIC, _KEY, _sized(about), _VALUE, _varint(len(raw)), raw, b"\x1a\x00\x22\x00"))


def watch_event(change_type: str, enveloped: bytes) -> bytes:
    """An event of a watch, after its length, as streams have it."""
    event = _KEY + _text(change_type) + _VALUE + _sized(_KEY + _sized(enveloped))
    return struct.pack(">I", len(event)) + event


class _Plan(NamedTuple):
    """How a type is written: its fields by name, and the structs that it has inline, each under its number."""

    fields: dict[str, Write]
    inline: tuple[tuple[bytes, str], ...]


@cache
def _plan(name: str) -> _Plan:
    fields: dict[str, Write] = {}
    inline = []
    for number, field in message(name).numbers.items():
        if field.name == "inline":
            inline.append((_tag(number, _SIZED), field.type))
        else:
            fields[field.name] = _field(number, field)
    return _Plan(fields, tuple(inline))


def _encoded(name: str, obj: Object) -> bytes:
    plan = _plan(name)
    parts = [
        write(value) for key, value in obj.items() if value is not None and (write := plan.fields.get(key)) is not None
    ]
    for tag, part in plan.inline:
        if inside := _encoded(part, obj):
            parts += (tag, _sized(inside))
    return b"".join(parts)


def _field(number: int, field: Field) -> Write:
    """What writes the field of that number with all that it holds."""
    kind = field.type
    wire, write = _SCALARS.get(kind) or (_SIZED, lambda value: _sized(_encoded(kind, value)))
    tag = _tag(number, _SIZED if field.is_map else wire)
    if field.is_map:
        value_tag = _tag(2, wire)
        return lambda entries: b"".join(
            [tag + _sized(_KEY + _text(key) + value_tag + write(value)) for key, value in entries.items()]
        )
    if field.is_list:
        return lambda values: b"".join([tag + write(value) for value in values])
    return lambda value: tag + write(value)


def _tag(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(number: int) -> bytes:
    if 0 <= number < len(_SHORT):
        return _SHORT[number]
    number &= _MASK
    made = bytearray()
    while number >= len(_SHORT):
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _text(value: str) -> bytes:
    return _sized(value.encode())


def _base64(value: str) -> bytes:
    try:
        return _sized(base64.b64decode(value))
    except ValueError:
        return b"\x00"


@lru_cache(maxsize=4096)
def _time(value: str) -> bytes:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return b"\x00"
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return _sized(b"\x08" + _varint(seconds) + b"\x10" + _varint(moment.microsecond * 1000))


def _int_or_string(value: int | str) -> bytes:
    is_text = isinstance(value, str)
    number, text = (0, value) if is_text else (value, "")
    return _sized(b"\x08" + _SHORT[is_text] + b"\x10" + _varint(int(number)) + b"\x1a" + _text(str(text)))


def _raw(value: Any) -> bytes:
    return _sized(_KEY + _sized(msgspec.json.encode(value)))


def _schema_or(value: Any) -> bytes:
    """A schema, or several schemas or texts in its place."""
    if isinstance(value, dict):
        return _sized(_KEY + _sized(_encoded(SCHEMA, value)))
    several = [_text(one) if isinstance(one, str) else _sized(_encoded(SCHEMA, one)) for one in value]
    return _sized(b"".join([_VALUE + one for one in several]))


def _schema_or_bool(value: Any) -> bytes:
    schema = _VALUE + _sized(_encoded(SCHEMA, value)) if isinstance(value, dict) else b""
    return _sized(b"\x08" + _SHORT[bool(value) or bool(schema)] + schema)


# scalar -> its wire type, and what writes a value of it with its size where it has one
_SCALARS: MappingProxyType[str, tuple[int, Write]] = MappingProxyType(
    {
        "any": (_SIZED, _raw),
        "bool": (_VARINT, lambda value: _SHORT[bool(value)]),
        "bytes": (_SIZED, _base64),
        "double": (_FIXED64, struct.Struct("<d").pack),
        "int32": (_VARINT, _varint),
        "int64": (_VARINT, _varint),
        "IntOrString": (_SIZED, _int_or_string),
        "JSON": (_SIZED, _raw),
        "JSONSchemaPropsOrArray": (_SIZED, _schema_or),
        "JSONSchemaPropsOrBool": (_SIZED, _schema_or_bool),
        "JSONSchemaPropsOrStringArray": (_SIZED, _schema_or),
        "MicroTime": (_SIZED, _time),
        "Quantity": (_SIZED, lambda value: _sized(_KEY + _text(str(value)))),
        "string": (_SIZED, _text),
        "Time": (_SIZED, _time),
    }
)
