"""What few plugins import: pod groups and their placements, effects, readers of the cluster's state, types.

It is kept stable as `berth.plugin` is, and has a table of its own in `docs/plugins-cookbook.md`.
"""

from berth.framework.custom_resources import WebDocument
from berth.framework.effects import Bind, EmitEvent, PodRef, WaitUntil
from berth.framework.events import HintFunction
from berth.framework.interface import (
    MAX_PERMIT_TIMEOUT_S,
    Assignment,
    Codes,
    GroupQuestion,
    NormalizePlacementScorePlugin,
    Placement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterPlugin,
    PreBindPreFlightPlugin,
    PreBindPreFlightResult,
    same_for_all,
)
from berth.framework.preemption import Preemption, VictimBasis, VictimCost
from berth.framework.readers import CacheReader, EvictionReader, NominationReader, PodGroupReader, WaitingPodsView
from berth.framework.status import is_success
from berth.framework.waiting_pods import WaitingPods
from berth.framework.work_budget import WorkBudget
from berth.state.pod_groups import GroupKey, group_of

__all__ = [
    "MAX_PERMIT_TIMEOUT_S",
    "Assignment",
    "Bind",
    "CacheReader",
    "Codes",
    "EmitEvent",
    "EvictionReader",
    "GroupKey",
    "GroupQuestion",
    "HintFunction",
    "NominationReader",
    "NormalizePlacementScorePlugin",
    "Placement",
    "PlacementGeneratePlugin",
    "PlacementScorePlugin",
    "Plugin",
    "PodGroupAssignments",
    "PodGroupInfo",
    "PodGroupPostFilterPlugin",
    "PodGroupReader",
    "PodRef",
    "PreBindPreFlightPlugin",
    "PreBindPreFlightResult",
    "Preemption",
    "VictimBasis",
    "VictimCost",
    "WaitUntil",
    "WaitingPods",
    "WaitingPodsView",
    "WebDocument",
    "WorkBudget",
    "group_of",
    "is_success",
    "same_for_all",
]
