"""What waits in one ClusterQueue, in order, and what is set aside there.

Workloads of one shape and namespace wait in a *file*. When one of a shape was tried in vain, its files are set aside as
they stand, and come back as they stand at the next retry: neither costs more than the number of files, however long
they are. A file is set aside exactly while its shape is `in_vain`. What is set aside by itself (a head that must wait
for a retry, a workload that must not be looked at yet) is in no file; what waits although its shape is in vain, since
its LocalQueue was opened meanwhile, is in a file without a shape.

Source: `pkg/cache/queue` (cluster_queue.go, pending_workloads.go); files are ours, Kueue moves workloads one by one.
"""

import heapq
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

from berth_kueue.model import StatusCondition, WorkloadInfo

AT_ONCE = frozenset({"FailedAfterNomination", "PendingPreemption", "PreemptionFailed"})
"""Reasons for which a head of a BestEffortFIFO queue goes back to it at once."""
_IN_VAIN = ("NoFit", "PreemptionNoCandidates")
_Line = tuple[int, float, str]


class WaitingPreemptor(NamedTuple):
    """The workload of a queue that last preempted others, at a generation of its spec."""

    key: str
    is_sticky: bool
    generation: int


class WorkloadFile:
    """Workloads of one shape and namespace, by priority and time."""

    __slots__ = ("_heap", "_pushed", "infos", "is_aside", "namespace", "shape")

    def __init__(self, shape: str | None, namespace: str, *, is_aside: bool) -> None:
        self.shape = shape
        self.namespace = namespace
        self.is_aside = is_aside
        self.infos: dict[str, WorkloadInfo] = {}
        self._heap: list[tuple[_Line, int, WorkloadInfo]] = []
        self._pushed = 0

    def put(self, info: WorkloadInfo) -> None:
        """Take a workload in, or a newer view of it."""
        self.infos[info.key] = info
        self._pushed += 1
        heapq.heappush(self._heap, (info.line, self._pushed, info))
        if len(self._heap) > 16 + 2 * len(self.infos):  # Entries of those that left are passed over, then dropped.
            self._heap = [entry for entry in self._heap if self.infos.get(entry[2].key) is entry[2]]
            heapq.heapify(self._heap)

    def first(self) -> WorkloadInfo | None:
        """Return the first workload, None where there is none left."""
        while self._heap:
            info = self._heap[0][2]
            if self.infos.get(info.key) is info:
                return info
            heapq.heappop(self._heap)
        return None


