"""The types of the API: their fields, and how these merge, as the OpenAPI documents of each release describe them.

The documents come with the package kubernetes-validate, one file for each release of Kubernetes. A type is looked up by
its name there without the common prefix (`core.v1.PodSpec`), in the release that is served by default, and where that
does not have it in one that does. Of a file only the types that somebody asks for are decoded, and descriptions only
when they are shown. Numbers in protobuf bodies are not part of OpenAPI; they are in `protobuf_fields.txt`. The check
for unknown fields, merges, the protobuf reader and our own OpenAPI documents are all driven by these types.
"""

from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

Json = dict[str, Any]

OBJECT_META = "meta.v1.ObjectMeta"
DELETE_OPTIONS = "meta.v1.DeleteOptions"
_REF = "#/$defs/"
_API, _MACHINERY = "io.k8s.api.", "io.k8s.apimachinery.pkg."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis."
_MINORS = (36, 37, 35, 34, 33, 32, 31, 30)  # the order in which releases are asked for a type
# Types with a form of their own in JSON.
_WELL_KNOWN = MappingProxyType(
    {
        "api.resource.Quantity": "Quantity",
        "apis.meta.v1.Duration": "Duration",
        "apis.meta.v1.FieldsV1": "any",
        "apis.meta.v1.MicroTime": "MicroTime",
        "apis.meta.v1.Time": "Time",
        "runtime.RawExtension": "any",
        "util.intstr.IntOrString": "IntOrString",
        **{
            f"{_EXTENSIONS}apiextensions.v1.{name}": "any"
            for name in ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
        },
    }
)
_FORMATS = MappingProxyType({"byte": "bytes", "double": "double", "int32": "int32", "int64": "int64"})
_PLAIN = MappingProxyType({"string": "string", "boolean": "bool", "integer": "int64", "number": "double"})
SCALARS = frozenset({*_WELL_KNOWN.values(), *_FORMATS.values(), *_PLAIN.values()})


class InlineType(str):
    """The name of a type that is in no document, with the type: custom resources have such."""

    __slots__ = ("message",)
    message: "Message"


class Field(NamedTuple):
    """One field of a type; `type` is a scalar or the name (`core.v1.PodSpec`) of another type."""

    name: str
    type: str
    is_list: bool = False
    is_map: bool = False
    is_atomic: bool = False  # has one owner, whatever is in it
    list_keys: tuple[str, ...] = ()  # what tells entries apart for server-side apply
    is_set: bool = False
    merge_key: str = ""  # what tells entries apart for strategic merge patches
    merges: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether the (element) type is a scalar rather than a type with fields."""
        return self.type in SCALARS


class Message(NamedTuple):
    """One type: its fields as JSON names them, and as protobuf numbers them."""

    name: str
    fields: dict[str, Field]  # with those of inlined structs
    numbers: dict[int, Field]  # as they are on the wire
    is_kind: bool
    is_atomic: bool
    required: frozenset[str]

    @property
    def short_name(self) -> str:
        """The name without group and version."""
        return self.name.rpartition(".")[2]


class _Property(msgspec.Struct, rename={
    "ref": "$ref", "any_properties": "additionalProperties", "list_type": "x-kubernetes-list-type",
    "list_keys": "x-kubernetes-list-map-keys", "map_type": "x-kubernetes-map-type",
    "merge_key": "x-kubernetes-patch-merge-key", "strategy": "x-kubernetes-patch-strategy",
}):  # fmt: skip
    ref: str = ""
    type: str | list[str] = ""
    format: str = ""
    items: "_Property | None" = None
    any_properties: "_Property | None" = None
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    merge_key: str = ""
    strategy: str = ""


class _Definition(msgspec.Struct, rename={
    "map_type": "x-kubernetes-map-type", "kinds": "x-kubernetes-group-version-kind",
}):  # fmt: skip
    properties: dict[str, _Property] = {}
    required: frozenset[str] = frozenset()
    map_type: str = ""
    kinds: list[msgspec.Raw] = []


class _Document(msgspec.Struct, rename={"definitions": "$defs"}):
    definitions: dict[str, msgspec.Raw]


def type_name(group: str, version: str, kind: str) -> str:
    """The name of a kind's type."""
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


def message_of(group: str, version: str, kind: str) -> Message | None:
    """The type of a kind, if there is one."""
    return find_message(type_name(group, version, kind))


