"""Writes the OpenAPI v2 document in the protobuf form (gnostic's OpenAPIv2.proto) that kubectl 1.28 insists on.

Only what this server's documents contain can be written.
"""

from types import MappingProxyType
from typing import Any

import msgspec

from berth.api.protobuf_messages import message_classes

# What clients ask for, and what they are answered: the first is no valid media type, and Go refuses to read it.
ASKED_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

Json = dict[str, Any]

# Fields are called as in the document. Where the format has a message that holds nothing but one other, or one of
# several, what is held is called `one`; where the document has a map, the format has a list of `named` values.
_TABLE = MappingProxyType(
    {
        "Document": "1 swagger string, 2 info Info, 8 paths Paths, 9 definitions Schemas",
        "Info": "1 title string, 2 version string",
        "Paths": "2 named []NamedPath",
        "NamedPath": "1 name string, 2 value Path",
        "Path": "2 get Operation, 3 put Operation, 4 post Operation, 5 delete Operation, 8 patch Operation",
        "Operation": "5 operationId string, 8 parameters []ParametersItem, 9 responses Responses, 13 x []NamedAny",
        "ParametersItem": "1 one Parameter",
        "Parameter": "2 one NonBodyParameter",
        "NonBodyParameter": "3 one QueryParameter",
        "QueryParameter": "2 in string, 4 name string, 6 type string",
        "Responses": "1 named []NamedResponse",
        "NamedResponse": "1 name string, 2 value ResponseValue",
        "ResponseValue": "1 one Response",
        "Response": "1 description string",
        "Schemas": "1 named []NamedSchema",
        "NamedSchema": "1 name string, 2 value Schema",
        "Schema": "1 ref string, 2 format string, 21 additionalProperties AdditionalProperties, 22 type Type, "
        "23 items Items, 25 properties Schemas, 31 x []NamedAny",
        "AdditionalProperties": "1 one Schema",
        "Type": "1 one []string",
        "Items": "1 one []Schema",
        "NamedAny": "1 name string, 2 value Any",
        "Any": "2 yaml string",
    }
)


def encode_document(document: Json) -> bytes:
    """The whole document."""
    kind = message_classes("openapi.v2", _TABLE)["Document"]
    written: bytes = kind(**_shaped(kind.DESCRIPTOR, document)).SerializeToString()
    return written


def _shaped(kind: Any, value: Any) -> Any:
    """A part of the document as a message of this kind has it; what the message has no field for is left out."""
    if kind is None:
        return value
    if kind.name == "Any":
        return {"yaml": msgspec.json.encode(value)}  # JSON is a part of YAML
    first = kind.fields[0]
    if first.name == "one":
        one = _shaped(first.message_type, value)
        return {"one": [one] if first.is_repeated else one}
    if first.name == "named":
        return {"named": _named(first.message_type, value)}
    shaped: Json = {}
    for field in kind.fields:
        part = value.get("$ref" if field.name == "ref" else field.name)
        if field.name == "x":
            extensions = {name: part for name, part in value.items() if name.startswith("x-")}
            shaped["x"] = _named(field.message_type, extensions)
        elif field.is_repeated and part is not None:
            shaped[field.name] = [_shaped(field.message_type, one) for one in part]
        elif part is not None:
            shaped[field.name] = _shaped(field.message_type, part)
    return shaped


def _named(kind: Any, values: Json) -> list[Json]:
    return [
        {"name": name, "value": _shaped(kind.fields_by_name["value"].message_type, one)} for name, one in values.items()
    ]
