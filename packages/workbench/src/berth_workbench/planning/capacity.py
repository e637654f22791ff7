"""How many more pods fit: the number that the scheduler would place one after another, and what limits it.

`capacity` answers for a cluster as it is. If a pod of the shape changes nothing for the next one except how much of its
node is taken, each node is counted separately, in columns: which shapes these are follows from what the Filter plugins
declare (`berth.engine.what_if`), not from a list of fields. All others are placed one by one in a `Trial`, which is
undone. Both give the same number; where the order of placement matters, as with topology spread, it is the scheduler's,
with ties broken by the seed of the cluster.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.pod import Pod
from berth.api.pod_resources import CPU
from berth.core.core import Core
from berth.core.questions import Trial, judge, profile_of
from berth.engine.profile import PreFiltered, Profile, searched_rows
from berth.engine.what_if import WhatIf
from berth.framework.cycle_state import CycleState
from berth.framework.interface import RowLoad
from berth.framework.promises import Dependency
from berth.framework.status import Status, unschedulable
from berth.state.objects import key_of
from berth.state.pod_groups import POD_GROUP
from berth.state.pod_info import PodInfo
from berth_workbench.planning.dynamic_admission import unasked
from berth_workbench.planning.free_devices import FreeDevices, free_devices
from berth_workbench.planning.requested_pods import RequestedShape, requested_pods
from berth_workbench.simulation.admission import AdmissionGate
from berth_workbench.simulation.cluster import EXTENDERS_LEFT_OUT, SimulatedCluster
from berth_workbench.simulation.comebacks import AGAIN_AND_AGAIN
from berth_workbench.simulation.gangs import declared_gang
from berth_workbench.simulation.measures import rows_by_label, rows_by_pool
from berth_workbench.simulation.missing_resources import missing_resources
from berth_workbench.simulation.scale import note_manifests, refuse_awaited
from berth_workbench.simulation.situation import Situation
from berth_workbench.simulation.steps import take_step
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.simulation.workloads import POD_MAKERS, WorkloadManifest
from berth_workbench.snapshot.documents import Document

Rows = NDArray[np.intp]
Counts = NDArray[np.int64]

AT_MOST: Final = 1_000_000
"""So many pods are placed one by one at most, unless more are asked for."""
UNBOUNDED: Final = 2**62
"""As many pods as this fit on a node as far as a resource goes of which they request nothing."""


class LimitedBy(msgspec.Struct, frozen=True, rename="camel"):
    """Why the next pod no longer fits, in the words of the pod's condition, and on how many nodes."""

    reason: str
    nodes: int
    """A node with several reasons counts for each."""


class PoolHeadroom(msgspec.Struct, frozen=True, rename="camel"):
    """A pool of nodes."""

    nodes: int
    fits: int
    """How many of the pods are on its nodes."""
    limited_by: tuple[LimitedBy, ...]


