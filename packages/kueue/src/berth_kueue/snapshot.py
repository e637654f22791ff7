"""The world as one scheduling cycle sees it: usage that is added, removed and put back on trial.

A snapshot works on the world's own rows and puts them back when the cycle is over (`close`); what the cycle decides is
written to the world after that. Source: `pkg/cache/scheduler/snapshot.go`, `clusterqueue_snapshot.go`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from berth_kueue.model import WorkloadInfo
from berth_kueue.topology.forest import TopologySnapshot
from berth_kueue.topology.placing import DomainUsage
from berth_kueue.world import KueueWorld, QueueNode

FITS, NO_QUOTA, NO_TOPOLOGY = range(3)


class TrialUsage(NamedTuple):
    """What a workload would use: amounts by flavor-resource, and pods in topology domains by flavor."""

    amounts: Mapping[int, int]
    placed: Mapping[str, Sequence[DomainUsage]] = {}


class CycleSnapshot:
    """The world in one cycle."""

    def __init__(
        self, world: KueueWorld, *, cycle: int = 0, now: float = 0, strategies: Sequence[str] | None = None
    ) -> None:
        """`strategies` are those of fair sharing, None where it is off."""
        world.begin_cycle()
        self.world = world
        self.gates = world.gates
        self.cycle = cycle
        self.now = now
        self.strategies = strategies
        self.topologies: TopologySnapshot = world.forest.snapshot()
        self._rows = [(node, node.usage[:]) for node in (*world.queues.values(), *world.cohorts.values())]

    def close(self) -> None:
        """Put everything back as it was."""
        for node, usage in self._rows:
            node.usage, node.known_share = usage, None

    @property
    def is_fair(self) -> bool:
        """Say whether fair sharing is on."""
        return self.strategies is not None

    def queue_of(self, info: WorkloadInfo) -> QueueNode:
        """Return the ClusterQueue in which a workload waits or runs."""
        return self.world.queues[info.cluster_queue]

    def add_usage(self, queue: QueueNode, usage: TrialUsage) -> None:
        """Count usage in a ClusterQueue."""
        for fr, amount in usage.amounts.items():
            queue.add_usage(fr, amount)
        self._place(queue, usage.placed, 1)

    def remove_usage(self, queue: QueueNode, usage: TrialUsage) -> None:
        """Take usage off a ClusterQueue."""
        for fr, amount in usage.amounts.items():
            queue.remove_usage(fr, amount)
        self._place(queue, usage.placed, -1)

    def _place(self, queue: QueueNode, placed: Mapping[str, Sequence[DomainUsage]], sign: int) -> None:
        for flavor, domains in placed.items():
            if flavor in queue.topology_flavors and self.topologies.knows(flavor):
                self.topologies.add(flavor, domains, sign)

    def fits(self, queue: QueueNode, usage: TrialUsage) -> int:
        """Say whether usage has room: FITS, NO_QUOTA or NO_TOPOLOGY."""
        if any(amount > max(0, queue.available(fr)) for fr, amount in usage.amounts.items()):
            return NO_QUOTA
        if any(not self.topologies.fits(flavor, domains) for flavor, domains in usage.placed.items()):
            return NO_TOPOLOGY
        return FITS

    def take_out(self, info: WorkloadInfo) -> None:
        """Remove what an admitted workload uses, and nothing else."""
        queue = self.world.queues[info.cluster_queue]
        for fr, amount in info.amounts.items():
            queue.remove_usage(fr, amount)
        if info.is_placed:
            self._place(queue, info.placed_usage(), -1)

    def put_in(self, info: WorkloadInfo) -> None:
        """Count what an admitted workload uses."""
        queue = self.world.queues[info.cluster_queue]
        for fr, amount in info.amounts.items():
            queue.add_usage(fr, amount)
        if info.is_placed:
            self._place(queue, info.placed_usage(), 1)

    @contextmanager
    def without(self, infos: Iterable[WorkloadInfo]) -> Iterator[None]:
        """Do something as if these workloads used nothing."""
        removed = list(infos)
        for info in removed:
            self.take_out(info)
        yield
        for info in removed:
            self.put_in(info)

    @contextmanager
    def gone(self, infos: Iterable[WorkloadInfo]) -> Iterator[None]:
        """Do something as if these workloads were not there at all, so that nobody can preempt them either."""
        removed = list(infos)
        for info in removed:
            queue = self.queue_of(info)
            del queue.workloads[info.key]
            queue.ranked = None
        with self.without(removed):
            yield
        for info in removed:
            queue = self.queue_of(info)
            queue.workloads[info.key] = info
            queue.ranked = None
