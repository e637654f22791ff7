"""CustomResourceDefinitions: defaults and checks.

Source of the rules and messages: kubernetes.io "Extend the Kubernetes API with CustomResourceDefinitions", and what
Kubernetes 1.36 answers. Deviations: conversion by webhooks is stored with a warning, since nothing here calls any; what
controllers of definitions hardly get wrong (formats of columns, say) is not checked.
"""

import re
from collections.abc import Iterator
from typing import Any

from berth_cluster.apimachinery.errors import FieldErrors, Raw, as_text
from berth_cluster.apimachinery.meta import Object, annotations_of, is_condition_true
from berth_cluster.custom import paths
from berth_cluster.custom.structural import check_schema
from berth_cluster.custom.values import PRESERVE
from berth_cluster.strategies import names
from berth_cluster.strategies.base import RESTStrategy
from berth_cluster.strategies.checks import IMMUTABLE, always, both, chosen, may, need, one_of, wrong_unless

LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
APPROVED = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_NO_WEBHOOKS = "spec.conversion: this API server calls no webhooks; only the version that is stored can be asked for"
_is_label = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_is_protected = re.compile(r"(.*\.)?(k8s|kubernetes)\.io").fullmatch


class DefinitionStrategy(RESTStrategy):
    """CustomResourceDefinitions."""

    __slots__ = ()

    def __init__(self) -> None:
        status = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        super().__init__(
            check=_check,
            status=status,
            complete=_set_defaults,
            amend=_set_defaults,
            change=_keep_names,
            told=lambda obj: [_NO_WEBHOOKS] if obj["spec"]["conversion"]["strategy"] == "Webhook" else [],
        )

    def check_name(self, obj: Object, errors: FieldErrors) -> None:
        """The name says what the resource is called."""
        super().check_name(obj, errors)
        spec, name = obj["spec"], obj["metadata"]["name"]
        if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
            errors.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _keep_names(new: Object, old: Object, errors: FieldErrors) -> None:
    """What is served under a name stays what it is."""
    before, after = old["spec"], new["spec"]
    fixed = [("group", before["group"], after.get("group"))]
    if is_condition_true(old, "Established"):
        fixed += [("scope", before["scope"], after.get("scope"))]
        fixed += [(f"names.{key}", before["names"][key], after["names"].get(key)) for key in ("plural", "kind")]
    for path, was, value in fixed:
        if value != was:
            errors.invalid(f"spec.{path}", value, IMMUTABLE)
    kept = {version["name"] for version in after["versions"]}
    for number, name in enumerate(new["status"]["storedVersions"] or []):
        if name not in kept:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            errors.invalid(f"status.storedVersions[{number}]", name, why)


def _set_defaults(obj: Object, *_: Any) -> None:
    """Names that follow from others, and the version in which objects are stored."""
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
    stored = obj["status"].get("storedVersions") or []
    for version in spec["versions"]:
        if version.get("storage") and version.setdefault("name", "") not in stored:
            stored = [*stored, version["name"]]
    obj["status"] = {**obj["status"], "storedVersions": stored or None}


def _check_group(group: str, field: str, errors: FieldErrors) -> None:
    names.check_subdomain(group, field, errors)
    if "." not in group and group.islower():
        errors.invalid(field, group, "should be a domain with at least one dot")


def _check_approval(obj: Object, _field: str, errors: FieldErrors) -> None:
    if _is_protected(obj["spec"].get("group") or "") and not annotations_of(obj).get(APPROVED):
        why = f'protected groups must have approval annotation "{APPROVED}", see '
        why += "https://github.com/kubernetes/enhancements/pull/1111"
        errors.required(f"metadata.annotations[{APPROVED}]", why)


