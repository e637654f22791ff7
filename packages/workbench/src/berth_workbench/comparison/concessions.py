"""Counts the stated preferences of pods and nodes that tuned weights give up, since no measure shows these.

Where a plugin both filters and scores, its filter keeps what is required, whatever the weight. Its score serves what is
preferred. No measure says how far that is kept, so `tune` reports with its best configuration how many preferences
count for less there. What a score serves is documented upstream with each plugin.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from berth.api.meta import Struct
from berth.api.node import Node
from berth.api.pod import Pod
from berth_workbench.comparison.loads import ClusterLoad, Load


class ServedPreference(NamedTuple):
    """What a plugin's score serves."""

    what: str
    of: str
    """Who states it: `pod` or `node`."""
    is_stated: Callable[[Struct], bool]


def _prefers_nodes(pod: Struct) -> bool:
    affinity = pod.spec.affinity if isinstance(pod, Pod) else None
    return bool(affinity and affinity.node_affinity and affinity.node_affinity.preferred)


def _prefers_pods(pod: Struct) -> bool:
    affinity = pod.spec.affinity if isinstance(pod, Pod) else None
    kinds = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ()
    return any(each is not None and each.preferred for each in kinds)


def _prefers_spread(pod: Struct) -> bool:
    """Say whether a pod prefers spreading: by its own constraints or, if it has none but a controller, by the profile's
    default ones.
    """
    if not isinstance(pod, Pod):
        return False
    constraints = pod.spec.topology_spread_constraints
    if not constraints:
        return any(each.controller for each in pod.metadata.owner_references)
    return any(each.when_unsatisfiable == "ScheduleAnyway" for each in constraints)


def _prefers_others(node: Struct) -> bool:
    return isinstance(node, Node) and any(taint.effect == "PreferNoSchedule" for taint in node.spec.taints)


PREFERENCES: Final[Mapping[str, ServedPreference]] = {
    "InterPodAffinity": ServedPreference("prefer to be near other pods or away from them", "pod", _prefers_pods),
    "NodeAffinity": ServedPreference("prefer some nodes", "pod", _prefers_nodes),
    "PodTopologySpread": ServedPreference("prefer to be spread", "pod", _prefers_spread),
    "TaintToleration": ServedPreference("have taints that prefer no pods (PreferNoSchedule)", "node", _prefers_others),
}
"""By the plugin whose score serves it; each of these has a filter, too."""


LEAST = 0.9
"""A preference whose share of the score is more than this much of what it was is kept."""


def given_up(before: Mapping[str, int], after: Mapping[str, int], load: Load | None) -> tuple[str, ...]:
    """Return a sentence for each preference that counts for less with some weights than with the earlier ones.

    Only the ratios of weights matter: a higher weight for something else gives a preference up, too.
    """
    return tuple(_sentences(_shares(before), _shares(after), load))


def _shares(weights: Mapping[str, int]) -> dict[str, float]:
    total = sum(weights.values()) or 1
    return {name: weight / total for name, weight in weights.items()}


def _sentences(before: Mapping[str, float], after: Mapping[str, float], load: Load | None) -> Iterator[str]:
    for name, preference in PREFERENCES.items():
        was, now = before.get(name, 0.0), after.get(name, 0.0)
        who = _who(preference, load) if now < LEAST * was else ""
        if who:
            yield f"{name}: {who} {preference.what}; that is {now:.0%} of a node's score instead of {was:.0%}"


def _who(preference: ServedPreference, load: Load | None) -> str:
    """Return how many pods or nodes state a preference, in words; empty if none do. For a workload over time they are
    not counted.
    """
    plural = f"{preference.of}s"
    if not isinstance(load, ClusterLoad):
        return f"{plural} may"
    asked: tuple[Struct, ...] = load.pods
    if preference.of == "node":
        asked = tuple(each for each in load.standing if isinstance(each, Node))
    count = sum(map(preference.is_stated, asked))
    return f"{count} of {len(asked)} {plural}" if count else ""
