"""What a pod asks of a node: init containers, sidecars, pod-level resources, overhead and resizes in flight.

Used by the cache, by the resource plugins, and by the hollow kubelet. Sums are exact (nano-units) and rounded up once
at the end: CPU to milli-units, everything else to whole units.
Source of the rules: k8s.io/component-helpers/resource (PodRequests), KEP-753, KEP-1287, KEP-2837.
"""

from collections.abc import Mapping
from typing import NamedTuple

from berth.api.pod import Container, ContainerStatus, Pod
from berth.api.quantity import Quantity, counted, nano_value

CPU, MEMORY, PODS, EPHEMERAL_STORAGE = "cpu", "memory", "pods", "ephemeral-storage"

DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
"""What scoring assumes of a container that requests nothing, so that such pods are spread as well."""

_DEFAULT_NANOS = {CPU: DEFAULT_CPU_MILLI * 10**6, MEMORY: DEFAULT_MEMORY_BYTES * 10**9}

Nanos = dict[str, int]
Requests = Mapping[str, int]
"""Resource name to amount: CPU in milli-units, everything else in whole units."""


class Counting(NamedTuple):
    """What counts besides the containers' requests, as feature gates decide."""

    pod_level: bool = True
    """spec.resources of the pod (PodLevelResources, KEP-2837)."""
    pod_level_resizes: bool = True
    """Resizes of these that are in flight (InPlacePodLevelResourcesVerticalScaling, KEP-5419)."""


ALL_COUNTS = Counting()
CONTAINERS_ONLY = Counting(pod_level=False)


def pod_requests(pod: Pod, counting: Counting = ALL_COUNTS, *, use_status: bool = True) -> Requests:
    """Return what the pod asks for. `use_status` counts resizes in flight."""
    return rounded(_pod_nanos(pod, {}, use_status, counting))


def pod_requests_for_scoring(pod: Pod, counting: Counting = ALL_COUNTS, *, use_status: bool = True) -> Requests:
    """Return the same, with defaults of CPU and memory for each container that names none."""
    defaults = dict(_DEFAULT_NANOS)
    if counting.pod_level and has_pod_level_requests(pod):
        asked = _pod_nanos(pod, {}, use_status, counting)
        defaults = {name: nanos for name, nanos in defaults.items() if name not in asked}
    return rounded(_pod_nanos(pod, defaults, use_status, counting))


def scoring_requests(pod: Pod, requests: Requests, counting: Counting = ALL_COUNTS) -> tuple[int, int]:
    """Return CPU and memory as scoring counts them, for a pod that `pod_requests` says asks for `requests`."""
    if _names_cpu_and_memory(pod) and not _has_resource_status(pod):
        return requests[CPU], requests[MEMORY]
    scored = pod_requests_for_scoring(pod, counting)
    return scored.get(CPU, 0), scored.get(MEMORY, 0)


def _names_cpu_and_memory(pod: Pod) -> bool:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        requests = container.resources.requests
        if CPU not in requests or MEMORY not in requests:
            return False
    return bool(pod.spec.containers)


def _has_resource_status(pod: Pod) -> bool:
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses or status.resources is not None)


def rounded(nanos: Nanos) -> Requests:
    """Round sums of nano-units up to the units that scheduling counts in."""
    return {name: counted(-(-amount // (10**6 if name == CPU else 10**9))) for name, amount in nanos.items()}


def supports_pod_level(name: str) -> bool:
    """Say whether spec.resources of a pod may name this resource."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def has_pod_level_requests(pod: Pod) -> bool:
    """Say whether the pod has requests of its own, beside its containers'."""
    return pod.spec.resources is not None and any(map(supports_pod_level, pod.spec.resources.requests))


def _pod_nanos(pod: Pod, defaults: Nanos, use_status: bool, counting: Counting) -> Nanos:
    total = _container_nanos(pod, defaults, use_status)
    if counting.pod_level and has_pod_level_requests(pod):
        total.update(_pod_level_nanos(pod, use_status and counting.pod_level_resizes))
    return _add(total, _nanos(pod.spec.overhead)) if pod.spec.overhead else total


def _container_nanos(pod: Pod, defaults: Nanos, use_status: bool) -> Nanos:
    """Regular containers and sidecars run together; each init container runs beside the sidecars started before it."""
    statuses = _statuses_by_name(pod) if use_status else {}
    total: Nanos = {}
    for container in pod.spec.containers:
        _add(total, _asked(pod, container, statuses, defaults))
    return _with_init_containers(pod, total, statuses, defaults) if pod.spec.init_containers else total


def _with_init_containers(pod: Pod, total: Nanos, statuses: Mapping[str, ContainerStatus], defaults: Nanos) -> Nanos:
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            asked = _asked(pod, container, statuses, defaults)
            _add(total, asked)
            _add(sidecars, asked)
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, _add(_asked(pod, container, {}, defaults), sidecars))
    return _raise_to(total, peak)


def _statuses_by_name(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return {}
    return {state.name: state for state in (*status.container_statuses, *status.init_container_statuses)}


def _asked(pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], defaults: Nanos) -> Nanos:
    asked = _nanos(container.resources.requests)
    state = statuses.get(container.name) if statuses else None
    if state is not None and state.resources is not None:
        asked = _in_effect(pod, asked, state.resources.requests, state.allocated_resources)
    for name, nanos in defaults.items():
        asked.setdefault(name, nanos)
    return asked


def _pod_level_nanos(pod: Pod, use_status: bool) -> Nanos:
    """Return what counts at the pod level: only what spec.resources names, whether a resize is in flight or not."""
    resources, status = pod.spec.resources, pod.status
    asked = _nanos(resources.requests) if resources is not None else {}
    named = [name for name in asked if supports_pod_level(name)]
    if use_status and status.resources is not None:
        asked = _in_effect(pod, asked, status.resources.requests, status.allocated_resources)
    return {name: asked.get(name, 0) for name in named}


def _in_effect(pod: Pod, asked: Nanos, in_force: Mapping[str, Quantity], allocated: Mapping[str, Quantity]) -> Nanos:
    """Return the most that the node may have to hold while a resize is under way.

    That is the largest of what the runtime has in force, what the kubelet has allocated, and what is requested now,
    unless the kubelet has found the last infeasible.
    """
    held = _raise_to(_nanos(in_force), _nanos(allocated))
    return held if resize_is_infeasible(pod) else _raise_to(asked, held)


def resize_is_infeasible(pod: Pod) -> bool:
    """Say whether the kubelet has found that the node can never give what the pod now asks for."""
    pending = next((c for c in pod.status.conditions if c.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def _nanos(quantities: Mapping[str, Quantity]) -> Nanos:
    return {name: nano_value(quantity) for name, quantity in quantities.items()}


def _add(total: Nanos, more: Nanos) -> Nanos:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
    return total


def _raise_to(total: Nanos, floor: Nanos) -> Nanos:
    for name, amount in floor.items():
        if name not in total or total[name] < amount:
            total[name] = amount
    return total
