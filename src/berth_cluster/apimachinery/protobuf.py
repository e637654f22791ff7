"""Reads request bodies in the Kubernetes protobuf format, which Go clients send for built-in types.

Recent kubectl creates Deployments and ConfigMaps that way whatever the server prefers, so the server has to understand
it. Answers are always JSON, which the same clients accept. Decoding is driven by the schemas and gives plain JSON
values.
"""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from berth_cluster.apimachinery.errors import StoreError, bad_request, too_large, unsupported_media_type
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.reason import MAX_VALUES
from berth_cluster.apimachinery.schema import Field, Message, message_of, messages

MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BITS = 70  # ten bytes of seven
_UINT64 = (1 << 64) - 1

# Protobuf carries a Go field that is not a pointer even when it is zero, where JSON leaves it out; so a zero or a false
# is dropped here, or else every object would seem to set all its fields. The fields below are pointers in Go: protobuf
# carries them only when somebody set them, so for these a zero is a value and is kept.
_MEANINGFUL_ZEROS = frozenset(
    {
        "activeDeadlineSeconds",
        "allowPrivilegeEscalation",
        "allowVolumeExpansion",
        "attachRequired",
        "automountServiceAccountToken",
        "backoffLimit",
        "backoffLimitPerIndex",
        "blockOwnerDeletion",
        "completions",
        "controller",
        "defaultMode",
        "enableServiceLinks",
        "failedJobsHistoryLimit",
        "fsGroup",
        "gracePeriodSeconds",
        "hostUsers",
        "immutable",
        "leaseDurationSeconds",
        "leaseTransitions",
        "manualSelector",
        "maxFailedIndexes",
        "mode",
        "optional",
        "orphanDependents",
        "parallelism",
        "partition",
        "podInfoOnMount",
        "priority",
        "privileged",
        "progressDeadlineSeconds",
        "readOnlyRootFilesystem",
        "replicas",
        "requiresRepublish",
        "revisionHistoryLimit",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "startingDeadlineSeconds",
        "storageCapacity",
        "successfulJobsHistoryLimit",
        "suspend",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "ttlSecondsAfterFinished",
        "value",
    }
)


def decode(body: bytes) -> Object:
    """The object in a protobuf body, as JSON would have it."""
    if not body.startswith(MAGIC):
        raise bad_request("the body is not in the Kubernetes protobuf format: it does not begin with k8s\\x00")
    try:
        return _unwrap(body[len(MAGIC) :])
    except (IndexError, struct.error, ValueError, OverflowError, OSError) as error:  # the last three are those of dates
        raise bad_request(f"the protobuf body is broken: {error}") from None


def _unwrap(wrapped: bytes) -> Object:
    """Take the object out of its `runtime.Unknown` envelope, which names its type."""
    version = kind = ""
    raw = b""
    for number, value in _fields(wrapped):
        if number == 1:
            for inner, text in _fields(_bytes(value)):
                if inner == 1:
                    version = _bytes(text).decode()
                elif inner == 2:
                    kind = _bytes(text).decode()
        elif number == 2:
            raw = _bytes(value)
    group, _, bare_version = version.rpartition("/")
    message = messages()["meta/DeleteOptions"] if kind == "DeleteOptions" else message_of(group, bare_version, kind)
    if message is None or not message.numbers:
        raise _not_readable(version, kind)
    return {"apiVersion": version, "kind": kind, **_Reader().message(message, raw)}


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise IndexError("a number stands where a text or a message should")
    return value


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise IndexError("a text or a message stands where a number should")
    return value


def _not_readable(version: str, kind: str) -> StoreError:
    return unsupported_media_type(
        f"this API server cannot read {kind or 'this'} ({version or 'no version'}) as protobuf; send JSON "
        "(kube-scheduler: clientConnection.contentType: application/json)"
    )


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of one message: number and raw value."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        wire_type = key & 7
        if wire_type == _VARINT:
            value: Any
            value, position = _varint(data, position)
        elif wire_type == _BYTES:
            size, position = _varint(data, position)
            if position + size > len(data):
                raise IndexError("a field is longer than the body")
            value = data[position : position + size]
            position += size
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
            value = struct.unpack_from("<d" if wire_type == _FIXED64 else "<f", data, position)[0]
            position += size
        else:
            raise IndexError(f"wire type {wire_type} is not used by Kubernetes")
        yield key >> 3, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
        if shift >= _VARINT_BITS:
            raise IndexError("a number is longer than 64 bits")


class _Reader:
    """Reads one body, and no more values of it than a body may have: an empty message takes two bytes only."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read = 0

    def message(self, message: Message, data: bytes) -> Object:
        obj: Object = {}
        for number, raw in _fields(data):
            self._read += 1
            if self._read > MAX_VALUES:
                raise too_large(f"the body has too many values: at most {MAX_VALUES} are taken")
            field = message.numbers.get(number)
            if field is None:
                continue  # newer than the schema
            if field.name == "inline":
                obj.update(self.message(messages()[field.type], _bytes(raw)))
            elif field.is_map:
                key, value = self._map_entry(field, _bytes(raw))
                obj.setdefault(field.name, {})[key] = value
            elif field.is_list:
                obj.setdefault(field.name, []).append(self._value(field, raw))
            else:
                value = self._value(field, raw)
                if _means_something(field, value):
                    obj[field.name] = value
        return obj

    def _map_entry(self, field: Field, raw: bytes) -> tuple[str, Any]:
        key, value = "", self._value(field, b"") if field.type in ("string", "bytes") or not field.is_scalar else None
        for number, part in _fields(raw):
            if number == 1:
                key = _bytes(part).decode()
            else:
                value = self._value(field, part)
        return key, value

    def _value(self, field: Field, raw: Any) -> Any:
        kind = field.type
        if not field.is_scalar:
            return self.message(messages()[kind], _bytes(raw))
        if kind == "string":
            return _bytes(raw).decode()
        if kind in ("int32", "int64"):
            return _signed(_int(raw))
        if kind == "bool":
            return bool(raw)
        if kind == "double":
            return raw if isinstance(raw, float) and isfinite(raw) else 0.0
        if kind == "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        return _well_known(kind, dict(_fields(_bytes(raw))))


def _means_something(field: Field, value: Any) -> bool:
    if value is None or value == "":
        return False
    if isinstance(value, bool | int) and not value:
        return field.name in _MEANINGFUL_ZEROS or field.type == "IntOrString"
    return not (field.name == "status" and value == {})


def _well_known(kind: str, parts: dict[int, Any]) -> Any:
    """Types with a JSON form of their own."""
    if kind == "Quantity":
        return _bytes(parts.get(1, b"")).decode() or "0"
    if kind == "IntOrString":
        return _bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(_int(parts.get(2, 0)))
    if kind in ("Time", "MicroTime"):
        seconds, nanos = _signed(_int(parts.get(1, 0))), _int(parts.get(2, 0))
        return _time(seconds, nanos, with_micros=kind == "MicroTime")
    if kind == "Duration":
        return f"{_signed(_int(parts.get(1, 0))) / 1e9:g}s"
    return None  # raw extensions and managed fields are not kept


def _signed(value: int) -> int:
    value &= _UINT64  # ten bytes of seven bits hold a little more
    return value - (1 << 64) if value >= 1 << 63 else value


def _time(seconds: int, nanos: int, *, with_micros: bool) -> str | None:
    """RFC 3339, or None for the zero time, which stands for no time."""
    if seconds == 0 and nanos == 0:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    if with_micros:
        return moment.replace(microsecond=nanos // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
