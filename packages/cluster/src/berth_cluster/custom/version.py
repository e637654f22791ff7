"""One version of a custom resource: what its CustomResourceDefinition says of it, ready to be used.

A `CustomType` is the resource with one of these (`custom`), and whoever asks something of a kind that cannot be
in a table asks it: the strategy, the check of bodies, selectors, tables, the scale subresource, OpenAPI, merges.
"""

import re
from collections.abc import Callable
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

from berth_cluster.apimachinery.errors import FieldErrors, StoreError, bad_request
from berth_cluster.apimachinery.field_checks import FieldCheck
from berth_cluster.apimachinery.meta import Object, is_being_deleted
from berth_cluster.apimachinery.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.apimachinery.schema import OBJECT_META, Field, InlineType, Message, message
from berth_cluster.custom import paths
from berth_cluster.custom.rules import SchemaRules
from berth_cluster.custom.validation import SchemaValidator
from berth_cluster.custom.values import EMBEDDED, PRESERVE, prune, set_defaults, unknown_fields

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_SCALARS = {"string": "string", "integer": "int64", "number": "double", "boolean": "bool"}
_NOT_CHECKED = "some validation rules were not checked because the object was invalid; correct the existing errors to "


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def version_order(version: str) -> tuple[int, int, int, str]:
    """As Kubernetes orders versions: stable before beta before alpha before others, and the higher number first."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (len(_STAGES), 0, 0, version)
    return (_STAGES[found[2]], -int(found[1]), -int(found[3] or 0), "")


class CustomVersion:
    """One version of a custom resource."""

    patch_types = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)

    def __init__(self, definition: Object, number: int) -> None:
        """`number` says which of the definition's versions it is."""
        spec = definition["spec"]
        said = spec["versions"][number]
        self.definition = definition["metadata"]["name"]
        self.is_terminating = is_being_deleted(definition)
        self.is_storage = bool(said.get("storage"))
        self.is_served = bool(said.get("served"))
        self.needs_webhook = not self.is_storage and (spec.get("conversion") or {}).get("strategy") == "Webhook"
        # Objects are shown as they are stored where nothing could have changed since they were.
        self.is_as_stored = self.is_storage and definition["metadata"]["generation"] == 1
        self.stored_version = f"{spec['group']}/{next(one['name'] for one in spec['versions'] if one.get('storage'))}"
        self.schema: Object = said["schema"]["openAPIV3Schema"]
        self.columns: list[Object] = said.get("additionalPrinterColumns") or [AGE]
        paths_of = [one["jsonPath"] for one in said.get("selectableFields") or () if paths.simple_keys(one["jsonPath"])]
        self.selectable = {path.lstrip("."): path for path in paths_of}
        self.scale: Object = (said.get("subresources") or {}).get("scale") or {}
        self.warning = _warning(definition, number) if said.get("deprecated") else ""
        self._rules = SchemaRules(self.schema)

    @cached_property
    def validator(self) -> SchemaValidator:
        """The schema, ready to check objects."""
        return SchemaValidator(self.schema)

    @cached_property
    def message(self) -> Message:
        """The type of the objects, for merges."""
        return _message(self.definition, {**self.schema, EMBEDDED: True})

    @property
    def applied_message(self) -> Message | None:
        """The type that what is applied has to have; None where there may be any fields."""
        return None if self.schema.get(PRESERVE) else self.message

    def refuse_if_unconverted(self, kind: str) -> None:
        """Refuse whatever is asked of a version that only a webhook could make of the stored one."""
        if self.needs_webhook:
            what = f"{self.stored_version}, Kind={kind}"
            raise StoreError(500, "", f"conversion webhook for {what} failed: this API server calls no webhooks")

    def complete(self, obj: Object) -> None:
        """Prune an object and fill in its defaults."""
        prune(obj, self.schema)
        set_defaults(obj, self.schema)

    def check(self, obj: Object, old: Object | None, errors: FieldErrors) -> None:
        """Report what is wrong with an object."""
        is_blocked = self.validator.check(obj, errors) or not obj["metadata"]["name"]
        if is_blocked and not self._rules.are_none:
            errors.note("FieldValueInvalid", "<nil>", f"Invalid value: null: {_NOT_CHECKED}complete validation")
        elif not is_blocked:
            self._rules.check(obj, old, "", errors)

    def scale_of(self, obj: Object) -> Object:
        """The replicas and the selector of an object, as a Scale's spec and status."""
        wanted = paths.find(obj, self.scale["specReplicasPath"])
        status: Object = {"replicas": (paths.find(obj, self.scale["statusReplicasPath"]) or [0])[0]}
        path = self.scale.get("labelSelectorPath") or ""
        if selector := paths.find(obj, path) if paths.simple_keys(path) else ():
            status["selector"] = selector[0]
        return {"spec": {"replicas": wanted[0]} if wanted else {}, "status": status}

    def with_replicas(self, obj: Object, replicas: int) -> Object:
        """The object with another number of replicas."""
        path = self.scale["specReplicasPath"]
        if replicas < 0:
            errors = FieldErrors()
            errors.invalid(path, replicas, "should be a non-negative integer")
            raise errors.refusal(obj["kind"], obj["apiVersion"].partition("/")[0], obj["metadata"]["name"])
        *holders, last = paths.simple_keys(path) or []
        made = part = dict(obj)
        for key in holders:
            part[key] = part = dict(part.get(key) or {})
        part[last] = replicas
        return made


