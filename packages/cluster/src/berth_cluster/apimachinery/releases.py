"""What the API servers of Kubernetes 1.30 to 1.37 serve, as far as it differs for the kinds that are stored here.

Objects are stored in one version each, that of the table of resources. A release that serves a kind in another version
shows and takes the same objects in that version (`storage.api_versions` converts them). A kind that it does not serve
is not there. Alpha and beta kinds count as switched on, in the versions that a user of that release would switch on.

Sources: the OpenAPI documents of each release, and the changelogs.
"""

from collections.abc import Iterable
from functools import lru_cache
from types import MappingProxyType

import msgspec

from berth_cluster.apimachinery.resource_types import METRICS_TYPES, RESOURCE_TYPES, ResourceType

DEFAULT_MINOR = 36
OLDEST_MINOR = 30
NEWEST_MINOR = 37

_DEVICES = ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
_RULES = ("devicetaintrules",)
_DRA, _SCHEDULING = "resource.k8s.io", "scheduling.k8s.io"

# (group, resources) -> minor version of a release -> the versions that it serves, the preferred one first. A release
# that is not named serves what the one before it does.
_SERVED: MappingProxyType[tuple[str, tuple[str, ...]], dict[int, tuple[str, ...]]] = MappingProxyType(
    {
        (_DRA, _DEVICES): {
            30: (),
            31: ("v1alpha3",),
            32: ("v1beta1",),
            33: ("v1beta2", "v1beta1"),
            34: ("v1",),
        },
        (_DRA, _RULES): {30: (), 33: ("v1alpha3",), 36: ("v1beta2",), 37: ("v1",)},
        ("admissionregistration.k8s.io", ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")): {
            30: (),
            36: ("v1",),
        },
        ("storage.k8s.io", ("volumeattributesclasses",)): {30: (), 34: ("v1",)},
        ("autoscaling", ("horizontalpodautoscalers",)): {30: ("v2", "v1")},
        (_SCHEDULING, ("podgroups",)): {30: (), 36: ("v1alpha2",), 37: ("v1beta1",)},
        (_SCHEDULING, ("workloads",)): {30: (), 35: ("v1alpha1",), 36: ("v1alpha2",), 37: ("v1beta1",)},
    }
)
# Releases whose watches serve as lists (`sendInitialEvents`): the gate WatchList was on in 1.32, and is from 1.34.
_WITH_STREAMING_LISTS = frozenset({32, *range(34, NEWEST_MINOR + 1)})


class Release(msgspec.Struct, frozen=True):
    """The API of one minor version."""

    minor: int
    types: tuple[ResourceType, ...]

    @property
    def git_version(self) -> str:
        """`v1.36.0`."""
        return f"v1.{self.minor}.0"

    @property
    def has_streaming_lists(self) -> bool:
        """Whether watches serve as lists."""
        return self.minor in _WITH_STREAMING_LISTS

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The resource of that version, if it is served."""
        return _by_place(self.minor).get((group, version, plural))


@lru_cache(maxsize=16)
def release(minor: int = DEFAULT_MINOR) -> Release:
    """The API of Kubernetes 1.`minor`."""
    if not OLDEST_MINOR <= minor <= NEWEST_MINOR:
        raise ValueError(f"Kubernetes 1.{minor} is not known here; 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR} are")
    return Release(minor, tuple(_types(minor)))


@lru_cache(maxsize=16)
def _by_place(minor: int) -> dict[tuple[str, str, str], ResourceType]:
    return {(kind.group, kind.version, kind.plural): kind for kind in (*release(minor).types, *METRICS_TYPES)}


def _types(minor: int) -> Iterable[ResourceType]:
    for kind in RESOURCE_TYPES:
        versions = _versions(kind, minor)
        if versions is None:
            yield kind
            continue
        for version in versions:
            yield kind if version == kind.version else msgspec.structs.replace(kind, version=version)


def _versions(kind: ResourceType, minor: int) -> tuple[str, ...] | None:
    """The versions in which a release serves a kind; None for the stored one alone."""
    for (group, plurals), by_minor in _SERVED.items():
        if kind.group == group and kind.plural in plurals:
            return by_minor[max(known for known in by_minor if known <= minor)]
    return None