class PartHeadroom(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the cluster in which a gang has to keep together."""

    nodes: int
    fits: int
    """How many gangs have a place there."""
    limited_by: tuple[LimitedBy, ...]


class FreeResource(msgspec.Struct, frozen=True, rename="camel"):
    """What is free of a resource before anything is placed, in its own unit: cores, bytes, or a count."""

    free: float
    usable: float
    """What the pods that fit take of it."""
    stranded: float
    """What no more pods of this shape can use."""
    largest_hole: float
    """The most that is free on one node."""
    largest_hole_on: str


class ShapeHeadroom(msgspec.Struct, frozen=True, rename="camel"):
    """One shape, counted on its own."""

    shape: str
    """`namespace/name` of the pod or workload."""
    per_set: int
    """How many of it a set has."""
    fits: int
    limited_by: tuple[LimitedBy, ...]
    by_pool: dict[str, PoolHeadroom]
    fragmentation: dict[str, FreeResource]
    """By resource that the pods request."""
    is_counted: bool
    """Whether it was counted node by node; otherwise its pods were placed one by one."""
    is_complete: bool = True
    """False where it was stopped, or reached the bound, before the next one no longer fitted."""
    refused: str = ""
    """Why the API server refuses the next one; empty where the room ends before."""


class Capacity(msgspec.Struct, frozen=True, rename="camel"):
    """How many more pods fit: of one shape, pods; of several, sets of them."""

    fits: int
    limited_by: tuple[LimitedBy, ...]
    by_pool: dict[str, PoolHeadroom]
    fragmentation: dict[str, FreeResource]
    shapes: tuple[ShapeHeadroom, ...]
    """Each shape on its own."""
    pods: int
    """How many pods are in what fits."""
    is_complete: bool = True
    notes: tuple[str, ...] = ()
    is_of_sets: bool = False
    """Whether sets were counted: of several shapes, or of a gang."""
    refused: str = ""
    """Why the API server refuses the next one, in its words; empty where the room ends before."""
    together_in: str = ""
    """Of a gang that keeps to one part of the cluster, the label whose value its nodes share."""
    by_part: dict[str, PartHeadroom] = {}
    """With `together_in`, the same for each value of the label."""
    devices: FreeDevices | None = None
    """Where devices were asked about, which are free; without manifests nothing else is said."""


def capacity(
    cluster: SimulatedCluster,
    shapes: Sequence[RequestedShape],
    *,
    pool_label: str = "",
    at_most: int = AT_MOST,
    by_placing: bool = False,
    watch: WorkWatch = UNWATCHED,
) -> Capacity:
    """Return how many more pods of one shape fit, or how many sets of several; the cluster is left as it was.

    A set has `per_set` pods of each shape, placed in this order; a set that does not fit completely does not count. A
    gang is a set, too: all pods of its workload, and no fewer than the group demands; where it has to keep together, it
    is placed in one part of the cluster after the other. With `by_placing` nothing is
    counted in columns. Raises ValueError for a PriorityClass that is not there.
    """
    asker = _Asker(cluster, pool_label, at_most, watch)
    alone = tuple(asker.headroom(shape, by_placing=by_placing) for shape in shapes)
    notes = tuple(_notes(cluster, shapes))
    gang_size = _gang_size(cluster, shapes[0]) if len(shapes) == 1 else None
    together_in = _together_in(cluster, shapes)
    if len(shapes) == 1 and gang_size is None:
        one = alone[0]
        return Capacity(
            one.fits, one.limited_by, one.by_pool, one.fragmentation, alone, one.fits, one.is_complete, notes,
            refused=one.refused,
        )  # fmt: skip
    of_set = gang_size or sum(shape.per_set for shape in shapes)
    placed = asker.place_sets(shapes, gang_size, together_in)
    return Capacity(
        fits=placed.placed // of_set,
        limited_by=placed.limited_by,
        by_pool=asker.by_pool(placed),
        fragmentation=asker.fragmentation(placed.taken),
        shapes=alone,
        pods=placed.placed,
        is_complete=placed.is_complete and all(each.is_complete for each in alone),
        notes=notes,
        is_of_sets=True,
        refused=placed.refused,
        together_in=together_in,
        by_part=asker.by_part(placed, of_set),
    )


def capacity_after(
    situation: Situation,
    documents: Sequence[Document],
    *,
    pool_label: str = "",
    at_most: int = AT_MOST,
    pending_first: bool = False,
    devices: bool = False,
    watch: WorkWatch = UNWATCHED,
) -> Capacity:
    """Return how many more pods of some manifests fit into a cluster, after the situation's steps.

    With `devices`, also which devices are free; then there need be no manifests. Pending pods take no room, unless
    there are steps, or with `pending_first`. Raises `ObjectError`, `ManifestError`, `ChangeError`, `StuckError`;
    `StoppedError` if it is stopped before the count.
    """
    site, steps, namespace = situation.untouched(watch), situation.steps, situation.namespace
    cluster = site.cluster
    if steps or pending_first:
        site.settle()
    for step in steps:
        take_step(site, step, namespace)
    free = free_devices(cluster, watch) if devices else None
    if not documents:
        return Capacity(0, (), {}, {}, (), 0, free is None or free.is_complete, devices=free)
    given = cluster.admission.take(cluster.add_followed(documents, namespace), namespace)
    groups = [key for kind, key in cluster.objects if kind == "PodGroup"]
    note_manifests(site, [WorkloadManifest(each, namespace) for each in given if each.kind in POD_MAKERS])
    refuse_awaited(site)
    asked = requested_pods(given, templates=site.templates, groups=groups, namespace=namespace, replicas=site.replicas)
    cluster.create(obj for obj in asked.objects if _name_of(obj) not in cluster.objects)
    found = capacity(cluster, asked.shapes, pool_label=pool_label, at_most=at_most, watch=watch)
    circles = tuple(f"{pod} {AGAIN_AND_AGAIN.format(by=by)}" for pod, by in cluster.circles)
    return msgspec.structs.replace(
        found,
        notes=(*found.notes, *circles, *unasked(situation, documents)),
        devices=free,
        is_complete=found.is_complete and (free is None or free.is_complete),
    )


def _gang_size(cluster: SimulatedCluster, shape: RequestedShape) -> int | None:
    """How many pods of a shape are placed together or not at all; None if each is placed by itself."""
    gang = declared_gang(cluster, shape.template)
    return None if gang is None or gang.kind != POD_GROUP else max(shape.per_set, gang.needed)


def _together_in(cluster: SimulatedCluster, shapes: Sequence[RequestedShape]) -> str:
    """Return the label whose value the nodes of a set share; empty where it is no gang, or may be anywhere."""
    gangs = {declared_gang(cluster, shape.template) for shape in shapes}
    only = next(iter(gangs)) if len(gangs) == 1 else None
    return "" if only is None else only.topology


def _notes(cluster: SimulatedCluster, shapes: Sequence[RequestedShape]) -> Iterator[str]:
    if cluster.leaves_out_extenders:
        yield f"{EXTENDERS_LEFT_OUT}, and may leave less room"
    yield from missing_resources(cluster, (shape.template for shape in shapes))
    yield from cluster.admission.unchecked(shape.template.metadata.namespace for shape in shapes)
    for shape in shapes:
        profile = profile_of(cluster.core, shape.template)
        if shape.template.spec.scheduler_name not in cluster.core.profiles:
            yield (
                f"{shape.name}: no profile schedules for {shape.template.spec.scheduler_name!r}; "
                f"profile {profile.name} was asked"
            )


class _Filled(NamedTuple):
    """A cluster filled up: where the pods are, what they take, and what keeps the next one out."""

    placed: int
    counts: Counts
    """By row of the table."""
    taken: Mapping[str, Counts]
    """By resource and row."""
    refusals: list[tuple[Status, Rows]]
    is_complete: bool
    is_counted: bool
    refused: str = ""
    """Why the API server refuses the next one."""
    parts: Mapping[str, Rows] = MappingProxyType({})
    """The rows of each part that was filled by itself."""

    @property
    def limited_by(self) -> tuple[LimitedBy, ...]:
        """The reasons, the most frequent first."""
        return _limited_by(self.refusals)


def _limited_by(
    refusals: Iterable[tuple[Status, Rows]], among: NDArray[np.bool_] | None = None
) -> tuple[LimitedBy, ...]:
    found: Counter[str] = Counter()
    for status, rows in refusals:
        number = len(rows) if among is None else int(np.count_nonzero(among[rows]))
        for reason in status.reasons or (status.message,):
            found[reason] += number
    ordered = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return tuple(LimitedBy(reason, number) for reason, number in ordered if number)


class _Asker:
    """Answers questions about one cluster."""

    __slots__ = ("_at_most", "_core", "_pool_label", "_watch", "cluster")

    def __init__(self, cluster: SimulatedCluster, pool_label: str, at_most: int, watch: WorkWatch) -> None:
        self.cluster = cluster
        self._core = cluster.core
        self._pool_label = pool_label
        self._at_most = at_most
        self._watch = watch

    def headroom(self, shape: RequestedShape, *, by_placing: bool) -> ShapeHeadroom:
        """How many pods of one shape fit."""
        filled = None
        if not by_placing and not shape.has_own_claims:
            first, _ = next(shape.pods(self.cluster.pods))
            pod, why = self.cluster.admission.complete(first)
            filled = None if why else count_by_node(self._core, self._core.intake.info(pod))
            if filled is not None and not self._is_let_in(pod, filled.placed):
                filled = None  # where the fewer go that quotas let in is for the scheduler to say
        if filled is None:
            filled = self.place_sets((shape,), set_size=1)
        return ShapeHeadroom(
            shape=shape.name,
            per_set=shape.per_set,
            fits=filled.placed,
            limited_by=filled.limited_by,
            by_pool=self.by_pool(filled),
            fragmentation=self.fragmentation(filled.taken),
            is_counted=filled.is_counted,
            is_complete=filled.is_complete,
            refused=filled.refused,
        )

    def _is_let_in(self, pod: Pod, count: int) -> bool:
        """Whether quotas admit so many copies of a pod."""
        quotas = self.cluster.admission.quotas
        ledger = quotas.ledger(pod.metadata.namespace)
        room = None if ledger is None else ledger.room(quotas.charges(pod))
        return room is None or room >= count

    # -- one by one --------------------------------------------------------------------------------------------------

    def place_sets(
        self, shapes: Sequence[RequestedShape], set_size: int | None = None, together_in: str = ""
    ) -> _Filled:
        """Place sets of pods until one does not fit; a `set_size` is that of the only shape, 1 for single pods.

        With `together_in`, a set has its place on nodes that share the value of that label: the parts of the cluster
        are filled one after the other, since what is placed in one takes no room in another.
        """
        table = self._core.cache.table
        parts = rows_by_label(table, together_in) if together_in else {"": None}
        filling = _Filling(self, shapes, set_size)
        before = set(self.cluster.objects)
        self._watch.begin("placing pods one by one")
        is_complete = True
        try:
            with Trial(self._core) as trial:
                for rows in parts.values():
                    is_complete = filling.fill(trial, rows)
                    if not is_complete or filling.why:
                        break
        finally:
            for kind, key in [name for name in self.cluster.objects if name not in before]:
                self.cluster.delete(kind, key)
        filled = filling.refusals if is_complete else []
        if is_complete and not parts:
            filled = [(unschedulable(f"node(s) without the label {together_in}"), table.rows())]
        return _Filled(
            filling.placed,
            filling.counts,
            filling.taken,
            filled,
            is_complete=is_complete,
            is_counted=False,
            refused=filling.why,
            parts={name: rows for name, rows in parts.items() if rows is not None},
        )

    def make(self, claims: Iterable[Any]) -> str:
        """Make the claims of a pod; or say why the API server refuses one."""
        new = (claim for claim in claims if _name_of(claim) not in self.cluster.objects)
        return next(filter(None, map(self.cluster.make_claim, new)), "")

    def goes_on(self, placed: int) -> bool:
        """Whether another pod may be placed, with so many before it."""
        self._watch.advance()
        return not self._watch.is_stopped and placed < self._at_most

    # -- what it comes to --------------------------------------------------------------------------------------------

    def by_pool(self, filled: _Filled) -> dict[str, PoolHeadroom]:
        """Return the same for each pool of nodes."""
        pools = rows_by_pool(self._core.cache.table, self._pool_label)
        return {name: PoolHeadroom(*self._on(filled, rows, 1)) for name, rows in pools.items()}

    def by_part(self, filled: _Filled, of_set: int) -> dict[str, PartHeadroom]:
        """Return how many sets are in each part that was filled by itself."""
        return {name: PartHeadroom(*self._on(filled, rows, of_set)) for name, rows in filled.parts.items()}

    def _on(self, filled: _Filled, rows: Rows, of_set: int) -> tuple[int, int, tuple[LimitedBy, ...]]:
        among = np.zeros(self._core.cache.table.capacity, dtype=np.bool_)
        among[rows] = True
        return len(rows), int(filled.counts[rows].sum()) // of_set, _limited_by(filled.refusals, among)

    def fragmentation(self, taken: Mapping[str, Counts]) -> dict[str, FreeResource]:
        """What is free of the resources that the pods take, and what of it they can use."""
        table = self._core.cache.table
        rows = np.flatnonzero(table.valid & ~table.unschedulable)
        found = {}
        for resource in sorted(taken):
            index = table.resource_index.get(resource)
            if index is None or not len(rows):
                continue
            free = np.maximum(table.allocatable[index, rows] - table.requested[index, rows], 0)
            usable = int(taken[resource][rows].sum())
            unit = 1000 if resource == CPU else 1
            hole = int(free.argmax())
            found[resource] = FreeResource(
                free=int(free.sum()) / unit,
                usable=usable / unit,
                stranded=(int(free.sum()) - usable) / unit,
                largest_hole=int(free[hole]) / unit,
                largest_hole_on=table.names[rows[hole]],
            )
        return found


class _Filling:
    """A cluster that is being filled with sets of pods."""

    __slots__ = ("_asker", "_gate", "_sources", "counts", "placed", "refusals", "taken", "why")

    def __init__(self, asker: _Asker, shapes: Sequence[RequestedShape], set_size: int | None) -> None:
        cluster = asker.cluster
        capacity = cluster.core.cache.table.capacity
        names = cluster.pods
        self._asker = asker
        self._gate = AdmissionGate(cluster.admission)
        self._sources = [(shape.pods(names), shape.per_set if set_size is None else set_size) for shape in shapes]
        templates = (cluster.admission.complete(shape.template)[0] for shape in shapes)
        requested = {name for pod in templates for name in cluster.core.intake.info(pod).requests}
        self.counts: Counts = np.zeros(capacity, dtype=np.int64)
        self.taken: dict[str, Counts] = {name: np.zeros(capacity, dtype=np.int64) for name in sorted(requested)}
        self.placed = 0
        self.refusals: list[tuple[Status, Rows]] = []
        self.why = ""
        """Why the API server refuses the next pod; empty where it does not."""

    def fill(self, trial: Trial, rows: Rows | None) -> bool:
        """Place sets on some rows, or all, until one does not fit; say whether it came to that."""
        table = self._asker.cluster.core.cache.table
        within = None
        if rows is not None:
            within = np.zeros(table.capacity, dtype=np.bool_)
            within[rows] = True
        while True:
            mark = len(trial)
            of_set: list[PodInfo] = []
            places: list[int] = []
            for pod, claims in (next(source) for source, count in self._sources for _ in range(count)):
                if not self._asker.goes_on(self.placed + len(of_set)):
                    return False
                placed = self._place(trial, pod, claims, within)
                if placed is None:
                    trial.undo_to(mark)
                    return True
                of_set.append(placed[0])
                places.append(placed[1])
            self.placed += len(of_set)
            for row, info in zip(places, of_set, strict=True):
                self.counts[row] += 1
                for resource, amount in info.requests.items():
                    self.taken[resource][row] += amount

    def _place(
        self, trial: Trial, pod: Pod, claims: Iterable[Any], within: NDArray[np.bool_] | None
    ) -> tuple[PodInfo, int] | None:
        """Place a pod and return its row; None, with the reason noted, where it has no place."""
        core = self._asker.cluster.core
        why = self._asker.make(claims)
        pod, why = (pod, why) if why else self._gate.let_in(pod)
        if why:
            self.why, self.refusals = why, [(unschedulable(why), core.cache.table.rows())]
            return None
        info = core.intake.info(pod)
        node, message = trial.place(info, within)
        if node is not None:
            return info, core.cache.table.row_of[node]
        self.refusals += refused(core, info, message, within)
        return None


def _name_of(obj: object) -> tuple[str, str]:
    return type(obj).__name__, key_of(obj)


def refused(
    core: Core, pod: PodInfo, message: str, within: NDArray[np.bool_] | None = None
) -> list[tuple[Status, Rows]]:
    """Return why each node refuses a pod, by row; or the message for all nodes if it is not refused node by node.

    `within` has the only rows that count.
    """
    table = core.cache.table
    judgement = judge(core, pod, within)
    if not judgement.fits.any():
        found = [(status, np.asarray(rows, dtype=np.intp)) for status, rows in judgement.decision.rejected]
        if found:
            return found
    return [(unschedulable(message), table.rows() if within is None else np.flatnonzero(within))]


# -- in columns ------------------------------------------------------------------------------------------------------


def count_by_node(core: Core, pod: PodInfo) -> _Filled | None:
    """Count how many pods like this one fit on each node, or return None if that requires placing them.

    It can be counted if each copy changes nothing for the next except the load of its node: every Filter plugin that
    does not skip the pod looks only at the load of other pods, or is not affected by a copy of it; nothing is reserved
    for it; and no nominated pod is in its way.
    """
    profile = profile_of(core, pod)
    state = CycleState()
    table = core.cache.table
    pre = profile.run_pre_filter(state, pod)
    what_if = profile.what_if(state, pod)
    if pre.status is not None or not is_countable(profile, state, pod, what_if):
        return None
    if not _is_prepared_alike(core, profile, state, pod, pre):
        return None
    rows = np.flatnonzero(searched_rows(table, pre.node_names))
    load = what_if.load(rows)
    fitting = what_if.on(rows)
    each = {resource: pod.requests.get(resource, 0) for resource in what_if.resources}
    counts = np.where(fitting.passing(load), _room(what_if.limits(rows), load, each), 0)
    if len(counts) and int(counts.max()) >= UNBOUNDED:
        return None  # no filter of the profile bounds them
    full = _with_copies(load, each, counts)
    is_left = counts > 0
    last = _with_copies(load, each, np.maximum(counts - 1, 0))
    assert not fitting.passing(full).any(), "one more would fit on a node that was counted full"
    assert fitting.passing(last)[is_left].all(), "a pod was counted that does not fit"
    by_row: Counts = np.zeros(table.capacity, dtype=np.int64)
    by_row[rows] = counts
    refusals = [(status, rows[at]) for status, at in fitting.refusals(full, np.ones(len(rows), dtype=np.bool_))]
    absent = np.setdiff1d(table.rows(), rows)
    if len(absent) and pre.absent_status is not None:
        refusals.append((pre.absent_status, absent))
    taken = {resource: by_row * amount for resource, amount in pod.requests.items()}
    return _Filled(int(counts.sum()), by_row, taken, refusals, is_complete=True, is_counted=True)


def is_countable(profile: Profile, state: CycleState, pod: PodInfo, what_if: WhatIf) -> bool:
    if not what_if.is_possible or profile.rivals(pod) is not None or profile.reserve(state):
        return False
    permits = {plugin.name for plugin in profile.permit}
    if not permits <= profile.plugins_that_permit_groups or (permits and pod.spec.scheduling_group is not None):
        return False
    asked = (runner.plugin for runner in profile.filters if runner.name not in state.skip_filter)
    if any(Dependency.OWN_RESERVATIONS in plugin.promises.filter_depends_on for plugin in asked):
        return False
    return not what_if.is_affected_by(_copy(pod))


def _copy(pod: PodInfo) -> PodInfo:
    metadata = msgspec.structs.replace(pod.metadata, name=f"{pod.name}-copy", uid=f"{pod.uid}/copy")
    return PodInfo.of(msgspec.structs.replace(pod.pod, metadata=metadata), pod.shape)


def _is_prepared_alike(core: Core, profile: Profile, state: CycleState, pod: PodInfo, pre: PreFiltered) -> bool:
    """Whether PreFilter says the same about a copy once a pod is placed.

    The filters' promises are about Filter; a PreFilter plugin may still skip or narrow depending on what runs in the
    cluster.
    """
    with Trial(core) as trial:
        if trial.place(_copy(pod))[0] is None:
            return True
        again = CycleState()
        return profile.run_pre_filter(again, pod) == pre and again.skip_filter == state.skip_filter


def _room(limits: Sequence[RowLoad], load: RowLoad, each: Mapping[str, int]) -> Counts:
    """How many pods that take `each` fit under the limits, which say how much others may take where one fits."""
    found: Counts = np.full(len(load.pods), UNBOUNDED, dtype=np.int64)
    for limit in limits:
        np.minimum(found, limit.pods - load.pods + 1, out=found)
        for resource, most in limit.requested.items():
            amount = each[resource]
            if amount:
                np.minimum(found, (most - load.requested[resource]) // amount + 1, out=found)
    return np.maximum(found, 0)


def _with_copies(load: RowLoad, each: Mapping[str, int], counts: Counts) -> RowLoad:
    return RowLoad(
        load.pods + counts, {resource: taken + each[resource] * counts for resource, taken in load.requested.items()}
    )
