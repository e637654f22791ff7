"""What a request asks for: the resource, namespace, name and subresource in its path, and its options.

`parse_path` and `list_options` read path and query into a `Target` and `ListOptions` for the handlers.
"""

from collections.abc import Mapping
from typing import NamedTuple

from berth_cluster.apimachinery.errors import FieldErrors, StoreError, bad_request, no_such_path

# Parts of a namespace that are subresources, not resources inside it.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")

EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"
_MATCH = "resourceVersionMatch"


class Target(NamedTuple):
    """What a path of the API names."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str


def parse_path(path: str) -> Target:
    """Split `/api/v1/...` or `/apis/GROUP/VERSION/...`."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        raise no_such_path()
    plural, name, subresource = (*rest, "", "")[:3]
    return Target(group, version, namespace, plural, name, subresource)


class ListOptions(NamedTuple):
    """The query of a list or watch."""

    label_selector: str
    field_selector: str
    limit: int
    continue_token: str
    resource_version: str
    resource_version_match: str
    watch: bool
    timeout_s: float | None
    allow_bookmarks: bool
    send_initial_events: bool | None


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Read and check the query of a list or watch."""
    options = ListOptions(
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        limit=max(0, whole(query, "limit")),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        resource_version_match=query.get("resourceVersionMatch", ""),
        watch=flag(query, "watch"),
        timeout_s=float(whole(query, "timeoutSeconds")) if query.get("timeoutSeconds") else None,
        allow_bookmarks=flag(query, "allowWatchBookmarks"),
        send_initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
    )
    _check_match(options)
    return options


def _check_match(options: ListOptions) -> None:
    """Refuse combinations that make no sense, as upstream's ValidateListOptions does."""
    errors = FieldErrors()
    match, has_initial = options.resource_version_match, options.send_initial_events is not None
    if options.watch:
        if has_initial and match != NOT_OLDER_THAN:
            why = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
            errors.forbidden(_MATCH, why)
        if match and not has_initial:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.forbidden(_MATCH, why)
        if match and match != NOT_OLDER_THAN:
            errors.unsupported(_MATCH, match, (NOT_OLDER_THAN,))
    else:
        if match and not options.resource_version:
            errors.forbidden(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        if match and match not in (EXACT, NOT_OLDER_THAN):
            errors.unsupported(_MATCH, match, (EXACT, NOT_OLDER_THAN))
        if match == EXACT and options.resource_version == "0":
            errors.forbidden(_MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        if has_initial:
            errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if match and options.continue_token:
        errors.forbidden(_MATCH, "resourceVersionMatch is forbidden when continue is provided")
    errors.raise_for("ListOptions", "meta.k8s.io", "")


def no_streaming_lists() -> StoreError:
    """422, as a release answers whose gate WatchList is off."""
    errors = FieldErrors()
    why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
    errors.forbidden("sendInitialEvents", why)
    return errors.refusal("ListOptions", "meta.k8s.io", "")


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean query parameter; present but empty means true."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0", "f")


def is_dry_run(query: Mapping[str, str]) -> bool:
    """`dryRun=All`; any other value is refused."""
    value = query.get("dryRun", "")
    if value not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{value}": supported values: "All"')
    return value == "All"


def whole(query: Mapping[str, str], name: str) -> int:
    """A whole number in the query; 0 where it is absent or empty."""
    text = query.get(name) or "0"
    try:
        number = int(text)
    except ValueError:
        raise bad_request(f'query parameter {name}: "{text}" is not a whole number') from None
    if not -(2**63) <= number < 2**63:
        raise bad_request(f'query parameter {name}: "{text}" is not a number of 64 bits')
    return number
