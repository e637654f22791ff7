"""NodeDeclaredFeatures: pods that need a feature go to nodes that declare it.

Upstream plugin `NodeDeclaredFeatures`, v1.36. Deviation: none of the features that nodes declare today is asked for by
a pod that is yet to be scheduled as this release reads pods, so the plugin always skips.
"""

from collections.abc import Sequence
from typing import ClassVar

from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.status import SKIP, Status
from berth.plugins.unsupported import events
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo


class NodeDeclaredFeatures:
    """PreFilter, Filter."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    pre_filter_is_pure: ClassVar[bool] = True

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip every pod."""
        return SKIP

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Let every node pass."""
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Those of upstream; the plugin rejects nobody, so none of them helps."""
        return events(("Node", Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE), ("Pod", Action.UPDATE))
