"""Requests: how much less of each resource would do, and nodes that hold as many pods as they may."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from berth.api.node import Node
from berth.api.pod_resources import CPU, PODS, supports_pod_level
from berth.api.quantity import milli_value, value
from berth.plugins.resources.names import is_extended
from berth_workbench.planning.help.needs import POD_COST, Amounts, Need, NodeEdit, PodEdit, PodQuestion, setting

Json = dict[str, Any]

PLUGIN = "NodeResourcesFit"
_UNITS = {"Ei": 2**60, "Pi": 2**50, "Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}


class ResourceNeeds:
    """NodeResourcesFit."""

    plugins = frozenset({PLUGIN})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each resource that is short somewhere, and one for the number of pods."""
        table = question.table
        for resource, amount in question.info.requests.items():
            if amount <= 0:
                continue
            failing = question.failing({"containers": [_asking_for(resource, amount)]}, PLUGIN) & ~question.bare
            if not failing.any():
                continue
            known = table.resource_index.get(resource)
            has = np.zeros(table.capacity, dtype=np.int64) if known is None else table.allocatable[known].copy()
            free = has if known is None else has - table.requested[known]
            yield Need(
                ("requests", resource),
                PLUGIN,
                failing,
                sized=_lowered(resource, amount, free),
                whole=PodEdit("requests", f"request no {resource}", _lowering(resource, 0)),
                may_be_freed=failing & (has >= amount),
            )
        full = question.valid & (table.pod_count >= table.allowed_pods)
        if full.any():
            yield Need(("pods",), PLUGIN, full, node_edit=_one_pod_more, may_be_freed=full & (table.allowed_pods > 0))


def _lowered(resource: str, amount: int, free: Any) -> Callable[[int], PodEdit | None]:
    """Return what makes the edit that leaves the largest request of one resource that fits on a row."""

    def leaving(left: int) -> PodEdit:
        what = f"request at most {words_of(resource, left)} instead of {words_of(resource, amount)}"
        cost = POD_COST + (amount - left) / amount
        amounts = Amounts(amount, _round_step(amount, resource), leaving)
        return PodEdit("requests", what, _lowering(resource, left), cost, amounts=amounts)

    def sized(row: int) -> PodEdit | None:
        left = min(int(free[row]), amount)
        return leaving(left) if left > 0 else None  # else nothing at all is left to ask for

    return sized


def _round_step(amount: int, resource: str) -> int:
    """Return about a hundredth of an amount, as people would round it."""
    if resource == CPU or is_extended(resource):
        return max((step for step in (1, 10, 50, 100, 500, 1000) if step * 100 <= amount), default=1)
    return 1 << max(amount.bit_length() - 8, 0)


def _lowering(resource: str, target: int) -> Callable[[Json], None]:
    return lambda document: lower(document["spec"], resource, target)


def _asking_for(resource: str, amount: int) -> Json:
    return {"name": "c", "resources": {"requests": {resource: quantity_of(resource, amount)}}}


def quantity_of(resource: str, amount: int) -> str:
    """Return an amount, in the units that scheduling counts in, as a quantity; exactly."""
    if resource == CPU:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if not is_extended(resource):
        for suffix, size in _UNITS.items():
            if amount and amount % size == 0:
                return f"{amount // size}{suffix}"
    return str(amount)


def words_of(resource: str, amount: int) -> str:
    """Return an amount for people: rounded down, with the resource's name."""
    if resource == CPU:
        return f"{amount / 1000:g} CPU"
    text = quantity_of(resource, amount)
    if text == str(amount) and not is_extended(resource) and amount >= 2**20:
        suffix, size = next((suffix, size) for suffix, size in _UNITS.items() if amount >= size)
        text = f"{amount * 100 // size / 100:g}{suffix}"
    return f"{text} {resource}"


def amount_of(resource: str, quantity: str | int | float) -> int:
    """Return a quantity in the units that scheduling counts in."""
    return (milli_value if resource == CPU else value)(quantity)


def lower(spec: Json, resource: str, target: int) -> None:
    """Lower what a pod's spec requests of a resource, overhead included, to a target: the largest containers first."""
    target -= amount_of(resource, (spec.get("overhead") or {}).get(resource, 0))
    level = (spec.get("resources") or {}).get("requests") or {}
    if resource in level and supports_pod_level(resource):
        level[resource] = quantity_of(resource, max(target, 0))
    init = spec.get("initContainers") or []
    sidecars = [each for each in init if each.get("restartPolicy") == "Always"]
    _cut([*(spec.get("containers") or []), *sidecars], resource, target)
    beside = 0
    for each in init:
        if each in sidecars:
            beside += _asked(each, resource)
        elif _asked(each, resource) > target - beside:
            _ask(each, resource, max(target - beside, 0))


def _cut(containers: list[Json], resource: str, target: int) -> None:
    """Take what is too much off the containers that ask for most, in turn."""
    excess = sum(_asked(each, resource) for each in containers) - target
    for each in sorted(containers, key=lambda each: -_asked(each, resource)):
        if excess <= 0:
            return
        taken = min(excess, _asked(each, resource))
        _ask(each, resource, _asked(each, resource) - taken)
        excess -= taken


def _asked(container: Json, resource: str) -> int:
    requests = (container.get("resources") or {}).get("requests") or {}
    return amount_of(resource, requests.get(resource, 0))


def _ask(container: Json, resource: str, amount: int) -> None:
    resources = container.setdefault("resources", {})
    resources.setdefault("requests", {})[resource] = quantity_of(resource, amount)
    limits = resources.get("limits") or {}
    if resource in limits and (is_extended(resource) or resource.startswith("hugepages-")):
        limits[resource] = quantity_of(resource, amount)  # these must be equal


def _one_pod_more(node: Node) -> NodeEdit:
    allowed = amount_of(PODS, node.status.allocatable.get(PODS, 0))
    edit = setting("status", "allocatable", PODS, to=str(allowed + 1))
    what = f"let {{node}} run {allowed + 1} pods instead of {allowed} (the kubelet's maxPods)"
    return NodeEdit("maxPods", what, edit, as_new=f"with room for {allowed + 1} pods")
