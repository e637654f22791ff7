"""NodeVolumeLimits: how many volumes of a driver a node can attach.

Upstream plugin `NodeVolumeLimits`, v1.36: volumes of the pods on a node and volumes attached to it count once each,
against `spec.drivers[].allocatable.count` of its CSINode. With the gate VolumeLimitScaling a driver can keep pods off
nodes where it is missing; of several such drivers upstream names any, here it is the first by name. Deviation: if an
ephemeral volume of a pod on a node is not that pod's own, attempts of others do not end in an error; it is not counted.

Registered are upstream's events, and more that liveness needs: a node that comes with room, a CSINode that goes (its
node then takes any number), drivers, and claims and volumes whose change turns two volumes into one or removes one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.api.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.handle import Handle
from berth.framework.interface import (
    Codes,
    ColumnFilterPlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    PodWhatIfPlugin,
    PreFilterPlugin,
    Rows,
)
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.readers import ObjectReader
from berth.framework.status import SKIP, Status, unschedulable
from berth.plugins.volumes.attachable import (
    attached_volumes,
    limits_of,
    may_be_attached,
    new_volumes,
    volumes_in_use,
)
from berth.plugins.volumes.claims import CLAIM, CLASS, VOLUME, claim_names, has_no_volumes, is_claim_of
from berth.plugins.volumes.limit_columns import LimitColumns
from berth.plugins.volumes.migration import VolumeHandle
from berth.plugins.volumes.uses import VolumeUses, use_of
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

REASON = "node(s) exceed max volume count"

MISSING_DRIVER = "{} CSI driver is not installed on the node"

SCALING_GATE = "VolumeLimitScaling"

_EXCEEDED = unschedulable(REASON)
_TOO_MANY, _FIRST_MISSING = 1, 2
"""Codes: over a limit; and the first of the codes that each stand for one missing driver."""


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin, ColumnFilterPlugin, PodWhatIfPlugin, EventsPlugin):
    """PreFilter, Filter."""

    name: ClassVar[str] = "NodeVolumeLimits"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset(
            {Dependency.PODS_ON_NODE, Objects((CLAIM, CLASS, "CSIDriver", "CSINode", VOLUME, "VolumeAttachment"))}
        ),
        filters_by_affecting_pods=True,
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=has_no_volumes,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.objects
        self._scales = handle.features.enabled(SCALING_GATE)
        self._columns = LimitColumns(handle.objects, handle.cache.table)
        self._uses = VolumeUses(handle.cache.table)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Find what must be attached for the pod. Skip if that is certainly nothing."""
        if not any(may_be_attached(volume) for volume in pod.spec.volumes):
            return SKIP
        state.write(self.name, new_volumes(self._objects, pod))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject nodes that cannot attach that many volumes."""
        wanted = self._wanted(state, pod)
        if isinstance(wanted, Status):
            return wanted
        return self._describe(wanted, self._code(wanted, node.name, node.pods.values()))

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return codes, int32 (len(rows),): what is against each row.

        Only the rows that might be over a limit, were no two of their volumes the same, are looked at one by one.
        """
        wanted = self._wanted(state, pod)
        if isinstance(wanted, Status):
            return FilterColumn(np.ones(len(table.valid[rows]), dtype=np.int32), lambda _: wanted)
        codes: Codes = np.zeros(table.capacity, dtype=np.int32)
        doubtful = table.rows() if self._must_be_installed(wanted) else self._doubtful(wanted, table)
        for row in doubtful.tolist():
            codes[row] = self._code(wanted, table.names[row], table.pods[row].values())
        return FilterColumn(codes[rows], lambda code: cast("Status", self._describe(wanted, code)))

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
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
        counts = Counter(volume.driver for volume in wanted)
        most = self._uses.at_most + self._columns.attached_at_most
        if all(most + count <= self._columns.limit_at_least(driver) for driver, count in counts.items()):
            return np.zeros(0, dtype=np.intp)
        there = self._uses.attachable + self._columns.attached
        doubtful = np.zeros(table.capacity, dtype=np.bool_)
        for driver, count in counts.items():
            limit = self._columns.limit(driver)
            if limit is not None:
                doubtful |= there + count > limit
        return np.flatnonzero(doubtful & table.valid)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register upstream's events and a few more; `LimitsHints` says why."""
        return LimitsHints(self._objects, self._fits).events()

    def _fits(self, pod: PodInfo, node_name: str) -> bool:
        """Say whether a node without pods takes the pod's volumes."""
        wanted = new_volumes(self._objects, pod)
        return not isinstance(wanted, Status) and not self._code(wanted, node_name, ())

    def _code(self, wanted: frozenset[VolumeHandle], node_name: str, pods: Iterable[PodInfo]) -> int:
        """Return what is against a node with these pods: 0, too many volumes, or the number of a missing driver."""
        csi_node = self._objects.get("CSINode", node_name)
        installed = {driver.name for driver in csi_node.spec.drivers} if csi_node is not None else set()
        for number, driver in enumerate(self._must_be_installed(wanted), start=_FIRST_MISSING):
            if driver not in installed:
                return number
        limits = limits_of(csi_node)
        if not any(volume.driver in limits for volume in wanted):
            return 0
        self._columns.sync()
        in_use = volumes_in_use(self._objects, pods)
        attached = in_use | attached_volumes(self._objects, self._columns.attached_to(node_name))
        before = Counter(volume.driver for volume in attached)
        more = Counter(volume.driver for volume in wanted if volume not in in_use)
        exceeded = any(driver in limits and before[driver] + n > limits[driver] for driver, n in more.items())
        return _TOO_MANY if exceeded else 0

    def _describe(self, wanted: frozenset[VolumeHandle], code: int) -> Status | None:
        if code < _FIRST_MISSING:
            return _EXCEEDED if code else None
        return unschedulable(MISSING_DRIVER.format(self._must_be_installed(wanted)[code - _FIRST_MISSING]))

    def _must_be_installed(self, wanted: frozenset[VolumeHandle]) -> list[str]:
        """Return the drivers of these volumes that keep pods off nodes where they are missing, by name."""
        if not self._scales:
            return []
        names = sorted({volume.driver for volume in wanted})
        drivers = ((name, self._objects.get("CSIDriver", name)) for name in names)
        return [name for name, found in drivers if found is not None and found.spec.prevent_pod_scheduling_if_missing]


