"""Queues over hours and days of virtual time: workloads arrive, run, end, make way and begin again.

    queues = Queues(objects)
    result = QueueSimulation(queues).run([Arrival(0.0, workload, runs_s=600.0), …])
    result.utilisation["h100"]["nvidia.com/gpu"], result.waits().median_s

Cycles take no time and run until nothing changes, at most once in a tick: Kueue, too, gathers for about a second what
it retries. With a `PodPlacer` the scheduler has its say: a workload runs from when all its pods have nodes, and holds
its quota while some have none. One that is preempted begins from its start.
"""

import heapq
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from berth_kueue.cycle import CycleEntry
from berth_kueue.lives import CycleResult, Queues
from berth_kueue.pods import PodPlacer
from berth_kueue.queued_cluster import key_of
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch

TICK_S = 1.0
DAY_S = 86_400.0
_ACTS = frozenset({"admitted", "preempting", "evicted", "deferredFit"})


class Arrival(NamedTuple):
    """A workload that comes."""

    at: float
    """Seconds after the beginning."""
    workload: Mapping[str, Any]
    runs_s: float


class WorkloadLife(msgspec.Struct, rename="camel"):
    """When things happened to a workload, in seconds after the beginning; None for what did not happen."""

    workload: str
    cluster_queue: str
    arrived: float
    runs_s: float | None
    """How long it runs; None where that is not known, so that it does not end."""
    admitted: float | None = None
    """When it was admitted at last."""
    started: float | None = None
    """When all its pods had nodes."""
    ended: float | None = None
    preemptions: int = 0

    @property
    def waited(self) -> float | None:
        """How long it waited until it ran, for good."""
        return None if self.started is None else self.started - self.arrived


class QueueWaits(NamedTuple):
    """How long workloads waited until they ran."""

    workloads: int
    mean_s: float
    median_s: float
    most_s: float


