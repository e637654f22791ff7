"""VolumeBinding: finds volumes for claims, or a place where they can be provisioned, and binds them.

Upstream plugin `VolumeBinding`, v1.36. Deviations: what a pod would get on the chosen node is computed again in
Reserve, from the same state, instead of being kept for every node; waiting for a claim follows events, not polls.

With the feature gate StorageCapacityScoring nodes are scored by how much of their storage would be in use, by storage
class, as upstream's `volumebinding` scorer does: static volumes count where the pod would get any, otherwise what is to
be provisioned. All classes weigh the same, and their mean is rounded half up.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import ClassVar

import msgspec

from berth.api.quantity import value
from berth.config.errors import invalid
from berth.config.feature_gates import FeatureGates
from berth.config.shape import MAX_SHAPE_SCORE, MAX_UTILIZATION
from berth.framework.cycle_state import CycleState
from berth.framework.effects import Steps
from berth.framework.events import ClusterEventWithHint
from berth.framework.handle import Handle
from berth.framework.interface import (
    ColumnFilterPlugin,
    EventsPlugin,
    FeasibleNodes,
    FilterColumn,
    FilterPlugin,
    PreBindPlugin,
    PreBindPreFlightPlugin,
    PreBindPreFlightResult,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    Rows,
    ScorePlugin,
)
from berth.framework.observations import VolumeStageFailed
from berth.framework.promises import Dependency, Objects, Promises
from berth.framework.status import SKIP, Status, error
from berth.plugins.resources.args import ShapePoint
from berth.plugins.resources.strategies import shape_table
from berth.plugins.volumes.assumed import AssumedVolumes, give_back, take
from berth.plugins.volumes.binder import NodeForVolumes, PodClaims, PodVolumes, check_claims, claims_of, volumes_on
from berth.plugins.volumes.binding_columns import BindingColumns, describe
from berth.plugins.volumes.binding_hints import BindingHints
from berth.plugins.volumes.claims import STORAGE, class_name_of, has_claims, has_no_claims, requested
from berth.plugins.volumes.pre_bind import bind_volumes
from berth.plugins.volumes.volume_index import VolumeIndex
from berth.state.node_view import NodeView
from berth.state.pod_info import LABELS, REQUESTS, PodInfo
from berth.state.table import NodeTable

SCORING_GATE = "StorageCapacityScoring"

DEFAULT_SHAPE = (ShapePoint(0, MAX_SHAPE_SCORE), ShapePoint(MAX_UTILIZATION, 0))
"""Where StorageCapacityScoring is on: the more storage is left, the better."""


class VolumeBindingArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How long binding may take, and how nodes are scored by the capacity of their storage."""

    bind_timeout_seconds: int = 600
    shape: tuple[ShapePoint, ...] | None = None
    """None while the gate StorageCapacityScoring is off: the field does not exist then."""

    def gate_faults(self, path: str, gates: FeatureGates) -> Iterable[str]:
        """Refuse a shape while storage is not scored."""
        if self.shape is not None and not gates.enabled(SCORING_GATE):
            shape = msgspec.to_builtins(self.shape)
            detail = f"unexpected field `shape`, remove it or turn on the feature gate {SCORING_GATE}"
            yield invalid(f"{path}.shape", shape, detail)

    def defaulted_by_gates(self, gates: FeatureGates) -> "VolumeBindingArgs":
        """Fill in the shape where storage is scored."""
        if self.shape or not gates.enabled(SCORING_GATE):
            return self
        return VolumeBindingArgs(self.bind_timeout_seconds, DEFAULT_SHAPE)

    def validate(self, path: str) -> Iterable[str]:
        """Refuse a negative timeout and a shape that is no rising function."""
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(f"{path}.bindTimeoutSeconds", self.bind_timeout_seconds, detail)
        yield from _shape_faults(self.shape or (), f"{path}.shape")


