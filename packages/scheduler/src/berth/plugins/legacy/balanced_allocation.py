"""NodeResourcesBalancedAllocation of v1.20: the closer the used fractions of CPU and memory, the better.

A node where either is used up scores 0. With the gate BalanceAttachedNodeVolumes, the volumes that the pod would attach
count as a third fraction, of what the node can still attach; the score is then 100 times one less the variance.
Upstream took that fraction from whichever limit plugin wrote it last; here it is that of the last kind of cloud disk
that the pod brings, in the order EBS, GCE PD, Azure, Cinder.
"""

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np

from berth.api.pod_resources import CPU, MEMORY
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import MAX_NODE_SCORE, Rows, Scores
from berth.framework.promises import Promises
from berth.plugins.legacy.cloud_limits import AttachRoom, CloudDisks
from berth.plugins.legacy.resource_uses import LegacyUseColumn, ResourceScore, Use
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

VOLUMES_GATE = "BalanceAttachedNodeVolumes"


def fraction_of_capacity(requested: int, capacity: int) -> float:
    """Return which part is used; all of it where there is nothing."""
    return requested / capacity if capacity else 1.0


def balance_of_two(cpu: float, memory: float) -> int:
    """Return the score of two fractions."""
    if cpu >= 1 or memory >= 1:
        return 0
    return int((1 - abs(cpu - memory)) * float(MAX_NODE_SCORE))


def balance_of_three(cpu: float, memory: float, room: AttachRoom) -> int:
    """Return the score of two fractions and of the volumes to attach."""
    if room.allocatable <= 0:
        return balance_of_two(cpu, memory)
    volumes = room.requested / room.allocatable
    if cpu >= 1 or memory >= 1 or volumes >= 1:
        return 0
    mean = (cpu + memory + volumes) / 3.0
    squares = [(fraction - mean) * (fraction - mean) for fraction in (cpu, memory, volumes)]
    return int((1 - (squares[0] + squares[1] + squares[2]) / 3.0) * float(MAX_NODE_SCORE))


@final
class LegacyBalancedAllocation(ResourceScore):
    """Score."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    promises: ClassVar[Promises] = ResourceScore.promises

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(((CPU, 1), (MEMORY, 1)))
        self._disks = CloudDisks(handle.objects, handle.features) if handle.features.enabled(VOLUMES_GATE) else None

    def signature(self, pod: PodInfo) -> tuple[int, ...] | None:
        """Return what the pod adds; None where claims count too, for answers that are not worth keeping."""
        return None if self._counts_volumes(pod) else self.added(pod)

    def formula(self, uses: Sequence[Use]) -> int:
        """Return the balance of CPU and memory."""
        return balance_of_two(*_fractions(uses))

    def formula_columns(self, uses: Sequence[LegacyUseColumn], size: int) -> Scores:
        """Return the same for many rows."""
        cpu, memory = (_fraction_column(use) for use in uses)
        scores = ((1 - np.abs(cpu - memory)) * float(MAX_NODE_SCORE)).astype(np.int64)
        return np.where((cpu >= 1) | (memory >= 1), 0, scores)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Score one node, volumes counted in where they are to count."""
        if self._disks is None or not self._counts_volumes(pod):
            return super().score(state, pod, node)
        return balance_of_three(*_fractions(self.node_uses(pod, node)), self._disks.room(pod, node))

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Score many rows."""
        if not self._counts_volumes(pod):
            return super().score_columns(state, pod, table, rows)
        numbers = np.arange(table.capacity)[rows].tolist()
        scores = [self.score(state, pod, table.view(row)) if table.valid[row] else 0 for row in numbers]
        return np.array(scores, dtype=np.int64)

    def _counts_volumes(self, pod: PodInfo) -> bool:
        return self._disks is not None and bool(pod.spec.volumes)


def _fractions(uses: Sequence[Use]) -> tuple[float, float]:
    cpu, memory = (fraction_of_capacity(use.requested, use.allocatable) for use in uses)
    return cpu, memory


def _fraction_column(use: LegacyUseColumn) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.where(use.allocatable != 0, use.requested / np.maximum(use.allocatable, 1), 1.0)
