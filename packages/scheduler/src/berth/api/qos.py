"""A pod's quality of service: Guaranteed, Burstable or BestEffort, by what its containers request and are limited to.

Only cpu and memory count, in containers and init containers alike; a pod that has resources of its own is judged by
these alone (KEP-2837). Source of the rules: kubernetes.io, "Pod Quality of Service Classes".
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from berth.api.pod import Pod, ResourceRequirements
from berth.api.pod_resources import CPU, MEMORY, supports_pod_level
from berth.api.quantity import Quantity, nano_value


class QosClass(Enum):
    """A quality of service; the values are those of `status.qosClass`."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(pod: Pod, *, pod_level: bool = True) -> QosClass:
    """Return the quality of service of a pod; `pod_level` is whether resources of the pod itself count."""
    own = pod.spec.resources
    if pod_level and own is not None and any(map(supports_pod_level, (*own.requests, *own.limits))):
        parts: Iterable[ResourceRequirements] = (own,)
        is_limited = not own.limits or {CPU, MEMORY} <= _nanos(own.limits).keys()
    else:
        parts = [each.resources for each in (*pod.spec.containers, *pod.spec.init_containers)]
        is_limited = all({CPU, MEMORY} <= _nanos(part.limits).keys() for part in parts)
    requests, limits = _sum(part.requests for part in parts), _sum(part.limits for part in parts)
    if not requests and not limits:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if is_limited and requests == limits else QosClass.BURSTABLE


def _nanos(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    found = {name: nano_value(quantities[name]) for name in (CPU, MEMORY) if name in quantities}
    return {name: amount for name, amount in found.items() if amount > 0}


def _sum(parts: Iterable[Mapping[str, Quantity]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in _nanos(part).items():
            total[name] = total.get(name, 0) + amount
    return total