def type_of(obj: Json) -> Message | None:
    """The type that an object says it has."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    return message_of(group, version, str(obj.get("kind")))


def message(name: str) -> Message:
    """The type of that name, which exists."""
    if isinstance(name, InlineType):
        return name.message
    found = find_message(name)
    assert found is not None, name
    return found


@cache
def find_message(name: str) -> Message | None:
    """The type of that name. `PART@NAME` is the struct PART whose fields JSON has in NAME."""
    part, _, whole = name.rpartition("@")
    raw = _raw_definition(whole)
    if raw is None:
        return None
    decoded = msgspec.json.decode(raw, type=_Definition)
    fields = {key: _field(key, value) for key, value in decoded.properties.items()}
    is_atomic = decoded.map_type == "atomic"
    numbers = _numbers(part or whole, whole, fields)
    return Message(name, fields, numbers, bool(decoded.kinds), is_atomic, decoded.required)


def definition(name: str) -> Json:
    """The type as the OpenAPI document has it, with descriptions."""
    raw = _raw_definition(name)
    found: Json = {} if raw is None else msgspec.json.decode(raw)
    return found


def description(name: str, field: str = "") -> str:
    """What the documents say of a type or of one of its fields."""
    found = definition(name)
    found = found["properties"].get(field, {}) if field else found
    return str(found.get("description", ""))


def full_name(name: str) -> str:
    """A type's name as OpenAPI documents have it."""
    if name.startswith("apiextensions."):
        return _EXTENSIONS + name
    return f"{_MACHINERY}apis.{name}" if name.startswith("meta.") else _API + name


def referenced(reference: str) -> str:
    """The type that a `$ref` means: a scalar, or a name."""
    name = reference.removeprefix(_REF)
    known = _WELL_KNOWN.get(name.removeprefix(_MACHINERY))
    if known is None:
        name = name.removeprefix(_EXTENSIONS)
        known = name.removeprefix(_API) if name.startswith(_API) else name.removeprefix(f"{_MACHINERY}apis.")
    return known


def _raw_definition(name: str) -> msgspec.Raw | None:
    full = full_name(name)
    return next((found for minor in _MINORS if (found := _definitions(minor).get(full)) is not None), None)


@cache
def _definitions(minor: int) -> dict[str, msgspec.Raw]:
    package = find_spec("kubernetes_validate")  # its files alone: importing it would import much more
    assert package is not None and package.submodule_search_locations
    directory = Path(package.submodule_search_locations[0]) / "kubernetes-json-schema" / f"v1.{minor}.0-local"
    return msgspec.json.decode((directory / "_definitions.json").read_bytes(), type=_Document).definitions


def _field(name: str, found: _Property) -> Field:
    element = found.items or found.any_properties or found
    return Field(
        name,
        _element_type(element),
        found.items is not None,
        found.any_properties is not None,
        found.map_type == "atomic" or (found.items is not None and found.list_type in ("", "atomic")),
        found.list_keys if found.list_type == "map" else (),
        found.list_type == "set",
        found.merge_key,
        "merge" in found.strategy,
    )


def _element_type(found: _Property) -> str:
    if found.ref:
        return referenced(found.ref)
    if found.format:
        return _FORMATS.get(found.format, "Time")
    kind = found.type if isinstance(found.type, str) else found.type[0]
    return _PLAIN.get(kind, "any")


def _numbers(part: str, whole: str, fields: dict[str, Field]) -> dict[int, Field]:
    """The fields of a type, or of a struct that it has inline, by number."""
    numbers: dict[int, Field] = {}
    number = 0
    for word in _numbered().get(part, ()):
        if word.isdigit():
            number = int(word) - 1
            continue
        number += 1
        inline = word.removeprefix("inline:")
        if inline != word:
            package = part.rpartition(".")[0]
            numbers[number] = Field("inline", f"{package}.{inline}@{whole}")
        elif word in fields:
            numbers[number] = fields[word]
    return numbers


@cache
def _numbered() -> dict[str, tuple[str, ...]]:
    """What `protobuf_fields.txt` says of each type."""
    text = (resources.files("berth_cluster.apimachinery") / "protobuf_fields.txt").read_text("utf-8")
    found: dict[str, tuple[str, ...]] = {}
    package = ""
    for line in text.splitlines():
        if line.startswith(" "):
            name, *words = line.split()
            found[f"{package}.{name}"] = tuple(words)
        elif not line.startswith("#"):
            package = line.removeprefix(_API).removeprefix(f"{_MACHINERY}apis.")
    return found
