"""VolumeZone: volumes that can be used only in the zone or region they are in.

Upstream plugin `VolumeZone`, v1.36: zone and region labels of bound volumes must be met by the node's labels. Claims
that were made for the pod are not looked at; their volumes' node affinity is VolumeBinding's to check.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from berth.api.node import Node
from berth.api.selectors import Requirement
from berth.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint, queue_if
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    EventsPlugin,
    FilterColumn,
    FilterPlugin,
    PreFilterPlugin,
    Rows,
)
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.readers import ObjectReader
from berth.framework.status import SKIP, Status, unresolvable
from berth.plugins.node_selection import requirement_mask
from berth.plugins.volumes.claims import (
    CLAIM,
    CLAIM_NOT_FOUND,
    CLASS,
    CLASS_NOT_FOUND,
    NO_BINDING_MODE,
    VOLUME,
    VOLUME_NOT_FOUND,
    WAIT_FOR_FIRST_CONSUMER,
    class_name_of,
    has_no_volumes,
    is_claim_of,
    named_claims,
)
from berth.plugins.volumes.migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from berth.state.label_index import ABSENT, Mask
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

REASON = "node(s) had no available volume zone"

_NO_CLAIM_NAME = "PersistentVolumeClaim had no name"
_NO_VOLUME_AND_CLASS = "PersistentVolumeClaim had no pv name and storageClass name"
_NO_VOLUME_NAME = "PersistentVolume had no name"

TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_TODAYS_NAME = {BETA_ZONE: ZONE, BETA_REGION: REGION}

_CONFLICT = unresolvable(REASON)


class VolumeTopology(NamedTuple):
    """A label that a volume has, and the values of it that a node may have."""

    key: str
    values: frozenset[str]


def topologies_of(volume: PersistentVolume) -> Iterator[VolumeTopology]:
    """Return what the labels of a volume demand; a label with an empty zone in it demands nothing."""
    for key in TOPOLOGY_LABELS:
        label = volume.metadata.labels.get(key)
        if label is not None:
            values = frozenset(value.strip() for value in label.split(ZONE_DELIMITER))
            if "" not in values:
                yield VolumeTopology(key, values)


def topologies_of_pod(objects: ObjectReader, pod: PodInfo) -> tuple[VolumeTopology, ...] | Status:
    """Return what the bound volumes of a pod demand, or why that cannot be said."""
    found: list[VolumeTopology] = []
    for name in named_claims(pod):
        volume = _volume_of(objects, name, pod.namespace)
        if isinstance(volume, Status):
            return volume
        if volume is not None:
            found += topologies_of(volume)
    return tuple(found)


def _volume_of(objects: ObjectReader, name: str, namespace: str) -> PersistentVolume | Status | None:
    """Return the volume of a claim, None where it waits for its first consumer, or what is wrong."""
    if not name:
        return unresolvable(_NO_CLAIM_NAME)
    claim: PersistentVolumeClaim | None = objects.get(CLAIM, name, namespace)
    if claim is None:
        return unresolvable(CLAIM_NOT_FOUND.format(name))
    if not claim.spec.volume_name:
        return _fault_of_unbound(objects, claim)
    volume: PersistentVolume | None = objects.get(VOLUME, claim.spec.volume_name)
    return unresolvable(VOLUME_NOT_FOUND.format(claim.spec.volume_name)) if volume is None else volume


def _fault_of_unbound(objects: ObjectReader, claim: PersistentVolumeClaim) -> Status | None:
    name = class_name_of(claim)
    if not name:
        return unresolvable(_NO_VOLUME_AND_CLASS)
    storage_class: StorageClass | None = objects.get(CLASS, name)
    if storage_class is None:
        return unresolvable(CLASS_NOT_FOUND.format(name))
    if storage_class.volume_binding_mode is None:
        return unresolvable(NO_BINDING_MODE.format(name))
    return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else unresolvable(_NO_VOLUME_NAME)


def meets(labels: Mapping[str, str], topologies: Iterable[VolumeTopology]) -> bool:
    """Say whether a node with these labels meets all demands; one without any zone or region label does."""
    if not any(key in labels for key in TOPOLOGY_LABELS):
        return True
    return all(_value(labels, topology.key) in topology.values for topology in topologies)


def _value(labels: Mapping[str, str], key: str) -> str | None:
    value = labels.get(key)
    return value if value is not None else labels.get(_TODAYS_NAME.get(key, key))


def met(topologies: Iterable[VolumeTopology], table: NodeTable, rows: Rows) -> Mask:
    """Return by row, shape (len(rows),), whether the node meets all demands, as `meets` says."""
    found: Mask = np.ones(len(table.valid[rows]), dtype=np.bool_)
    for key, values in topologies:
        column, wanted = table.label(key), Requirement(key, "In", tuple(values))
        fitting = requirement_mask(column, wanted, rows)
        if key in _TODAYS_NAME:
            absent = np.equal(column.ids[rows], ABSENT)
            fitting |= absent & requirement_mask(table.label(_TODAYS_NAME[key]), wanted, rows)
        found &= fitting
    nowhere = np.ones(len(found), dtype=np.bool_)
    for key in TOPOLOGY_LABELS:
        nowhere &= np.equal(table.label(key).ids[rows], ABSENT)
    return found | nowhere


class VolumeZone(PreFilterPlugin, FilterPlugin, ColumnFilterPlugin, EventsPlugin):
    """PreFilter, Filter."""

    name: ClassVar[str] = "VolumeZone"
    promises: ClassVar[Promises] = Promises(
        # Declared for what-ifs: no pod on a node matters. Answers are not kept, since hardly two pods share them.
        filter_depends_on=frozenset({Dependency.NODE, Objects((CLAIM, CLASS, VOLUME))}),
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=has_no_volumes,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.objects

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Find out what the volumes demand. Skip if that is nothing."""
        if not pod.spec.volumes:
            return SKIP
        topologies = topologies_of_pod(self._objects, pod)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return SKIP
        state.write(self.name, topologies)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject nodes in another zone or region than the volumes."""
        topologies = self._topologies(state, pod)
        if isinstance(topologies, Status):
            return topologies
        return None if meets(node.labels, topologies) else _CONFLICT

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return int32 codes of shape (len(rows),): 1 where the node is in another zone or region than the volumes."""
        topologies = self._topologies(state, pod)
        if isinstance(topologies, Status):
            return FilterColumn(np.ones(len(table.valid[rows]), dtype=np.int32), lambda _: topologies)
        return FilterColumn((~met(topologies, table, rows)).astype(np.int32), lambda _: _CONFLICT)

    def _topologies(self, state: CycleState, pod: PodInfo) -> tuple[VolumeTopology, ...] | Status:
        """Return what PreFilter found; find it now where that was left out of the profile."""
        prepared: tuple[VolumeTopology, ...] | None = state.get(self.name)
        return topologies_of_pod(self._objects, pod) if prepared is None else prepared

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register the events that upstream registers."""
        return (
            ClusterEventWithHint(ClusterEvent(CLASS, Action.ADD), self.after_class_added),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.UPDATE_NODE_LABEL), self.after_node_change),
            ClusterEventWithHint(ClusterEvent(CLAIM, Action.ADD | Action.UPDATE), self.after_claim_change),
            ClusterEventWithHint(ClusterEvent(VOLUME, Action.ADD | Action.UPDATE), self.after_volume_change),
        )

    def after_class_added(self, pod: PodInfo, _old: StorageClass | None, new: StorageClass | None) -> QueueingHint:
        """Queue where one of the pod's claims has this class, and may wait for the pod."""
        if new is None or new.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
            return QueueingHint.SKIP
        return queue_if(any(class_name_of(claim) == new.metadata.name for claim in self._claims(pod)))

    def after_node_change(self, pod: PodInfo, _old: Node | None, new: Node | None) -> QueueingHint:
        """Queue where the node is where the volumes are."""
        topologies = topologies_of_pod(self._objects, pod)
        if new is None or isinstance(topologies, Status):
            return QueueingHint.SKIP
        return queue_if(meets(new.metadata.labels, topologies))

    def after_claim_change(
        self, pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> QueueingHint:
        """Queue where it is one of the pod's claims."""
        return queue_if(new is not None and is_claim_of(pod, new, named_claims(pod)))

    def after_volume_change(
        self, pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume | None
    ) -> QueueingHint:
        """Queue where a volume of the pod's claims comes, or is in another zone than before."""
        if new is None or all(claim.spec.volume_name != new.metadata.name for claim in self._claims(pod)):
            return QueueingHint.SKIP
        return queue_if(old is None or set(topologies_of(old)) != set(topologies_of(new)))

    def _claims(self, pod: PodInfo) -> Iterator[PersistentVolumeClaim]:
        found = (self._objects.get(CLAIM, name, pod.namespace) for name in named_claims(pod))
        return (claim for claim in found if claim is not None)
