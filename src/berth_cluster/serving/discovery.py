"""What the server says about itself: API groups, versions and resources, in both forms, and its version.

All of it follows from the release whose API is served (`apimachinery.releases`) and from the custom resources.
"""

from collections.abc import Callable
from typing import Any

from berth_cluster.apimachinery.releases import Release
from berth_cluster.apimachinery.resource_types import METRICS_TYPES, ResourceType
from berth_cluster.custom.version import version_order
from berth_cluster.serving.access import REVIEWS

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding", ["create"]),
    "eviction": ("policy", "v1", "Eviction", ["create"]),
    "scale": ("autoscaling", "v1", "Scale", ["get", "patch", "update"]),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ["create"]),
    "status": ("", "", "", ["get", "patch", "update"]),
    "finalize": ("", "", "", ["update"]),
    "resize": ("", "", "", ["get", "patch", "update"]),
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
        return {
            "major": "1",
            "minor": str(self._release.minor),
            "gitVersion": self._release.git_version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "",
            "platform": "linux/amd64",
        }

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
        return {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": group,
            "versions": versions,
            "preferredVersion": versions[0],
        }

    def resource_list(self, group: str, version: str) -> Json | None:
        """`/api/v1` and `/apis/GROUP/VERSION`: resources and their subresources; None if there is no such version."""
        if version not in self.versions_of(group):
            return None
        resources: list[Json] = []
        for kind in self._kinds(group, version):
            resources.append(_old_entry(kind))
            resources.extend(_old_subresource(kind, name) for name in sorted(kind.subresources))
        resources.extend(_posted_only(group, version, _old_posted))
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
        found = [kind for kind in self._types if kind.group == group and kind.version == version]
        return sorted(found, key=lambda kind: kind.plural)

    def _aggregated_group(self, group: str) -> Json:
        versions = []
        for version in self.versions_of(group):
            resources = [_aggregated_entry(kind) for kind in self._kinds(group, version)]
            answers = _Answers(group, version)
            resources.extend(_posted_only(group, version, answers.entry))
            versions.append({"version": version, "resources": resources, "freshness": "Current"})
        return {"metadata": {"name": group, "creationTimestamp": None} if group else {}, "versions": versions}


def _old_entry(kind: ResourceType) -> Json:
    entry: Json = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    return entry


def _old_subresource(kind: ResourceType, name: str) -> Json:
    group, version, answers, verbs = _SUBRESOURCE_KINDS[name]
    entry: Json = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": answers or kind.kind,
        "verbs": verbs,
    }
    if group:
        entry.update(group=group, version=version)
    return entry


def _posted_only(group: str, version: str, make: Callable[[str, str, bool], Json]) -> list[Json]:
    """Resources that can be created but are never there: bindings and reviews."""
    if group == "" and version == "v1":
        return [make("bindings", "Binding", True)]
    reviews = REVIEWS.get(group, {}) if version == "v1" else {}
    return [make(plural, kind, kind.startswith("Local")) for plural, kind in sorted(reviews.items())]


def _old_posted(plural: str, kind: str, namespaced: bool) -> Json:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": ["create"],
    }


class _Answers:
    """Makes aggregated entries for the resources of one group and version that are only posted."""

    __slots__ = ("_group", "_version")

    def __init__(self, group: str, version: str) -> None:
        self._group = group
        self._version = version

    def entry(self, plural: str, kind: str, namespaced: bool) -> Json:
        return {
            "resource": plural,
            "responseKind": {"group": self._group, "version": self._version, "kind": kind},
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": kind.lower(),
            "verbs": ["create"],
        }


def _aggregated_entry(kind: ResourceType) -> Json:
    entry: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [_aggregated_subresource(kind, name) for name in sorted(kind.subresources)]
    return entry


def _aggregated_subresource(kind: ResourceType, name: str) -> Json:
    group, version, answers, verbs = _SUBRESOURCE_KINDS[name]
    response = {"group": group or kind.group, "version": version or kind.version, "kind": answers or kind.kind}
    if name == "binding":
        response["group"] = ""
    return {"subresource": name, "responseKind": response, "verbs": verbs}
