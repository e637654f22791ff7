"""The objects that every cluster has from the start: system namespaces and system priority classes."""

from typing import TYPE_CHECKING

from berth_cluster.resource_types import NAMESPACES, PRIORITY_CLASSES
from berth_cluster.watch import Object

if TYPE_CHECKING:
    from berth_cluster.store import Store

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SYSTEM_CRITICAL = 2_000_000_000
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


def create_system_objects(store: "Store") -> None:
    """Create what is missing of the system objects; safe to repeat."""
    for name in SYSTEM_NAMESPACES:
        if store.find(NAMESPACES, "", name) is None:
            store.create(NAMESPACES, "", {"metadata": {"name": name}})
    for name, value, description in _SYSTEM_PRIORITIES:
        if store.find(PRIORITY_CLASSES, "", name) is None:
            store.create(PRIORITY_CLASSES, "", _priority_class(name, value, description))


def _priority_class(name: str, value: int, description: str) -> Object:
    return {"metadata": {"name": name}, "value": value, "description": description}
