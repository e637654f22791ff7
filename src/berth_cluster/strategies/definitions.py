"""CustomResourceDefinitions: defaults and checks.

Source of the rules and messages: kubernetes.io "Extend the Kubernetes API with CustomResourceDefinitions", and what
Kubernetes 1.36 answers. Deviations: conversion by webhooks is refused, since nothing here calls any.
"""

import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors, Raw, as_text
from berth_cluster.apimachinery.meta import Object, is_condition_true
from berth_cluster.custom import paths
from berth_cluster.custom.structural import check_schema
from berth_cluster.custom.values import PRESERVE
from berth_cluster.strategies import names
from berth_cluster.strategies.base import ClusterView, RESTStrategy

LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
APPROVED = "api-approved.kubernetes.io"
_IN_SPEC = MappingProxyType({"specReplicasPath": ".spec", "statusReplicasPath": ".status"})
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_is_label = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_is_path = re.compile(r"\..+").fullmatch
_is_protected = re.compile(r"(.*\.)?(k8s|kubernetes)\.io").fullmatch


class DefinitionStrategy(RESTStrategy):
    """CustomResourceDefinitions."""

    __slots__ = ()

    def prepare_create(self, obj: Object, _view: ClusterView) -> None:
        """Names that follow from others, and the version in which objects will be stored."""
        _set_defaults(obj)
        stored = _storage_versions(obj)[-1:] or None
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}

    def prepare_update(self, new: Object, _old: Object, subresource: str, _view: ClusterView) -> None:
        """The same, and a new storage version is noted."""
        if subresource:
            return
        _set_defaults(new)
        stored = new["status"].get("storedVersions") or []
        added = [name for name in _storage_versions(new) if name not in stored]
        new["status"] = {**new["status"], "storedVersions": [*stored, *added]}

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """The name says what the resource is called."""
        super().check_name(obj, errors)
        spec, name = obj["spec"], obj["metadata"]["name"]
        if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
            errors.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')

    def check(self, obj: Object, errors: FieldErrors) -> None:
        """Everything in the spec."""
        spec = obj["spec"]
        group = spec.get("group") or ""
        annotations = obj["metadata"].get("annotations") or {}
        if _is_protected(group) and not annotations.get(APPROVED):
            why = f'protected groups must have approval annotation "{APPROVED}", see '
            errors.required(
                f"metadata.annotations[{APPROVED}]", f"{why}https://github.com/kubernetes/enhancements/pull/1111"
            )
        if not group:
            errors.required("spec.group")
        else:
            names.check_subdomain(group, "spec.group", errors)
            if "." not in group and group.islower():
                errors.invalid("spec.group", group, "should be a domain with at least one dot")
        if not spec.get("scope"):
            errors.required("spec.scope")
        elif spec["scope"] not in ("Cluster", "Namespaced"):
            errors.unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
        _check_names(spec["names"], errors)
        _check_versions(obj, errors)
        for field, versions, key, check in (
            ("spec.additionalPrinterColumns", "additionalPrinterColumns", None, _check_columns),
            ("spec.subresources.scale", "subresources", "scale", _check_scale),
            ("spec.selectableFields", "selectableFields", None, _check_selectable),
        ):
            for place, version in _places(spec["versions"], field, versions):
                part = version.get(versions) or {}
                part = part.get(key) if key else part
                if part is not None and (part or key):
                    check(part, place, version, errors)
        if spec.get("preserveUnknownFields"):
            why = f"cannot set to true, set {PRESERVE} to true in spec.versions[*].schema instead"
            errors.invalid("spec.preserveUnknownFields", True, why)
        _check_conversion(spec["conversion"], errors)

    def check_change(self, new: Object, old: Object, errors: FieldErrors) -> None:
        """What is served under a name stays what it is."""
        fixed = ["group"]
        if is_condition_true(old, "Established"):
            fixed += ["scope", "names.plural", "names.kind"]
        for path in fixed:
            value = _at(new["spec"], path)
            if value != _at(old["spec"], path):
                errors.invalid(f"spec.{path}", value, "field is immutable")
        kept = {version["name"] for version in new["spec"]["versions"]}
        for number, name in enumerate(new["status"]["storedVersions"] or []):
            if name not in kept:
                why = (
                    f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                    f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                    f"removes {name} from status.storedVersions"
                )
                errors.invalid(f"status.storedVersions[{number}]", name, why)


def _set_defaults(obj: Object) -> None:
    spec = obj["spec"] = obj.get("spec") or {}
    spec["versions"] = spec.get("versions") or []
    called = spec["names"] = spec.get("names") or {}
    if called.get("kind"):
        called["singular"] = called.get("singular") or called["kind"].lower()
        called["listKind"] = called.get("listKind") or f"{called['kind']}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    if spec.get("preserveUnknownFields") is False:
        del spec["preserveUnknownFields"]


def _storage_versions(obj: Object) -> list[str]:
    return [version.get("name", "") for version in obj["spec"]["versions"] if version.get("storage")]


