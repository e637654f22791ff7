"""VolumeRestrictions: disks that two pods cannot write at once, and claims for one pod only.

Upstream plugin `VolumeRestrictions`, v1.36. Deviation: pods with such volumes are turned away, see `unsupported`.
"""

from collections.abc import Sequence
from typing import ClassVar

from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.status import Code, Status
from berth.plugins.unsupported import events, is_claimed, is_exclusive_disk, skip_or_refuse_volumes
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo


class VolumeRestrictions:
    """PreFilter, Filter."""

    name: ClassVar[str] = "VolumeRestrictions"
    pre_filter_is_pure: ClassVar[bool] = True

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods without such volumes, refuse the others."""
        return skip_or_refuse_volumes(pod, is_claimed, is_exclusive_disk)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say the same where PreFilter was left out of the profile."""
        status = self.pre_filter(state, pod)
        return None if status is None or status.code is Code.SKIP else status

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Those of upstream."""
        return events(("Pod", Action.DELETE), ("Node", Action.ADD), ("PersistentVolumeClaim", Action.ADD))
