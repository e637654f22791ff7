"""NodeVolumeLimits: how many volumes of a driver a node can attach.

Upstream plugin `NodeVolumeLimits`, v1.36: volumes of the pods on a node and volumes attached to it count once each,
against `spec.drivers[].allocatable.count` of its CSINode. Deviation: a pod on a node whose ephemeral volume is not its
own does not make the attempts of others errors; that volume is not counted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from berth.framework.cycle_state import CycleState
from berth.framework.events import ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import Codes, Dependencies, Dependency, FilterColumn, Objects, Rows
from berth.framework.status import SKIP, Status, unschedulable
from berth.plugins.volumes.attachable import (
    attached_volumes,
    limits_of,
    may_be_attached,
    new_volumes,
    volumes_in_use,
)
from berth.plugins.volumes.claims import CLAIM, CLASS, VOLUME
from berth.plugins.volumes.limit_columns import LimitColumns
from berth.plugins.volumes.limits_hints import LimitsHints
from berth.plugins.volumes.migration import VolumeHandle
from berth.plugins.volumes.uses import VolumeUses, use_of
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

REASON = "node(s) exceed max volume count"

_EXCEEDED = unschedulable(REASON)


class NodeVolumeLimits:
    """PreFilter, Filter."""

    name: ClassVar[str] = "NodeVolumeLimits"
    filter_dependencies: ClassVar[Dependencies] = frozenset(
        {Dependency.PODS_ON_NODE, Objects((CLAIM, CLASS, "CSINode", VOLUME, "VolumeAttachment"))}
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.objects
        self._columns = LimitColumns(handle.objects, handle.cache.table)
        self._uses = VolumeUses(handle.cache.table)

    def pre_filter_is_pure(self, pod: PodInfo) -> bool:
        """Say whether the pod's shape alone decides: where it has no volumes."""
        return not pod.spec.volumes

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Find what must be attached; skip where that is certainly nothing."""
        if not any(may_be_attached(volume) for volume in pod.spec.volumes):
            return SKIP
        state.write(self.name, new_volumes(self._objects, pod))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse nodes that cannot attach so many."""
        wanted = self._wanted(state, pod)
        if isinstance(wanted, Status):
            return wanted
        return None if self._takes(wanted, node.name, node.pods.values()) else _EXCEEDED

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return codes, int32 (len(rows),): 1 where a driver's limit would be exceeded.

        Only the rows that might be over a limit, were no two of their volumes the same, are looked at one by one.
        """
        wanted = self._wanted(state, pod)
        if isinstance(wanted, Status):
            return FilterColumn(np.ones(len(table.valid[rows]), dtype=np.int32), lambda _: wanted)
        codes: Codes = np.zeros(table.capacity, dtype=np.int32)
        for row in self._doubtful(wanted, table).tolist():
            codes[row] = not self._takes(wanted, table.names[row], table.pods[row].values())
        return FilterColumn(codes[rows], lambda _: _EXCEEDED)

    def minds(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Say whether the other pod's volumes may count."""
        return use_of(other).attachable > 0

    def _wanted(self, state: CycleState, pod: PodInfo) -> frozenset[VolumeHandle] | Status:
        """Return what PreFilter found; find it now where that was left out of the profile."""
        prepared: frozenset[VolumeHandle] | Status | None = state.get(self.name)
        return new_volumes(self._objects, pod) if prepared is None else prepared

    def _doubtful(self, wanted: frozenset[VolumeHandle], table: NodeTable) -> NDArray[np.intp]:
        """Return the rows with a limit that all volumes there and those of the pod together exceed."""
        self._columns.sync()
        self._uses.sync()
        there = self._uses.attachable + self._columns.attached
        doubtful = np.zeros(table.capacity, dtype=np.bool_)
        for driver, count in Counter(volume.driver for volume in wanted).items():
            limit = self._columns.limit(driver)
            if limit is not None:
                doubtful |= there + count > limit
        return np.flatnonzero(doubtful & table.valid)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Those of upstream and a few more, see `LimitsHints`."""
        return LimitsHints(self._objects, self._fits).events()

    def _fits(self, pod: PodInfo, node_name: str) -> bool:
        """Say whether a node without pods takes the pod's volumes."""
        wanted = new_volumes(self._objects, pod)
        return not isinstance(wanted, Status) and self._takes(wanted, node_name, ())

    def _takes(self, wanted: Iterable[VolumeHandle], node_name: str, pods: Iterable[PodInfo]) -> bool:
        self._columns.sync()
        limits = limits_of(self._objects.get("CSINode", node_name))
        if not any(volume.driver in limits for volume in wanted):
            return True
        in_use = volumes_in_use(self._objects, pods)
        attached = in_use | attached_volumes(self._objects, self._columns.attached_to(node_name))
        before = Counter(volume.driver for volume in attached)
        more = Counter(volume.driver for volume in wanted if volume not in in_use)
        return all(
            before[driver] + count <= limits.get(driver, before[driver] + count) for driver, count in more.items()
        )
