"""Amounts of resources as quotas count them, and which of them are too much.

CPU is counted in milli-units, all else in units. What a pod requests is the sum of its containers or the largest of its
init containers, whichever is more, with overhead; sidecars count as init containers, and requests of the pod as a whole
do not count. Source: pkg/capacityscheduling, computePodResourceRequest and cmp2.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from berth.plugin import PodInfo, Quantity, milli_value, value

Amounts = Mapping[str, int]

CPU, MEMORY, STORAGE = "cpu", "memory", "ephemeral-storage"
ALWAYS_LIMITED = (CPU, MEMORY, STORAGE)
"""What counts as 0 where a quota has a bound and does not name them; others are bound only where they are named, or
asked for."""
NOT_COUNTED = "pods"


class Excess(NamedTuple):
    """A resource of which there would be too much: what is used, what is asked for besides, and the bound."""

    resource: str
    used: int
    asked: int
    bound: int

    @property
    def amount(self) -> int:
        """How much it is too much."""
        return self.used + self.asked - self.bound


def amounts_of(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """Return quantities as they are counted."""
    return {name: _counted(name, quantity) for name, quantity in quantities.items() if name != NOT_COUNTED}


@lru_cache(maxsize=4096)
def _counted(name: str, quantity: Quantity) -> int:
    return milli_value(quantity) if name == CPU else value(quantity)


def requests_of(pod: PodInfo) -> dict[str, int]:
    """Return what a pod requests, as quotas count it."""
    found: dict[str, int] = {}
    for container in pod.spec.containers:
        add(found, amounts_of(container.resources.requests))
    for container in pod.spec.init_containers:
        for name, amount in amounts_of(container.resources.requests).items():
            found[name] = max(found.get(name, 0), amount)
    add(found, amounts_of(pod.spec.overhead))
    return found


def add(total: dict[str, int], more: Amounts, sign: int = 1) -> None:
    """Add amounts to a total, or take them off."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def excesses(used: Amounts, asked: Amounts, bound: Amounts, *, is_closed: bool = True) -> Iterator[Excess]:
    """Yield the resources of which there would be more than the bound.

    CPU, memory and storage are always looked at, others if they are asked for. Where the bound does not name one of
    these, none of it is allowed, or any amount unless `is_closed`.
    """
    for name in (*ALWAYS_LIMITED, *(name for name in asked if name not in ALWAYS_LIMITED)):
        limit = bound.get(name)
        if limit is None:
            if not is_closed and name not in ALWAYS_LIMITED:
                continue
            limit = 0
        if used.get(name, 0) + asked.get(name, 0) > limit:
            yield Excess(name, used.get(name, 0), asked.get(name, 0), limit)


def quantity_of(resource: str, amount: int) -> str:
    """Return an amount as objects say it."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    for shift, suffix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if amount and amount % (1 << shift) == 0:
            return f"{amount >> shift}{suffix}"
    return str(amount)
