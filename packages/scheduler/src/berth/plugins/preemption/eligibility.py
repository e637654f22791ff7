"""Which pods may preempt others, and on which nodes it is worth trying.

Source: pkg/scheduler/framework/plugins/defaultpreemption, PodEligibleToPreemptOthers, and NodesForStatusCode.
"""

import numpy as np
from numpy.typing import NDArray

from berth.framework.diagnosis import Diagnosis
from berth.framework.preemption import NEVER_PREEMPTS, VICTIMS_TERMINATING
from berth.framework.readers import EvictionReader
from berth.framework.status import Code
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

RowArray = NDArray[np.intp]


def ineligibility(
    pod: PodInfo, nominated: int | None, diagnosis: Diagnosis, table: NodeTable, evictions: EvictionReader
) -> str | None:
    """Say why a pod, nominated to a row or to none, may not preempt others; None where it may."""
    if pod.spec.preemption_policy == "Never":
        return NEVER_PREEMPTS
    if nominated is None or code_of(diagnosis, nominated) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return None
    running = table.pods[nominated].values()
    waits = any(other.priority < pod.priority and is_being_preempted(other, evictions) for other in running)
    return VICTIMS_TERMINATING if waits else None


def is_being_preempted(pod: PodInfo, evictions: EvictionReader) -> bool:
    """Say whether a pod is on its way out because a scheduler preempted it, even if the watch does not show it yet."""
    if not pod.is_terminating:
        return evictions.is_asked_to_go(pod.uid)
    disruption = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return disruption is not None and (disruption.status, disruption.reason) == ("True", "PreemptionByScheduler")


def code_of(diagnosis: Diagnosis, row: int) -> Code | None:
    """Return the code that a node was rejected with: PreFilter's for every node that it left out."""
    status = next((group.status for group in diagnosis.groups if row in group.rows), None)
    status = status or diagnosis.absent_status or diagnosis.pre_filter_status
    return None if status is None else status.code


def rows_to_try(diagnosis: Diagnosis, table: NodeTable) -> RowArray:
    """Return the rows, ascending, of nodes that were rejected with Unschedulable: removing pods may help there."""
    everywhere = diagnosis.absent_status or diagnosis.pre_filter_status
    if everywhere is None and diagnosis.counted is not None:
        return diagnosis.counted.curable_rows
    curable = everywhere is not None and everywhere.code is Code.UNSCHEDULABLE
    chosen = table.valid.copy() if curable else np.zeros(table.capacity, dtype=np.bool_)
    for group in diagnosis.groups:
        chosen[group.rows] = group.status.code is Code.UNSCHEDULABLE
    return np.flatnonzero(chosen)
