"""What a request asks for: the resource, namespace, name and subresource in its path, and its options.

`parse_path` and `list_options` read path and query into a `Target` and `ListOptions` for the handlers.
"""

from collections.abc import Mapping
from typing import NamedTuple

from berth_cluster.apimachinery.errors import StoreError, bad_request

# Parts of a namespace that are subresources, not resources inside it.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


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


def no_such_path() -> StoreError:
    """404: no resource has this path."""
    return StoreError(404, "NotFound", "the server could not find the requested resource")


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
    send_initial_events: bool


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
        send_initial_events=flag(query, "sendInitialEvents"),
    )
    _check_match(options)
    return options


def _check_match(options: ListOptions) -> None:
    match, why = options.resource_version_match, ""
    if match and match not in ("Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
    elif options.watch and options.send_initial_events != bool(match):
        why = (
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            if options.send_initial_events
            else "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    elif match and not options.watch and not options.resource_version:
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match and options.continue_token:
        why = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    if why:
        message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {why}'
        raise StoreError(422, "Invalid", message)


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
