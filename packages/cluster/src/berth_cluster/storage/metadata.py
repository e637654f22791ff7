"""What the API server does to every object's metadata, whatever its kind.

Functions that the store calls on create and update: namespaces, names, uid, times, generation, preconditions. An update
is checked against the version its writer saw (`check_update`), which is all there is to optimistic concurrency: of two
writers that read the same version, the second is refused with 409 and has to read again.
"""

import random
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from berth_cluster.apimachinery.errors import (
    FieldErrors,
    StoreError,
    bad_request,
    conflict,
    forbidden,
    not_found,
    stale,
)
from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import DEFINITIONS, ResourceType
from berth_cluster.storage.watch import Entry
from berth_workloads.admission import being_terminated

# Characters of generated name suffixes: without vowels, so that they do not form words.
SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
MAX_GENERATED_PREFIX = 58
GENERATED_NAME_TRIES = 8
_MAX_DIGITS = 20  # of a resourceVersion, which is an unsigned number of 64 bits

# What a writer cannot change, in the order in which it is shown.
_CARRIED_OVER = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_SERVER_FIELDS = (*_CARRIED_OVER, "selfLink", "managedFields")
# Kinds of which an update has to say which version it replaces: writers compete for leases and claims, and one that
# leaves the version out would overwrite what another has just taken.
_NEEDS_VERSION = frozenset({DEFINITIONS.key, ("coordination.k8s.io", "leases"), ("policy", "poddisruptionbudgets")})
# Kinds of which a write of `status` leaves all metadata alone, as with custom resources, and what it leaves alone of
# others; a stock API server was asked for each.
_STATUS_ALONE = frozenset(
    {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("apiregistration.k8s.io", "apiservices"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        ("resource.k8s.io", "devicetaintrules"),
        ("resource.k8s.io", "resourceclaims"),
        ("scheduling.k8s.io", "podgroups"),
        ("storage.k8s.io", "volumeattachments"),
    }
)
_KEPT_BY_STATUS = MappingProxyType({("apps", "deployments"): ("labels",), ("", "pods"): ("ownerReferences",)})


def suffixes(rng: random.Random) -> Callable[[], str]:
    """A source of name suffixes."""
    return lambda: "".join(rng.choices(SUFFIX_CHARACTERS, k=SUFFIX_LENGTH))


def parse_revision(text: str) -> int:
    """A resourceVersion as a number; 0 if it is empty."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        raise bad_request(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: invalid syntax')
    return int(text)


def check_namespace(kind: ResourceType, namespace: str, obj: Object) -> str:
    """The namespace of the request; an object that names another one is refused."""
    meta = obj.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise bad_request(f"{kind.kind}: metadata must be an object")
    if not kind.namespaced:
        meta.pop("namespace", None)
        return ""
    if not namespace:
        namespace = meta.get("namespace") or ""
    if not namespace:
        raise bad_request("an empty namespace may not be set during creation")
    if meta.get("namespace", namespace) not in (namespace, ""):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return namespace


def refuse_missing_namespace(found: Object | None, kind: ResourceType, namespace: str, obj: Object) -> None:
    """Refuse a new object whose namespace was not `found`, or is being deleted."""
    if not namespace:
        return
    if found is None:
        raise not_found("namespaces", "", namespace)
    if found["metadata"].get("deletionTimestamp"):
        error = forbidden(kind.plural, kind.group, obj["metadata"].get("name", ""), being_terminated(namespace))
        assert error.details is not None
        message = f"namespace {namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
        error.details["causes"] = [cause]
        raise error


def complete(
    kind: ResourceType, namespace: str, obj: Object, now: str, new_uid: Callable[[], str], new_suffix: Callable[[], str]
) -> None:
    """Fill in a new object's type and metadata; they come first in what is shown."""
    given = obj["metadata"]
    if given.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    meta: Object = {"name": _name(given, new_suffix)}
    if given.get("generateName"):
        meta["generateName"] = given["generateName"]
    if namespace:
        meta["namespace"] = namespace
    meta["uid"] = new_uid()
    meta["resourceVersion"] = ""
    if kind.has_generation:
        meta["generation"] = 1
    meta["creationTimestamp"] = now
    meta.update((key, value) for key, value in given.items() if key not in _SERVER_FIELDS and value is not None)
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    obj.clear()
    obj.update(apiVersion=kind.api_version, kind=kind.kind, metadata=meta, **rest)


def _name(meta: Object, new_suffix: Callable[[], str]) -> str:
    if meta.get("name"):
        return str(meta["name"])
    prefix = meta.get("generateName")
    return f"{prefix[:MAX_GENERATED_PREFIX]}{new_suffix()}" if prefix else ""


def has_free_name(obj: Object, found: Callable[[str], object], new_suffix: Callable[[], str]) -> bool:
    """Whether nothing has the object's name yet; a generated name is drawn again a few times, as upstream."""
    meta = obj["metadata"]
    for _ in range(GENERATED_NAME_TRIES):
        if found(meta["name"]) is None:
            return True
        if "generateName" not in meta:
            return False
        meta["name"] = f"{meta['generateName'][:MAX_GENERATED_PREFIX]}{new_suffix()}"
    return False


def check_update(kind: ResourceType, entry: Entry, new: Object) -> None:
    """Refuse an update that means another object, or a version that is no longer the present one."""
    meta = new.setdefault("metadata", {})
    old = entry.obj["metadata"]
    name = old["name"]
    if not meta.get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if meta["name"] != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if meta.get("namespace") and meta["namespace"] != old.get("namespace", ""):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    check_preconditions(kind.plural, kind.group, old, {"uid": meta.get("uid")})
    version = meta.get("resourceVersion") or ""
    if version and not version.isdigit():
        raise StoreError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')
    is_any = not int(version or 0)  # "0" is no version, as upstream
    if is_any and (kind.is_custom or kind.key in _NEEDS_VERSION):
        errors = FieldErrors()
        errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.refusal(kind.plural, kind.group, name)
    if not is_any and version != old["resourceVersion"]:
        raise stale(kind.plural, kind.group, name)


_UNMET = "Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {found}"


def check_preconditions(
    resource: str, group: str, meta: Object, wanted: dict[str, Any], why: str = _UNMET, causes: Sequence[str] = ("", "")
) -> None:
    """Refuse if the object has another uid or resourceVersion than the caller expects; `why` has a place for each."""
    for key, label, cause in zip(("uid", "resourceVersion"), ("UID", "ResourceVersion"), causes, strict=True):
        value = wanted.get(key)
        if value and value != meta[key]:
            said = why.format(label=label, wanted=value, found=meta[key], cause=cause)
            raise conflict(resource, group, meta["name"], said)


def carry_over(kind: ResourceType, entry: Entry, new: Object, subresource: str) -> Object:
    """The object to write: what a writer of this subresource may change comes from `new`, all else from the old one.

    A write of `status` leaves the spec alone, and a write of the whole object leaves the status alone (for kinds with a
    status subresource), so that users and controllers do not undo one another's work.
    """
    old = entry.obj
    if subresource == "status" and (kind.is_custom or kind.key in _STATUS_ALONE):
        return {**old, "metadata": dict(old["metadata"]), "status": new.get("status") or {}}
    if subresource in ("ephemeralcontainers", "finalize", "resize"):
        return {**old, "metadata": dict(old["metadata"]), "spec": new.get("spec") or {}}
    meta = {key: old["metadata"][key] for key in _CARRIED_OVER if key in old["metadata"]}
    meta |= {key: value for key, value in new["metadata"].items() if key not in _SERVER_FIELDS and value is not None}
    if subresource == "status":
        kept = {key: old["metadata"][key] for key in _KEPT_BY_STATUS.get(kind.key, ()) if key in old["metadata"]}
        meta = {key: value for key, value in meta.items() if key not in _KEPT_BY_STATUS.get(kind.key, ())}
        return {**old, "metadata": meta | kept, "status": new.get("status") or {}}
    rest = {key: value for key, value in new.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    written = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **rest}
    status = old.get("status") if kind.has_status else new.get("status")
    if status is not None:
        written["status"] = status
    return written


def count_generation(kind: ResourceType, entry: Entry, new: Object) -> None:
    """Raise the generation if anything but metadata and status changes."""
    if not kind.has_generation or kind.plural == "priorityclasses":
        return
    apart = ("metadata", "status")
    before = {key: value for key, value in entry.obj.items() if key not in apart}
    if before != {key: value for key, value in new.items() if key not in apart}:
        new["metadata"]["generation"] = entry.obj["metadata"].get("generation", 0) + 1
