"""GpuFragmentation: places pods where they leave the fewest GPUs that typical pods could not use.

Of a node's free GPUs those are fragments for a typical pod that it cannot use: all of them where the pod does not fit
there, be it for want of CPU, else those of kinds that it does not ask for. A node's expected fragmentation is their
number, averaged over typical pods by how frequent they are. A node scores minus what the pod would add to it (Weng et
al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023).

GPUs are counted by extended resources: whole ones (`nvidia.com/gpu`), slices or shares, each worth a part of a GPU. No
extended resource tells which device a share lies on, so all shares of a node count together. GPUs that claims ask for
by a device class (DRA) are counted by the slices and claims of the class's driver. Typical pods are those of the args;
without any, the pods that run and ask for GPUs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.plugin import (
    ColumnScorePlugin,
    CycleState,
    Handle,
    NodeTable,
    NodeView,
    NormalizeScorePlugin,
    ObjectReader,
    PodEventHandlerPlugin,
    PodInfo,
    PodUpdateHandlerPlugin,
    Promises,
    Quantity,
    ReservePlugin,
    Rows,
    ScoreExplainingPlugin,
    ScorePlugin,
    Scores,
    Status,
    invalid,
    milli_value,
    required,
    value,
)
from berth_plugins.normalize import stretched

PODS = "pods"
"""Stands for the number of pods that a node takes, of which each pod needs one."""
MILLI = 1000
KEPT_SHAPES = 64
"""For so many kinds of pods scores are kept between attempts."""
Int64 = NDArray[np.int64]


class GpuResource(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An extended resource that stands for GPUs."""

    name: str = ""
    gpus: float = 1.0
    """How much of a GPU one unit is."""


