"""Requests: how much less would do, by what nodes have or a plugin says, and nodes with as many pods as they may.

What plugins say themselves (`LesserRequestsPlugin`) is by their own rules: such a plugin rejects a node although it has
enough in all, since it is not in one place. Where a container is limited to what it requests, the limit is lowered with
the request, so that the pod keeps its quality of service.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from berth.api.node import Node
from berth.api.pod_resources import CPU, PODS, supports_pod_level
from berth.api.quantity import milli_value, value
from berth.framework.interface import LesserRequestsPlugin
from berth.plugins.resources.names import is_extended
from berth_workbench.planning.help.needs import POD_COST, Need, NodeEdit, Numbers, PodEdit, PodQuestion, setting

Json = dict[str, Any]

PLUGIN = "NodeResourcesFit"
_UNITS = {"Ei": 2**60, "Pi": 2**50, "Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}


class ResourceNeeds:
    """NodeResourcesFit."""

    plugins = frozenset({PLUGIN})

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for what is requested, and one for the number of pods."""
        table, asked = question.table, {name: each for name, each in question.info.requests.items() if each > 0}
        container = {
            "name": "c",
            "resources": {"requests": {name: quantity_of(name, each) for name, each in asked.items()}},
        }
        failing = question.failing({"containers": [container]}, PLUGIN) & ~question.bare
        has, free = {}, {}
        for name in asked:
            known = table.resource_index.get(name)
            has[name] = np.zeros(table.capacity, dtype=np.int64) if known is None else table.allocatable[known].copy()
            free[name] = has[name] if known is None else has[name] - table.requested[known]

        def sized(row: int) -> PodEdit | None:
            return _lowered(asked, {name: int(each[row]) for name, each in free.items() if each[row] < asked[name]})

        if failing.any():
            freed = np.logical_and.reduce([failing, *(has[name] >= amount for name, amount in asked.items())])
            yield Need(("requests",), PLUGIN, failing, sized=sized, whole=_nothing_of(asked), may_be_freed=freed)
        full = question.valid & (table.pod_count >= table.allowed_pods)
        if full.any():
            yield Need(("pods",), PLUGIN, full, node_edit=_one_pod_more, may_be_freed=full & (table.allowed_pods > 0))


class LesserRequestNeeds:
    """Whatever plugins of the pod's profile can say it."""

    plugins = frozenset[str]()
    """None is known by name: what such a plugin cannot put into numbers is told in its own words."""

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each plugin that rejects nodes and may know how much less would do."""
        profile, asked = question.filters.core.profiles.get(question.info.spec.scheduler_name), question.info.requests
        known = [] if profile is None else [plugin for plugin in profile.plugins if plugin.lesser_requests is not None]
        rejecting = question.filters.ask(question.info, is_whole=False).rejecting if known else {}

        def sized(row: int, plugin: LesserRequestsPlugin) -> PodEdit | None:
            most = plugin.lesser_requests(question.info, question.table.view(row))
            return _lowered(asked, {name: each for name, each in most.items() if each < asked.get(name, 0)})

        for plugin in known:
            if plugin.name in rejecting and plugin.lesser_requests is not None:
                least = partial(sized, plugin=plugin.lesser_requests)
                key = ("lesser", plugin.name)
                yield Need(key, plugin.name, rejecting[plugin.name], sized=least, whole=_nothing_of(asked))


def _lowered(asked: Mapping[str, int], left: Mapping[str, int]) -> PodEdit | None:
    """Return the edit that leaves so much of what is asked for; None where it is no less, or nothing of something."""
    return _leaving(asked, left) if left and min(left.values()) > 0 else None


def _leaving(asked: Mapping[str, int], left: Mapping[str, int]) -> PodEdit:
    steps = {name: -(-asked[name] // _round_step(asked[name], name)) for name in left}
    most = max(steps.values(), default=0)

    def fewer(by: int) -> PodEdit:
        parts = {name: steps[name] * (most - by) // most * _round_step(asked[name], name) for name in left}
        return _leaving(asked, {name: max(each, 1) for name, each in parts.items()})

    what = " and ".join(f"at most {words_of(name, each)} instead of {words_of(name, asked[name])}"
                        for name, each in sorted(left.items()))  # fmt: skip
    cost = POD_COST + sum((asked[name] - each) / asked[name] for name, each in left.items())
    edit, numbers = partial(_lower_all, left), Numbers(most - 1, fewer)
    return PodEdit("requests", f"request {what}", edit, cost, numbers=numbers, is_enough_for_one=True)


def _nothing_of(asked: Mapping[str, int]) -> PodEdit:
    return _leaving(asked, dict.fromkeys(asked, 0))


def _round_step(amount: int, resource: str) -> int:
    """Return about a hundredth of an amount, as people would round it."""
    if resource == CPU or is_extended(resource):
        return max((step for step in (1, 10, 50, 100, 500, 1000) if step * 100 <= amount), default=1)
    return 1 << max(amount.bit_length() - 8, 0)


def _lower_all(targets: Mapping[str, int], document: Json) -> None:
    """Lower what a pod requests, and is limited to, of some resources."""
    spec = document["spec"]
    for resource, target in targets.items():
        limited = [part for part in _resources(spec) if _is_limited_to_its_request(part, resource)]
        _lower(spec, resource, target)
        for part in limited:
            part["limits"][resource] = part["requests"][resource]


def _resources(spec: Json) -> Iterator[Json]:
    for holder in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if holder.get("resources"):
            yield holder["resources"]


def _is_limited_to_its_request(part: Json, resource: str) -> bool:
    limits, requests = part.get("limits") or {}, part.get("requests") or {}
    return resource in requests and limits.get(resource) == requests[resource]


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


def _lower(spec: Json, resource: str, target: int) -> None:
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