ALL = Action.ADD | Action.UPDATE | Action.DELETE


class LimitsHints:
    """The events of NodeVolumeLimits; `fits` says whether a node without pods takes a pod's volumes."""

    __slots__ = ("_fits", "_objects")

    def __init__(self, objects: ObjectReader, fits: Callable[[PodInfo, str], bool]) -> None:
        self._objects = objects
        self._fits = fits

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Return what to register; any CSINode that comes may help."""
        return (
            ClusterEventWithHint(ClusterEvent("CSINode", Action.ADD)),
            ClusterEventWithHint(ClusterEvent("CSINode", Action.UPDATE | Action.DELETE), self.after_csi_node_change),
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self.after_pod_deletion),
            ClusterEventWithHint(ClusterEvent(CLAIM, ALL), self.after_claim_change),
            ClusterEventWithHint(ClusterEvent("VolumeAttachment", Action.DELETE), self.after_attachment_deletion),
            ClusterEventWithHint(ClusterEvent(VOLUME, ALL), self.after_volume_change),
            ClusterEventWithHint(ClusterEvent("CSIDriver", Action.UPDATE | Action.DELETE), self.after_driver_change),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD), self.after_node_added),
        )

    def after_csi_node_change(self, pod: PodInfo, old: CSINode | None, new: CSINode | None) -> QueueingHint:
        """Queue where a limit is higher than before, or gone, or one of the pod's drivers is new on the node."""
        now = limits_of(new)
        if any(limit < now.get(driver, limit + 1) for driver, limit in limits_of(old).items()):
            return QueueingHint.QUEUE
        return queue_if(not (_drivers_on(new) - _drivers_on(old)).isdisjoint(self._drivers(pod)))

    def after_driver_change(self, pod: PodInfo, old: CSIDriver | None, new: CSIDriver | None) -> QueueingHint:
        """Queue where one of the pod's drivers no longer keeps it off nodes."""
        if old is None or not old.spec.prevent_pod_scheduling_if_missing:
            return QueueingHint.SKIP
        relaxed = new is None or not new.spec.prevent_pod_scheduling_if_missing
        return queue_if(relaxed and old.metadata.name in self._drivers(pod))

    def after_pod_deletion(self, _pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
        """Queue where the pod that goes had a place, and volumes that count."""
        if old is None or not (old.node_name or old.status.nominated_node_name):
            return QueueingHint.SKIP
        return queue_if(any(may_be_attached(volume) for volume in old.spec.volumes))

    def after_claim_change(
        self, pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> QueueingHint:
        """Queue where it is one of the pod's claims, or a claim goes that may have been counted."""
        return queue_if(new is None or is_claim_of(pod, new, claim_names(pod)))

    def after_attachment_deletion(
        self, pod: PodInfo, old: VolumeAttachment | None, _new: VolumeAttachment | None
    ) -> QueueingHint:
        """Queue where a volume of one of the pod's drivers is detached."""
        return queue_if(old is not None and old.spec.attacher in self._drivers(pod))

    def after_volume_change(
        self, pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume | None
    ) -> QueueingHint:
        """Queue where a volume of the pod's claims comes or changes, or one that was attached goes."""
        if new is None:
            return queue_if(old is not None and old.spec.csi is not None and old.spec.csi.driver in self._drivers(pod))
        claims = (self._objects.get(CLAIM, name, pod.namespace) for name in claim_names(pod))
        return queue_if(any(c is not None and c.spec.volume_name == new.metadata.name for c in claims))

    def after_node_added(self, pod: PodInfo, _old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where the node takes the pod's volumes."""
        return queue_if(new is not None and self._fits(pod, new.metadata.name))

    def _drivers(self, pod: PodInfo) -> set[str]:
        wanted = new_volumes(self._objects, pod)
        return set() if isinstance(wanted, Status) else {volume.driver for volume in wanted}


def _drivers_on(csi_node: CSINode | None) -> set[str]:
    return {driver.name for driver in csi_node.spec.drivers} if csi_node is not None else set()
