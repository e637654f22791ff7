"""InterPodAffinity of v1.20: two reasons for each rejection, and scores scaled between 0 and their extremes.

Deviation: a term's namespaceSelector, which v1.20 did not know, is honoured.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, final

import msgspec

from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.framework.interface import Scores
from berth.framework.promises import Promises
from berth.framework.status import Status, unresolvable, unschedulable
from berth.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from berth.plugins.inter_pod_affinity.preferred_terms import normalized
from berth.plugins.inter_pod_affinity.required_terms import (
    AFFINITY_CODE,
    ANTI_AFFINITY_CODE,
    EXISTING_CODE,
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING,
)
from berth.state.pod_info import PodInfo

REASON = "node(s) didn't match pod affinity/anti-affinity"


class LegacyInterPodAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a running pod's required term adds where it matches the incoming pod."""

    hard_pod_affinity_weight: int = 1

    def validate(self, path: str) -> Iterable[str]:
        """Name a weight out of range."""
        return InterPodAffinityArgs(self.hard_pod_affinity_weight).validate(path)


@final
class LegacyInterPodAffinity(InterPodAffinity):
    """PreFilter (with AddPod, RemovePod), Filter, PreScore, Score, NormalizeScore."""

    name: ClassVar[str] = "InterPodAffinity"
    args_type: ClassVar[type[msgspec.Struct]] = LegacyInterPodAffinityArgs
    promises: ClassVar[Promises] = msgspec.structs.replace(
        InterPodAffinity.promises,
        score_when_skipped=0,
    )
    status_by_code: ClassVar[Mapping[int, Status]] = {
        AFFINITY_CODE: unresolvable(REASON, REASON_AFFINITY),
        ANTI_AFFINITY_CODE: unschedulable(REASON, REASON_ANTI_AFFINITY),
        EXISTING_CODE: unschedulable(REASON, REASON_EXISTING),
    }

    def __init__(self, args: LegacyInterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(InterPodAffinityArgs(args.hard_pod_affinity_weight), handle)

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Give 0 to the worst and 100 to the best node, where 0 counts as a node's score too."""
        return normalized(scores, from_zero=True)
