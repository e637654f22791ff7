"""The store's resources by kind, which is how controllers and owner references name them."""

from types import MappingProxyType

from berth_cluster.resource_types import EVENTS, RESOURCE_TYPES, ResourceType

_BY_KIND = MappingProxyType({resource.kind: resource for resource in RESOURCE_TYPES} | {"Event": EVENTS})


def resource_of(kind: str) -> ResourceType:
    """The store's resource for a kind (of Events the `v1` form)."""
    return _BY_KIND[kind]
