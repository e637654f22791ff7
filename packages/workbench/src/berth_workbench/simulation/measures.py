"""The measures that people argue about, computed from a cluster's columns: pure functions, and `measure` for them all.

Shares are between 0 and 1. Capacity is that of the nodes that exist, cordoned ones included; free capacity is that of
the nodes that pods may be scheduled on. Pods of DaemonSets, and mirror pods of a node's own manifests, follow their
nodes wherever those are: they are in what is requested, but they neither use a node nor say what pods usually ask for.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.meta import ObjectMeta
from berth.api.pod import Pod
from berth.api.pod_resources import CPU, MEMORY
from berth.api.pools import pool_of
from berth.decisions.node_columns import utilisation
from berth.plugins.resources.names import is_extended
from berth.state.node_tree import zone_of
from berth.state.pod_info import PodInfo, PodShape
from berth.state.table import NodeTable
from berth_workbench.simulation.budgets import follows_its_node, is_active
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.prices import Prices

Rows = NDArray[np.intp]
NameOf = Callable[[Mapping[str, str]], str]

MAX_REQUEST_SHAPES = 64
"""Fragmentation asks for the most common request shapes only, since each costs a look at all nodes."""


class WorkloadSpread(msgspec.Struct, frozen=True, rename="camel"):
    """How evenly workloads' replicas are spread over domains (zones, or nodes).

    A workload is what one controller owns, with at least two replicas that run. Its skew is as in
    PodTopologySpread: the number in the fullest domain less that in the emptiest. Its evenness is the entropy of the
    distribution over the domains, divided by that of the most even distribution of as many replicas.
    """

    workloads: int
    max_skew: int
    mean_skew: float
    evenness: float
    """The mean over the workloads; 1 is as even as can be, 0 has every workload in one domain."""
    worst: str
    """The least even workload, as `namespace/kind/name`."""


class WaitingTimes(msgspec.Struct, frozen=True, rename="camel"):
    """How long pods waited for a node, in seconds; a percentile is the smallest time that so many are within."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


