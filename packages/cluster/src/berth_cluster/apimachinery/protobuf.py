"""Reads request bodies in the Kubernetes protobuf format, which Go clients send for built-in types.

Decoding is driven by the schemas and gives plain JSON values. `protobuf_writing` goes the other way.
"""

import base64
import json
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from berth.api.protobuf_messages import message_classes
from berth_cluster.apimachinery.errors import bad_request, too_large, unsupported_media_type
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.reason import MAX_VALUES
from berth_cluster.apimachinery.schema import PLAIN, Field, Message, find_message, message, message_of

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
# What wraps an object, an entry of a map, and types for which JSON has a form of its own.
_KNOWN = MappingProxyType(
    {
        "Unknown": "1 type_meta bytes, 2 raw bytes",
        "TypeMeta": "1 version string, 2 kind string",
        "Entry": "1 key string, 2 value bytes",
        "Quantity": "1 text string",
        "IntOrString": "1 is_text int64, 2 number int32, 3 text string",
        "Time": "1 seconds int64, 2 nanos int32",
        "MicroTime": "1 seconds int64, 2 nanos int32",
        "any": "1 raw bytes",
        "JSON": "1 raw bytes",
        "JSONSchemaPropsOrArray": "1 schema bytes, 2 several []bytes",
        "JSONSchemaPropsOrBool": "1 allows bool, 2 schema bytes",
        "JSONSchemaPropsOrStringArray": "1 schema bytes, 2 several []bytes",
    }
)
_NUMBERS = frozenset({"bool", "double", "int32", "int64"})
_OF_ANY_VERSION = frozenset({"DeleteOptions", "Status"})
SCHEMA = "apiextensions.v1.JSONSchemaProps"


def decode(body: bytes) -> Object:
    """The object in a protobuf body, as JSON would have it."""
    if not body.startswith(MAGIC):
        raise bad_request("the body is not in the Kubernetes protobuf format: it does not begin with k8s\\x00")
    try:
        return _Reader().object(body[len(MAGIC) :])
    except (DecodeError, ValueError, OverflowError, OSError, RecursionError) as error:  # of texts, dates and raw JSON
        raise bad_request(f"the protobuf body is broken: {error}") from None


def type_on_the_wire(api_version: str, kind: str) -> Message | None:
    """The type of a kind, if protobuf bodies can have it; some kinds come under any version."""
    group, _, version = api_version.rpartition("/")
    known = find_message(f"meta.v1.{kind}") if kind in _OF_ANY_VERSION else message_of(group, version, kind)
    return known if known is not None and known.numbers else None


@cache
def _class_of(name: str) -> Any:
    """The class that reads a type, or one of those above.

    A part that is a message or a text is bytes to it. So one level is read at a time, and what a million empty messages
    would take in memory, each with room for all fields of its type, is refused before it is taken.
    """
    fields = _KNOWN.get(name)
    if fields is None:
        fields = ",".join(
            f"{number} field_{number} {'[]' if field.is_list or field.is_map else ''}"
            f"{field.type if field.type in _NUMBERS and not field.is_map else 'bytes'}"
            for number, field in message(name).numbers.items()
        )
    package, _, short_name = name.replace("@", ".in_").rpartition(".")
    return message_classes(f"kubernetes.{package or 'known'}", {short_name: fields})[short_name]


class _Reader:
    """Reads one body, and no more values of it than a body may have: an empty message takes two bytes only."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read = 0

    def object(self, wrapped: bytes) -> Object:
        """Take the object out of its `runtime.Unknown` envelope, which names its type."""
        envelope = self._parsed("Unknown", wrapped)
        about = self._parsed("TypeMeta", envelope.type_meta)
        known = type_on_the_wire(about.version, about.kind)
        if known is None:
            raise unsupported_media_type(
                f"this API server cannot read {about.kind or 'this'} ({about.version or 'no version'}) as protobuf; "
                "send JSON (kube-scheduler: clientConnection.contentType: application/json)"
            )
        return {"apiVersion": about.version, "kind": about.kind, **self._message(known, envelope.raw)}

    def _parsed(self, name: str, data: bytes) -> Any:
        kind = _class_of(name)
        if len(data) > 2 * MAX_VALUES:  # a field takes two bytes or more, and listing a million of them a second
            self._count(_unknown_bytes(kind.FromString(data)) // 2)
        message = kind.FromString(data)
        unknown = UnknownFieldSet(message)  # newer than the schema, unless the number is known and the type is not
        self._count(len(unknown))
        if any(field.field_number in kind.DESCRIPTOR.fields_by_number for field in unknown):
            raise ValueError(f"a field of {kind.DESCRIPTOR.full_name} is of another type")
        return message

    def _count(self, values: int) -> None:
        self._read += values
        if self._read > MAX_VALUES:
            raise too_large(f"the body has too many values: at most {MAX_VALUES} are taken")

    def _message(self, known: Message, data: bytes) -> Object:
        obj: Object = {}
        for descriptor, value in self._parsed(known.name, data).ListFields():
            field = known.numbers[descriptor.number]
            self._count(len(value) if descriptor.is_repeated else 1)
            if field.name == "inline":
                obj.update(self._message(message(field.type), value))
            elif field.is_map:
                entries = (self._parsed("Entry", one) for one in value)
                obj[field.name] = {entry.key: self._value(field, entry.value) for entry in entries}
            elif field.is_list:
                obj[field.name] = [self._value(field, one) for one in value]
            else:
                read = self._value(field, value)
                if _means_something(field, read) and not (known.is_kind and field.name == "status" and read == {}):
                    obj[field.name] = read
        return obj

    def _value(self, field: Field, value: Any) -> Any:
        kind = field.type
        if not field.is_scalar:
            return self._message(message(kind), value)
        if kind == "string":
            return value.decode()
        if kind == "bytes":
            return base64.b64encode(value).decode()
        if kind in _NUMBERS:
            return value
        parsed = self._parsed(kind, value)
        return self._schema(kind, parsed) if kind.startswith("JSONSchema") else _well_known(kind, parsed)

    def _schema(self, kind: str, parsed: Any) -> Any:
        """A schema, or what may stand in its place: a flag, several schemas, several texts."""
        if kind == "JSONSchemaPropsOrBool":
            is_plain = not parsed.HasField("schema")
            return parsed.allows if is_plain else self._message(message(SCHEMA), parsed.schema)
        self._count(len(parsed.several))
        if kind == "JSONSchemaPropsOrArray":
            several = [self._message(message(SCHEMA), one) for one in parsed.several]
        else:
            several = [one.decode() for one in parsed.several]
        return several or self._message(message(SCHEMA), parsed.schema)


def _unknown_bytes(message: Any) -> int:
    size: int = message.ByteSize()
    message.DiscardUnknownFields()
    size -= message.ByteSize()
    return size


def _means_something(field: Field, value: Any) -> bool:
    if value is None and field.type != "JSON":
        return False
    return field.is_pointer or bool(value) or field.type not in PLAIN


def _well_known(kind: str, value: Any) -> Any:
    """Types with a JSON form of their own."""
    if kind == "Quantity":
        return value.text or "0"
    if kind == "IntOrString":
        return value.text if value.is_text else value.number
    if kind in ("Time", "MicroTime"):
        return _time(value.seconds, value.nanos, with_micros=kind == "MicroTime")
    return json.loads(value.raw) if value.raw else None


def _time(seconds: int, nanos: int, *, with_micros: bool) -> str | None:
    """RFC 3339, or None for the zero time, which stands for no time."""
    if seconds == 0 and nanos == 0:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    if with_micros:
        return moment.replace(microsecond=nanos // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
