"""Fair sharing: whose turn it is in a cycle, and from whom the next candidate for preemption is taken.

Shares are compared level by level in the cohort tree: what counts between two workloads are the shares of the nodes
below the lowest cohort that they have in common. Entries of a cycle play a tournament (`berth_kueue.cycle`), which the
lowest share wins at each cohort. Targets are sought the other way round: from the root down, always into the child with
the highest share.

Sources: `pkg/scheduler/fair_sharing_iterator.go`, `pkg/scheduler/preemption/fairsharing`; shares themselves are in
`berth_kueue.world`.
"""

import math
from collections.abc import Iterable, Iterator

from berth_kueue.model import WorkloadInfo
from berth_kueue.world import CohortNode, QueueNode, QuotaNode, Share

_LOWEST = (False, -1.0)


def is_less_than_final(own: Share, target: Share) -> bool:
    """Say whether the preemptor's share is no more than the target's without the candidate."""
    return own.rank <= target.rank


def is_less_than_initial(own: Share, target: Share) -> bool:
    """Say whether the preemptor's share is less than the target's with the candidate."""
    return own.rank < target.rank


def is_hopeless(own: Share, target: Share) -> bool:
    """Say whether no candidate of the target can pass: the preemptor borrows at weight 0, and the target does not."""
    return math.isinf(own.value) and not math.isinf(target.value)


class FairOrder:
    """The ClusterQueues from which candidates are taken, one candidate after the other, and the candidates of each."""

    def __init__(self, queue: QueueNode, candidates: Iterable[WorkloadInfo]) -> None:
        """`candidates` come in the order in which they would go in each ClusterQueue."""
        self._queue = queue
        self._ancestors = set(queue.path())
        self._pruned: set[QuotaNode] = set()
        self._candidates: dict[str, list[WorkloadInfo]] = {}
        for info in candidates:
            self._candidates.setdefault(info.cluster_queue, []).append(info)
        for infos in self._candidates.values():
            infos.reverse()  # The first is at the end, where it is taken from.

    def __iter__(self) -> Iterator[QueueNode]:
        root = self._queue.root
        if root is None:
            while self._queue not in self._pruned and self.has_more(self._queue):
                yield self._queue
            return
        while root not in self._pruned:
            queue = self._next(root)
            if queue is not None:
                yield queue

    def has_more(self, queue: QueueNode) -> bool:
        """Say whether a ClusterQueue has candidates left."""
        return bool(self._candidates.get(queue.name))

    def pop(self, queue: QueueNode) -> WorkloadInfo:
        """Take the next candidate of a ClusterQueue."""
        return self._candidates[queue.name].pop()

    def drop(self, queue: QueueNode) -> None:
        """Take nothing more from a ClusterQueue."""
        self._pruned.add(queue)

    def share(self, queue: QueueNode) -> Share:
        """Return the share of a ClusterQueue, or of the cohort above it that lies below what it shares with ours."""
        return _below(queue, self._common(queue)).share()

    def shares(self, queue: QueueNode) -> tuple[Share, Share]:
        """Return the shares that are compared: ours, and that of a ClusterQueue."""
        common = self._common(queue)
        return _below(self._queue, common).share(), _below(queue, common).share()

    def _common(self, queue: QueueNode) -> CohortNode:
        return next(cohort for cohort in queue.path() if cohort in self._ancestors)

    def _next(self, cohort: CohortNode) -> QueueNode | None:
        """Go down from a cohort to the child with the highest share; what has nothing to give is pruned."""
        best_queue: QueueNode | None = None
        queue_rank = _LOWEST
        for queue in cohort.queues.values():
            if queue.is_out or queue in self._pruned:
                continue
            share = queue.share()
            if (not share.borrowed and queue is not self._queue) or not self.has_more(queue):
                self._pruned.add(queue)
            elif best_queue is not None and share.rank == queue_rank:
                if self._order(queue) < self._order(best_queue):
                    best_queue = queue
            elif share.rank > queue_rank:
                best_queue, queue_rank = queue, share.rank
        best_cohort: CohortNode | None = None
        cohort_rank = _LOWEST
        for child in cohort.cohorts.values():
            if child in self._pruned:
                continue
            share = child.share()
            if not share.borrowed and child not in self._ancestors:
                self._pruned.add(child)
            elif share.rank >= cohort_rank:
                best_cohort, cohort_rank = child, share.rank
        if best_cohort is None and best_queue is None:
            self._pruned.add(cohort)
            return None
        if best_cohort is not None and cohort_rank >= queue_rank:
            return self._next(best_cohort)
        return best_queue

    def _order(self, queue: QueueNode) -> tuple[object, ...]:
        """Return what the next candidates of two ClusterQueues with the same share are compared by; ours is last."""
        is_here, *rest = self._candidates[queue.name][-1].rank
        return is_here, queue is self._queue, *rest


def _below(queue: QueueNode, common: CohortNode) -> QuotaNode:
    """Return the node below a cohort on the way to a ClusterQueue."""
    node: QuotaNode = queue
    for cohort in queue.path():
        if cohort is common:
            break
        node = cohort
    return node
