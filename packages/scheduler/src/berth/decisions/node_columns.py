"""All nodes as columns: what each has, how much of it is requested, and its pool and zone.

Computed from the node table's columns, for the page and `berth top`, via the scheduler's `/debug/nodes`; a cluster in
memory is shown in the same way. Copying the columns is all that happens between two cycles (`copy_columns`); the rest
is done on the copy (`Copied.columns`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.api.pod_resources import CPU, PODS
from berth.api.pools import pool_of
from berth.state.table import NodeTable

MAX_NODES = 20_000
"""How many nodes are returned; a picture of more would show nothing."""
MAX_RESOURCES = 24
"""How many resources are returned: cpu, memory and those that most nodes have."""
ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


class NodeGroups(msgspec.Struct, frozen=True, rename="camel"):
    """Which of these groups each node or pod belongs to; the empty name stands for none."""

    names: tuple[str, ...]
    of: list[int]
    """For each node, an index into `names`."""


class ResourceAmounts(msgspec.Struct, frozen=True, rename="camel"):
    """One resource on each node: `cpu` in thousandths, everything else in whole units (bytes, pieces)."""

    name: str
    allocatable: list[int]
    requested: list[int]


class NodeColumns(msgspec.Struct, frozen=True, rename="camel"):
    """All nodes, in the order of their names; every list has an element for each."""

    names: list[str]
    pools: NodeGroups
    zones: NodeGroups
    resources: tuple[ResourceAmounts, ...]
    pods: list[int]
    allowed_pods: list[int]
    unschedulable: list[bool]
    """Whether the node is cordoned."""
    tainted: list[bool]
    """Whether it has a taint that keeps pods away (NoSchedule, NoExecute), other than the one for cordoning."""
    total: int
    """How many nodes there are, even if not all are returned."""
    scarcest: tuple[str, ...] = ()
    """For each of `pools.names`, the resource of which most is requested there, such as GPUs."""

    def levels(self, scarcest: Mapping[str, str]) -> list[float | None]:
        """What part of its pool's scarcest resource is requested on each node; None if it has none of it."""
        amounts = {each.name: (each.requested, each.allocatable) for each in self.resources}
        found = []
        for at, pool in enumerate(self.pools.of):
            requested, has = amounts.get(scarcest.get(self.pools.names[pool], CPU), amounts[CPU])
            found.append(requested[at] / has[at] if has[at] > 0 else None)
        return found

    @property
    def scarcest_by_pool(self) -> dict[str, str]:
        """The same by the pool's name."""
        return dict(zip(self.pools.names, self.scarcest, strict=False))


class Copied(NamedTuple):
    """A copy from the node table that no longer changes."""

    nodes: Sequence[Node]
    resources: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    pods: NDArray[np.int64]
    allowed_pods: NDArray[np.int64]
    unschedulable: NDArray[np.bool_]
    total: int

    def columns(self) -> NodeColumns:
        """All of it as lists. Takes a few milliseconds for 5,000 nodes."""
        labels = [node.metadata.labels for node in self.nodes]
        pools, shown = grouped([pool_of(of) for of in labels]), _shown(self.resources)
        return NodeColumns(
            names=[node.metadata.name for node in self.nodes],
            pools=pools,
            zones=grouped([first_of(of, ZONE_LABELS) for of in labels]),
            resources=tuple(
                ResourceAmounts(name, has.tolist(), requested.tolist()) for name, (has, requested) in shown.items()
            ),
            pods=self.pods.tolist(),
            allowed_pods=self.allowed_pods.tolist(),
            unschedulable=self.unschedulable.tolist(),
            tainted=[_is_tainted(node) for node in self.nodes],
            total=self.total,
            scarcest=tuple(_scarcest(shown, pools)),
        )


def copy_columns(table: NodeTable, max_nodes: int = MAX_NODES) -> Copied:
    """Copy what is to be returned; call it between two cycles."""
    rows = sorted(table.rows().tolist(), key=table.names.__getitem__)
    kept = np.array(rows[:max_nodes], dtype=np.intp)
    return Copied(
        nodes=[table.node(row) for row in kept.tolist()],
        resources={
            name: (table.allocatable[index][kept], table.requested[index][kept])
            for name, index in table.resource_index.items()
        },
        pods=table.pod_count[kept],
        allowed_pods=table.allowed_pods[kept],
        unschedulable=table.unschedulable[kept],
        total=len(rows),
    )


def _shown(
    resources: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """CPU and memory, then the resources that some node has, those of most nodes first."""
    counts = {name: int(np.count_nonzero(has)) for name, (has, _) in resources.items()}
    order = sorted(counts, key=lambda name: (name not in ("cpu", "memory"), -counts[name], name))
    wanted = [name for name in order if counts[name] or name in ("cpu", "memory")][:MAX_RESOURCES]
    return {name: resources[name] for name in wanted}


def _scarcest(resources: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]], pools: NodeGroups) -> Iterator[str]:
    """Yield for each pool the resource with the largest requested part, CPU if nothing is requested."""
    of = np.array(pools.of, dtype=np.intp)
    for pool in range(len(pools.names)):
        inside, most, scarcest = of == pool, 0.0, CPU
        for name, (has, requested) in resources.items():
            whole = int(has[inside].sum())
            if whole and int(requested[inside].sum()) / whole > most:
                most, scarcest = int(requested[inside].sum()) / whole, name
        yield scarcest


def first_of(labels: Mapping[str, str], keys: Sequence[str]) -> str:
    """Return the value of the first of these labels that is present; empty if none is."""
    return next((labels[key] for key in keys if key in labels), "")


def grouped(values: Sequence[str]) -> NodeGroups:
    """Return each value once, and for each element which of them it has."""
    names = sorted(set(values))
    index_of = {name: index for index, name in enumerate(names)}
    return NodeGroups(tuple(names), [index_of[value] for value in values])


def _is_tainted(node: Node) -> bool:
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and taint.key != "node.kubernetes.io/unschedulable"
        for taint in node.spec.taints
    )


def utilisation(table: NodeTable, rows: NDArray[np.intp]) -> dict[str, float]:
    """Return by resource what the pods of these nodes request together, as a share of what the nodes have together.

    `pods` is the number of pods, as a share of how many the nodes take. Resources that none of the nodes has are left
    out.
    """
    found = {}
    for resource, index in sorted(table.resource_index.items()):
        total = int(table.allocatable[index, rows].sum())
        if total:
            found[resource] = int(table.requested[index, rows].sum()) / total
    slots = int(table.allowed_pods[rows].sum())
    return found | ({PODS: int(table.pod_count[rows].sum()) / slots} if slots else {})