class PendingQueue:
    """What waits in one ClusterQueue."""

    __slots__ = (
        "_aside",
        "_file_of",
        "_files",
        "_heap",
        "_pushed",
        "in_flight",
        "in_vain",
        "pops",
        "pops_at_retry",
        "preemptor",
    )

    def __init__(self) -> None:
        self.in_vain: dict[str, str] = {}  # Shapes that were tried in vain since the last retry, and why.
        self.in_flight: str | None = None
        self.preemptor: WaitingPreemptor | None = None
        self.pops = 0
        self.pops_at_retry = -1
        self._files: dict[str | None, dict[str, WorkloadFile]] = {}  # By shape and namespace.
        self._file_of: dict[str, WorkloadFile] = {}
        self._aside: dict[str, WorkloadInfo] = {}
        # The files with the lines of their first workloads; entries that are out of date are passed over.
        self._heap: list[tuple[_Line, int, WorkloadFile]] = []
        self._pushed = 0

    def copy(self, infos: dict[str, WorkloadInfo]) -> "PendingQueue":
        """Return the same queue, to be changed on its own; `infos` are the copies of what waits in it."""
        made = PendingQueue()
        made.in_vain, made.in_flight, made.preemptor = dict(self.in_vain), self.in_flight, self.preemptor
        made.pops, made.pops_at_retry = self.pops, self.pops_at_retry
        for file in self._all_files():
            for key in file.infos:
                made._put(infos[key], waits=not file.is_aside)
        made._aside = {key: infos[key] for key in self._aside}
        return made

    # Looking.

    @property
    def active(self) -> dict[str, WorkloadInfo]:
        """The workloads that will come to the head."""
        return {key: info for file in self._all_files() if not file.is_aside for key, info in file.infos.items()}

    @property
    def inadmissible(self) -> dict[str, WorkloadInfo]:
        """The workloads that are set aside until a retry."""
        files = {key: info for file in self._all_files() if file.is_aside for key, info in file.infos.items()}
        return {**self._aside, **files}

    @property
    def counts(self) -> tuple[int, int]:
        """How many workloads are active, and how many set aside, without looking at them."""
        active = sum(len(file.infos) for file in self._all_files() if not file.is_aside)
        return active, len(self._file_of) - active + len(self._aside)

    def find(self, key: str) -> WorkloadInfo | None:
        """Return a workload that waits here."""
        file = self._file_of.get(key)
        return file.infos[key] if file is not None else self._aside.get(key)

    def find_aside(self, key: str) -> WorkloadInfo | None:
        """Return a workload that is set aside here."""
        file = self._file_of.get(key)
        if file is None:
            return self._aside.get(key)
        return file.infos[key] if file.is_aside else None

    def in_order(self, infos: Iterable[WorkloadInfo]) -> list[WorkloadInfo]:
        """Sort workloads as the queue would take them."""
        sticky = self._sticky()
        return sorted(infos, key=lambda info: (info.key != sticky, info.line))

    def _sticky(self) -> str | None:
        preemptor = self.preemptor
        return preemptor.key if preemptor is not None and preemptor.is_sticky else None

    def _all_files(self) -> Iterator[WorkloadFile]:
        for files in self._files.values():
            yield from files.values()

    def _is_active(self, key: str) -> bool:
        file = self._file_of.get(key)
        return file is not None and not file.is_aside

    # Files.

    def _put(self, info: WorkloadInfo, *, waits: bool = True) -> None:
        """Put a workload into its file, wherever it was before; it `waits` there even if its shape is in vain."""
        self._take(info.key)
        is_in_vain = info.shape in self.in_vain
        shape = None if waits and is_in_vain else info.shape
        files, namespace = self._files.setdefault(shape, {}), info.workload.namespace
        file = files.get(namespace)
        if file is None:
            file = files[namespace] = WorkloadFile(shape, namespace, is_aside=is_in_vain and not waits)
        file.put(info)
        self._file_of[info.key] = file
        self._offer(file)

    def _offer(self, file: WorkloadFile) -> None:
        """Let a file take part in the order of files, at its first workload's place."""
        first = file.first()
        if first is not None and not file.is_aside:
            self._pushed += 1
            heapq.heappush(self._heap, (first.line, self._pushed, file))
            if len(self._heap) > 64 + 4 * len(self._file_of):
                self._heap = []
                for other in self._all_files():
                    self._offer(other)

    def _take(self, key: str) -> None:
        """Take a workload out of wherever it is."""
        self._aside.pop(key, None)
        file = self._file_of.pop(key, None)
        if file is None:
            return
        del file.infos[key]
        if not file.infos:
            files = self._files[file.shape]
            del files[file.namespace]
            if not files:
                del self._files[file.shape]

    def _first(self) -> WorkloadInfo | None:
        while self._heap:
            line, _, file = self._heap[0]
            first = None if file.is_aside else file.first()
            if first is not None and first.line == line:
                return first
            heapq.heappop(self._heap)
            if first is not None:
                self._offer(file)
        return None

    # Changing.

    def pop(self) -> WorkloadInfo | None:
        """Take the head out."""
        self.pops += 1
        sticky = self._sticky()
        info = self.find(sticky) if sticky is not None and self._is_active(sticky) else self._first()
        if info is None:
            self.in_flight = None
            return None
        file = self._file_of[info.key]
        self._take(info.key)
        self._offer(file)
        info.evaluated_generation = info.generation
        self.in_flight = info.key
        return info

    def push_if_new(self, info: WorkloadInfo) -> None:
        """Let a workload wait for its turn unless it is here already."""
        if self.in_flight != info.key and self.find(info.key) is None:
            self._put(info)

    def push_or_update(self, info: WorkloadInfo, *, is_strict: bool) -> None:
        """Take a new workload in, or a change of one that waits; one set aside stays so unless what counts changed."""
        key = info.key
        if self.in_flight == key:
            return
        old = self.find_aside(key)
        if old is not None:
            was_evaluated = old.evaluated_generation != 0 and info.generation != old.evaluated_generation
            if not was_evaluated and _counts_the_same(old, info):
                if key in self._aside:
                    self._aside[key] = info
                else:
                    self._put(info, waits=False)
                return
            self._take(key)
        is_new = not self._is_active(key)
        if is_new and _is_held_back(info.requeued):
            self._aside[key] = info
        else:
            self._put(info, waits=is_strict or not is_new)

    def requeue(self, info: WorkloadInfo, reason: str, why: str, *, is_strict: bool) -> None:
        """Take a head back that was not admitted; `why` is the reason its condition gives."""
        key = info.key
        if reason == "PendingPreemption":
            self.preemptor = WaitingPreemptor(key, not is_strict, info.evaluated_generation)
        if self.in_flight == key:
            self.in_flight = None
        is_at_once = reason != "NamespaceMismatch" if is_strict else reason in AT_ONCE
        has_more = info.last_tried is not None and info.last_tried.has_pending_flavors
        aside = self.find_aside(key)
        if not _is_held_back(info.requeued) and (is_at_once or self.pops_at_retry >= self.pops or has_more):
            if not self._is_active(key):
                self._put(aside or info)
            return
        if aside is not None or self._is_active(key):
            return
        self._aside[key] = info
        if info.shape is not None and reason in _IN_VAIN and not is_strict:
            self.in_vain[info.shape] = why or "PendingEvaluation"
            for file in self._files.get(info.shape, {}).values():
                file.is_aside = True
            alike = [held for file in self._files.get(None, {}).values() for held in file.infos.values()]
            for held in alike:
                if held.shape == info.shape:
                    self._take(held.key)
                    self._aside[held.key] = held

    def delete(self, key: str) -> None:
        """Forget a workload."""
        self._take(key)
        if self.in_flight == key:
            self.in_flight = None
        if self.preemptor is not None and self.preemptor.key == key:
            self.preemptor = None

    def retry(self, namespaces: Set[str]) -> None:
        """Move what is set aside back, as far as its namespace may use the ClusterQueue."""
        self.pops_at_retry = self.pops
        self.in_vain = {}
        for file in list(self._all_files()):
            if not file.is_aside:
                continue
            file.is_aside = False
            if file.namespace in namespaces:
                self._offer(file)
                continue
            for info in list(file.infos.values()):
                self._take(info.key)
                self._aside[info.key] = info
        for info in list(self._aside.values()):
            if info.workload.namespace in namespaces and not _is_held_back(info.requeued):
                self._put(info)


def _is_held_back(requeued: StatusCondition | None) -> bool:
    return requeued is not None and not requeued.is_true


def _counts_the_same(old: WorkloadInfo, new: WorkloadInfo) -> bool:
    return (
        old.evicted == new.evicted
        and old.requeued == new.requeued
        and old.reclaimable == new.reclaimable
        and (old.spec is new.spec or old.spec == new.spec)
    )
