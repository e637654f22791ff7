"""What a pod asks of the zones of a node.

Native resources are those of Kubernetes; all others are expected to be devices. Cpu, memory and huge pages come from
zones always, but are only bound to one for Guaranteed pods; devices come from zones, or belong to the node as a whole.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from berth.plugin import PodInfo, QosClass, Quantity
from berth_plugins.numa.topology import amount_of

HUGE_PAGES = "hugepages-"
NODE_WIDE = ("ephemeral-storage", "storage")
"""Native resources that no zone need list."""
ON_EVERY_NODE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""Resources that every node is taken to have some of, if only 0."""

INIT, SIDECAR, APP = "init container", "sidecar container", "container"

Amounts = tuple[tuple[str, int], ...]
"""Resources and how much of each is asked for, in the order of their names; 0 is told, too."""


class Part(NamedTuple):
    """A container, and what it asks for."""

    kind: str
    asks: Amounts


class Ask(NamedTuple):
    """What a pod asks for, container by container and as a whole; equal for pods that no column tells apart."""

    is_guaranteed: bool
    is_exempt: bool
    """Whether it may run anywhere: it asks for nothing that zones give."""
    parts: tuple[Part, ...]
    """Its init containers, sidecars among them, then the others."""
    whole: Amounts


def is_native(resource: str) -> bool:
    """Say whether a resource is one of Kubernetes' own."""
    return "/" not in resource or "kubernetes.io/" in resource


def may_be_node_wide(resource: str) -> bool:
    """Say whether a resource that no zone lists may still be had, from the node as a whole."""
    return resource in NODE_WIDE or not is_native(resource)


def is_bound_to_zones(resource: str) -> bool:
    """Say whether Guaranteed pods, and they alone, get a resource from the zone that they are bound to."""
    return resource in ("cpu", "memory") or resource.startswith(HUGE_PAGES)


def is_scarce(ask: Ask, resource: str) -> bool:
    """Say whether a zone must have enough of a resource left; if not, it need only list it."""
    return ask.is_guaranteed or not is_bound_to_zones(resource)


def is_on(resource: str, allocatable: Container[str]) -> bool:
    """Say whether a node can be asked for a resource: by what its object says, as far as the scheduler counts it."""
    if resource in ON_EVERY_NODE:
        return True
    is_counted = "/" in resource or resource.startswith((HUGE_PAGES, "attachable-volumes-"))
    return is_counted and resource in allocatable


def ask_of(pod: PodInfo) -> Ask:
    """Return what a pod asks for; worked out once for all pods of its shape."""
    known = pod.fragments.get(Ask)
    if not isinstance(known, Ask):
        known = pod.fragments[Ask] = _ask_of(pod)
    return known


def _ask_of(pod: PodInfo) -> Ask:
    spec, qos = pod.spec, pod.qos_class
    parts = tuple(Part(_kind_of(each), _amounts(each.resources.requests)) for each in spec.init_containers)
    parts += tuple(Part(APP, _amounts(each.resources.requests)) for each in spec.containers)
    is_exempt = qos is QosClass.BEST_EFFORT and all(is_native(name) for part in parts for name, _ in part.asks)
    return Ask(qos is QosClass.GUARANTEED, is_exempt, parts, _whole(pod, parts))


def _kind_of(init_container: Any) -> str:
    return SIDECAR if init_container.restart_policy == "Always" else INIT


def _amounts(requests: Mapping[str, Quantity]) -> Amounts:
    return tuple(sorted((name, amount_of(name, quantity)) for name, quantity in requests.items()))


def _whole(pod: PodInfo, parts: Iterable[Part]) -> Amounts:
    """Return what a pod asks for as a whole: of each resource what its containers need at a time, and the overhead."""
    most: dict[str, int] = {}
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.asks:
            if part.kind == APP:
                total[name] = total.get(name, 0) + amount
            else:
                most[name] = max(most.get(name, 0), amount)
    found = {name: max(total.get(name, 0), most.get(name, 0)) for name in total | most}
    for name, quantity in pod.spec.overhead.items():
        found[name] = found.get(name, 0) + amount_of(name, quantity)
    return tuple(sorted(found.items()))


def has_exclusive_resources(
    containers: Iterable[tuple[bool, Mapping[str, Quantity]]], in_zones: frozenset[str], *, is_guaranteed: bool
) -> bool:
    """Say whether any container has something to itself: devices of the zones, whole cpus, memory or huge pages.

    Containers are given as whether they are there as long as the pod, and what they request.
    """
    return any(
        lasts and any(_is_exclusive(name, amount, in_zones, is_guaranteed) for name, amount in _amounts(requests))
        for lasts, requests in containers
    )


def _is_exclusive(name: str, amount: int, in_zones: frozenset[str], is_guaranteed: bool) -> bool:
    if not is_native(name):
        return name in in_zones
    if not is_guaranteed or amount <= 0:
        return False
    return (name == "cpu" and amount % 1000 == 0) or name == "memory" or name.startswith(HUGE_PAGES)
