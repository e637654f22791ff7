"""The types of the API: their fields, and how these merge, as the OpenAPI documents of each release describe them.

The documents come with the package kubernetes-validate, one file for each release of Kubernetes. A type is looked up by
its name there without the common prefix (`core.v1.PodSpec`), in the release that is served by default, and where that
does not have it in one that does. Of a file only the types that somebody asks for are decoded, and descriptions only
when they are shown. What OpenAPI leaves out, such as the numbers of fields in protobuf bodies, is in `go_types.txt`.
The check for unknown fields, merges, the protobuf reader and our own OpenAPI documents are all driven by these types.
"""

from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from berth.api.user_error import UserError

Json = dict[str, Any]

OBJECT_META = "meta.v1.ObjectMeta"
DELETE_OPTIONS = "meta.v1.DeleteOptions"
_REF = "#/$defs/"
_API, _MACHINERY = "io.k8s.api.", "io.k8s.apimachinery.pkg."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis."
_AGGREGATOR = "io.k8s.kube-aggregator.pkg.apis."
_MINORS = (36, 37, 35, 34, 33, 32, 31, 30)  # the order in which releases are asked for a type
# Parts of schemas, which are any value in JSON.
_ANY_VALUES = ("JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray")
UNCHECKED = frozenset({"any", *_ANY_VALUES})
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
        **{f"{_EXTENSIONS}apiextensions.v1.{name}": name for name in _ANY_VALUES},
    }
)
# Types whose zero Go does not write, unless the field is a pointer or always there.
PLAIN = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})
_FORMATS = MappingProxyType({"byte": "bytes", "double": "double", "int32": "int32", "int64": "int64"})
_PLAIN = MappingProxyType({"string": "string", "boolean": "bool", "integer": "int64", "number": "double"})
_GO_TYPES = MappingProxyType(
    {
        "bytes": "[]uint8",
        "double": "float64",
        "IntOrString": "int32",
        "MicroTime": "string",
        "Quantity": "resource.Quantity",
        "Time": "string",
    }
)
ZEROS: MappingProxyType[str, Any] = MappingProxyType(
    {"bool": False, "double": 0, "int32": 0, "int64": 0, "IntOrString": 0, "Quantity": "0", "string": ""}
)
_PARTS = frozenset({"metadata", "spec", "status"})
_TYPE = frozenset({"apiVersion", "kind"})
SCALARS = frozenset({*_WELL_KNOWN.values(), *_FORMATS.values(), *_PLAIN.values()})


class SchemaError(UserError):
    """The types of the API are not installed; the message says what to do."""


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
    go_type: str = ""  # of a value or element, as messages name it
    is_pointer: bool = False  # so that a zero is a value of its own
    inside: str = ""  # the struct that has the field, where JSON has its fields one level up

    @property
    def is_scalar(self) -> bool:
        """Whether the (element) type is a scalar rather than a type with fields."""
        return self.type in SCALARS

    @property
    def in_go(self) -> str:
        """The name with that of the struct which has the field."""
        return f"{self.inside}.{self.name}" if self.inside else self.name

    def is_omitted(self, value: Any) -> bool:
        """Whether a value is one that is not written."""
        return not value and (self.is_list or self.is_map or (self.type in PLAIN and not self.is_pointer))


class Message(NamedTuple):
    """One type: its fields as JSON names them, and as protobuf numbers them."""

    name: str
    fields: dict[str, Field]  # with those of inlined structs
    numbers: dict[int, Field]  # as they are on the wire
    is_kind: bool
    is_atomic: bool
    texts: frozenset[str]  # fields that are plain strings
    always: MappingProxyType[str, Any]  # fields that are there even if nobody set them, with their zeros

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
    """The name of a kind's type; other groups than Kubernetes' own have none under theirs."""
    package = group.removesuffix(".k8s.io").removesuffix(".authorization").removesuffix(".apiserver") or "core"
    return f"{package}.{version}.{kind}"


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
    said = _said_of(whole)
    package = whole.rpartition(".")[0]
    inside = {
        key: part.removeprefix("inline:")
        for part in said.numbers.values()
        if part.startswith("inline:")
        for key in _said_of(f"{package}.{part.removeprefix('inline:')}").numbers.values()
    }
    pointers = said.pointers.union(*(_said_of(f"{package}.{part}").pointers for part in inside.values()))
    fields = {
        key: _field(key, value, said.types.get(key, ""), key in pointers)._replace(inside=inside.get(key, ""))
        for key, value in decoded.properties.items()
    }
    is_kind = bool(decoded.kinds)
    values = decoded.required | said.values
    if is_kind or whole.endswith("TemplateSpec"):
        values |= _PARTS
    always = {key: _zero(field) for key, field in fields.items() if key in values and not (is_kind and key in _TYPE)}
    numbers = _numbers(part or whole, whole, fields)
    texts = frozenset(
        key for key, field in fields.items() if field.type == "string" and not field.is_list and not field.is_map
    )
    return Message(name, fields, numbers, is_kind, decoded.map_type == "atomic", texts, MappingProxyType(always))


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
    if name.startswith("apiregistration."):
        return _AGGREGATOR + name
    return f"{_MACHINERY}apis.{name}" if name.startswith("meta.") else _API + name