class Measures(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster in figures; see the functions of this module for what each means."""

    nodes: int
    nodes_used: int
    pods: int
    """Those that have a node."""
    pending: int
    preemptions: int
    utilisation: dict[str, float]
    """By resource."""
    packing: dict[str, float]
    """By resource, the utilisation of the nodes that are used."""
    fragmentation: dict[str, float]
    """By resource."""
    spread: dict[str, WorkloadSpread]
    """Over `zone` and `node`, as far as there are several of them."""
    utilisation_by_zone: dict[str, dict[str, float]]
    utilisation_by_pool: dict[str, dict[str, float]]
    fairness: float | None
    cost: float | None = None
    """None without prices."""
    unpriced_nodes: int = 0
    """Used nodes that no price is known for; they are missing from the cost."""
    waiting: WaitingTimes | None = None
    evicted_again_and_again: int = 0
    """How many pods would come back and be evicted again and again by the same other pod."""


def measure(
    cluster: SimulatedCluster,
    *,
    prices: Prices | None = None,
    pool_label: str = "",
    waited_s: Sequence[float] | None = None,
) -> Measures:
    """Return all measures of a cluster as it is now. `waited_s` is how long each pod waited, where time runs."""
    table = cluster.core.cache.table
    rows, pending = table.rows(), pending_pods(cluster)
    waiting = [cluster.core.intake.info(pod) for pod in pending]
    pods = placed(table)
    used = used_rows(table, pods)
    cost, unpriced = cost_of(table, used, prices) if prices is not None else (None, 0)
    zones, pools = rows_by_zone(table), rows_by_pool(table, pool_label)
    return Measures(
        nodes=len(rows),
        nodes_used=len(used),
        pods=int(table.pod_count[rows].sum()),
        pending=len(pending),
        preemptions=len(cluster.evictions),
        utilisation=utilisation(table, rows),
        packing=utilisation(table, used),
        fragmentation=fragmentation(table, usual_requests(table, waiting, pods)),
        spread=spreads(table, zones, pods),
        utilisation_by_zone={zone: utilisation(table, some) for zone, some in zones.items()},
        utilisation_by_pool={pool: utilisation(table, some) for pool, some in pools.items()},
        fairness=jain_index(dominant_shares(table, waiting, pods).values()),
        cost=cost,
        unpriced_nodes=unpriced,
        waiting=None if waited_s is None else waiting_times(waited_s),
        evicted_again_and_again=len({pod for pod, _ in cluster.circles}),
    )


# -- nodes and pods --------------------------------------------------------------------------------------------------


def is_pending(pod: Pod) -> bool:
    """Say whether a pod has no node and still wants one."""
    return not pod.spec.node_name and is_active(pod)


def pending_pods(cluster: SimulatedCluster) -> list[Pod]:
    """Return the pods that are pending, by name; the others are not looked at."""
    return [pod for pod in cluster.without_node if is_pending(pod)]


def controller_of(metadata: ObjectMeta) -> tuple[str, str]:
    """Return kind and name of the controller that owns an object, empty where none does."""
    return next(((each.kind, each.name) for each in metadata.owner_references if each.controller), ("", ""))


NOWHERE = -1
"""The zone of a node that has none."""
Placed = list[tuple[PodInfo, list[int]]]
"""The pods that `placed` returns. It looks at every pod, so who needs them several times hands them on."""


def placed(table: NodeTable) -> Placed:
    """Return the pods on nodes that exist, but for those that follow their nodes: of each shape one, and all rows.

    Namespace, owners and requests are the shape's, so that who counts pods by these looks at some thousand shapes.
    """
    found: dict[PodShape, tuple[PodInfo, list[int]]] = {}
    for row in table.rows().tolist():
        for pod in table.pods[row].values():
            if pod.metadata.annotations and follows_its_node(pod.pod):  # annotations are no part of a shape
                continue
            alike = found.get(pod.shape)
            if alike is None:
                found[pod.shape] = (pod, [row])
            else:
                alike[1].append(row)
    return [each for each in found.values() if not follows_its_node(each[0].pod)]


def used_rows(table: NodeTable, pods: Placed | None = None) -> Rows:
    """Return the rows of the nodes that run a pod which does not follow its node."""
    return np.array(sorted({row for _, rows in pods or placed(table) for row in rows}), dtype=np.intp)


def rows_by_zone(table: NodeTable) -> dict[str, Rows]:
    """Return the nodes of each zone, by the zone's label; those without one are under the empty string."""
    return _grouped(table, lambda labels: zone_of(labels)[1])


def rows_by_pool(table: NodeTable, label: str = "") -> dict[str, Rows]:
    """Return the nodes of each pool; see `pool_of`."""
    return _grouped(table, lambda labels: pool_of(labels, label))


def rows_by_label(table: NodeTable, label: str) -> dict[str, Rows]:
    """Return the nodes of each value of a label; those without it are left out."""
    found = _grouped(table, lambda labels: labels.get(label) or "")
    found.pop("", None)
    return found


def _grouped(table: NodeTable, name_of: NameOf) -> dict[str, Rows]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in table.rows().tolist():
        found[name_of(table.node(row).metadata.labels)].append(row)
    return {name: np.array(found[name], dtype=np.intp) for name in sorted(found)}


def told_resources(names: Iterable[str]) -> list[str]:
    """Return the resources whose figures stand side by side: CPU, memory, and what Kubernetes does not define itself.

    The last are what is scarce where there are any, such as GPUs. Whatever else nodes have, room on their disks for
    one, stands only where everything does.
    """
    known = set(names)
    return [*(name for name in (CPU, MEMORY) if name in known), *sorted(filter(is_extended, known))]


# -- capacity --------------------------------------------------------------------------------------------------------


Shape = tuple[tuple[str, int], ...]
"""What a pod requests, by name of the resource."""


def usual_requests(table: NodeTable, pending: Iterable[PodInfo] = (), pods: Placed | None = None) -> dict[Shape, int]:
    """Return how many pods, running and pending, request what: the most common shapes of requests, of pods with any."""
    counts: Counter[Shape] = Counter()
    shapes: dict[int, Shape] = {}
    for pod, count in (*((pod, len(rows)) for pod, rows in pods or placed(table)), *((pod, 1) for pod in pending)):
        key = id(pod.requests)  # which most shapes of a DaemonSet's pods, for one, have in common
        shape = shapes.get(key)
        if shape is None:
            shape = shapes[key] = tuple(sorted((name, amount) for name, amount in pod.requests.items() if amount))
        if shape:
            counts[shape] += count
    common = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return dict(common[:MAX_REQUEST_SHAPES])


def fragmentation(table: NodeTable, requests: Mapping[Shape, int], among: Rows | None = None) -> dict[str, float]:
    """Return by resource the share of what is free that is of no use to the pods which usually ask for the resource.

    Take one of `requests` at random, among those that ask for the resource, as often as each occurs: what is free on
    nodes where it does not fit, for want of this resource or of another, is stranded for it. The result is the expected
    share; 0 where all free capacity can be used, 1 where none can. Only requests are looked at. This is the measure of
    Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), for every resource instead of GPUs alone, and relative to
    what is free. A resource that nobody asks for, or of which nothing is free, is left out, and so are cordoned nodes.

    Two states of a cluster can only be compared by the same `requests`. `among` is for some of the nodes.
    """
    rows = np.flatnonzero(table.valid & ~table.unschedulable)
    if among is not None:
        rows = np.intersect1d(rows, among)
    index_of = table.resource_index
    free = np.maximum(table.allocatable[:, rows] - table.requested[:, rows], 0)
    has_slot = table.pod_count[rows] < table.allowed_pods[rows]
    stranded: defaultdict[str, float] = defaultdict(float)
    askers: Counter[str] = Counter()
    for shape, count in requests.items():
        fits = has_slot.copy()
        for resource, amount in shape:
            fits &= free[index_of[resource]] >= amount if resource in index_of else np.False_
        for resource, _ in shape:
            if resource in index_of:
                askers[resource] += count
                stranded[resource] += count * float(free[index_of[resource]][~fits].sum())
    totals = {resource: float(free[index_of[resource]].sum()) for resource in sorted(askers)}
    return {name: stranded[name] / (askers[name] * total) for name, total in totals.items() if total}


def stranded(table: NodeTable, requests: Mapping[Shape, int]) -> dict[str, tuple[int, dict[str, int]]]:
    """Return by extended resource how much is free, and on which nodes how much of it is stranded.

    That is what none of `requests` that ask for the resource could have, since the node has too little left of CPU,
    memory or anything else; that there is too little of the resource itself strands nothing. Cordoned nodes do not
    count.
    """
    rows = np.flatnonzero(table.valid & ~table.unschedulable)
    index_of, found = table.resource_index, {}
    free = np.maximum(table.allocatable[:, rows] - table.requested[:, rows], 0)
    slots = np.maximum(table.allowed_pods[rows] - table.pod_count[rows], 0)
    for name in filter(is_extended, sorted(index_of)):
        usable = np.zeros(len(rows), dtype=np.int64)
        askers = [dict(shape) for shape in requests if name in dict(shape)]
        for shape in askers:
            pods = slots
            for resource, amount in shape.items():
                if resource != name:
                    pods = np.minimum(pods, free[index_of[resource]] // amount if resource in index_of else 0)
            usable = np.maximum(usable, pods * shape[name])
        left = np.maximum(free[index_of[name]] - usable, 0) if askers else np.zeros_like(usable)
        nodes = {table.names[rows[at]]: int(left[at]) for at in np.flatnonzero(left).tolist()}
        found[name] = (int(free[index_of[name]].sum()), nodes)
    return found


def cost_of(table: NodeTable, rows: Rows, prices: Prices) -> tuple[float, int]:
    """Return what these nodes cost together, and how many of them have no price."""
    found = [prices.of(table.node(row)) for row in rows.tolist()]
    return math.fsum(price for price in found if price is not None), found.count(None)


# -- spread ----------------------------------------------------------------------------------------------------------


def spreads(table: NodeTable, zones: Mapping[str, Rows], pods: Placed | None = None) -> dict[str, WorkloadSpread]:
    """Return how workloads are spread over zones and nodes, where there are several zones, and several nodes."""
    workloads: defaultdict[str, list[int]] = defaultdict(list)
    for pod, on_rows in pods or placed(table):
        kind, name = controller_of(pod.metadata)
        if kind:
            workloads[f"{pod.namespace}/{kind}/{name}"] += on_rows
    replicas = {name: rows for name, rows in workloads.items() if len(rows) > 1}
    named = [name for name in zones if name]
    zone_of_row = [NOWHERE] * table.capacity
    for number, name in enumerate(named):
        for row in zones[name].tolist():
            zone_of_row[row] = number
    nodes = list(range(table.capacity))  # all rows that have pods here are those of nodes
    found = {"zone": _spread(replicas, zone_of_row, len(named)), "node": _spread(replicas, nodes, len(table))}
    return {over: spread for over, spread in found.items() if spread is not None}


def _spread(replicas: Mapping[str, Sequence[int]], domain_of: Sequence[int], domains: int) -> WorkloadSpread | None:
    if domains < 2:
        return None
    skews: dict[str, int] = {}
    even: dict[str, float] = {}
    known: dict[tuple[int, ...], float] = {}
    for name, rows in replicas.items():
        by_domain = Counter(map(domain_of.__getitem__, rows))
        by_domain.pop(NOWHERE, None)
        counts = tuple(sorted(by_domain.values()))
        if sum(counts) > 1:
            skews[name] = counts[-1] - (counts[0] if len(counts) == domains else 0)
            if counts not in known:
                known[counts] = evenness(counts, domains)
            even[name] = known[counts]
    if not skews:
        return None
    return WorkloadSpread(
        workloads=len(skews),
        max_skew=max(skews.values()),
        mean_skew=sum(skews.values()) / len(skews),
        evenness=math.fsum(even.values()) / len(even),
        worst=min(even, key=lambda name: (even[name], name)),
    )


def evenness(counts: Sequence[int], domains: int) -> float:
    """Return the entropy of a distribution over domains, divided by the largest that as many can have.

    `counts` has the domains that are not empty; there are at least two to be distributed, and two domains.
    """
    total = sum(counts)
    each, more = divmod(total, domains)
    best = _entropy([each + 1] * more + [each] * (domains - more if each else 0), total)
    return min(_entropy(counts, total) / best, 1.0)


def _entropy(counts: Sequence[int], total: int) -> float:
    return -math.fsum(count / total * math.log(count / total) for count in sorted(counts))


# -- fairness and time -----------------------------------------------------------------------------------------------


def dominant_shares(table: NodeTable, pending: Iterable[PodInfo] = (), pods: Placed | None = None) -> dict[str, float]:
    """Return by namespace its dominant share: the largest share that its pods have of any resource of the cluster.

    Namespaces whose pods are all pending have none of anything; those whose pods request nothing are left out. Source:
    Ghodsi et al., "Dominant Resource Fairness" (NSDI 2011).
    """
    requested: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pending:
        if any(pod.requests.values()):
            requested[pod.namespace]  # which makes an entry
    for pod, on_rows in pods or placed(table):
        if any(pod.requests.values()):
            sums = requested[pod.namespace]
            for name, amount in pod.requests.items():
                sums[name] += amount * len(on_rows)
    rows = table.rows()
    totals = {name: int(table.allocatable[index, rows].sum()) for name, index in table.resource_index.items()}
    return {
        namespace: max((amount / totals[name] for name, amount in sums.items() if totals.get(name)), default=0.0)
        for namespace, sums in sorted(requested.items())
    }


def jain_index(shares: Iterable[float]) -> float | None:
    """Return Jain's index of some shares: 1 where all are equal, 1/n where one of n has everything; None for none.

    Source: Jain, Chiu and Hawe, DEC research report TR-301 (1984).
    """
    known = list(shares)
    squares = len(known) * math.fsum(share * share for share in known)
    if not squares:
        return 1.0 if known else None
    return math.fsum(known) ** 2 / squares


def waiting_times(seconds: Sequence[float]) -> WaitingTimes | None:
    """Return waiting times in figures; None where nobody waited for anything."""
    if not len(seconds):
        return None
    ordered = np.sort(np.asarray(seconds, dtype=np.float64))

    def within(share: float) -> float:
        return float(ordered[max(math.ceil(share * len(ordered)), 1) - 1])

    return WaitingTimes(
        count=len(ordered),
        mean=math.fsum(ordered.tolist()) / len(ordered),
        p50=within(0.5),
        p90=within(0.9),
        p99=within(0.99),
        max=float(ordered[-1]),
    )


# -- as plain numbers ------------------------------------------------------------------------------------------------

HIGHER, LOWER, NEITHER = 1, -1, 0
EVICTED_AGAIN_AND_AGAIN: Final = "evictedAgainAndAgain"
"""The name of a figure that is left out where there is nothing to tell."""
_BETTER: Final[Mapping[str, int]] = MappingProxyType(
    {
        "nodesUsed": LOWER,
        "pods": HIGHER,
        "pending": LOWER,
        "pendingMean": LOWER,
        "neverPlaced": LOWER,
        "bound": HIGHER,
        "preemptions": LOWER,
        EVICTED_AGAIN_AND_AGAIN: LOWER,
        "packing": HIGHER,
        "utilisation": HIGHER,
        "fragmentation": LOWER,
        "maxSkew": LOWER,
        "meanSkew": LOWER,
        "evenness": HIGHER,
        "fairness": HIGHER,
        "cost": LOWER,
        "waiting": LOWER,
    }
)


def figures(measures: Measures) -> dict[str, float]:
    """Return the measures as plain numbers by dotted name, such as `utilisation.cpu` or `spread.zone.maxSkew`.

    What is not known is left out, and so is what differs by zone or pool.
    """
    found: dict[str, float] = {
        "nodes": measures.nodes,
        "nodesUsed": measures.nodes_used,
        "pods": measures.pods,
        "pending": measures.pending,
        "preemptions": measures.preemptions,
    }
    if measures.evicted_again_and_again:
        found[EVICTED_AGAIN_AND_AGAIN] = measures.evicted_again_and_again
    shares = {
        "utilisation": measures.utilisation,
        "packing": measures.packing,
        "fragmentation": measures.fragmentation,
    }
    for name, by_resource in shares.items():
        found |= {f"{name}.{resource}": share for resource, share in by_resource.items()}
    for over, spread in measures.spread.items():
        found |= {
            f"spread.{over}.maxSkew": spread.max_skew,
            f"spread.{over}.meanSkew": spread.mean_skew,
            f"spread.{over}.evenness": spread.evenness,
        }
    known = {"fairness": measures.fairness, "cost": measures.cost}
    found |= {name: value for name, value in known.items() if value is not None}
    if measures.waiting is not None:
        times = msgspec.structs.asdict(measures.waiting)
        found |= {f"waiting.{name}": seconds for name, seconds in times.items() if name != "count"}
    return found


def better(name: str) -> int:
    """Return which way a figure is better by its dotted name: `HIGHER`, `LOWER`, or `NEITHER` where that depends."""
    parts = name.split(".")
    return _BETTER.get(parts[0], _BETTER.get(parts[-1], NEITHER))