def _at(spec: Object, path: str) -> Any:
    found: Any = spec
    for name in path.split("."):
        found = found.get(name)
    return found


def _check_names(called: Object, errors: FieldErrors) -> None:
    for name in ("plural", "singular", "kind", "listKind"):
        if not called.get(name):
            errors.required(f"spec.names.{name}")
    listed = [(f"{name}[{number}]", text) for name in ("shortNames", "categories")
              for number, text in enumerate(called.get(name) or [])]  # fmt: skip
    single = [(name, called.get(name) or "") for name in ("plural", "singular")]
    kinds = [(name, (called.get(name) or "").lower()) for name in ("kind", "listKind")]
    for name, text in (*single, *listed, *kinds):
        if text:
            _check_label(text, f"spec.names.{name}", errors)
    if called.get("kind") and called.get("kind") == called.get("listKind"):
        errors.invalid("spec.names.listKind", called["listKind"], "kind and listKind may not be the same")


def _check_label(text: str, field: str, errors: FieldErrors) -> None:
    if not _is_label(text):
        errors.invalid(field, text, LABEL_1035_MESSAGE)


def _check_versions(obj: Object, errors: FieldErrors) -> None:
    versions = obj["spec"]["versions"]
    called = [version.get("name", "") for version in versions]
    for number, (name, version) in enumerate(zip(called, versions, strict=True)):
        _check_label(name, f"spec.versions[{number}].name", errors)
        if version.get("deprecationWarning") and not version.get("deprecated"):
            why = "can only be set for deprecated versions"
            errors.invalid(f"spec.versions[{number}].deprecationWarning", version["deprecationWarning"], why)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            errors.required(f"spec.versions[{number}].schema.openAPIV3Schema")
    for place, version in _places(versions, "spec.validation", "schema"):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            check_schema(schema, f"{place}.openAPIV3Schema", errors)
    shown = Raw(as_text(called))
    if len(set(called)) < len(called):
        errors.invalid("spec.versions", shown, "must contain unique version names")
    if len(_storage_versions(obj)) != 1:
        errors.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if not obj["status"].get("storedVersions"):
        errors.invalid("status.storedVersions", None, "must have at least one stored version")


def _places(versions: list[Object], shared: str, key: str) -> Iterator[tuple[str, Object]]:
    """Where messages say that a part of the versions stands: in one place where all versions have the same."""
    if versions and all(version.get(key) == versions[0].get(key) for version in versions):
        yield shared, versions[0]
        return
    tail = shared.removeprefix("spec.").replace("validation", "schema")
    yield from ((f"spec.versions[{number}].{tail}", version) for number, version in enumerate(versions))


def _check_columns(columns: Any, field: str, _version: Object, errors: FieldErrors) -> None:
    for number, column in enumerate(columns):
        place = f"{field}[{number}]"
        if not column.get("name"):
            errors.required(f"{place}.name")
        if column.get("type") not in _COLUMN_TYPES:
            errors.invalid(f"{place}.type", column.get("type", ""), f"must be one of {','.join(_COLUMN_TYPES)}")
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            errors.invalid(f"{place}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
        _check_path(column.get("jsonPath"), f"{place}.JSONPath", errors, read=str)


def _check_path(
    path: Any, field: str, errors: FieldErrors, parent: str = "", read: Callable[..., Any] = paths.parse
) -> None:
    if not path:
        errors.required(field)
        return
    if not _is_path(path) or read(path) is None:
        errors.invalid(field, path, "must be a simple json path starting with .")
    elif not path.startswith(f"{parent}."):
        errors.invalid(field, path, f"should be a json path under {parent}")


def _check_scale(scale: Object, field: str, _version: Object, errors: FieldErrors) -> None:
    for name, parent in _IN_SPEC.items():
        _check_path(scale.get(name), f"{field}.{name}", errors, parent)
    if scale.get("labelSelectorPath"):
        _check_path(scale["labelSelectorPath"], f"{field}.labelSelectorPath", errors)


def _check_selectable(fields: Any, field: str, version: Object, errors: FieldErrors) -> None:
    for number, one in enumerate(fields):
        path = one.get("jsonPath") or ""
        keys = paths.simple_keys(path)
        found: Any = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for key in keys or ():
            found = (found.get("properties") or {}).get(key) or {}
        place = f"{field}[{number}].jsonPath"
        if not path.startswith((".", "[")):
            errors.invalid(place, path, f"is an invalid path: expected [ or . but got: {path}")
        elif found.get("type") not in ("string", "integer", "boolean") or keys is None or keys[0] == "metadata":
            errors.invalid(place, path, "is an invalid path: does not refer to a valid field")


def _check_conversion(conversion: Object, errors: FieldErrors) -> None:
    strategy = conversion.get("strategy")
    if strategy == "Webhook":
        why = 'this API server calls no webhooks; with the strategy "None" only apiVersion is changed'
        errors.forbidden("spec.conversion.strategy", why)
    elif strategy != "None":
        errors.unsupported("spec.conversion.strategy", strategy or "", ("None", "Webhook"))