def referenced(reference: str) -> str:
    """The type that a `$ref` means: a scalar, or a name."""
    name = reference.removeprefix(_REF)
    known = _WELL_KNOWN.get(name.removeprefix(_MACHINERY))
    if known is None:
        name = name.removeprefix(_EXTENSIONS).removeprefix(_AGGREGATOR)
        known = name.removeprefix(_API) if name.startswith(_API) else name.removeprefix(f"{_MACHINERY}apis.")
    return known


def _raw_definition(name: str) -> msgspec.Raw | None:
    full = full_name(name)
    return next((found for minor in _MINORS if (found := _definitions(minor).get(full)) is not None), None)


@cache
def _definitions(minor: int) -> dict[str, msgspec.Raw]:
    package = find_spec("kubernetes_validate")  # its files alone: importing it would import much more
    if package is None or not package.submodule_search_locations:
        raise SchemaError(
            "the embedded cluster needs kubernetes-validate, which is not installed: "
            "pip install 'berth-scheduler[cluster]'"
        )
    directory = Path(package.submodule_search_locations[0]) / "kubernetes-json-schema" / f"v1.{minor}.0-local"
    return msgspec.json.decode((directory / "_definitions.json").read_bytes(), type=_Document).definitions


def _field(name: str, found: _Property, go_type: str, is_pointer: bool) -> Field:
    element = _element_type(found.items or found.any_properties or found)
    return Field(
        name,
        element,
        found.items is not None,
        found.any_properties is not None,
        found.map_type == "atomic" or (found.items is not None and found.list_type in ("", "atomic")),
        found.list_keys if found.list_type == "map" else (),
        found.list_type == "set",
        found.merge_key,
        "merge" in found.strategy,
        go_type or _GO_TYPES.get(element) or ".".join(element.split(".")[-2:]),
        is_pointer,
    )


def _zero(field: Field) -> Any:
    """What Go writes for a field that nobody has set; a struct has fields of its own that are always there."""
    if field.is_list or field.is_map or field.type == "meta.v1.LabelSelector":  # the last are pointers
        return None
    return ZEROS.get(field.type) if field.is_scalar else {}


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
    for number, name in _said_of(part).numbers.items():
        inline = name.removeprefix("inline:")
        if inline != name:
            numbers[number] = Field("inline", f"{part.rpartition('.')[0]}.{inline}@{whole}")
        elif name in fields:
            numbers[number] = fields[name]
    return numbers


class _Said(NamedTuple):
    """What `go_types.txt` says of one type."""

    numbers: dict[int, str]
    types: dict[str, str]
    values: frozenset[str]
    pointers: frozenset[str]


@cache
def _said_of(name: str) -> _Said:
    numbers: dict[int, str] = {}
    types: dict[str, str] = {}
    values, pointers = set[str](), set[str]()
    number: int | None = 1
    for word in _lines().get(name, ()):
        if word.isdigit() or word == "-":
            number = int(word) if word != "-" else None
            continue
        marked, _, go_type = (word, "", "") if word.startswith("inline:") else word.partition(":")
        field = marked.rstrip("!?")
        if go_type:
            types[field] = go_type if "." in go_type else f"v1.{go_type}"
        values.update([field] if "!" in marked else ())
        pointers.update([field] if "?" in marked else ())
        if number is not None:
            numbers[number] = field
            number += 1
    return _Said(numbers, types, frozenset(values), frozenset(pointers))


@cache
def _lines() -> dict[str, tuple[str, ...]]:
    text = (resources.files("berth_cluster.apimachinery") / "go_types.txt").read_text("utf-8")
    found: dict[str, tuple[str, ...]] = {}
    package = ""
    for line in text.splitlines():
        if line.startswith(" "):
            name, *words = line.split()
            found[f"{package}.{name}"] = tuple(words)
        elif line and not line.startswith("#"):
            package, _, other = line.partition(" ")
            like = [name for name in found if name.startswith(f"{other}.")]
            found |= {f"{package}.{name.rpartition('.')[2]}": found[name] for name in like}
    return found


def numbered_types() -> list[str]:
    """The names of all types that protobuf bodies can have."""
    return [name for name in _lines() if _said_of(name).numbers and _raw_definition(name) is not None]
