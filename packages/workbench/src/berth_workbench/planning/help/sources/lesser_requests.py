"""How much less a pod could request for plugins that say so themselves (`LesserRequestsPlugin`), by their own rules.

Such a plugin rejects a node although it has enough in all: it is not in one place. What it says of a node is tried like
everything else. Where a container is limited to what it requests, the limit is lowered with the request, so that the
pod keeps its quality of service.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from berth.framework.interface import LesserRequestsPlugin
from berth_workbench.planning.help.needs import POD_COST, Need, PodEdit, PodQuestion
from berth_workbench.planning.help.sources.resources import lower, words_of

Json = dict[str, Any]


class LesserRequestNeeds:
    """Whatever plugins of the pod's profile can say it."""

    plugins = frozenset[str]()
    """None is known by name: what such a plugin cannot put into numbers is told in its own words."""

    def needs(self, question: PodQuestion) -> Iterable[Need]:
        """Yield a need for each plugin that rejects nodes and may know how much less would do."""
        profile = question.prover.core.profiles.get(question.info.spec.scheduler_name)
        known = [] if profile is None else [plugin for plugin in profile.plugins if plugin.lesser_requests is not None]
        if not known:
            return
        rejecting = question.prover.ask(question.info, is_whole=False).rejecting
        for plugin in known:
            failing = rejecting.get(plugin.name)
            if failing is None or plugin.lesser_requests is None:
                continue
            key = ("lesser", plugin.name)
            sized, nothing = _lowered(plugin.lesser_requests, question), dict.fromkeys(question.info.requests, 0)
            whole = PodEdit("requests", "request nothing", _lowering(nothing))
            yield Need(key, plugin.name, failing, sized=sized, whole=whole)


def _lowered(plugin: LesserRequestsPlugin, question: PodQuestion) -> Callable[[int], PodEdit | None]:
    """Return what makes the edit that leaves the largest requests with which a plugin lets the pod pass on a row."""
    asked = question.info.requests

    def sized(row: int) -> PodEdit | None:
        most = plugin.lesser_requests(question.info, question.table.view(row))
        less = {name: amount for name, amount in most.items() if amount < asked.get(name, 0)}
        if not less or not all(less.values()):
            return None  # nothing at all is left to ask for
        parts = [f"at most {words_of(name, amount)} instead of {words_of(name, asked[name])}"
                 for name, amount in sorted(less.items())]  # fmt: skip
        cost = POD_COST + sum((asked[name] - amount) / asked[name] for name, amount in less.items())
        return PodEdit("requests", f"request {' and '.join(parts)}", _lowering(less), cost)

    return sized


def _lowering(targets: Mapping[str, int]) -> Callable[[Json], None]:
    """Return the edit that lowers what a pod requests, and is limited to, of some resources."""

    def edit(document: Json) -> None:
        spec = document["spec"]
        for resource, target in targets.items():
            limited = [part for part in _resources(spec) if _is_limited_to_its_request(part, resource)]
            lower(spec, resource, target)
            for part in limited:
                part["limits"][resource] = part["requests"][resource]

    return edit


def _resources(spec: Json) -> Iterator[Json]:
    for holder in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if holder.get("resources"):
            yield holder["resources"]


def _is_limited_to_its_request(part: Json, resource: str) -> bool:
    limits, requests = part.get("limits") or {}, part.get("requests") or {}
    return resource in requests and limits.get(resource) == requests[resource]
