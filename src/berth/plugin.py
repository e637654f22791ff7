"""Everything that a plugin imports: with `berth.testing`, the only module that is kept stable for plugins.

`docs/plugins.md` is the tutorial, and has a line for each name in `__all__`, which a test checks. What is not
here may change from release to release.
"""

from berth.api.custom import CustomObject, CustomResource
from berth.api.meta import ObjectMeta
from berth.config.errors import invalid, required, unsupported
from berth.framework.custom_resources import CustomObjects
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Answer, ApiCall, Bind, EmitEvent, PodRef, Steps, WaitUntil
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, HintFunction, QueueingHint, queue_if
from berth.framework.handle import Handle
from berth.framework.interface import (
    MAX_NODE_SCORE,
    MAX_PERMIT_TIMEOUT_S,
    MIN_NODE_SCORE,
    Assignment,
    Codes,
    FeasibleNodes,
    FilterColumn,
    Placement,
    PodGroupAssignments,
    PodGroupInfo,
    PostFilterResult,
    PreBindPreFlightResult,
    PreFilterResult,
    RowLoad,
    Rows,
    Scores,
    same_for_all,
)
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.status import SKIP, Code, Status, error, is_success, unresolvable, unschedulable
from berth.framework.waiting_pods import WaitingPod, WaitingPods
from berth.framework.work_budget import OutOfBudgetError, WorkBudget
from berth.state.label_index import LabelColumn
from berth.state.node_view import NodeView
from berth.state.pod_groups import GroupKey, group_of
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable

__all__ = [
    "LABELS",
    "MAX_NODE_SCORE",
    "MAX_PERMIT_TIMEOUT_S",
    "MIN_NODE_SCORE",
    "REQUESTS",
    "SKIP",
    "Action",
    "Answer",
    "ApiCall",
    "Assignment",
    "Bind",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "Codes",
    "CustomObject",
    "CustomObjects",
    "CustomResource",
    "CycleState",
    "Dependency",
    "Diagnosis",
    "EmitEvent",
    "FeasibleNodes",
    "FilterColumn",
    "GroupKey",
    "Handle",
    "HintFunction",
    "LabelColumn",
    "NodeTable",
    "NodeView",
    "ObjectMeta",
    "Objects",
    "OutOfBudgetError",
    "Placement",
    "PodGroupAssignments",
    "PodGroupInfo",
    "PodInfo",
    "PodRef",
    "PostFilterResult",
    "PreBindPreFlightResult",
    "PreFilterResult",
    "Promises",
    "QueuedPod",
    "QueueingHint",
    "RowLoad",
    "Rows",
    "Scores",
    "Status",
    "Steps",
    "WaitUntil",
    "WaitingPod",
    "WaitingPods",
    "WorkBudget",
    "error",
    "group_of",
    "invalid",
    "is_success",
    "queue_if",
    "required",
    "same_for_all",
    "unresolvable",
    "unschedulable",
    "unsupported",
]
