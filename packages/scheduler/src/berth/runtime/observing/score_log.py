"""What v1.17 to v1.20 logged about nodes at verbosity 10: which have room for the pod, and how each plugin scores each.

Names are those of that time's priorities (noderesources/resource_allocation.go, defaultpodtopologyspread,
core/generic_scheduler.go). Called when a decision is made, before the pod is counted anywhere.
"""

from collections.abc import Iterator
from types import MappingProxyType

from berth.cycle.decision import Decision
from berth.cycle.instrument import Observed
from berth.engine.scores import PluginScores
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

FIT = "NodeResourcesFit"
RESOURCE_PRIORITIES = MappingProxyType(
    {
        "NodeResourcesBalancedAllocation": "BalancedResourceAllocation",
        "NodeResourcesLeastAllocated": "LeastResourceAllocation",
        "NodeResourcesMostAllocated": "MostResourceAllocation",
        "RequestedToCapacityRatio": "RequestedToCapacityRatioResourceAllocationPriority",
    }
)
"""Plugins that also logged what their scores were made of, and their names in that log."""
PRIORITIES = MappingProxyType(
    {"SelectorSpread": "SelectorSpreadPriority", "InterPodAffinity": "InterPodAffinityPriority"}
)
EXTENDER_SCALE = 10
"""An extender's score is out of 10, a plugin's out of 100."""


def score_lines(observed: Observed, decision: Decision) -> Iterator[str]:
    """Yield a line for each node with room, each plugin and node, and each node's total."""
    table, pod = observed.table, decision.pod
    for row in decision.looked_at.nonzero()[0].tolist():
        if not any(status.plugin == FIT for status in decision.statuses(row)):
            yield (
                f"Schedule Pod {pod.key} on Node {table.names[row]} is allowed, Node is running only "
                f"{table.pod_count[row]} out of {table.allowed_pods[row]} Pods."
            )
    total = decision.total
    if total is None:
        return
    rows = decision.feasible.tolist()
    in_profile = {runner.name for runner in observed.profiles[decision.profile].scorers}
    for scores in decision.scores:
        for place, row in enumerate(rows):
            yield _line(table, pod, scores, _at(scores, place), row, is_plugin=scores.plugin in in_profile)
    for row, score in zip(rows, total.tolist(), strict=True):
        yield f"Host {table.names[row]} => Score {score}"


def _line(table: NodeTable, pod: PodInfo, scores: PluginScores, score: int, row: int, *, is_plugin: bool) -> str:
    node = table.names[row]
    if not is_plugin:
        return f"{pod.name}_{pod.namespace} -> {node}: {scores.plugin}, Score: ({score // EXTENDER_SCALE})"
    name = RESOURCE_PRIORITIES.get(scores.plugin)
    if name is None:
        return f"{pod.name} -> {node}: {PRIORITIES.get(scores.plugin, scores.plugin)}, Score: ({score})"
    requested = table.scoring_requested[:2, row] + pod.scoring_requests
    return (
        f"{pod.name} -> {node}: {name}, map of allocatable resources {_map(table.allocatable[:2, row].tolist())}, "
        f"map of requested resources {_map(requested.tolist())} ,score {score},"
    )


def _at(scores: PluginScores, place: int) -> int:
    weighted = scores.weighted if isinstance(scores.weighted, int) else int(scores.weighted[place])
    return weighted // (scores.weight or 1)


def _map(amounts: list[int]) -> str:
    cpu_milli, memory_bytes = amounts
    return f"map[cpu:{cpu_milli} memory:{memory_bytes}]"
