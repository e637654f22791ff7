"""DefaultPreemption: when a pod fits nowhere, would it fit if pods of lower priority left?

Upstream plugin `DefaultPreemption`, v1.36. In comes the diagnosis of a search that found nothing, out goes why no node
can be freed: one sentence over all nodes, like the search's own. Deviation: this release looks for nodes where pods
of lower priority run, and says so, but evicts nobody; `_try_nodes` is where trying them out will go.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.config.errors import invalid
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import PostFilterResult
from berth.framework.status import Code, Status, error, unresolvable, unschedulable
from berth.state.pod_info import PodInfo
from berth.state.table import Int64, NodeTable

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_CARRIED_OUT = "node(s) run pods of lower priority, but this release of Berth does not preempt yet"
NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
VICTIMS_TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_NODES = "no nodes available"

_NOT_HELPFUL = unresolvable(NOT_HELPFUL)
_NO_VICTIMS = unresolvable(NO_VICTIMS)
_NOT_CARRIED_OUT = unresolvable(NOT_CARRIED_OUT)

RowArray = NDArray[np.intp]

NO_PRIORITY = 2**31
"""Above every priority there is: what an empty row has as its lowest."""


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """On how many nodes preemption is tried out: a percentage of those where it may help, and at least so many."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: str) -> Iterable[str]:
        """Refuse numbers out of range, and two zeros."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
        if not 0 <= percentage <= 100:
            yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == 0 and absolute == 0:
            yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
            yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")


def is_being_preempted(pod: PodInfo) -> bool:
    """Say whether a pod is on its way out because a scheduler preempted it."""
    if not pod.is_terminating:
        return False
    disruption = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return disruption is not None and (disruption.status, disruption.reason) == ("True", "PreemptionByScheduler")


class DefaultPreemption:
    """PostFilter."""

    name: ClassVar[str] = "DefaultPreemption"
    args_type: ClassVar[type[msgspec.Struct]] = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._table = handle.cache.table
        self._lowest = LowestPriorities()

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Say why no node can be freed for the pod; a pod that may not preempt keeps its nomination."""
        refusal = self.ineligibility(pod, diagnosis)
        if refusal is not None:
            return None, unschedulable(f"preemption: {refusal}")
        if not len(self._table):
            return None, error(f"preemption: {NO_NODES}")
        outcome = self._try_nodes(pod, diagnosis)
        return PostFilterResult(""), unschedulable(f"preemption: {outcome.message()}")

    def ineligibility(self, pod: PodInfo, diagnosis: Diagnosis) -> str | None:
        """Say why a pod may not preempt others, or None."""
        if pod.spec.preemption_policy == "Never":
            return NEVER_PREEMPTS
        row = self._table.row_of.get(pod.status.nominated_node_name)
        if row is None or not self._table.valid[row]:
            return None
        if code_of(diagnosis, row) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        running = self._table.pods[row].values()
        waits = any(other.priority < pod.priority and is_being_preempted(other) for other in running)
        return VICTIMS_TERMINATING if waits else None

    def _try_nodes(self, pod: PodInfo, diagnosis: Diagnosis) -> Diagnosis:
        """Return why preemption frees none of the nodes."""
        outcome = Diagnosis(len(self._table), self._table.names.__getitem__)
        outcome.absent_status = _NOT_HELPFUL
        rows = rows_to_try(diagnosis, self._table)
        has_victims = self._lowest.by_row(self._table)[rows] < pod.priority
        for status, tried in ((_NOT_CARRIED_OUT, rows[has_victims]), (_NO_VICTIMS, rows[~has_victims])):
            if len(tried):
                outcome.add(status, tried)
        return outcome

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The departure of a victim; what it helps is for the plugins to say whom it stood in the way of."""
        return (ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), after_pod_deletion),)


def after_pod_deletion(_pod: PodInfo, _old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
    """Leave the decision to the plugins that rejected the pod for what the victim had."""
    return QueueingHint.SKIP


def code_of(diagnosis: Diagnosis, row: int) -> Code | None:
    """Return with what code a node was rejected; what PreFilter said counts for every node."""
    status = next((group.status for group in diagnosis.groups if row in group.rows), None)
    status = status or diagnosis.absent_status or diagnosis.pre_filter_status
    return None if status is None else status.code


def rows_to_try(diagnosis: Diagnosis, table: NodeTable) -> RowArray:
    """Return the rows, ascending, of nodes that were rejected with Unschedulable: removing pods may help there."""
    everywhere = diagnosis.absent_status or diagnosis.pre_filter_status
    curable = everywhere is not None and everywhere.code is Code.UNSCHEDULABLE
    chosen = table.valid.copy() if curable else np.zeros(table.capacity, dtype=np.bool_)
    for group in diagnosis.groups:
        chosen[group.rows] = group.status.code is Code.UNSCHEDULABLE
    return np.flatnonzero(chosen)


class LowestPriorities:
    """The lowest priority of the pods on each row, worked out again only for rows that changed."""

    __slots__ = ("_lowest", "_versions")

    def __init__(self) -> None:
        self._lowest: Int64 = np.zeros(0, dtype=np.int64)
        self._versions: Int64 = np.zeros(0, dtype=np.int64)

    def by_row(self, table: NodeTable) -> Int64:
        """Return int64 of shape (capacity,); `NO_PRIORITY` where no pod runs."""
        if len(self._lowest) != table.capacity:
            self._lowest = np.full(table.capacity, NO_PRIORITY, dtype=np.int64)
            self._versions = np.full(table.capacity, -1, dtype=np.int64)
        for row in np.flatnonzero(self._versions != table.version).tolist():
            self._lowest[row] = min((pod.priority for pod in table.pods[row].values()), default=NO_PRIORITY)
        self._versions[:] = table.version
        return self._lowest
