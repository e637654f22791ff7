"""What DefaultPreemption and preemption by a plugin's own rules have in common around the search: when, how far, and
how to say that no node can be freed.
"""

from collections.abc import Sequence

from berth.framework.diagnosis import NODES_NAMED, Diagnosis
from berth.framework.handle import Handle
from berth.framework.interface import PostFilterAnswer, PostFilterResult
from berth.framework.status import Code, error, unresolvable, unschedulable
from berth.plugins.preemption.search import Refusals
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_NODES = "no nodes available"
NO_CANDIDATE = "no candidate node for preemption"

_NOT_HELPFUL = unresolvable(NOT_HELPFUL)


def nominated_row(handle: Handle, pod: PodInfo) -> int | None:
    """Return the row of the node that the pod is nominated to, if there is such a node."""
    table = handle.cache.table
    row = table.row_of.get(handle.nominator.node_of(pod.uid) or pod.status.nominated_node_name)
    return row if row is not None and table.valid[row] else None


def wanted_candidates(node_count: int, percentage: int, absolute: int) -> int:
    """Return how many candidates are enough, given the number of nodes where preemption may help."""
    return min(max(node_count * percentage // 100, absolute), node_count)


def why_not(refusals: Refusals, table: NodeTable, prefix: str = "") -> PostFilterAnswer:
    """Say why no node can be freed; if a plugin raised, that is an error and the nomination is kept."""
    outcome = Diagnosis(len(table), table.names.__getitem__)
    outcome.absent_status = _NOT_HELPFUL
    for status, refused in refusals:
        outcome.add(status, refused)
    broken = [group.status.message for group in outcome.groups if group.status.code is Code.ERROR]
    if broken:
        return None, error(f"{prefix}{_together(broken)}")
    return PostFilterResult(""), unschedulable(f"{prefix}{outcome.message()}")


def _together(messages: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    if len(distinct) == 1:
        return distinct[0]
    more = [f"and {len(distinct) - NODES_NAMED} more"] if len(distinct) > NODES_NAMED else []
    return f"[{', '.join([*distinct[:NODES_NAMED], *more])}]"
