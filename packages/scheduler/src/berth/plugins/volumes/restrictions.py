"""VolumeRestrictions: disks that two pods on a node cannot both have, and claims for one pod only.

Upstream plugin `VolumeRestrictions`, v1.36. Deviation: in a what-if, only pods of the pod's own namespace count as
users of its ReadWriteOncePod claims; upstream goes by the claim's name alone.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

import numpy as np

from berth.api.node import Node
from berth.api.pod import Volume
from berth.api.storage import PersistentVolumeClaim
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
    PreFilterExtensions,
    PreFilterPlugin,
    Rows,
)
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.status import SKIP, Status, unresolvable, unschedulable
from berth.plugins.volumes.claims import CLAIM, CLAIM_NOT_FOUND, has_no_volumes, is_claim_of, named_claims
from berth.plugins.volumes.uses import Key, VolumeUses, claim_key, disk_key
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

REASON_DISK_CONFLICT = "node(s) had no available disk"
REASON_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

READ_WRITE_ONCE_POD = "ReadWriteOncePod"

_DISK_CONFLICT = unschedulable(REASON_DISK_CONFLICT)
_IN_USE = unschedulable(REASON_IN_USE)
_DISK_CODE, _IN_USE_CODE = 1, 2
_BY_CODE = {_DISK_CODE: _DISK_CONFLICT, _IN_USE_CODE: _IN_USE}


def exclusive_disks(pod: PodInfo) -> tuple[Volume, ...]:
    """Return a pod's inline disks that two pods cannot write at once."""
    return tuple(volume for volume in pod.spec.volumes if disk_key(volume) is not None)


def conflicts(wanted: Volume, held: Volume) -> bool:
    """Say whether two volumes are one disk that both cannot have: not read-only for both, or of EBS."""
    return (
        _gce_conflict(wanted, held)
        or _ebs_conflict(wanted, held)
        or _iscsi_conflict(wanted, held)
        or _rbd_conflict(wanted, held)
    )


def _gce_conflict(wanted: Volume, held: Volume) -> bool:
    a, b = wanted.gce_persistent_disk, held.gce_persistent_disk
    return a is not None and b is not None and a.pd_name == b.pd_name and not (a.read_only and b.read_only)


def _ebs_conflict(wanted: Volume, held: Volume) -> bool:
    a, b = wanted.aws_elastic_block_store, held.aws_elastic_block_store
    return a is not None and b is not None and a.volume_id == b.volume_id


def _iscsi_conflict(wanted: Volume, held: Volume) -> bool:
    a, b = wanted.iscsi, held.iscsi
    return a is not None and b is not None and a.iqn == b.iqn and not (a.read_only and b.read_only)


def _rbd_conflict(wanted: Volume, held: Volume) -> bool:
    a, b = wanted.rbd, held.rbd
    if a is None or b is None or (a.pool, a.image) != (b.pool, b.image):
        return False
    return not set(a.monitors).isdisjoint(b.monitors) and not (a.read_only and b.read_only)


def has_conflict(disks: Sequence[Volume], pods: Iterable[PodInfo]) -> bool:
    """Say whether some pod holds one of these disks in a way that excludes another."""
    return any(conflicts(disk, held) for pod in pods for held in pod.spec.volumes for disk in disks)


class Prepared:
    """The pod's exclusive disks, its claims for one pod only, and how often other pods use these."""

    __slots__ = ("claims", "disks", "namespace", "uses")

    def __init__(self, namespace: str, disks: tuple[Volume, ...], claims: frozenset[str], uses: int) -> None:
        self.namespace = namespace
        self.disks = disks
        self.claims = claims
        self.uses = uses

    def clone(self) -> "Prepared":
        """Return a copy that a what-if can change."""
        return Prepared(self.namespace, self.disks, self.claims, self.uses)

    def uses_by(self, pod: PodInfo) -> int:
        """Return how many of the claims a pod uses."""
        if pod.namespace != self.namespace:
            return 0
        return sum(name in self.claims for name in named_claims(pod))