class SimulationResult(NamedTuple):
    """What came of it."""

    lives: Mapping[str, WorkloadLife]
    until: float
    """When it was over, in seconds."""
    cycles: int
    utilisation: Mapping[str, Mapping[str, float]]
    """By flavor and resource, the mean share of all nominal quota that was used."""
    shares: Mapping[str, float]
    """By ClusterQueue, the mean of what it used of its dominant resource, as a part of its own quota."""

    def waits(self, cluster_queue: str = "") -> QueueWaits:
        """How long those waited that ran, of one ClusterQueue or of all."""
        lives = (each for each in self.lives.values() if cluster_queue in ("", each.cluster_queue))
        waited = sorted(each.waited for each in lives if each.waited is not None)
        if not waited:
            return QueueWaits(0, 0.0, 0.0, 0.0)
        return QueueWaits(len(waited), sum(waited) / len(waited), waited[len(waited) // 2], waited[-1])

    @property
    def fairness(self) -> float:
        """Jain's index of the ClusterQueues' shares: 1 where all are alike, 1/n where one has everything."""
        shares = list(self.shares.values())
        squares = sum(each * each for each in shares)
        return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


class QueueSimulation:
    """Queues with a clock. What holds quota at the beginning runs on, for as long as `running` says."""

    __slots__ = ("_begin", "_events", "_placer", "_runs", "_stuck", "_used", "cycles", "lives", "queues", "tick_s")

    def __init__(
        self,
        queues: Queues,
        placer: PodPlacer | None = None,
        *,
        running: Mapping[str, float] | None = None,
        durations: Mapping[str, float] | None = None,
        tick_s: float = TICK_S,
    ) -> None:
        """`running` has the seconds left of what holds quota, `durations` those of what waits already.

        Whatever neither names runs without an end.
        """
        self.queues = queues
        self.tick_s = tick_s
        self.cycles = 0
        self.lives: dict[str, WorkloadLife] = {}
        self._placer = placer
        self._begin = queues.now
        self._events: list[tuple[float, int, str, Any]] = []
        self._runs: dict[str, int] = {}
        """By workload, the number of the run that is under way: an end of an earlier one counts no more."""
        self._stuck: set[str] = set()
        self._used: dict[tuple[str, int], float] = {}
        for key, workload in queues.workloads.items():
            name = queues.pending.queue_name(workload) or ""
            if workload.holds_quota and workload.admission is not None:
                name = workload.admission.cluster_queue
                self.lives[key] = WorkloadLife(key, name, 0.0, (running or {}).get(key), 0.0, 0.0)
                if (left := (running or {}).get(key)) is not None:
                    self._plan(left, "end", (key, 0))
            elif workload.is_admissible:
                self.lives[key] = WorkloadLife(key, name, 0.0, (durations or {}).get(key))

    def run(
        self, arrivals: Iterable[Arrival] = (), *, until_s: float = math.inf, watch: WorkWatch = UNWATCHED
    ) -> SimulationResult:
        """Let time pass until nothing is left to happen, or for so long. Raises `StuckError`, `StoppedError`."""
        for arrival in arrivals:
            self._plan(arrival.at, "arrival", arrival)
        self._decide(watch)
        while self._events and self._events[0][0] <= until_s:
            at = self._next_tick(self._events[0][0])
            self._count_until(min(at, until_s))
            self.queues.advance(at - self.time)
            ended = []
            while self._events and self._events[0][0] <= at:
                _, _, what, of = heapq.heappop(self._events)
                if what == "arrival":
                    self._arrive(of)
                elif self._end(*of):
                    ended.append(of[0])
                watch.step()
            self.queues.settle()
            for key in ended:
                self.queues.delete("Workload", *key.split("/", 1))
            self._decide(watch)
        if until_s < math.inf and self.time < until_s:
            self._count_until(until_s)
            self.queues.advance(until_s - self.time)
        return self._result()

    @property
    def time(self) -> float:
        """Seconds since the beginning."""
        return self.queues.now - self._begin

    def _next_tick(self, at: float) -> float:
        return max(self.time, math.ceil(at / self.tick_s) * self.tick_s if self.tick_s else at)

    def _plan(self, at: float, what: str, of: Any) -> None:
        heapq.heappush(self._events, (at, len(self._events) + self.cycles, what, of))

    # -- what happens -------------------------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        key = key_of(arrival.workload)
        self.queues.put(arrival.workload)
        name = self.queues.pending.queue_name(self.queues.workloads[key]) or ""
        self.lives[key] = WorkloadLife(key, name, arrival.at, arrival.runs_s)

    def _end(self, key: str, run: int) -> bool:
        """End a run, and say whether it was under way still."""
        if self._runs.get(key, 0) != run or key not in self.queues.workloads:
            return False
        self.lives[key].ended = self.time
        self.queues.finish(key)
        if self._placer is not None:
            self._placer.remove(key)
        return True

    def _decide(self, watch: WorkWatch) -> None:
        """Run cycles until one changes nothing, and let the pods of those who are admitted be placed."""
        before: Any = None
        while True:
            result = self.queues.cycle()
            self.cycles += 1
            self._follow(result)
            watch.check()
            stands = [self._standing(each) for each in result.processed]
            acts = any(each.result in _ACTS for each in result.processed)
            if not result.heads or (stands == before and not acts):
                break
            before = stands
        if self._placer is not None and self._stuck:
            self._placer.site.settle()
            for key in [key for key in self._stuck if not self._placer.where(key).without]:
                self._start(key)

    def _standing(self, entry: CycleEntry) -> Any:
        """A head, the flavor at which its next look begins, and how many wait beside it to be looked at."""
        tried = entry.last_tried.indexes if entry.last_tried is not None else None
        return entry.info.key, tried, self.queues.pending.queues[entry.queue].counts[0]

    def _follow(self, result: CycleResult) -> None:
        evicted = False
        for entry in result.processed:
            if entry.result == "admitted" and self._is_new(entry.info.key):
                self._admit(entry.info.key)
            elif entry.result in ("preempting", "evicted"):
                evicted = True
                for target in entry.targets:
                    self._lose(target.info.key)
        if evicted:
            self.queues.evict_done("*")
            self.queues.settle()

    def _is_new(self, key: str) -> bool:
        """Whether an admission is one, and not a second pass of a workload that has its quota."""
        return key in self.lives and self.lives[key].admitted is None

    def _admit(self, key: str) -> None:
        life = self.lives[key]
        life.admitted = self.time
        if self._placer is not None and self._placer.place(self.queues, key).without:
            self._stuck.add(key)
        else:
            self._start(key)

    def _start(self, key: str) -> None:
        self._stuck.discard(key)
        life = self.lives[key]
        life.started = self.time
        if life.runs_s is not None:
            self._plan(self.time + life.runs_s, "end", (key, self._runs.get(key, 0)))

    def _lose(self, key: str) -> None:
        life = self.lives.get(key)
        if life is None or life.admitted is None:
            return
        life.admitted = life.started = None
        life.preemptions += 1
        self._runs[key] = self._runs.get(key, 0) + 1
        self._stuck.discard(key)
        if self._placer is not None:
            self._placer.remove(key)

    # -- what is measured ---------------------------------------------------------------------------------------------

    def _count_until(self, at: float) -> None:
        passed = at - self.time
        if passed <= 0:
            return
        for name, queue in self.queues.world.queues.items():
            for fr in queue.quotas:
                if queue.usage[fr]:
                    self._used[name, fr] = self._used.get((name, fr), 0.0) + queue.usage[fr] * passed

    def _result(self) -> SimulationResult:
        world, total = self.queues.world, max(self.time, 1e-9)
        nominal: dict[int, float] = {}
        used: dict[int, float] = {}
        shares: dict[str, float] = {}
        for name, queue in sorted(world.queues.items()):
            shares[name] = 0.0
            for fr, quota in queue.quotas.items():
                mean = self._used.get((name, fr), 0.0) / total
                nominal[fr] = nominal.get(fr, 0) + quota.nominal
                used[fr] = used.get(fr, 0.0) + mean
                if quota.nominal:
                    shares[name] = max(shares[name], mean / quota.nominal)
        utilisation: dict[str, dict[str, float]] = {}
        for fr, quota_in_all in nominal.items():
            flavor, resource = world.fr_names[fr]
            if quota_in_all:
                utilisation.setdefault(flavor, {})[resource] = used[fr] / quota_in_all
        return SimulationResult(self.lives, self.time, self.cycles, utilisation, shares)
