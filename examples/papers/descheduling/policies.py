"""What three policies of Kubernetes' descheduler evict, as its documentation describes them, in a few lines each.

They look at requests, and know nothing of where the scheduler will put what they evict. Each takes a cluster and
returns the pods that it evicts in one round.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import berth

Cluster = Mapping[str, list[str]]
"""The pods of each node, youngest last."""
RESOURCES = ("cpu", "memory")


class Usage:
    """What a node's pods request, and what share of its CPU and memory that is."""

    def __init__(self, scheduler: berth.Scheduler) -> None:
        nodes, pods = scheduler.nodes(), scheduler.pods()
        self._whole = {name: [nodes[each][at] for each in RESOURCES] for at, name in enumerate(nodes["node"])}
        self._used = {
            name: [nodes[f"{each} requested"][at] for each in RESOURCES] for at, name in enumerate(nodes["node"])
        }
        keys = (f"{namespace}/{pod}" for namespace, pod in zip(pods["namespace"], pods["pod"], strict=True))
        self.of = {key: [pods[each][at] for each in RESOURCES] for at, key in enumerate(keys)}
        """What each pod requests."""

    @property
    def shares(self) -> dict[str, list[float]]:
        """By node, the share of each resource that is requested."""
        return {
            name: [used / whole for used, whole in zip(self._used[name], self._whole[name], strict=True)]
            for name in self._whole
        }

    def take(self, pod: str, node: str) -> None:
        """Count a pod no more."""
        self._used[node] = [used - part for used, part in zip(self._used[node], self.of[pod], strict=True)]

    def room(self, nodes: Sequence[str], upto: float) -> list[float]:
        """Return how much these nodes may still take of each resource until that share of them is requested."""
        return [sum(upto * self._whole[node][at] - self._used[node][at] for node in nodes) for at in range(2)]


def low_node_utilization(scheduler: berth.Scheduler, cluster: Cluster, low: float, high: float) -> list[str]:
    """Evict from nodes above `high` of any resource, as much as nodes below `low` of all may take until `high`."""
    usage = Usage(scheduler)
    under = [name for name, shares in usage.shares.items() if max(shares) < low]
    over = [name for name, shares in usage.shares.items() if max(shares) > high]
    room, evicted = usage.room(under, high), []
    for node in sorted(over, key=lambda name: -sum(usage.shares[name])):
        for pod in reversed(cluster[node]):
            if max(usage.shares[node]) <= high or min(room) <= 0:
                break
            evicted.append(pod)
            usage.take(pod, node)
            room = [left - part for left, part in zip(room, usage.of[pod], strict=True)]
    return evicted


def high_node_utilization(scheduler: berth.Scheduler, cluster: Cluster, low: float) -> list[str]:
    """Evict from nodes below `low` of all resources, as much as the other nodes have room for."""
    usage = Usage(scheduler)
    under = [name for name, shares in usage.shares.items() if 0 < max(shares) < low]
    room, evicted = usage.room([name for name in usage.shares if name not in under and cluster[name]], 1.0), []
    for node in sorted(under, key=lambda name: sum(usage.shares[name])):
        for pod in reversed(cluster[node]):
            if any(part > left for part, left in zip(usage.of[pod], room, strict=True)):
                break
            evicted.append(pod)
            room = [left - part for left, part in zip(room, usage.of[pod], strict=True)]
    return evicted


def remove_duplicates(cluster: Cluster, owner_of: Mapping[str, str]) -> list[str]:
    """Evict what a workload has on a node beyond its even share of the nodes, where it has several pods there."""
    total: defaultdict[str, int] = defaultdict(int)
    for pods in cluster.values():
        for pod in pods:
            total[owner_of[pod]] += 1
    evicted = []
    for pods in cluster.values():
        here: defaultdict[str, list[str]] = defaultdict(list)
        for pod in pods:
            here[owner_of[pod]].append(pod)
        for owner, its_pods in here.items():
            if len(its_pods) > 1:
                evicted += its_pods[-(-total[owner] // len(cluster)) :]
    return evicted
