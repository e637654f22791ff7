"""PodGroupPodsCount: of the placements that have room for a group, the one that takes most of its pods is best.

Upstream plugin `PodGroupPodsCount`, v1.36 (KEP-5732); in the default profile, with weight 1, while the gate
TopologyAwareWorkloadScheduling is on. Members that already have a node count in every placement, so that a small
difference stays a small one.
"""

from collections.abc import Sequence
from typing import ClassVar, final

from berth.framework.events import ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    MAX_NODE_SCORE,
    EventsPlugin,
    NormalizePlacementScorePlugin,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupInfo,
)
from berth.framework.status import Status, error

NONE_PLACED = "no pods from pod group are assigned to any of the candidate placements"


@final
class PodGroupPodsCount(PlacementScorePlugin, NormalizePlacementScorePlugin, EventsPlugin):
    """PlacementScore."""

    name: ClassVar[str] = "PodGroupPodsCount"

    def __init__(self, args: None, handle: Handle) -> None:
        self._groups = handle.pod_groups

    def placement_score(self, group: PodGroupInfo, assignments: PodGroupAssignments) -> int:
        """Count the members that would have a node."""
        return self._groups.placed_count(group.key) + len(assignments.proposed)

    def normalize_placement_scores(self, _group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int] | Status:
        """Give the highest count 100, and others their share of it, rounded down."""
        highest = max(scores, default=0)
        if not highest:
            return error(NONE_PLACED)
        return [score * MAX_NODE_SCORE // highest for score in scores]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register nothing: the plugin rejects no pod."""
        return ()
