"""What a server serves: a release's API, and the custom resources of its store."""

from berth_cluster.apimachinery.releases import Release
from berth_cluster.apimachinery.resource_types import ResourceType
from berth_cluster.storage.custom_kinds import CustomKinds


class ServedApi:
    """The resources of one server, which come and go with CustomResourceDefinitions."""

    __slots__ = ("_custom", "_release", "git_version", "minor")

    def __init__(self, release: Release, custom: CustomKinds) -> None:
        self._release = release
        self._custom = custom
        self.minor = release.minor
        self.git_version = release.git_version

    @property
    def types(self) -> tuple[ResourceType, ...]:
        """All resources in all versions."""
        return (*self._release.types, *self._custom.served)

    @property
    def version(self) -> int:
        """Counts the changes."""
        return self._custom.version

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The resource of that version, if it is served."""
        return self._release.find(group, version, plural) or self._custom.find(group, version, plural)
