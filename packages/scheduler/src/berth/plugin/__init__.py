"""What most plugins import: with `berth.plugin.advanced` and `berth.testing`, all that is kept stable for them.

`docs/plugins.md` is the tutorial, and `docs/plugins-cookbook.md` has a line for each name in `__all__`, which a test
checks. What is not here may change from release to release.
"""

from berth.api.custom import CustomObject, CustomResource
from berth.api.meta import LabelSelector, ObjectMeta
from berth.api.node import Node
from berth.api.qos import QosClass
from berth.api.quantity import Quantity, milli_value, value
from berth.api.selectors import Selector, SelectorError, compile_selector
from berth.api.web import WebResource
from berth.config.errors import invalid, required, unsupported
from berth.framework.custom_resources import CustomObjects
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Answer, ApiCall, Steps
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.handle import Handle
from berth.framework.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    BindPlugin,
    ColumnFilterPlugin,
    ColumnScorePlugin,
    EventsPlugin,
    ExplainingPlugin,
    FeasibleNodes,
    FiguresPlugin,
    FilterColumn,
    FilterPlugin,
    LesserRequestsPlugin,
    Narrowed,
    NarrowingPlugin,
    NodeSignaturePlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    PodWhatIfPlugin,
    PostBindPlugin,
    PostFilterAnswer,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    RemedyPlugin,
    ReservePlugin,
    RowArray,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
    SignaturePlugin,
    SortKeyPlugin,
    TenantSortPlugin,
)
from berth.framework.preemption import VictimRules, VictimSets
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.readers import ObjectReader
from berth.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from berth.framework.telling import Figure, Remedy
from berth.framework.waiting_pods import WaitingPod
from berth.framework.work_budget import OutOfBudgetError
from berth.state.label_index import LabelColumn
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.table import NodeTable

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "SKIP",
    "Action",
    "Answer",
    "ApiCall",
    "BindPlugin",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "ColumnFilterPlugin",
    "ColumnScorePlugin",
    "CustomObject",
    "CustomObjects",
    "CustomResource",
    "CycleState",
    "Dependency",
    "Diagnosis",
    "EventsPlugin",
    "ExplainingPlugin",
    "FeasibleNodes",
    "Figure",
    "FiguresPlugin",
    "FilterColumn",
    "FilterPlugin",
    "Handle",
    "LabelColumn",
    "LabelSelector",
    "LesserRequestsPlugin",
    "Narrowed",
    "NarrowingPlugin",
    "Node",
    "NodeSignaturePlugin",
    "NodeTable",
    "NodeView",
    "NormalizeScorePlugin",
    "ObjectMeta",
    "ObjectReader",
    "Objects",
    "OutOfBudgetError",
    "PermitPlugin",
    "PodEventHandlerPlugin",
    "PodInfo",
    "PodUpdateHandlerPlugin",
    "PodWhatIfPlugin",
    "PostBindPlugin",
    "PostFilterAnswer",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "Promises",
    "QosClass",
    "Quantity",
    "QueueSortPlugin",
    "QueuedPod",
    "QueueingHint",
    "Remedy",
    "RemedyPlugin",
    "ReservePlugin",
    "RowArray",
    "Rows",
    "ScoreExplainingPlugin",
    "ScorePlugin",
    "Scores",
    "Selector",
    "SelectorError",
    "SignaturePlugin",
    "SortKeyPlugin",
    "Status",
    "Steps",
    "TenantSortPlugin",
    "VictimRules",
    "VictimSets",
    "WaitingPod",
    "WebResource",
    "compile_selector",
    "error",
    "invalid",
    "milli_value",
    "queue_if",
    "required",
    "unresolvable",
    "unschedulable",
    "unsupported",
    "value",
]
