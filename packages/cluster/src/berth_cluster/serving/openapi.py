"""OpenAPI documents made from those of the releases: v3 by group and version as JSON, v2 in one as JSON or protobuf.

kubectl reads them to learn that the server checks fields itself (`fieldValidation`), and for `kubectl explain`.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from importlib import metadata
from types import MappingProxyType

from aiohttp import web

from berth_cluster.apimachinery.errors import no_such_path
from berth_cluster.apimachinery.releases import Release
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.schema import (
    DELETE_OPTIONS,
    OBJECT_META,
    SCALARS,
    Json,
    definition,
    description,
    full_name,
    referenced,
    type_name,
)
from berth_cluster.custom.values import INT_OR_STRING, PRESERVE
from berth_cluster.custom.version import CustomType
from berth_cluster.serving.openapi_protobuf import ASKED_TYPE, MEDIA_TYPE, encode_document
from berth_cluster.serving.responses import bytes_response, encode, json_response

_ANY_KIND = "core.v1.ConfigMap"  # whose type and metadata are described as those of all kinds
_V2_PATH = "/openapi/v2"
_V3_PATH = "/openapi/v3"
# types with a form of their own in JSON
_FORMATS: MappingProxyType[str, Json] = MappingProxyType(
    {
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "Duration": {"type": "string"},
        "IntOrString": {"type": "string", "format": "int-or-string"},
        "MicroTime": {"type": "string", "format": "date-time"},
        "Quantity": {"type": "string"},
        "Time": {"type": "string", "format": "date-time"},
    }
)
# HTTP method -> the name of the action, on a collection and on one object
_ON_COLLECTION = (("get", "list"), ("post", "post"), ("delete", "deletecollection"))
_ON_OBJECT = (("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete"))


class OpenApiDocuments:
    """The documents of one server, each made when it is first asked for."""

    __slots__ = ("_made", "_release")

    def __init__(self, release: Release) -> None:
        self._release = release
        self._made: dict[str, bytes] = {}  # path of the document (and its format) -> the document

    def answer(self, path: str, accept: str) -> web.Response:
        """One of the documents."""
        if path == _V2_PATH:
            if (ASKED_TYPE in accept or MEDIA_TYPE in accept) and "application/json" not in accept:
                document = self._once("v2 protobuf", lambda: encode_document(self._v2()))
                return web.Response(body=document, headers={"Content-Type": MEDIA_TYPE})
            return bytes_response(self._once("v2", lambda: encode(self._v2())))
        if path == _V3_PATH:
            return json_response({"paths": {name: self._link(name) for name in self._groups()}})
        name = path.removeprefix(_V3_PATH + "/")
        place = self._groups().get(name)
        if place is None:
            raise no_such_path()
        return bytes_response(self._once(name, lambda: encode(self._v3(place))))

    def _once(self, name: str, make: Callable[[], bytes]) -> bytes:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def _groups(self) -> dict[str, tuple[str, str]]:
        """The v3 documents: path -> (group, version)."""
        places = sorted({(kind.group, kind.version) for kind in self._release.types})
        return {f"apis/{group}/{version}" if group else f"api/{version}": (group, version) for group, version in places}

    def _link(self, name: str) -> Json:
        fingerprint = self._once("fingerprint", self._fingerprint).decode()
        return {"serverRelativeURL": f"{_V3_PATH}/{name}?hash={fingerprint}"}

    def _fingerprint(self) -> bytes:
        """Changes whenever a document may have changed, so that clients can cache them."""
        return (
            sha256(repr((self._release, metadata.version("kubernetes-validate"))).encode()).hexdigest().upper().encode()
        )

    def _v3(self, place: tuple[str, str]) -> Json:
        kinds = [kind for kind in self._release.types if (kind.group, kind.version) == place]
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._release.git_version},
            "paths": _paths(kinds, version=3),
            "components": {"schemas": _definitions(kinds, "#/components/schemas/", version=3)},
        }

    def _v2(self) -> Json:
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": self._release.git_version},
            "paths": _paths(self._release.types, version=2),
            "definitions": _definitions(self._release.types, "#/definitions/", version=2),
        }


def _definitions(kinds: Iterable[ResourceType], refs: str, version: int) -> Json:
    """The schemas of the kinds and of everything they are made of."""
    named = [type_name(kind.group, kind.version, kind.kind) for kind in kinds if not kind.is_custom]
    waiting = [DELETE_OPTIONS, OBJECT_META, "meta.v1.Status", *named]
    definitions: Json = {}
    while waiting:
        name = waiting.pop()
        found = definition(name)
        if not found or full_name(name) in definitions:
            continue
        definitions[full_name(name)] = _shown(found, refs, version, waiting)
    for kind in kinds:
        if isinstance(kind, CustomType):
            definitions[_custom_name(kind)] = _custom(kind, kind.custom.schema, refs, version)
    return dict(sorted(definitions.items()))


def _shown(found: Json, refs: str, version: int, waiting: list[str]) -> Json:
    """A schema as our documents have it: with references of their own. Adds to `waiting` the types it refers to."""
    shown = {key: value for key, value in found.items() if key not in ("$ref", "enum")}
    if isinstance(shown.get("type"), list):  # what may be null, which the published documents do not say
        shown["type"] = shown["type"][0]
    for key in ("items", "additionalProperties"):
        if isinstance(shown.get(key), dict):
            shown[key] = _shown(shown[key], refs, version, waiting)
    if "properties" in shown:
        shown["properties"] = {
            key: _shown(value, refs, version, waiting) for key, value in sorted(shown["properties"].items())
        }
    if "$ref" in found:
        name = referenced(found["$ref"])
        if name in SCALARS:
            return {**_FORMATS.get(name, {}), **shown}
        waiting.append(name)
        reference = {"$ref": refs + full_name(name)}
        # OpenAPI 3 allows nothing beside a reference, so that it is wrapped to carry a description.
        shown |= {"allOf": [reference]} if version == 3 and shown else reference
    return shown


def _custom_name(kind: ResourceType) -> str:
    return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))


def _custom(kind: ResourceType, schema: Json, refs: str, version: int) -> Json:
    """The schema of a custom resource, with what all objects have."""
    shown = dict(schema) if version == 3 else _in_v2(schema)
    if schema.get(PRESERVE) and version != 3:
        shown = {"type": "object"}
    else:
        reference = {"$ref": refs + full_name(OBJECT_META)}
        head = {key: {"type": "string", "description": description(_ANY_KIND, key)} for key in ("apiVersion", "kind")}
        metadata_ = {"allOf": [reference]} if version == 3 else reference
        about = {"description": description(_ANY_KIND, "metadata")}
        shown["properties"] = {**shown.get("properties", {}), **head, "metadata": {**about, **metadata_}}
    shown["x-kubernetes-group-version-kind"] = [{"group": kind.group, "kind": kind.kind, "version": kind.version}]
    return shown


def _in_v2(schema: Json) -> Json:
    """A schema without what OpenAPI 2 cannot say; clients would refuse what it says wrongly."""
    dropped = {"allOf", "anyOf", "oneOf", "not", "nullable", "default"}
    if schema.get(PRESERVE) or schema.get(INT_OR_STRING) or schema.get("nullable"):
        dropped |= {"type", "items", "properties", "additionalProperties"}
    shown = {key: value for key, value in schema.items() if key not in dropped}
    for key in ("items", "additionalProperties"):
        if isinstance(shown.get(key), dict):
            shown[key] = _in_v2(shown[key])
    if "properties" in shown:
        shown["properties"] = {key: _in_v2(part) for key, part in shown["properties"].items()}
    return shown


def _paths(kinds: Iterable[ResourceType], version: int) -> Json:
    paths: Json = {}
    for kind in kinds:
        root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        namespaced = f"{root}/namespaces/{{namespace}}" if kind.namespaced else root
        collection = f"{namespaced}/{kind.plural}"
        paths[collection] = _operations(kind, _ON_COLLECTION, version)
        paths[f"{collection}/{{name}}"] = _operations(kind, _ON_OBJECT, version)
    return paths


def _operations(kind: ResourceType, actions: tuple[tuple[str, str], ...], version: int) -> Json:
    return {method: _operation(kind, method, action, version) for method, action in actions}


def _operation(kind: ResourceType, method: str, action: str, version: int) -> Json:
    operation: Json = {
        "operationId": f"{action}{kind.group.title().replace('.', '')}{kind.version.title()}{kind.kind}",
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
    }
    if method in ("post", "put", "patch"):
        operation["parameters"] = [_query(name, version) for name in ("dryRun", "fieldManager", "fieldValidation")]
    return operation


def _query(name: str, version: int) -> Json:
    parameter: Json = {"name": name, "in": "query", "description": ""}
    if version == 3:
        return {**parameter, "schema": {"type": "string"}}
    return {**parameter, "type": "string"}
