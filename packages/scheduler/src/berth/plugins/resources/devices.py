"""Which extended resources device classes offer, so that NodeResourcesFit leaves them to DynamicResources.

DeviceClass objects go in, resource names come out; looked at again only when a class has changed. A class offers the
resource it names in `spec.extendedResourceName`, and one that is called by the class's own name.
"""

from berth.api.dra import DeviceClass
from berth.framework.handle import Handle
from berth.plugins.resources.names import DEVICE_CLASS_PREFIX, PLAIN_RESOURCES, may_be_devices

KIND = "DeviceClass"
GATE = "DRAExtendedResource"


class DeviceResources:
    """The names, as of now; none where the feature is off."""

    __slots__ = ("_enabled", "_names", "_objects", "_version")

    def __init__(self, handle: Handle) -> None:
        self._enabled = handle.features.enabled(GATE)
        self._objects = handle.objects
        self._version = -1
        self._names: frozenset[str] = frozenset()

    def offers(self, resource: str) -> bool:
        """Say whether some device class backs a resource."""
        if not self._enabled or resource in PLAIN_RESOURCES or not may_be_devices(resource):
            return False
        version = self._objects.version(KIND)
        if version != self._version:
            self._version = version
            self._names = frozenset(name for found in self._objects.list(KIND) for name in resources_of(found))
        return resource in self._names


def resources_of(device_class: DeviceClass) -> tuple[str, ...]:
    """Return the resources that a class offers."""
    by_own_name = DEVICE_CLASS_PREFIX + device_class.metadata.name
    named = device_class.spec.extended_resource_name
    return (named, by_own_name) if named else (by_own_name,)
