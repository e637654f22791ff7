"""Workloads that wait: the queue of each ClusterQueue, who is at its head, and who is set aside until a retry.

A workload waits *active* (it will come to the head of its ClusterQueue) or *inadmissible* (it was looked at in vain, or
one just like it was, or it must not be looked at yet). What makes room somewhere asks for a retry, for the whole cohort
tree; retries are carried out together by `run_retries`, and move everything inadmissible back. In a BestEffortFIFO
queue a head in vain takes all that are like it along, and lets the next one try; in a StrictFIFO queue it stays where
it is. A head that waits for workloads it preempted comes first in its BestEffortFIFO queue, whatever its priority.

Source: `pkg/cache/queue` (cluster_queue.go, manager.go, inadmissible_workloads.go, second_pass_queue.go,
local_queue.go).
"""

from collections.abc import Iterable, Mapping

from berth_kueue.model import KueueWorkload, WorkloadInfo
from berth_kueue.pending_queue import PendingQueue
from berth_kueue.world import KueueWorld

_MAX_PASS_DELAY_S = 30


class WaitingLine:
    """A LocalQueue that is not stopped: its ClusterQueue, and what waits there by its name."""

    __slots__ = ("cluster_queue", "items")

    def __init__(self, cluster_queue: str) -> None:
        self.cluster_queue = cluster_queue
        self.items: dict[str, WorkloadInfo] = {}


