"""What Trimaran's plugins take pods to ask for: cpu in milli-units, and memory in bytes.

The sum of the containers, or the largest init container where that is more, with overhead. Resources of the pod itself
do not count, nor do sidecars beside the containers.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from berth.plugin import PodInfo, Quantity, milli_value, value

Quantities = Mapping[str, Quantity]


class Amount(NamedTuple):
    """How much of both."""

    cpu_milli: int = 0
    memory_bytes: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum."""
        return Amount(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)

    def at_least(self, other: "Amount") -> "Amount":
        """Return the larger of each."""
        return Amount(max(self.cpu_milli, other.cpu_milli), max(self.memory_bytes, other.memory_bytes))


def amount_of(quantities: Quantities) -> Amount:
    """Return what quantities say."""
    return Amount(_milli(quantities.get("cpu", 0)), _whole(quantities.get("memory", 0)))


@lru_cache(maxsize=4096)
def _milli(quantity: Quantity) -> int:
    return milli_value(quantity)


@lru_cache(maxsize=4096)
def _whole(quantity: Quantity) -> int:
    return value(quantity)


def effective_requests(pod: PodInfo) -> Amount:
    """Return what a pod requests."""
    spec = pod.spec
    total = _total(each.resources.requests for each in spec.containers)
    for container in spec.init_containers:
        total = total.at_least(amount_of(container.resources.requests))
    return total.plus(amount_of(spec.overhead))


def effective_limits(pod: PodInfo) -> Amount:
    """Return what a pod is limited to, at least what it requests."""
    spec = pod.spec
    total = _total(each.resources.limits for each in spec.containers)
    for container in spec.init_containers:
        total = total.at_least(amount_of(container.resources.limits))
    return total.plus(amount_of(spec.overhead)).at_least(effective_requests(pod))


def _total(parts: Iterable[Quantities]) -> Amount:
    total = Amount()
    for part in parts:
        total = total.plus(amount_of(part))
    return total