def _check_conversion(conversion: Object, field: str, errors: FieldErrors) -> None:
    one_of("None", "Webhook")(conversion.get("strategy"), f"{field}.strategy", errors)
    webhook, is_called = conversion.get("webhook"), conversion.get("strategy") == "Webhook"
    client, versions = (webhook or {}).get("clientConfig"), (webhook or {}).get("conversionReviewVersions")
    for name, value in ("webhookClientConfig", client), ("conversionReviewVersions", versions):
        if value and not is_called:
            errors.forbidden(f"{field}.{name}", "should not be set when strategy is not set to Webhook")
    if not is_called:
        return
    if client is None:
        errors.required(f"{field}.webhookClientConfig", "required when strategy is set to Webhook")
    elif ("url" in client) == ("service" in client):
        errors.required(f"{field}.webhookClientConfig", "exactly one of url or service is required")
    if not versions:
        errors.required(f"{field}.conversionReviewVersions")
    elif not set(versions) & {"v1", "v1beta1"}:
        errors.invalid(f"{field}.conversionReviewVersions", versions, "must include at least one of v1, v1beta1")


def _check_names(called: Object, _field: str, errors: FieldErrors) -> None:
    texts = {name: called.get(name) or "" for name in ("plural", "singular", "kind", "listKind")}
    for name, text in texts.items():
        if not text:
            errors.required(f"spec.names.{name}")
    for name in ("shortNames", "categories"):
        texts |= {f"{name}[{number}]": text for number, text in enumerate(called.get(name) or [])}
    for name, text in texts.items():
        if text and not _is_label(text.lower() if name in ("kind", "listKind") else text):
            errors.invalid(f"spec.names.{name}", text, LABEL_1035_MESSAGE)
    if texts["kind"] and texts["kind"] == texts["listKind"]:
        errors.invalid("spec.names.listKind", texts["listKind"], "kind and listKind may not be the same")


def _check_versions(obj: Object, _field: str, errors: FieldErrors) -> None:
    versions = obj["spec"]["versions"]
    called = [version.setdefault("name", "") for version in versions]
    for number, version in enumerate(versions):
        if not _is_label(version["name"]):
            errors.invalid(f"spec.versions[{number}].name", version["name"], LABEL_1035_MESSAGE)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            errors.required(f"spec.versions[{number}].schema.openAPIV3Schema")
    for place, version in _places(versions, "schema", "validation"):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            check_schema(schema, f"{place}.openAPIV3Schema", errors)
    for place, version in _places(versions, "additionalPrinterColumns"):
        for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
            if column.get("type") not in _COLUMN_TYPES:
                why = f"must be one of {','.join(_COLUMN_TYPES)}"
                errors.invalid(f"{place}[{number}].type", column.get("type", ""), why)
            _check_path(column.get("jsonPath"), f"{place}[{number}].JSONPath", errors)
    for place, version in _places(versions, "subresources"):
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            _check_path(scale.get("specReplicasPath"), f"{place}.scale.specReplicasPath", errors, ".spec")
            _check_path(scale.get("statusReplicasPath"), f"{place}.scale.statusReplicasPath", errors, ".status")
    shown = Raw(as_text(called))
    if len(set(called)) < len(called):
        errors.invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if not obj["status"].get("storedVersions"):
        errors.invalid("status.storedVersions", None, "must have at least one stored version")


def _places(versions: list[Object], key: str, shared: str = "") -> Iterator[tuple[str, Object]]:
    """Where messages say that a part of the versions stands: in one place where all versions have the same."""
    if versions and all(version.get(key) == versions[0].get(key) for version in versions):
        return iter([(f"spec.{shared or key}", versions[0])])
    return iter([(f"spec.versions[{number}].{key}", version) for number, version in enumerate(versions)])


def _check_path(path: str | None, field: str, errors: FieldErrors, parent: str = "") -> None:
    if not path:
        errors.required(field)
    elif not path.startswith(".") or (parent and paths.simple_keys(path) is None):
        errors.invalid(field, path, "must be a simple json path starting with .")
    elif not path.startswith(f"{parent}."):
        errors.invalid(field, path, f"should be a json path under {parent}")


_UNPRUNED = f"cannot set to true, set {PRESERVE} to true in spec.versions[*].schema instead"
_check = both(
    _check_approval,
    need("spec.group", _check_group),
    chosen("spec.scope", "Cluster", "Namespaced"),
    always("spec.names", _check_names),
    _check_versions,
    may("spec.preserveUnknownFields", wrong_unless(lambda _value: False, _UNPRUNED)),
    always("spec.conversion", _check_conversion),
)
