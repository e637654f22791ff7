"""What the server says about itself: API groups, versions and resources, in both forms, and its version.

All of it follows from the release whose API is served (`apimachinery.releases`) and from the custom resources.
"""

from typing import Any

from berth_cluster.apimachinery.releases import Release
from berth_cluster.apimachinery.resource_types import METRICS_TYPES, ResourceType
from berth_cluster.custom.version import version_order
from berth_cluster.serving.access import REVIEWS

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_READ_AND_WRITE = ["get", "patch", "update"]
# subresource -> group, version and kind of what it answers with, where that is not the object; verbs
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding", ["create"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
    "scale": ("autoscaling", "v1", "Scale", _READ_AND_WRITE),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ["create"]),
    "status": ("", "", "", _READ_AND_WRITE),
    "finalize": ("", "", "", ["update"]),
    "ephemeralcontainers": ("", "", "", _READ_AND_WRITE),
    "resize": ("", "", "", _READ_AND_WRITE),
}

Json = dict[str, Any]


class Discovery:
    """The answers of one server."""

    __slots__ = ("_release", "_types")

    def __init__(self, release: Release) -> None:
        self._release = release
        self._types = (*release.types, *METRICS_TYPES)

    def version_info(self) -> Json:
        """The answer of `/version`."""
        unknown = dict.fromkeys(("gitCommit", "goVersion", "compiler"), "")
        about = {"major": "1", "minor": str(self._release.minor), "gitVersion": self._release.git_version}
        built = {"gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "platform": "linux/amd64"}
        return about | built | unknown

    def groups(self) -> list[str]:
        """The names of all API groups; the core group is the empty name."""
        return sorted({kind.group for kind in self._types} | set(REVIEWS))

    def versions_of(self, group: str) -> list[str]:
        """The versions of a group, the preferred one first."""
        versions = {kind.version for kind in self._types if kind.group == group}
        if group in REVIEWS:
            versions.add("v1")
        return sorted(versions, key=version_order)

    def core_versions(self, address: str) -> Json:
        """`/api` in the old form."""
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        }

    def group_list(self) -> Json:
        """`/apis` in the old form."""
        named = [self.api_group(group) for group in self.groups() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}

    def api_group(self, group: str) -> Json:
        """`/apis/GROUP`, and an entry of the list of groups."""
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self.versions_of(group)]
        named = {"kind": "APIGroup", "apiVersion": "v1", "name": group}
        return {**named, "versions": versions, "preferredVersion": versions[0]}

    def resource_list(self, group: str, version: str) -> Json | None:
        """`/api/v1` and `/apis/GROUP/VERSION`: resources and their subresources; None if there is no such version."""
        if version not in self.versions_of(group):
            return None
        resources: list[Json] = []
        for kind in self._kinds(group, version):
            resources.append(_old_entry(kind))
            resources.extend(_old_subresource(kind, name) for name in sorted(kind.subresources))
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}

    def aggregated(self, core: bool) -> Json:
        """`/api` (the core group) or `/apis` (all others) in the aggregated form that current clients ask for."""
        chosen = [group for group in self.groups() if (group == "") is core]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [self._aggregated_group(group) for group in chosen],
        }

    def _kinds(self, group: str, version: str) -> list[ResourceType]:
        """What is served in a version of a group: what is stored, then what can be posted but is never there."""
        found = sorted((kind for kind in self._types if (kind.group, kind.version) == (group, version)), key=_plural)
        posted = {} if version != "v1" else REVIEWS.get(group, {}) if group else {"bindings": "Binding"}
        return found + [
            ResourceType(group, version, plural, kind, kind.startswith(("Binding", "Local")), verbs=("create",))
            for plural, kind in sorted(posted.items())
        ]

    def _aggregated_group(self, group: str) -> Json:
        versions = [
            {"version": version, "resources": [_aggregated_entry(kind) for kind in self._kinds(group, version)],
             "freshness": "Current"}
            for version in self.versions_of(group)
        ]  # fmt: skip
        return {"metadata": {"name": group, "creationTimestamp": None} if group else {}, "versions": versions}


def _plural(kind: ResourceType) -> str:
    return kind.plural


def _names(kind: ResourceType) -> Json:
    """What both forms say alike."""
    names = {"verbs": kind.verbs, "shortNames": kind.short_names, "categories": kind.categories}
    return {key: list(value) for key, value in names.items() if value}


def _old_entry(kind: ResourceType) -> Json:
    head = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind}
    return head | _names(kind)


def _old_subresource(kind: ResourceType, name: str) -> Json:
    group, version, answers, verbs = _SUBRESOURCE_KINDS[name]
    entry = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced,
             "kind": answers or kind.kind, "verbs": verbs}  # fmt: skip
    return entry | ({"group": group, "version": version} if group else {})


def _aggregated_entry(kind: ResourceType) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        **_names(kind),
    }
    if kind.subresources:
        entry["subresources"] = [_aggregated_subresource(kind, name) for name in sorted(kind.subresources)]
    return entry


def _aggregated_subresource(kind: ResourceType, name: str) -> Json:
    group, version, answers, verbs = _SUBRESOURCE_KINDS[name]
    if not answers:
        group, version, answers = kind.group, kind.version, kind.kind
    return {
        "subresource": name,
        "responseKind": {"group": group, "version": version, "kind": answers},
        "verbs": verbs,
    }
