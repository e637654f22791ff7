"""VolumeBinding: finds volumes for claims, or a place where they can be provisioned, and binds them.

Upstream plugin `VolumeBinding`, v1.36. Deviation: pods with claims are turned away, see `unsupported`; the points
that upstream takes part in later have nothing to do for the pods that remain.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar

import msgspec

from berth.config.errors import invalid
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import FeasibleNodes
from berth.framework.status import SKIP, Code, Status
from berth.plugins.unsupported import events, is_claimed, skip_or_refuse_volumes
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo

MAX_SHAPE_SCORE = 10


class UtilizationShapePoint(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A point of the function from utilization in percent (0 to 100) to score (0 to 10)."""

    utilization: int
    score: int


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long binding may take, and how nodes are scored by the capacity of their storage."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = ()

    def validate(self, path: str) -> Iterable[str]:
        """Refuse a negative timeout and a shape that is no rising function."""
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(f"{path}.bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        yield from _shape_faults(self.shape, f"{path}.shape")


def _shape_faults(shape: tuple[UtilizationShapePoint, ...], path: str) -> Iterable[str]:
    for index, (before, point) in enumerate(pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            where = f"{path}[{index}].utilization"
            yield invalid(where, point.utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield invalid(f"{path}[{index}].score", point.score, f"not in valid range [0, {MAX_SHAPE_SCORE}]")


class VolumeBinding:
    """PreFilter, Filter, PreScore, Score, Reserve, PreBind."""

    name: ClassVar[str] = "VolumeBinding"
    args_type: ClassVar[type[msgspec.Struct]] = VolumeBindingArgs
    pre_filter_is_pure: ClassVar[bool] = True
    pre_score_is_pure: ClassVar[bool] = True

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        if args.shape and not handle.features.enabled("StorageCapacityScoring"):
            raise ValueError("unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods without claims, refuse the others."""
        return skip_or_refuse_volumes(pod, is_claimed)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Say the same where PreFilter was left out of the profile."""
        status = self.pre_filter(state, pod)
        return None if status is None or status.code is Code.SKIP else status

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Skip: no pod that comes this far has claims."""
        return SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Prefer no node."""
        return 0

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take nothing."""
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give nothing back."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Skip: there is nothing to bind."""
        return SKIP

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind nothing."""
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Those of upstream."""
        return events(
            ("StorageClass", Action.ADD | Action.UPDATE),
            ("PersistentVolumeClaim", Action.ADD | Action.UPDATE),
            ("PersistentVolume", Action.ADD | Action.UPDATE),
            ("Node", Action.ADD | Action.UPDATE_NODE_LABEL),
            ("CSINode", Action.ADD | Action.UPDATE),
            ("CSIDriver", Action.UPDATE),
            ("CSIStorageCapacity", Action.ADD | Action.UPDATE),
        )
