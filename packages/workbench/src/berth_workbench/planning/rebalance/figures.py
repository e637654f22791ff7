"""A cluster in figures, before and after a plan."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from berth.api.pod import Pod
from berth.api.pod_resources import CPU
from berth.core.core import Core
from berth_workbench.planning.rebalance.board import Rules
from berth_workbench.planning.rebalance.plan import Balance, NodeFill
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.measures import Shape, fragmentation, is_pending, used_rows

FILLS = 60
"""At most so many nodes are told one by one."""


def balance_of(
    cluster: SimulatedCluster,
    nodes: Sequence[str],
    prices: Mapping[str, float],
    requests: Mapping[Shape, int],
    rules: Rules,
) -> Balance:
    """Measure the considered nodes as they are now; `requests` is what free CPU is to be of use for.

    `rules` are those of the cluster's running pods.
    """
    core = cluster.core
    table = core.cache.table
    rows = np.array([table.row_of[name] for name in nodes], dtype=np.intp)
    used = np.isin(rows, used_rows(table))
    allocatable = table.allocatable[:2, rows].astype(np.float64)
    requested = table.requested[:2, rows].astype(np.float64)
    has = np.maximum(allocatable, 1)
    shares = requested / has
    mean = requested.sum(axis=1) / np.maximum(allocatable.sum(axis=1), 1)
    of_used = requested[:, used].sum(axis=1) / np.maximum(allocatable[:, used].sum(axis=1), 1)
    return Balance(
        nodes=len(rows),
        nodes_used=int(used.sum()),
        cost=round(sum(prices[name] for name, is_used in zip(nodes, used.tolist(), strict=True) if is_used), 3),
        cpu=round(float(of_used[0]), 4),
        memory=round(float(of_used[1]), 4),
        highest=round(float(shares.max(initial=0.0)), 4),
        deviation=round(float(np.sqrt(((shares - mean.reshape(2, 1)) ** 2).mean())) if len(rows) else 0.0, 4),
        fragmentation=round(fragmentation(table, requests, rows).get(CPU, 0.0), 4),
        violations=len(rules.broken()),
        pending=len(pending_keys(cluster)),
    )


def fills_of(core: Core, nodes: Iterable[str]) -> dict[str, tuple[float, float, int]]:
    """Return the shares of CPU and memory that are requested, and the pods, of each node."""
    table = core.cache.table
    found = {}
    for name in nodes:
        row = table.row_of[name]
        cpu, memory = (
            round(int(table.requested[at, row]) / max(1, int(table.allocatable[at, row])), 4) for at in (0, 1)
        )
        found[name] = cpu, memory, int(table.pod_count[row])
    return found


def fills_between(
    before: Mapping[str, tuple[float, float, int]], after: Mapping[str, tuple[float, float, int]]
) -> tuple[NodeFill, ...]:
    """Return the nodes side by side: all where they are few, else those that change."""
    names = sorted(before)
    if len(names) > FILLS:
        names = [name for name in names if before[name] != after[name]][:FILLS]
    return tuple(
        NodeFill(
            name,
            cpu_before=before[name][0],
            cpu_after=after[name][0],
            memory_before=before[name][1],
            memory_after=after[name][1],
            pods_before=before[name][2],
            pods_after=after[name][2],
        )
        for name in names
    )


def running_uids(cluster: SimulatedCluster) -> dict[str, str]:
    """Return the uids of the pods on nodes, by `namespace/name`."""
    return {state.pod.key: uid for uid, state in cluster.core.cache.states().items()}


def pending_keys(cluster: SimulatedCluster) -> list[str]:
    """Return the pods that have no node and are this scheduler's, sorted."""
    profiles = cluster.core.profiles
    return sorted(pod.key for pod in cluster.of(Pod) if is_pending(pod) and pod.spec.scheduler_name in profiles)