def _shape_faults(shape: tuple[ShapePoint, ...], path: str) -> Iterable[str]:
    for index, (before, point) in enumerate(pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            where = f"{path}[{index}].utilization"
            yield invalid(where, point.utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= MAX_UTILIZATION:
            yield invalid(f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield invalid(f"{path}[{index}].score", point.score, f"not in valid range [0, {MAX_SHAPE_SCORE}]")


def storage_score(volumes: PodVolumes, table: Sequence[int]) -> int:
    """Return the score of a node for what a pod would get there; `table` has the score of each percentage in use."""
    uses = _static_uses(volumes) if volumes.bindings else _provisioned_uses(volumes)
    if not uses:
        return 0
    total = sum(table[_percent(asked, has)] for asked, has in uses.values())
    return (2 * total + len(uses)) // (2 * len(uses))


def _percent(asked_bytes: int, has_bytes: int) -> int:
    return MAX_UTILIZATION if has_bytes == 0 or asked_bytes > has_bytes else asked_bytes * MAX_UTILIZATION // has_bytes


def _static_uses(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Return by class how much is asked for, and how much the volumes have."""
    uses: dict[str, tuple[int, int]] = {}
    for claim, volume in volumes.bindings:
        name = volume.spec.storage_class_name
        asked, has = uses.get(name, (0, 0))
        uses[name] = asked + value(requested(claim)), has + value(volume.spec.capacity.get(STORAGE, 0))
    return uses


def _provisioned_uses(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Return by class how much is asked for, and how much there is to take it from."""
    uses: dict[str, tuple[int, int]] = {}
    for claim, capacity in volumes.provisions:
        if capacity is not None and capacity.capacity is not None:
            name = class_name_of(claim)
            asked, _ = uses.get(name, (0, 0))
            uses[name] = asked + value(requested(claim)), value(capacity.capacity)
    return uses


class _Prepared:
    """What PreFilter found out, and what Reserve took."""

    __slots__ = ("claims", "taken")

    def __init__(self, claims: PodClaims) -> None:
        self.claims = claims
        self.taken = AssumedVolumes()


class VolumeBinding(
    PreFilterPlugin,
    FilterPlugin,
    ColumnFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPreFlightPlugin,
    PreBindPlugin,
    EventsPlugin,
):
    """PreFilter, Filter, PreScore, Score, Reserve, PreBind."""

    name: ClassVar[str] = "VolumeBinding"
    promises: ClassVar[Promises] = Promises(
        # Declared for what-ifs: no pod on a node matters. Answers are not kept, since hardly two pods share them.
        filter_depends_on=frozenset(
            {
                Dependency.NODE,
                Dependency.OWN_RESERVATIONS,
                Objects(
                    (
                        "CSIDriver",
                        "CSINode",
                        "CSIStorageCapacity",
                        "PersistentVolume",
                        "PersistentVolumeClaim",
                        "StorageClass",
                    )
                ),
            }
        ),
        ignores=frozenset({LABELS, REQUESTS}),
        pre_filter_is_pure=has_no_claims,
        pre_score_is_pure=has_no_claims,
        idle_after_skip=True,
    )
    args_type: ClassVar[type[msgspec.Struct]] = VolumeBindingArgs

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        self._scores = handle.features.enabled(SCORING_GATE)
        self._table = shape_table(args.shape or DEFAULT_SHAPE)
        self._timeout_s = args.bind_timeout_seconds
        self._handle = handle
        self._index = VolumeIndex(handle.objects)
        self._columns = BindingColumns(handle.objects, handle.cache.table)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> Status | None:
        """Skip pods without claims; refuse those whose claims are unusable or should be bound by now."""
        if not has_claims(pod):
            return SKIP
        objects = self._handle.objects
        fault = check_claims(objects, pod)
        if fault is not None:
            return fault
        claims = claims_of(objects, self._index, pod)
        if isinstance(claims, Status):
            return claims
        state.write(self.name, _Prepared(claims))
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status | None:
        """Refuse nodes that cannot use the bound volumes, or where the other claims get none."""
        prepared: _Prepared = state.read(self.name)
        found = volumes_on(self._handle.objects, prepared.claims, NodeForVolumes(node.name, node.labels))
        return found if isinstance(found, Status) else None

    def filter_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> FilterColumn:
        """Return codes, int32 (len(rows),), which say what is against each row."""
        prepared: _Prepared = state.read(self.name)
        return FilterColumn(self._columns.codes(prepared.claims)[rows], describe)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> Status | None:
        """Skip unless nodes are to be scored by their storage."""
        return None if self._scores and state.get(self.name) is not None else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Rate the storage in use if the pod came to the node; nothing where that is not scored."""
        prepared: _Prepared | None = state.get(self.name)
        if not self._scores or prepared is None:
            return 0
        found = volumes_on(self._handle.objects, prepared.claims, NodeForVolumes(node.name, node.labels))
        return 0 if isinstance(found, Status) else storage_score(found, self._table)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Take the volumes that the pod gets on the node."""
        prepared: _Prepared | None = state.get(self.name)
        if prepared is None or not prepared.claims.to_bind:
            return None
        table = self._handle.cache.table
        labels = table.node(table.row_of[node_name]).metadata.labels
        found = volumes_on(self._handle.objects, prepared.claims, NodeForVolumes(node_name, labels))
        if isinstance(found, Status):
            self._handle.observe(VolumeStageFailed("assume"))
            return error(found.message)
        prepared.taken = take(self._handle.objects, found, node_name)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give the volumes back."""
        prepared: _Prepared | None = state.get(self.name)
        if prepared is not None:
            give_back(self._handle.objects, prepared.taken)
            prepared.taken = AssumedVolumes()

    def pre_bind_pre_flight(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        """Skip where all claims are bound; nothing that is written here concerns other plugins."""
        prepared: _Prepared | None = state.get(self.name)
        is_done = prepared is None or not prepared.claims.to_bind
        return SKIP if is_done else PreBindPreFlightResult(allow_parallel=True)

    def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | Steps[Status | None] | None:
        """Write what was taken, and wait until all claims are bound."""
        prepared: _Prepared | None = state.get(self.name)
        if prepared is None or prepared.taken.is_nothing:
            return None
        return bind_volumes(self._handle, pod, node_name, prepared.taken, self._timeout_s)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register upstream's events and a few more; `BindingHints` says why."""
        return BindingHints(self._handle.objects, self._index).events()
