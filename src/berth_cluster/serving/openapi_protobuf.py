"""Writes the OpenAPI v2 document in the protobuf form (gnostic's OpenAPIv2.proto) that kubectl 1.28 insists on.

Only what this server's documents contain can be written.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import msgspec

# What clients ask for, and what they are answered: the first is no valid media type, and Go refuses to read it.
ASKED_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_METHODS = MappingProxyType({"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8})

Json = dict[str, Any]


def encode_document(document: Json) -> bytes:
    """The whole document."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = (_part(2, _named(path, _path_item(item))) for path, item in document["paths"].items())
    definitions = (_part(1, _named(name, _schema(one))) for name, one in document["definitions"].items())
    return b"".join(
        (_text(1, document["swagger"]), _part(2, info), _part(8, b"".join(paths)), _part(9, b"".join(definitions)))
    )


def _path_item(item: Json) -> bytes:
    return b"".join(_part(_METHODS[method], _operation(operation)) for method, operation in item.items())


def _operation(operation: Json) -> bytes:
    responses = (
        _part(1, _named(code, _part(1, _text(1, response["description"]))))
        for code, response in operation["responses"].items()
    )
    parameters = (_part(8, _query_parameter(one)) for one in operation.get("parameters", ()))
    return b"".join(
        (
            _text(5, operation["operationId"]),
            *parameters,
            _part(9, b"".join(responses)),
            *_extensions(13, operation),
        )
    )


def _query_parameter(parameter: Json) -> bytes:
    query = _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
    # The item holds a parameter, of the sort without a body, in the query.
    return _part(1, _part(2, _part(3, query)))


def _schema(schema: Json) -> bytes:
    parts = [_text(1, schema.get("$ref", "")), _text(2, schema.get("format", "")), *_extensions(31, schema)]
    if "additionalProperties" in schema:
        parts.append(_part(21, _part(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_part(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_part(23, _part(1, _schema(schema["items"]))))
    if "properties" in schema:
        properties = schema["properties"].items()
        parts.append(_part(25, b"".join(_part(1, _named(name, _schema(one))) for name, one in properties)))
    return b"".join(parts)


def _extensions(number: int, holder: Json) -> Iterable[bytes]:
    """`x-…` fields are kept as YAML, of which JSON is a part."""
    for name, value in holder.items():
        if name.startswith("x-"):
            yaml = _part(2, msgspec.json.encode(value))
            yield _part(number, _named(name, yaml))


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + _part(2, value)


def _text(number: int, value: str) -> bytes:
    return _part(number, value.encode()) if value else b""


def _part(number: int, value: bytes) -> bytes:
    """One length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
