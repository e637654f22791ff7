"""VolumeZone: volumes that can be used only in the zone they are in.

Upstream plugin `VolumeZone`, v1.36. Deviation: pods with claims are turned away, see `unsupported`.
"""

from collections.abc import Sequence
from typing import ClassVar

from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.status import Code, Status
from berth.plugins.unsupported import events, is_claimed, skip_or_refuse_volumes
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo


class VolumeZone:
    """PreFilter, Filter."""

    name: ClassVar[str] = "VolumeZone"
    pre_filter_is_pure: ClassVar[bool] = True

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods without claims, refuse the others."""
        return skip_or_refuse_volumes(pod, is_claimed)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say the same where PreFilter was left out of the profile."""
        status = self.pre_filter(state, pod)
        return None if status is None or status.code is Code.SKIP else status

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Those of upstream."""
        return events(
            ("StorageClass", Action.ADD),
            ("Node", Action.ADD | Action.UPDATE_NODE_LABEL),
            ("PersistentVolumeClaim", Action.ADD | Action.UPDATE),
            ("PersistentVolume", Action.ADD | Action.UPDATE),
        )
