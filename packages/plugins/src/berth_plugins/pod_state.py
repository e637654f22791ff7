"""PodState: prefers nodes where pods are about to leave, and avoids those that are promised to others.

Upstream plugin `PodState`: a node scores the number of its pods that are being deleted, less the number of pods
nominated to it, stretched over the nodes that are left.

Deviation: a pod that is deleted while it is being bound counts once the API server shows it on its node.
"""

from typing import ClassVar, final

import numpy as np

from berth.plugin import (
    ColumnScorePlugin,
    CycleState,
    Handle,
    NodeTable,
    NodeView,
    NormalizeScorePlugin,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from berth_plugins.normalize import stretched


@final
class PodState(ScorePlugin, ColumnScorePlugin, NormalizeScorePlugin, PodEventHandlerPlugin, PodUpdateHandlerPlugin):
    """Score.

    No column is kept: nominations change without any node. It costs a step for each pod that is on its way out, or
    nominated, and nothing for the others.
    """

    name: ClassVar[str] = "PodState"

    def __init__(self, args: None, handle: Handle) -> None:
        self._nominator = handle.nominator
        self._leaving: dict[str, str] = {}
        """The node of each pod that is being deleted, by uid."""

    def pod_added(self, pod: PodInfo) -> None:
        """Note a pod that is on its way out."""
        if pod.is_terminating and pod.node_name:
            self._leaving[pod.uid] = pod.node_name

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Note a pod that is on its way out from now on."""
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Forget a pod that is gone."""
        self._leaving.pop(pod.uid, None)

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Count the pods that leave, less those that are to come."""
        leaving = sum(other.is_terminating for other in node.pods.values())
        return leaving - len(self._nominator.pods_on(node.name))

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Do the same for many rows."""
        scores = np.zeros(table.capacity, dtype=np.int64)
        row_of = table.row_of
        for node_name in self._leaving.values():
            if (row := row_of.get(node_name)) is not None:
                scores[row] += 1
        for node_name in self._nominator.nodes():
            if (row := row_of.get(node_name)) is not None:
                scores[row] -= len(self._nominator.pods_on(node_name))
        return scores[rows]

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Stretch the counts over the nodes that are left."""
        return stretched(scores)
