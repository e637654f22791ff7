"""What few plugins import: faster forms of what a filter or score says, pod groups and their placements, types.

It is kept stable as `berth.plugin` is, and has a table of its own in `docs/plugins-cookbook.md`.
"""

from berth.framework.custom_resources import WebDocument
from berth.framework.effects import Bind, EmitEvent, PodRef, WaitUntil
from berth.framework.events import HintFunction
from berth.framework.interface import (
    MAX_PERMIT_TIMEOUT_S,
    Assignment,
    Codes,
    DomainCodes,
    DomainFilterPlugin,
    DomainScorePlugin,
    GroupQuestion,
    LoadWhatIfPlugin,
    NormalizePlacementScorePlugin,
    OverDomains,
    Placement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterPlugin,
    PreBindPreFlightPlugin,
    PreBindPreFlightResult,
    RowFilterPlugin,
    RowLoad,
    RowScorePlugin,
    VersionedPreFilterPlugin,
    VersionedPreScorePlugin,
    same_for_all,
)
from berth.framework.preemption import Preemption, VictimBasis, VictimCost
from berth.framework.readers import CacheReader, EvictionReader, NominationReader, PodGroupReader, WaitingPodsView
from berth.framework.status import is_success
from berth.framework.waiting_pods import WaitingPods
from berth.framework.work_budget import WorkBudget
from berth.state.pod_groups import GroupKey, group_of
from berth.state.pod_info import LABELS, REQUESTS

__all__ = [
    "LABELS",
    "MAX_PERMIT_TIMEOUT_S",
    "REQUESTS",
    "Assignment",
    "Bind",
    "CacheReader",
    "Codes",
    "DomainCodes",
    "DomainFilterPlugin",
    "DomainScorePlugin",
    "EmitEvent",
    "EvictionReader",
    "GroupKey",
    "GroupQuestion",
    "HintFunction",
    "LoadWhatIfPlugin",
    "NominationReader",
    "NormalizePlacementScorePlugin",
    "OverDomains",
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
    "RowFilterPlugin",
    "RowLoad",
    "RowScorePlugin",
    "VersionedPreFilterPlugin",
    "VersionedPreScorePlugin",
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
