"""VolumeRestrictions, VolumeZone and VolumeBinding of v1.20: fewer points, and without later features.

VolumeRestrictions looked at disks only, as ReadWriteOncePod claims came later. VolumeZone had no PreFilter, treated the
old and the new zone labels as different ones, and reported a faulty claim as an error. VolumeBinding had another
message for a bound volume out of reach, and checked only that claims exist and are not being deleted. Deviation:
generic ephemeral volumes, which were behind an alpha gate then, are supported.
"""

from typing import ClassVar, final

import msgspec
import numpy as np

from berth.api.selectors import Requirement
from berth.config.types import ExtensionPoint
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Codes, FilterColumn, Rows
from berth.framework.promises import Dependency, Promises
from berth.framework.status import Status, error, unresolvable
from berth.plugins.node_selection import requirement_mask
from berth.plugins.volumes.binder import REASON_NODE_CONFLICT
from berth.plugins.volumes.restrictions import Prepared, VolumeRestrictions, exclusive_disks
from berth.plugins.volumes.volume_binding import VolumeBinding
from berth.plugins.volumes.zone import REASON, TOPOLOGY_LABELS, VolumeTopology, VolumeZone, topologies_of_pod
from berth.state.label_index import ABSENT, Mask
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

REASON_AFFINITY_CONFLICT = "node(s) had volume node affinity conflict"

FILTER_ONLY = frozenset({ExtensionPoint.FILTER})

_ELSEWHERE = unresolvable(REASON)


@final
class LegacyVolumeRestrictions(VolumeRestrictions):
    """Filter."""

    name: ClassVar[str] = "VolumeRestrictions"
    promises: ClassVar[Promises] = msgspec.structs.replace(
        VolumeRestrictions.promises,
        points=FILTER_ONLY,
        filter_depends_on=frozenset({Dependency.PODS_ON_NODE}),
    )

    def _prepared(self, state: CycleState, pod: PodInfo) -> Prepared:
        return Prepared(pod.namespace, exclusive_disks(pod), frozenset(), 0)


@final
class LegacyVolumeZone(VolumeZone):
    """Filter."""

    name: ClassVar[str] = "VolumeZone"
    promises: ClassVar[Promises] = msgspec.structs.replace(
        VolumeZone.promises,
        points=FILTER_ONLY,
    )

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse a node elsewhere; one without any zone label passes."""
        demands = self._demands(pod)
        if not any(key in node.labels for key in TOPOLOGY_LABELS):
            return None
        if isinstance(demands, Status):
            return demands
        return None if all(node.labels.get(each.key) in each.values for each in demands) else _ELSEWHERE

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where the node is elsewhere, or the claims are wrong."""
        demands = self._demands(pod)
        zoned: Mask = np.zeros(len(table.valid[rows]), dtype=np.bool_)
        for key in TOPOLOGY_LABELS if demands else ():
            zoned |= table.label(key).ids[rows] != ABSENT
        if isinstance(demands, Status):
            return FilterColumn(zoned.astype(np.int32), lambda _code: demands)
        codes: Codes = np.zeros(len(zoned), dtype=np.int32)
        for key, values in demands:
            codes |= zoned & ~requirement_mask(table.label(key), Requirement(key, "In", tuple(values)), rows)
        return FilterColumn(codes, lambda _code: _ELSEWHERE)

    def _demands(self, pod: PodInfo) -> tuple[VolumeTopology, ...] | Status:
        found = topologies_of_pod(self._objects, pod) if pod.spec.volumes else ()
        return error(*found.reasons) if isinstance(found, Status) else found


@final
class LegacyVolumeBinding(VolumeBinding):
    """PreFilter, Filter, Reserve, PreBind."""

    name: ClassVar[str] = "VolumeBinding"
    promises: ClassVar[Promises] = msgspec.structs.replace(
        VolumeBinding.promises,
        points=frozenset(
            {ExtensionPoint.PRE_FILTER, ExtensionPoint.FILTER, ExtensionPoint.RESERVE, ExtensionPoint.PRE_BIND}
        ),
    )

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse nodes that cannot use the bound volumes, or where the other claims get none."""
        status = super().filter(state, pod, node)
        return None if status is None else _in_old_words(status)

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Say the same of many rows."""
        column = super().filter_columns(state, pod, table, rows)
        return FilterColumn(column.codes, lambda code: _in_old_words(column.describe(code)))


def _in_old_words(status: Status) -> Status:
    reasons = (REASON_AFFINITY_CONFLICT if each == REASON_NODE_CONFLICT else each for each in status.reasons)
    return Status(status.code, tuple(reasons), status.plugin)