class CustomType(ResourceType, frozen=True, kw_only=True):
    """A resource that a CustomResourceDefinition declares, in one version."""

    custom: CustomVersion
    is_custom: ClassVar[bool] = True

    def getter(self, field: str) -> Callable[[Object], str] | None:
        """How field selectors read a field; None where the definition does not list it."""
        path = self.custom.selectable.get(field)
        return None if path is None else lambda obj: _selected(obj, path)

    def undeclared(self, obj: Object, *, partial: bool) -> list[str]:
        """The fields of an object or patch that the kind does not have; refuses metadata of the wrong type."""
        unknown = unknown_fields(obj, self.custom.schema)
        meta = obj.get("metadata")
        if isinstance(meta, dict):
            check = FieldCheck(self.kind, self.version, partial=partial)
            unknown += [f"metadata.{path}" for path in check.run(message(OBJECT_META), meta)]
        elif meta is not None:
            raise bad_request(f"{self.kind}: metadata must be an object")
        return sorted(unknown)


def types_of(definition: Object) -> list[CustomType]:
    """The resource in each of its versions."""
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    return [
        CustomType(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            spec["scope"] == "Namespaced",
            tuple(names.get("shortNames") or ()),
            tuple(name for name in ("status", "scale") if name in (version.get("subresources") or {})),
            tuple(names.get("categories") or ()),
            VERBS,
            has_generation=True,
            given_singular=names.get("singular") or "",
            given_list_kind=names.get("listKind") or "",
            custom=CustomVersion(definition, number),
        )
        for number, version in enumerate(spec["versions"])
    ]


def _warning(definition: Object, number: int) -> str:
    spec = definition["spec"]
    version = spec["versions"][number]
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    current = [one["name"] for one in spec["versions"] if one.get("served") and not one.get("deprecated")]
    better = f"; use {group}/{min(current, key=version_order)} {kind}" if current else ""
    return f"{group}/{version['name']} {kind} is deprecated{better}"


def _selected(obj: Object, path: str) -> str:
    value = next(iter(paths.find(obj, path)), "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _message(name: str, schema: Object) -> Message:
    parts = schema.get("properties") or {}
    fields = {key: _field(f"{name}.{key}", key, part) for key, part in parts.items()}
    if schema.get(EMBEDDED):
        fields |= {key: Field(key, "string") for key in ("apiVersion", "kind")}
        fields["metadata"] = Field("metadata", OBJECT_META)
    is_atomic = schema.get("x-kubernetes-map-type") == "atomic"
    return Message(name, fields, {}, False, is_atomic, frozenset(), MappingProxyType({}))


def _field(path: str, name: str, schema: Object) -> Field:
    items, more = schema.get("items"), schema.get("additionalProperties")
    element = items if isinstance(items, dict) else more if isinstance(more, dict) else schema
    kind, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())
    known: str = _SCALARS.get(element.get("type", ""), "any")
    if element.get("type") == "object" and not any(element.get(key) for key in ("additionalProperties", PRESERVE)):
        known = InlineType(path)
        known.message = _message(path, element)
    is_list = isinstance(items, dict)
    return Field(
        name,
        known,
        is_list,
        element is more,
        schema.get("x-kubernetes-map-type") == "atomic" or (is_list and kind not in ("map", "set")),
        keys if kind == "map" else (),
        kind == "set",
        keys[0] if kind == "map" and keys else "",
        kind in ("map", "set"),
    )