class PendingQueues:
    """All queues, with the retries that were asked for and the second passes that are due some time."""

    def __init__(self, world: KueueWorld) -> None:
        self.world = world
        self.queues: dict[str, PendingQueue] = {}
        self.lines: dict[str, WaitingLine] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.line_of: dict[str, str] = {}
        self.retries: dict[tuple[bool, str], None] = {}
        self.timers: list[tuple[float, KueueWorkload, int]] = []
        self.awaited_passes: set[str] = set()
        self.second_passes: dict[str, WorkloadInfo] = {}

    def copy(self, world: KueueWorld, workloads: Mapping[str, KueueWorkload]) -> "PendingQueues":
        """Return the same queues over a copy of the world and of the workloads."""
        made = PendingQueues(world)
        replaced: dict[int, WorkloadInfo] = {}

        def own(info: WorkloadInfo) -> WorkloadInfo:
            if id(info) not in replaced:
                replaced[id(info)] = info.copy()
                replaced[id(info)].workload = workloads.get(info.key, info.workload)
            return replaced[id(info)]

        for name, queue in self.queues.items():
            waiting = {**queue.active, **queue.inadmissible}
            made.queues[name] = queue.copy({key: own(info) for key, info in waiting.items()})
        for key, line in self.lines.items():
            made.lines[key] = WaitingLine(line.cluster_queue)
            made.lines[key].items = {name: own(info) for name, info in line.items.items()}
        made.namespaces, made.line_of, made.retries = dict(self.namespaces), dict(self.line_of), dict(self.retries)
        made.timers = [(due, workloads.get(held.key, held), turn) for due, held, turn in self.timers]
        made.awaited_passes = set(self.awaited_passes)
        made.second_passes = {key: own(info) for key, info in self.second_passes.items()}
        return made

    # Queues.

    def add_queue(self, name: str) -> None:
        """Begin the queue of a new ClusterQueue, with what waits for it already."""
        queue = self.queues[name] = PendingQueue()
        for line in self.lines.values():
            if line.cluster_queue == name:
                for info in line.items.values():
                    queue.push_if_new(info)
        self.ask_retry((name,))

    def open_line(self, key: str, cluster_queue: str, workloads: Iterable[KueueWorkload]) -> None:
        """Take in a LocalQueue that is not stopped, with the workloads that name it."""
        line = self.lines[key] = WaitingLine(cluster_queue)
        for workload in workloads:
            self.line_of[workload.key] = key
            if workload.is_admissible:
                line.items[workload.key] = WorkloadInfo(workload, self.world.gates)
        queue = self.queues.get(cluster_queue)
        if queue is not None:
            for info in line.items.values():
                queue.push_if_new(info)

    def move_line(self, key: str, cluster_queue: str) -> None:
        """Let a LocalQueue point to another ClusterQueue."""
        line = self.lines.get(key)
        if line is None or line.cluster_queue == cluster_queue:
            return
        self._drop_items(line)
        line.cluster_queue = cluster_queue
        queue = self.queues.get(cluster_queue)
        if queue is not None:
            for info in line.items.values():
                queue.push_if_new(info)

    def close_line(self, key: str) -> None:
        """Stop or delete a LocalQueue."""
        line = self.lines.pop(key, None)
        if line is not None:
            self._drop_items(line)

    def _drop_items(self, line: WaitingLine) -> None:
        queue = self.queues.get(line.cluster_queue)
        if queue is not None:
            for key in line.items:
                queue.delete(key)

    def queue_name(self, workload: KueueWorkload) -> str | None:
        """Return the ClusterQueue in which a workload waits, or would; None where its LocalQueue is stopped."""
        line = self.lines.get(f"{workload.namespace}/{workload.spec.queue_name}")
        return line.cluster_queue if line is not None else None

    def _is_strict(self, queue: str) -> bool:
        return self.world.queues[queue].spec.queueing_strategy == "StrictFIFO"

    # Workloads.

    def add_or_update(self, workload: KueueWorkload) -> None:
        """Take in a workload that waits, or a change of it."""
        if not workload.is_admissible:
            return
        line_key = f"{workload.namespace}/{workload.spec.queue_name}"
        before = self.line_of.get(workload.key)
        if before is not None and before != line_key:
            self.forget(workload.key)
        line = self.lines.get(line_key)
        if line is None:
            return
        info = WorkloadInfo(workload, self.world.gates)
        queue = self.queues.get(line.cluster_queue)
        if queue is not None and self.world.gates["FlavorFungibilityPreserveScanProgress"]:
            tracked = queue.find(info.key)
            if tracked is not None and tracked.last_tried is not None and tracked.last_tried.is_of_shape(info.shape):
                info.last_tried = tracked.last_tried
        self.line_of[info.key] = line_key
        line.items[info.key] = info
        if queue is not None:
            queue.push_or_update(info, is_strict=self._is_strict(line.cluster_queue))

    def requeue(self, info: WorkloadInfo, reason: str, why: str) -> None:
        """Take a head back that was not admitted."""
        workload = info.workload
        if not workload.is_admissible:
            return
        line_key = f"{workload.namespace}/{workload.spec.queue_name}"
        line = self.lines.get(line_key)
        if line is None:
            return
        info.refresh(self.world.gates)
        self.line_of[info.key] = line_key
        line.items[info.key] = info
        queue = self.queues.get(line.cluster_queue)
        if queue is not None:
            queue.requeue(info, reason, why, is_strict=self._is_strict(line.cluster_queue))

    def delete(self, key: str) -> None:
        """Take a workload out of its queue: it has been admitted, or has ended."""
        line = self.lines.get(self.line_of.get(key, ""))
        if line is None:
            return
        line.items.pop(key, None)
        queue = self.queues.get(line.cluster_queue)
        if queue is not None:
            queue.delete(key)
        self.drop_second_pass(key)

    def forget(self, key: str) -> None:
        """Forget a workload that is gone."""
        self.delete(key)
        self.line_of.pop(key, None)

    def why_bypassed(self, workload: KueueWorkload) -> str | None:
        """Return why a workload was set aside without a look, as one like it was tried in vain."""
        name = self.queue_name(workload)
        queue = self.queues.get(name) if name is not None else None
        info = queue.find_aside(workload.key) if queue is not None else None
        return None if queue is None or info is None or info.shape is None else queue.in_vain.get(info.shape)

    # Heads and retries.

    def heads(self) -> list[tuple[WorkloadInfo, bool]]:
        """Take what is looked at in a cycle, and whether it is the queue's waiting preemptor.

        Second passes come first, then the head of each active ClusterQueue, by name.
        """
        found = [(info.copy(), False) for info in self.second_passes.values()]
        self.second_passes = {}
        for name in sorted(self.queues):
            if not self.world.is_active(name):
                continue
            queue = self.queues[name]
            head = queue.pop()
            if head is None:
                continue
            info = head.copy()
            info.cluster_queue = name
            preemptor = queue.preemptor
            is_preemptor = (
                preemptor is not None and preemptor.key == info.key and preemptor.generation == info.generation
            )
            found.append((info, is_preemptor))
            line = self.lines.get(self.line_of.get(info.key, ""))
            if line is not None:
                line.items.pop(info.key, None)
        return found

    def ask_retry(self, queues: Iterable[str]) -> None:
        """Ask for a retry of what is inadmissible in these ClusterQueues and in their cohort trees."""
        for name in queues:
            node = self.world.queues.get(name)
            if node is None:
                continue
            if node.parent is None:
                self.retries[False, name] = None
            elif (root := node.root) is not None:
                self.retries[True, root.name] = None

    def ask_retry_of_cohort(self, name: str) -> None:
        """Ask for a retry in the tree of a cohort."""
        cohort = self.world.cohorts.get(name)
        if cohort is not None and (root := cohort.root) is not None:
            self.retries[True, root.name] = None

    def ask_retry_beside(self, key: str) -> None:
        """Ask for a retry where a workload waits or ran; none where its LocalQueue is stopped."""
        line = self.lines.get(self.line_of.get(key, ""))
        if line is not None:
            self.ask_retry((line.cluster_queue,))

    def run_retries(self) -> None:
        """Carry out the retries that were asked for."""
        asked, self.retries = self.retries, {}
        for is_cohort, name in asked:
            if not is_cohort:
                names: Iterable[str] = (name,)
            else:
                cohort = self.world.cohorts.get(name)
                if cohort is None or cohort.is_in_cycle:
                    continue
                names = [queue.name for queue in cohort.subtree_queues()]
            for queue_name in names:
                queue = self.queues.get(queue_name)
                if queue is not None:
                    queue.retry(self._admitted_namespaces(queue_name))

    def _admitted_namespaces(self, queue: str) -> set[str]:
        selector = self.world.queues[queue].selector
        return {name for name, labels in self.namespaces.items() if selector.matches(labels)}

    # Second passes: a workload that is placed already, and needs another node.

    def ask_second_pass(self, workload: KueueWorkload, iteration: int, now: float) -> bool:
        """Look at an admitted workload again after a while, if it needs it; say whether it does."""
        if not needs_second_pass(workload):
            if iteration:
                self.drop_second_pass(workload.key)
            return False
        if workload.key in self.awaited_passes:
            return False
        self.awaited_passes.add(workload.key)
        delay = min(2.0**iteration, _MAX_PASS_DELAY_S)
        self.timers.append((now + delay, workload.copy(), iteration + 1))
        return True

    def drop_second_pass(self, key: str) -> None:
        """Call off a second pass."""
        self.second_passes.pop(key, None)
        self.awaited_passes.discard(key)

    def fire_timers(self, now: float) -> None:
        """Let second passes come due that have waited long enough."""
        due = [timer for timer in self.timers if timer[0] <= now]
        self.timers = [timer for timer in self.timers if timer[0] > now]
        for _, workload, iteration in due:
            if workload.key in self.awaited_passes and needs_second_pass(workload):
                info = WorkloadInfo(workload, self.world.gates)
                info.pass_iteration = iteration
                self.second_passes[workload.key] = info
            self.awaited_passes.discard(workload.key)


def needs_second_pass(workload: KueueWorkload) -> bool:
    """Say whether a workload runs whose pods stand on a node that has failed."""
    if not workload.unhealthy or workload.has("Finished") or workload.has("Evicted"):
        return False
    return workload.has("QuotaReserved") and is_on_failed_node(workload)


def is_on_failed_node(workload: KueueWorkload) -> bool:
    """Say whether an admitted workload has pods in a domain whose lowest level is an unhealthy node."""
    if not workload.unhealthy or workload.admission is None or not workload.has("Admitted"):
        return False
    return any(
        values[-1] in workload.unhealthy
        for pod_set in workload.admission.pod_set_assignments
        if pod_set.topology_assignment is not None
        for values, _ in pod_set.topology_assignment.domains
    )
