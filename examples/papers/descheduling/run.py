"""Descheduling: `berth rebalance` against three policies of Kubernetes' descheduler, by what an eviction buys.

A cluster has grown by a few nodes, and lost a part of its pods, so that it is unevenly full. The descheduler's policies
evict pods and leave it to the scheduler where these go; `berth rebalance` evicts one when it is proven where that goes.

    python run.py --seeds 10
"""

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from common import arguments, draw, table, told
from policies import Usage, high_node_utilization, low_node_utilization, remove_duplicates

import berth
from berth_workbench.lab.asking import ask

MOST_ALLOCATED = Path(__file__).parent / "most-allocated.yaml"
OLD, NEW, CPU, MEMORY = 6, 4, 16, 64
"""Nodes before and after, and the CPUs and GiB of each."""
WORKLOADS, FILLED, GONE = 14, 0.9, 0.35
"""So many workloads fill the old nodes so far, and that share of their pods is gone again."""
ROUNDS = 5
LOW, HIGH = 0.3, 0.55
"""The descheduler's thresholds: below `LOW` a node is underutilized, above `HIGH` overutilized."""


def node_manifest(name: str) -> dict[str, object]:
    """Return a node as a manifest."""
    capacity = {"cpu": str(CPU), "memory": f"{MEMORY}Gi", "pods": "110"}
    status = {"capacity": capacity, "allocatable": capacity}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name}, "status": status}


class World:
    """A cluster whose workloads replace what is evicted."""

    def __init__(self, seed: int, config: Path | None = None) -> None:
        self.scheduler, self.owner_of, self._made, self.evictions = berth.Scheduler(config, seed=seed), {}, 0, 0
        self.sizes: dict[str, tuple[int, int]] = {}
        lots = random.Random(seed)
        self.scheduler.add(*(node_manifest(f"n{number}") for number in range(OLD)))
        asked = 0.0
        while asked < FILLED * OLD * CPU * 1000:
            owner = f"w{self._made % WORKLOADS}"
            size = (100 * lots.randrange(5, 30), 256 * lots.randrange(2, 40))
            cpu, _ = self.sizes.setdefault(owner, size)
            self.create(owner)
            asked += cpu
        self.scheduler.schedule_all()
        for pod in sorted(self.owner_of):
            if lots.random() < GONE or self.scheduler.placements[pod] is None:
                self._remove(pod)
        self.scheduler.add(*(node_manifest(f"n{number}") for number in range(OLD, OLD + NEW)))

    def objects(self) -> list[dict[str, object]]:
        """Return the nodes, and the pods that have one, as manifests."""
        pods = [self.manifest(pod, node) for pod, node in self.scheduler.placements.items() if node]
        return [*map(node_manifest, self.scheduler.nodes()["node"]), *pods]

    def manifest(self, pod: str, node: str | None = None) -> dict[str, object]:
        """Return a pod as a manifest."""
        owner, name = self.owner_of[pod], pod.partition("/")[2]
        cpu, memory = self.sizes[owner]
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata: dict[str, object] = {"name": name, "namespace": "default", "uid": pod, "labels": {"app": owner}}
        spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]}
        spec |= {"nodeName": node} if node else {}
        metadata |= {"ownerReferences": [reference]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

    def create(self, owner: str) -> None:
        """Create a pod of a workload."""
        pod = f"default/{owner}-{self._made}"
        self._made += 1
        self.owner_of[pod] = owner
        self.scheduler.add(self.manifest(pod))

    def _remove(self, pod: str) -> None:
        self.scheduler.remove("Pod", pod.partition("/")[2])
        del self.owner_of[pod]

    def cluster(self) -> dict[str, list[str]]:
        """Return the pods of each node, youngest last."""
        found: dict[str, list[str]] = {name: [] for name in self.scheduler.nodes()["node"]}
        for pod, node in self.scheduler.placements.items():
            if node:
                found[node].append(pod)
        return found

    def evict(self, pods: list[str]) -> None:
        """Evict pods; their workloads replace them, and the scheduler places what it can."""
        owners = [self.owner_of[pod] for pod in pods]
        for pod in pods:
            self._remove(pod)
        for owner in owners:
            self.create(owner)
        self.evictions += len(pods)
        self.scheduler.schedule_all()

    def move(self, pod: str, node: str) -> str:
        """Let the pod in the place of an evicted one run on a node; return it."""
        owner = self.owner_of[pod]
        self._remove(pod)
        self.create(owner)
        replacement = f"default/{owner}-{self._made - 1}"
        self.scheduler.bind(replacement, node)
        self.evictions += 1
        return replacement


def descheduled(world: World, policy: Callable[[World], list[str]]) -> None:
    """Let a policy evict, and the scheduler place, until it evicts nobody or has had its rounds."""
    for _ in range(ROUNDS):
        pods = policy(world)
        if not pods:
            return
        world.evict(pods)


def rebalanced(world: World, goal: str) -> None:
    """Do what `berth rebalance` plans."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "cluster.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": world.objects()}))
        plan = ask("rebalance", file, goal=goal, max_moves=100).answer.plan
    names: dict[str, str] = {}
    """The pods that stand for those of the plan which have been moved before."""
    for step in plan.evictions:
        names[step.pod] = world.move(names.get(step.pod, step.pod), step.to)


POLICIES: dict[str, tuple[Path | None, Callable[[World], None]]] = {
    "nothing": (None, lambda _world: None),
    "LowNodeUtilization": (
        None,
        lambda world: descheduled(world, lambda it: low_node_utilization(it.scheduler, it.cluster(), LOW, HIGH)),
    ),
    "RemoveDuplicates": (
        None,
        lambda world: descheduled(world, lambda it: remove_duplicates(it.cluster(), it.owner_of)),
    ),
    "rebalance, even out": (None, lambda world: rebalanced(world, "even-out")),
    "HighNodeUtilization": (
        MOST_ALLOCATED,
        lambda world: descheduled(world, lambda it: high_node_utilization(it.scheduler, it.cluster(), LOW)),
    ),
    "rebalance, empty nodes": (None, lambda world: rebalanced(world, "empty-nodes")),
}


def measured(name: str, seed: int) -> dict[str, float]:
    """Return what comes of a policy."""
    config, act = POLICIES[name]
    world = World(seed)
    if config is not None:  # the same pods on the same nodes, before a scheduler that packs
        packing = berth.Scheduler(config, seed=seed)
        packing.add(*world.objects())
        world.scheduler = packing
    act(world)
    shares = [cpu for cpu, _ in Usage(world.scheduler).shares.values()]
    return {
        "evictions": world.evictions,
        "unevenness": 100 * statistics.pstdev(shares),
        "nodes in use": sum(bool(pods) for pods in world.cluster().values()),
        "pending": sum(node is None for node in world.scheduler.placements.values()),
    }


def main() -> None:
    """Print the table."""
    asked = arguments(__doc__, 10).parse_args()
    found = {name: [measured(name, seed) for seed in range(asked.seeds)] for name in POLICIES}
    rows = [(name, *(told([run[measure] for run in runs], 1) for measure in runs[0])) for name, runs in found.items()]
    heads = ("policy", "evictions", "unevenness, points of CPU", "nodes in use", "pods without a node")
    print(table(heads, rows), f"\n\n{asked.seeds} clusters, 95 % confidence", sep="")
    if asked.figure:
        uneven = {name: [run["unevenness"] for run in runs] for name, runs in found.items()}
        draw(asked.figure, "unevenness, points of CPU", {"": uneven})


if __name__ == "__main__":
    main()
