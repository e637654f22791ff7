"""The objects that every cluster has from the start: system namespaces and system priority classes."""

from berth_cluster.apimachinery.meta import Object
from berth_cluster.apimachinery.resource_types import NAMESPACES, PRIORITY_CLASSES, ResourceType
from berth_cluster.strategies.scheduling import SYSTEM_CRITICAL

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SYSTEM_PRIORITIES = (
    (
        "system-cluster-critical",
        SYSTEM_CRITICAL,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        SYSTEM_CRITICAL + 1000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
)


def system_objects() -> list[tuple[ResourceType, Object]]:
    """The objects to create in an empty store, with their resource types, in the order of creation."""
    namespaces = [(NAMESPACES, {"metadata": {"name": name}}) for name in SYSTEM_NAMESPACES]
    return [*namespaces, *((PRIORITY_CLASSES, _priority_class(*priority)) for priority in _SYSTEM_PRIORITIES)]


def _priority_class(name: str, value: int, description: str) -> Object:
    return {"metadata": {"name": name}, "value": value, "description": description}