class GpuClass(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A device class of GPUs, and the driver that publishes them."""

    name: str = ""
    driver: str = ""
    gpus: float = 1.0
    """How much of a GPU one device is."""


class TypicalPod(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A pod that is expected."""

    requests: Mapping[str, Quantity] = {}
    devices: Mapping[str, int] = {}
    """How many devices it claims, by device class."""
    weight: int = 1
    """How frequent such pods are."""


class GpuFragmentationArgs(msgspec.Struct, frozen=True, rename="camel"):
    """What is a GPU, and which pods are typical."""

    resources: tuple[GpuResource, ...] = (GpuResource("nvidia.com/gpu"),)
    device_classes: tuple[GpuClass, ...] = ()
    typical_pods: tuple[TypicalPod, ...] = ()
    """Without any, the pods that run are taken for typical."""
    max_typical_pods: int = 20
    """How many kinds of running pods count at most, the most frequent ones."""

    def validate(self, path: str) -> Iterable[str]:
        """Refuse what has no name, and numbers that mean nothing."""
        places: list[tuple[str, GpuResource | GpuClass]] = []
        places += [(f"{path}.resources[{index}]", each) for index, each in enumerate(self.resources)]
        places += [(f"{path}.deviceClasses[{index}]", each) for index, each in enumerate(self.device_classes)]
        for place, kind in places:
            if not kind.name:
                yield required(f"{place}.name", "which GPUs are meant")
            if not 0.001 <= kind.gpus <= MILLI:
                yield invalid(f"{place}.gpus", kind.gpus, "not in valid range [0.001, 1000]")
        if not self.resources and not self.device_classes:
            yield required(f"{path}.resources", "something that counts as a GPU")
        for index, pod in enumerate(self.typical_pods):
            if pod.weight < 1:
                yield invalid(f"{path}.typicalPods[{index}].weight", pod.weight, "must be at least 1")
        if self.max_typical_pods < 1:
            yield invalid(f"{path}.maxTypicalPods", self.max_typical_pods, "must be at least 1")


Amounts = tuple[tuple[str, int], ...]
"""What a pod takes, by resource or device class, sorted; without zeros."""


def amounts_of(requests: Mapping[str, int], devices: Mapping[str, int]) -> Amounts:
    """Return what a pod takes, as one value."""
    return tuple(sorted((name, amount) for name, amount in {**requests, **devices}.items() if amount))


class Expected(NamedTuple):
    """The typical pods as arrays: `names` are the resources that any of them or any GPU kind names, and `PODS`."""

    names: tuple[str, ...]
    demands: Int64
    """(typical pods, names)."""
    weights: Int64
    """(typical pods,)."""
    worth: Int64
    """(names,): thousandths of a GPU that a unit is worth; 0 for what is no GPU."""
    by_kinds: tuple[tuple[Int64, Int64], ...]
    """Places in `names` of GPUs that some typical pods ask for together, and which of the pods these are."""

    @classmethod
    def of(cls, typical: Mapping[Amounts, int], worth: Mapping[str, int]) -> "Expected":
        """Return the arrays of these pods, each with its weight."""
        asked = {name for amounts in typical for name, _ in amounts}
        names = (*sorted(asked | worth.keys()), PODS)
        demands = np.zeros((len(typical), len(names)), dtype=np.int64)
        for number, amounts in enumerate(typical):
            for name, amount in amounts:
                demands[number, names.index(name)] = amount
        demands[:, -1] = 1
        weights = np.array(list(typical.values()), dtype=np.int64)
        values = np.array([worth.get(name, 0) for name in names], dtype=np.int64)
        asks = (demands > 0) & (values > 0)
        kinds = [kind for kind in {tuple(row) for row in asks.tolist()} if any(kind)]
        by_kinds = tuple((np.flatnonzero(kind), np.flatnonzero((asks == kind).all(axis=1))) for kind in kinds)
        return cls(names, demands, weights, values, by_kinds)

    def fragments(self, free: Int64) -> Int64:
        """Return the fragments of nodes over all typical pods, int64 (rows,), given what is free, (names, rows)."""
        fits = np.ones((len(self.weights), free.shape[1]), dtype=np.bool_)
        for there, demands in zip(free, self.demands.T, strict=True):
            if (there < demands.max(initial=0)).any():
                fits &= there >= demands[:, None]
        found: Int64 = self.weights.sum() * (self.worth @ free)
        for places, pods in self.by_kinds:
            # Counted in floats, many times as fast as integers, and exact: weights are far below 2**53.
            fitting = (self.weights[pods].astype(np.float64) @ fits[pods]).astype(np.int64)
            found -= (self.worth[places] @ free[places]) * fitting
        return found

    def scores(self, free: Int64, taken: Int64, fragments: Int64) -> Scores:
        """Return minus what a pod that takes so much, (names,), adds to the fragments, in thousandths of a GPU."""
        if not len(self.weights):
            return np.zeros(free.shape[1], dtype=np.int64)
        added = self.fragments(free - taken[:, None]) - fragments
        found: Scores = -(added // self.weights.sum())
        return found


class Devices:
    """The free devices of GPU drivers on each node: those of their slices, less those that claims have."""

    __slots__ = (
        "_classes",
        "_held",
        "_node_of",
        "_objects",
        "_pending",
        "_published",
        "_taken",
        "_versions",
        "changes",
    )

    def __init__(self, classes: Sequence[GpuClass], objects: ObjectReader) -> None:
        self._classes = {each.name: each.driver for each in classes}
        self._objects = objects
        self._versions = (-1, -1)
        self._node_of: dict[tuple[str, str, str], str] = {}
        """By driver, pool and device."""
        self._published: dict[tuple[str, str], int] = {}
        """How many devices a driver has on a node."""
        self._taken: dict[tuple[str, str], int] = {}
        self._held: dict[str, list[tuple[str, str]]] = {}
        """Drivers and nodes of the devices that each claim has."""
        self._pending: dict[str, tuple[str, Mapping[str, int], tuple[str, ...]]] = {}
        """The nodes of pods whose claims are not seen allocated yet, with what they ask for and their claims' keys."""
        self.changes = 0
        """How often anything has changed that `free` depends on."""

    def follow(self) -> None:
        """Take in what has changed."""
        if not self._classes:
            return
        slices, claims = self._objects.version("ResourceSlice"), self._objects.version("ResourceClaim")
        if self._versions == (slices, claims):
            return
        self.changes += 1
        changed: Iterable[str] | None = None
        if self._versions[0] == slices:
            changed = self._objects.changed_since("ResourceClaim", self._versions[1])
        else:
            self._read_slices()
        if changed is None:
            self._taken.clear()
            self._held.clear()
            changed = [_key(claim) for claim in self._objects.list("ResourceClaim")]
        for key in dict.fromkeys(changed):
            self._take(key)
        self._versions = (slices, claims)
        for uid, (_, _, keys) in tuple(self._pending.items()):
            if all(self._is_allocated(key) for key in keys):
                del self._pending[uid]

    def free(self, class_name: str) -> dict[str, int]:
        """Return how many devices are free by node, of nodes that have any at all."""
        driver = self._classes[class_name]
        found = {
            node: count - self._taken.get((driver, node), 0)
            for (published_by, node), count in self._published.items()
            if published_by == driver
        }
        for node, wanted, _ in self._pending.values():
            if node in found:
                found[node] -= wanted.get(class_name, 0)
        return found

    def wanted(self, pod: PodInfo, *, also_allocated: bool = False) -> dict[str, int]:
        """Return how many devices of each class the pod's claims ask for that have none yet."""
        found: dict[str, int] = {}
        for key in self.claims_of(pod) if self._classes else ():
            claim = self._claim(key)
            if claim is None or (claim.status.allocation is not None and not also_allocated):
                continue
            for request in claim.spec.devices.requests:
                # Of alternatives the first is what the pod would like best.
                exact = request.exactly or next(iter(request.first_available), None)
                if exact is not None and exact.device_class_name in self._classes and not exact.admin_access:
                    found[exact.device_class_name] = found.get(exact.device_class_name, 0) + max(exact.count, 1)
        return found

    def claims_of(self, pod: PodInfo) -> tuple[str, ...]:
        """Return the keys of a pod's claims, as far as they have been made."""
        made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        names = [use.resource_claim_name or made.get(use.name) for use in pod.spec.resource_claims]
        return tuple(f"{pod.namespace}/{name}" for name in names if name)

    def reserve(self, pod: PodInfo, node_name: str) -> None:
        """Count what a pod will have on its node, until its claims show it."""
        wanted = self.wanted(pod)
        if wanted:
            self._pending[pod.uid] = (node_name, wanted, self.claims_of(pod))
            self.changes += 1

    def forget(self, uid: str) -> None:
        """Count on what claims show."""
        if self._pending.pop(uid, None) is not None:
            self.changes += 1

    def _claim(self, key: str) -> Any:
        namespace, _, name = key.partition("/")
        return self._objects.get("ResourceClaim", name, namespace)

    def _is_allocated(self, key: str) -> bool:
        claim = self._claim(key)
        return claim is None or claim.status.allocation is not None

    def _read_slices(self) -> None:
        self._node_of.clear()
        self._published.clear()
        drivers = set(self._classes.values())
        for each in self._objects.list("ResourceSlice"):
            spec = each.spec
            for device in spec.devices if spec.driver in drivers else ():
                node = spec.node_name or device.node_name
                if node and (spec.driver, spec.pool.name, device.name) not in self._node_of:
                    self._node_of[spec.driver, spec.pool.name, device.name] = node
                    self._published[spec.driver, node] = self._published.get((spec.driver, node), 0) + 1

    def _take(self, key: str) -> None:
        for place in self._held.pop(key, ()):
            self._taken[place] -= 1
        claim = self._claim(key)
        if claim is None or claim.status.allocation is None:
            return
        for result in claim.status.allocation.devices.results:
            node = self._node_of.get((result.driver, result.pool, result.device))
            if node is not None and not result.admin_access:
                place = (result.driver, node)
                self._held.setdefault(key, []).append(place)
                self._taken[place] = self._taken.get(place, 0) + 1


def differing(known: Int64, now: Int64) -> Rows | None:
    """Return where two arrays differ, and where most of them do, all rows up to the last; None where they do not."""
    rows = np.flatnonzero(known != now)
    return (rows if 2 * len(rows) < len(now) else slice(rows[-1] + 1)) if len(rows) else None


def _key(obj: Any) -> str:
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


class Kept(NamedTuple):
    """Scores by row of the table, and as of which version of each row."""

    scores: Scores
    versions: Int64


@final
class GpuFragmentation(
    ScorePlugin,
    ColumnScorePlugin,
    NormalizeScorePlugin,
    ReservePlugin,
    PodEventHandlerPlugin,
    PodUpdateHandlerPlugin,
    ScoreExplainingPlugin,
):
    """Score. Scores are kept by what pods take, and renewed for nodes where something has changed."""

    name: ClassVar[str] = "GpuFragmentation"
    args_type: ClassVar[type[msgspec.Struct]] = GpuFragmentationArgs
    promises: ClassVar[Promises] = Promises()

    def __init__(self, args: GpuFragmentationArgs, handle: Handle) -> None:
        self._worth = {each.name: round(each.gpus * MILLI) for each in args.resources}
        self._worth |= {each.name: round(each.gpus * MILLI) for each in args.device_classes}
        self._classes = tuple(each.name for each in args.device_classes)
        self._devices = Devices(args.device_classes, handle.objects)
        self._most = args.max_typical_pods
        self._learns = not args.typical_pods
        given: dict[Amounts, int] = {}
        for pod in args.typical_pods:
            read = {name: (milli_value if name == "cpu" else value)(text) for name, text in pod.requests.items()}
            amounts = amounts_of(read, pod.devices)
            given[amounts] = given.get(amounts, 0) + pod.weight
        self._expected = Expected.of(given, self._worth)
        self._epoch = 0
        """How often the typical pods have changed."""
        self._running: dict[str, Amounts] = {}
        """What each running pod takes that has GPUs, by uid."""
        self._changes = 0
        self._kept: dict[Amounts, Kept] = {}
        self._basis = (-1, -1, -1)
        """What everything that is kept goes by beside rows."""
        self._free = self._fragments = self._versions = np.zeros(0, dtype=np.int64)
        """What is free, (names, rows of the table), its fragments, (rows,), and as of which version of each row."""

    # -- which pods are typical --------------------------------------------------------------------------------------

    def pod_added(self, pod: PodInfo) -> None:
        """Count a pod that runs."""
        if pod.node_name and self._learns:
            amounts = amounts_of(pod.requests, self._devices.wanted(pod, also_allocated=True))
            known = self._running.get(pod.uid)
            if amounts != known and any(name in self._worth for name, _ in amounts):
                self._running[pod.uid] = amounts
                self._changes += 1

    def pod_updated(self, old: PodInfo, new: PodInfo) -> None:
        """Count a pod that runs now."""
        self.pod_added(new)

    def pod_removed(self, pod: PodInfo) -> None:
        """Forget a pod that is gone."""
        self._devices.forget(pod.uid)
        if self._running.pop(pod.uid, None) is not None:
            self._changes += 1

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Count the devices that a pod will get."""
        self._devices.reserve(pod, node_name)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Count them no more."""
        self._devices.forget(pod.uid)

    def _renew(self) -> None:
        """Take in claims, and the running pods once a tenth of them has changed."""
        self._devices.follow()
        if self._changes and self._changes * 10 >= len(self._running):
            self._changes = 0
            counts: dict[Amounts, int] = {}
            for amounts in self._running.values():
                counts[amounts] = counts.get(amounts, 0) + 1
            often = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: self._most]
            self._expected = Expected.of(dict(often), self._worth)
            self._epoch += 1

    # -- scores ------------------------------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return minus the fragments that the pod adds, in thousandths of a GPU."""
        self._renew()
        free = self._free_on(node)
        return int(self._expected.scores(free, self._taken(pod), self._expected.fragments(free))[0])

    def score_columns(self, state: CycleState, pod: PodInfo, table: NodeTable, rows: Rows) -> Scores:
        """Do the same for many rows; only those are computed where something has changed."""
        self._renew()
        self._look_at(table)
        shape = self._amounts(pod)
        kept = self._kept.pop(shape, None) or Kept(
            np.zeros_like(self._versions), np.where(table.valid, -1, self._versions)
        )
        if (changed := differing(kept.versions, self._versions)) is not None:
            free, fragments = self._free[:, changed], self._fragments[changed]
            kept.scores[changed] = self._expected.scores(free, self._taken(pod), fragments)
            kept.versions[changed] = self._versions[changed]
        self._kept[shape] = kept
        if len(self._kept) > KEPT_SHAPES:
            del self._kept[next(iter(self._kept))]  # that which was asked for longest ago
        return kept.scores[rows].copy()

    def _look_at(self, table: NodeTable) -> None:
        """Take in which rows have changed."""
        basis = self._epoch, self._devices.changes, table.capacity
        if basis != self._basis:
            self._basis = basis
            self._kept.clear()
            self._free = np.zeros((len(self._expected.names), table.capacity), dtype=np.int64)
            self._fragments = np.zeros(table.capacity, dtype=np.int64)
            self._versions = np.where(table.valid, -1, table.version)
        if (changed := differing(self._versions, table.version)) is not None:
            self._free[:, changed] = free = self._free_of(table, changed)
            self._fragments[changed] = self._expected.fragments(free)
            self._versions[changed] = table.version[changed]

    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """Stretch the scores over the nodes that are left."""
        return stretched(scores)

    def explain_score(self, pod: PodInfo, node: NodeView) -> Sequence[str]:
        """Return the node's expected fragments without the pod and with it, in GPUs."""
        self._renew()
        weight = int(self._expected.weights.sum())
        if not weight:
            return ["no pods are known yet that ask for GPUs, so no fragments are expected"]
        taken = self._taken(pod)
        without = self._free_on(node) + (taken[:, None] if pod.uid in node.pods else 0)
        before, after = (
            int(self._expected.fragments(free)[0]) / (weight * MILLI) for free in (without, without - taken[:, None])
        )
        free = int((without[:, 0] * self._expected.worth).sum()) / MILLI
        kinds = len(self._expected.weights)
        fragments = f"{before:.4g} of them are fragments to {kinds} kind(s) of typical pods on average"
        return [f"{free:.4g} GPUs are free; {fragments}, {after:.4g} once this pod is there"]

    def _free_on(self, node: NodeView) -> Int64:
        """Return what is free on a node, (names, 1)."""
        free = {name: amount - node.requested.get(name, 0) for name, amount in node.allocatable.items()}
        free |= {name: self._devices.free(name).get(node.name, 0) for name in self._classes}
        free[PODS] = node.allowed_pods - len(node.pods)
        return np.array([[free.get(name, 0)] for name in self._expected.names], dtype=np.int64)

    def _amounts(self, pod: PodInfo) -> Amounts:
        return amounts_of(pod.requests, self._devices.wanted(pod) if pod.spec.resource_claims else {})

    def _taken(self, pod: PodInfo) -> Int64:
        taken = dict(self._amounts(pod))
        taken[PODS] = 1
        return np.array([taken.get(name, 0) for name in self._expected.names], dtype=np.int64)

    def _free_of(self, table: NodeTable, rows: Rows) -> Int64:
        """Return what is free, (names, rows)."""
        found = np.zeros((len(self._expected.names), len(table.valid[rows])), dtype=np.int64)
        for place, name in enumerate(self._expected.names):
            index = table.resource_index.get(name)
            if name == PODS:
                found[place] = table.allowed_pods[rows] - table.pod_count[rows]
            elif name in self._classes:
                found[place] = self._free_devices(name, table)[rows]
            elif index is not None:
                found[place] = table.allocatable[index][rows] - table.requested[index][rows]
        return found

    def _free_devices(self, name: str, table: NodeTable) -> Int64:
        column = np.zeros(table.capacity, dtype=np.int64)
        for node_name, count in self._devices.free(name).items():
            if (row := table.row_of.get(node_name)) is not None:
                column[row] = count
        return column