class VolumeRestrictions(
    PreFilterPlugin, PreFilterExtensions, FilterPlugin, ColumnFilterPlugin, PodWhatIfPlugin, EventsPlugin
):
    """PreFilter with AddPod and RemovePod, Filter."""

    name: ClassVar[str] = "VolumeRestrictions"
    promises: ClassVar[Promises] = Promises(
        filter_depends_on=frozenset({Dependency.PODS_ANYWHERE, Objects((CLAIM,))}),
        filters_by_affecting_pods=True,
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=has_no_volumes,
    )

    def __init__(self, args: None, handle: Handle) -> None:
        self._objects = handle.objects
        self._uses = VolumeUses(handle.cache.table)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Find the disks and claims that exclude others; skip where there are none in use."""
        if not pod.spec.volumes:
            return SKIP
        disks = exclusive_disks(pod)
        claims = self._single_pod_claims(pod)
        if isinstance(claims, Status):
            return claims
        uses = self._users(pod.namespace, claims)
        if not disks and not uses:
            return SKIP
        state.write(self.name, Prepared(pod.namespace, disks, claims, uses))
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeView) -> Status | None:
        """Count the claims that an added pod uses."""
        prepared = self._prepared(state, pod)
        prepared.uses += prepared.uses_by(added)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeView) -> Status | None:
        """Discount the claims that a removed pod uses."""
        prepared = self._prepared(state, pod)
        prepared.uses -= prepared.uses_by(removed)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Reject nodes where a disk is held, and all nodes while another pod uses a claim that is for one pod only."""
        prepared = self._prepared(state, pod)
        if prepared.disks and has_conflict(prepared.disks, node.pods.values()):
            return _DISK_CONFLICT
        return _IN_USE if prepared.uses > 0 else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return codes, int32 (len(rows),): whether a disk is held on the row, else whether a claim is in use."""
        prepared = self._prepared(state, pod)
        codes: Codes = np.full(table.capacity, _IN_USE_CODE if prepared.uses > 0 else 0, dtype=np.int32)
        self._uses.sync()
        for disk in prepared.disks:
            for row in self._uses.rows(cast("Key", disk_key(disk))):
                if has_conflict((disk,), table.pods[row].values()):
                    codes[row] = _DISK_CODE
        return FilterColumn(codes[rows], _BY_CODE.__getitem__)

    def is_affected_by(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Say whether the two cannot share a node, or a claim."""
        prepared = self._prepared(state, pod)
        return bool(prepared.uses_by(other)) or has_conflict(prepared.disks, (other,))

    def _prepared(self, state: CycleState, pod: PodInfo) -> "Prepared":
        """Return what PreFilter found."""
        found: Prepared = state.read(self.name)
        return found

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register upstream's events, and nodes that go: pods there no longer keep a claim for themselves."""
        return (
            ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), self.after_pod_deletion),
            ClusterEventWithHint(ClusterEvent("Node", Action.ADD | Action.DELETE), self.after_node_change),
            ClusterEventWithHint(ClusterEvent(CLAIM, Action.ADD), self.after_claim_added),
        )

    def after_pod_deletion(self, pod: PodInfo, old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
        """Queue where the pod that goes held a disk of this one, or used a claim of it."""
        if old is None:
            return QueueingHint.SKIP
        if has_conflict(exclusive_disks(pod), (old,)):
            return QueueingHint.QUEUE
        return queue_if(old.namespace == pod.namespace and not set(named_claims(old)).isdisjoint(named_claims(pod)))

    def after_node_change(self, pod: PodInfo, old: Node | None, _new: Node | None) -> QueueingHint:
        """Queue where a node comes, free of the pod's disks, or where one goes, on which its claims may be in use."""
        return queue_if(any(exclusive_disks(pod)) if old is None else any(named_claims(pod)))

    def after_claim_added(
        self, pod: PodInfo, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> QueueingHint:
        """Queue if the claim that came or changed is one of the pod's."""
        return queue_if(new is not None and is_claim_of(pod, new, named_claims(pod)))

    def _users(self, namespace: str, claims: frozenset[str]) -> int:
        """Return how many of these claims some pod uses."""
        if not claims:
            return 0
        self._uses.sync()
        return sum(self._uses.is_used(claim_key(namespace, name)) for name in claims)

    def _single_pod_claims(self, pod: PodInfo) -> frozenset[str] | Status:
        found = set()
        for name in named_claims(pod):
            claim: PersistentVolumeClaim | None = self._objects.get(CLAIM, name, pod.namespace)
            if claim is None:
                return unresolvable(CLAIM_NOT_FOUND.format(name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                found.add(name)
        return frozenset(found)
