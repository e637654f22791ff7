"""Plays a trace with a scheduler: pods start, run, fail, are scaled and preempted, in virtual time.

Nothing happens between events, so a day takes as long as its scheduling does. A pod's time runs from when it is bound.
One that fails is replaced after the Job controller's backoff; one that is preempted, or whose node leaves, comes back
and starts over. A service that shrinks loses its pending pods first, then the youngest, as a ReplicaSet's does.
"""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.node import Node
from berth.api.pod import Pod
from berth.config.types import SchedulerConfiguration
from berth.core.intake import ObjectEvent, ShardsHeld
from berth.cycle.instrument import Instrument
from berth.framework.effects import Answer, EvictPod
from berth.framework.registry import Registry
from berth.plugins.resources.names import is_extended
from berth.state.table import NodeTable
from berth_workbench.simulation.budgets import follows_its_node
from berth_workbench.simulation.cluster import SimulatedCluster, is_replaced, pending_again
from berth_workbench.simulation.measures import (
    WaitingTimes,
    fragmentation,
    jain_index,
    told_resources,
    usual_requests,
    waiting_times,
)
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.traces.result import Sample, SimulatedTime, TimedBinding, TimeLine
from berth_workbench.traces.trace import (
    JobStarts,
    NodeComes,
    NodeGoes,
    ObjectComes,
    ObjectGoes,
    PodShapeGiven,
    Record,
    ServiceScales,
    TimedWorkload,
)

SAMPLE_S = 300.0
RETRY_S = 10.0
"""The Job controller's backoff before a failed pod is replaced, for the first failure."""
NOBODY_WAITED = WaitingTimes(0, 0.0, 0.0, 0.0, 0.0, 0.0)
ENOUGH_EVENTS = 100
"""How often progress is told: after so many events."""

STEPS = 1000
"""In how many steps a run through a whole workload is told of."""


class _Running(NamedTuple):
    """What is known of a pod that is bound."""

    token: int
    node: str
    team: str
    requests: Mapping[str, int]


class _Cluster(SimulatedCluster):
    """Tells the run what happens to pods."""

    def __init__(self, run: "TraceRun", **options: Any) -> None:
        self._run = run
        super().__init__(**options)

    def handle(self, event: ObjectEvent | ShardsHeld | Answer) -> None:
        """Tell the run of an object event before the core, so that it hears of all events in their order."""
        if isinstance(event, ObjectEvent):
            self._run.heard(event)
        super().handle(event)

    def bound(self, pod: Pod) -> None:
        """Take note that a pod has got its node."""
        super().bound(pod)
        self._run.pod_bound(pod)

    def evicted(self, pod: Pod, eviction: EvictPod) -> None:
        """Take note that a preempted pod is gone, and comes back."""
        super().evicted(pod, eviction)
        self._run.pod_evicted(pod)


class TraceRun:
    """One run through a trace; `live` plays it."""

    def __init__(
        self,
        trace: TimedWorkload,
        *,
        config: SchedulerConfiguration | None = None,
        registry: Registry | None = None,
        seed: int = 0,
        sample_s: float = SAMPLE_S,
        instrument: Instrument | None = None,
    ) -> None:
        """Raises `ConfigError`, `RegistryError`."""
        self.cluster = _Cluster(self, config=config, registry=registry, seed=seed, instrument=instrument)
        self._trace, self._seed, self._sample_s = trace, seed, sample_s
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._templates: dict[tuple[str, str], Pod] = {}
        self._services: dict[tuple[str, str], list[str]] = {}
        self._next_replica: dict[tuple[str, str], int] = {}
        self._ends: dict[str, tuple[float, bool]] = {}
        """By pod: for how long it runs, and whether it fails then; services' pods are not in it."""
        self._on_failure: dict[str, Callable[[], None]] = {}
        """By pod that fails: makes the one in its place."""
        self._arrived: dict[str, float] = {}
        """When each pod that waits for a node began to wait."""
        self._first: dict[str, float] = {}
        """When each pod that has not been bound yet was made."""
        self._lost: set[str] = set()
        """The uids of pods that had to leave and are not replaced."""
        self._running: dict[str, _Running] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._tokens = count()
        self._prices: dict[str, float] = {}
        self._used: dict[str, Counter[str]] = {}
        """What the running pods of each team request, by resource."""
        self.placements: list[TimedBinding] = []
        """All bindings, by time."""
        self._stranded: dict[str, list[float]] = {}
        self._waits: list[float] = []
        self._waits_by_team: dict[str, list[float]] = {}
        self._made = self._bound = self._finished = self._failed = self._returned = 0
        self._samples: list[Sample] = []
        self._fairness: list[float] = []
        """Of the samples at which several teams wanted something."""
        self.time_line = TimeLine()
        """What each node carried at each sample."""

    # -- the course --------------------------------------------------------------------------------------------------

    def live(self, watch: WorkWatch = UNWATCHED) -> SimulatedTime:
        """Play the trace and return the result, up to where it was stopped.

        `watch` is told of `STEPS` steps in all.
        """
        told = 0
        records: Iterator[Record] = iter(self._trace.records)
        record = next(records, None)
        until = self._trace.header.seconds or (self._trace.records[-1].at if self._trace.records else 0.0)
        next_sample = 0.0
        is_stopped = False
        for number in count():
            at = min(
                record.at if record is not None else math.inf,
                self._events[0][0] if self._events else math.inf,
                self._deadline(),
                next_sample,
            )
            if at > until or is_stopped:
                break
            self.cluster.now = max(self.cluster.now, at)
            while record is not None and record.at <= at:
                self._happen(record)
                record = next(records, None)
            while self._events and self._events[0][0] <= at:
                heapq.heappop(self._events)[2]()
            self.cluster.work()
            if at >= next_sample:
                self._sample(at)
                next_sample = at + self._sample_s
            if number % ENOUGH_EVENTS == 0:
                done = int(min(1.0, at / until) * STEPS) if until else STEPS
                watch.advance(done - told)
                told = done
                is_stopped = watch.is_stopped or self.has_seen_enough()
        if not is_stopped:
            self.cluster.now = max(self.cluster.now, until)
        return self._result()

    def has_seen_enough(self) -> bool:
        """Whether to end before the trace does, since nothing more is needed from it."""
        return False

    def _deadline(self) -> float:
        deadline = self.cluster.core.next_deadline()
        return math.inf if deadline is None else deadline

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.cluster.now + seconds, next(self._order), act))

    def _happen(self, record: Record) -> None:
        if isinstance(record, JobStarts):
            self._start_job(record)
        elif isinstance(record, ServiceScales):
            self._scale(record)
        elif isinstance(record, NodeComes):
            self._add_node(record.node(), record.price)
        elif isinstance(record, NodeGoes):
            self._remove_node(record.name)
        elif isinstance(record, ObjectGoes):
            if record.kind == "Pod" and ("Pod", record.key) in self.cluster.objects:
                self._remove(record.key)
                self._ends.pop(record.key, None)
            elif (record.kind, record.key) in self.cluster.objects:
                self.cluster.delete(record.kind, record.key)
        elif isinstance(record, ObjectComes):
            self._take(record)

    def _take(self, record: ObjectComes) -> None:
        if record.is_of("Node"):
            self._add_node(record.document().struct())  # type: ignore[arg-type]  # which is what it is of
        elif record.is_of("Pod"):
            self._take_pod(record.document().struct(), record.runs)  # type: ignore[arg-type]
        else:
            left = self.cluster.add_followed([record.document()])
            self.cluster.create(each.struct() for each in left if each.is_read_by_scheduler)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _add_node(self, node: Node, price: float = 0.0) -> None:
        self.cluster.put(node)
        self._prices[node.metadata.name] = price
        self._on_node.setdefault(node.metadata.name, {})

    def _remove_node(self, name: str) -> None:
        if ("Node", name) not in self.cluster.objects:
            return
        for key in tuple(self._on_node.pop(name, ())):
            pod: Pod = self.cluster.objects["Pod", key]
            self.cluster.delete("Pod", key)
            self._off_node(key)
            if follows_its_node(pod) or not is_replaced(pod):
                self._lost.add(pod.metadata.uid)
            else:
                self._comes_back(pod)
        self.cluster.delete("Node", name)
        self._prices.pop(name, None)

    # -- pods --------------------------------------------------------------------------------------------------------

    def _take_pod(self, pod: Pod, runs: float | None) -> None:
        """A pod comes, with a node where it has one already; or one that is here changes, and stays where it is."""
        key = pod.key
        if pod.metadata.uid in self._lost:
            return
        if (known := self.cluster.objects.get(("Pod", key))) is not None:
            metadata = msgspec.structs.replace(pod.metadata, uid=known.metadata.uid)
            spec = msgspec.structs.replace(pod.spec, node_name=known.spec.node_name)
            self.cluster.put(msgspec.structs.replace(pod, metadata=metadata, spec=spec))
            return
        if runs is not None:
            self._ends[key] = (runs, False)
        self._made += 1
        if not pod.spec.node_name:
            self._first[key] = self._arrived[key] = self.cluster.now
        self.cluster.put(pod)
        if pod.spec.node_name:
            self._runs(pod)

    def _start_job(self, job: JobStarts) -> None:
        fails = frozenset(job.fails)
        for index in range(job.pods):
            run = job.runs[index] if len(job.runs) > 1 else job.runs[0]
            name = f"{job.name}-{index}"
            if index in fails:
                self._ends[f"{job.namespace}/{name}"] = (run / 2, True)
                self._make(job.namespace, job.name, name, "Job", job.shape, retried=run)
            else:
                self._ends[f"{job.namespace}/{name}"] = (run, False)
                self._make(job.namespace, job.name, name, "Job", job.shape)
        self._templates.pop((job.namespace, job.name), None)  # no other pod of it is made from the template

    def _scale(self, service: ServiceScales) -> None:
        key = service.namespace, service.name
        pods = self._services.setdefault(key, [])
        for _ in range(service.replicas - len(pods)):
            number = self._next_replica.get(key, 0)
            self._next_replica[key] = number + 1
            name = f"{service.name}-{number}"
            pods.append(f"{service.namespace}/{name}")
            self._make(service.namespace, service.name, name, "ReplicaSet", service.shape)
        if (surplus := len(pods) - service.replicas) > 0:
            youngest_first = pods[::-1]
            ranked = sorted(youngest_first, key=lambda pod: pod in self._running)
            gone = set(ranked[:surplus])
            for pod in ranked[:surplus]:
                self._remove(pod)
            pods[:] = [pod for pod in pods if pod not in gone]

    def _make(
        self, namespace: str, owner: str, name: str, kind: str, shape: PodShapeGiven, retried: float | None = None
    ) -> None:
        template = self._templates.get((namespace, owner))
        if template is None:
            template = self._templates[namespace, owner] = shape.pod(namespace, owner, kind)
        metadata = msgspec.structs.replace(template.metadata, name=name, uid=f"{namespace}/{name}")
        pod = msgspec.structs.replace(template, metadata=metadata)
        if retried is not None:
            self._retries(pod.key, pod, retried)
        self._made += 1
        self._first[pod.key] = self._arrived[pod.key] = self.cluster.now
        self.cluster.put(pod)

    def _retries(self, key: str, pod: Pod, run: float) -> None:
        """Have a pod replaced after it has failed, by one that runs for its whole time."""

        def again() -> None:
            self._ends[key] = (run, False)
            self._comes_back(pod)

        self._on_failure[key] = again

    def _remove(self, key: str) -> None:
        self.cluster.delete("Pod", key)
        self._off_node(key)
        self._arrived.pop(key, None)
        self._first.pop(key, None)
        self.cluster.messages.pop(key, None)

    def pod_bound(self, pod: Pod) -> None:
        """A pod has got its node: its time begins."""
        key, namespace = pod.key, pod.metadata.namespace
        self._bound += 1
        waited = round(self.cluster.now - self._arrived.pop(key, self.cluster.now), 6)
        self.placements.append(TimedBinding(self.cluster.now, key, pod.spec.node_name, waited))
        self._waits.append(waited)
        self._waits_by_team.setdefault(namespace, []).append(waited)
        self._first.pop(key, None)
        self._runs(pod)

    def _runs(self, pod: Pod) -> None:
        key, namespace = pod.key, pod.metadata.namespace
        requests = self._requests(key)
        token = next(self._tokens)
        self._running[key] = _Running(token, pod.spec.node_name, namespace, requests)
        self._on_node.setdefault(pod.spec.node_name, {})[key] = None
        self._count(namespace, requests, 1)
        if key in self._ends:
            self._later(self._ends[key][0], lambda: self._end(key, token))

    def pod_evicted(self, pod: Pod) -> None:
        """A pod was preempted; the cluster has put a pending one in its place, unless nobody replaces it."""
        self._off_node(pod.key)
        if not is_replaced(pod):
            self._lost.add(pod.metadata.uid)
            self._ends.pop(pod.key, None)
            return
        self._returned += 1
        self._arrived[pod.key] = self.cluster.now

    def _comes_back(self, pod: Pod) -> None:
        self._returned += 1
        self._arrived[pod.key] = self.cluster.now
        self.cluster.put(pending_again(pod))

    def _end(self, key: str, token: int) -> None:
        """A pod's time is over, if it is still the same that was bound then."""
        running = self._running.get(key)
        if running is None or running.token != token:
            return
        _, fails = self._ends.pop(key)
        self._remove(key)
        if fails:
            self._failed += 1
            self._later(RETRY_S, self._on_failure.pop(key))
        else:
            self._finished += 1

    def _off_node(self, key: str) -> None:
        running = self._running.pop(key, None)
        if running is None:
            return
        self._on_node.get(running.node, {}).pop(key, None)
        self._count(running.team, running.requests, -1)

    def _count(self, team: str, requests: Mapping[str, int], sign: int) -> None:
        used = self._used.setdefault(team, Counter())
        for name, amount in requests.items():  # much faster than `Counter.update`
            used[name] += sign * amount

    def _requests(self, key: str) -> Mapping[str, int]:
        """What a pod requests, in the units of the node table."""
        pod = self.cluster.core.intake.pod(key)
        return {} if pod is None else pod.requests

    # -- what is measured --------------------------------------------------------------------------------------------

    def _sample(self, at: float) -> None:
        table = self.cluster.core.cache.table
        rows = np.flatnonzero(table.valid)
        whole = _wholes(table, rows)
        used = sum(self._used.values(), Counter[str]())
        shares = {name: used[name] / amount for name, amount in whole.items()}
        dominant = self._dominant(whole)
        fairness = jain_index(dominant.values())
        self._samples.append(
            Sample(
                at=at,
                cpu=shares.pop("cpu", 0.0),
                memory=shares.pop("memory", 0.0),
                running=len(self._running),
                waiting=len(self._arrived),
                longest_wait=round(at - min(self._arrived.values(), default=at), 3),
                nodes=len(rows),
                nodes_used=sum(1 for pods in self._on_node.values() if pods),
                bound=self._bound,
                preempted=len(self.cluster.evictions),
                fairness=1.0 if fairness is None else fairness,
                resources=shares,
            )
        )
        if any(map(is_extended, whole)):
            for name, share in fragmentation(table, usual_requests(table)).items():
                if is_extended(name):
                    self._stranded.setdefault(name, []).append(share)
        if len(dominant) > 1:  # what one namespace has alone is neither fair nor unfair
            self._fairness.append(self._samples[-1].fairness)
        shares_of = [_share(table, rows, name) for name in told_resources(table.resource_index)]
        self.time_line.note(at, [table.names[row] for row in rows.tolist()], np.max(shares_of, axis=0))
        self.sampled(at)

    def heard(self, event: ObjectEvent) -> None:
        """Take note of an event that the core is about to take in; a subclass that follows them overrides this."""

    def sampled(self, at: float) -> None:
        """Take note that the cluster has just been measured; a subclass that measures more of it overrides this."""

    def _dominant(self, whole: Mapping[str, float]) -> dict[str, float]:
        """The largest share of any resource that each team has (dominant resource fairness, Ghodsi et al., NSDI 2011).

        Teams whose pods all wait have none; those that want nothing at the moment are left out.
        """
        waiting = {key.partition("/")[0] for key in self._arrived if any(self._requests(key).values())}
        found = dict.fromkeys(sorted(waiting), 0.0)
        for team, used in self._used.items():
            if any(used.values()):
                found[team] = max((used[name] / amount for name, amount in whole.items()), default=0.0)
        return found

    def _result(self) -> SimulatedTime:
        now = self.cluster.now
        hours = now / 3600
        return SimulatedTime(
            source=self._trace.header.source,
            seed=self._seed,
            seconds=now,
            made=self._made,
            bound=self._bound,
            finished=self._finished,
            failed=self._failed,
            preempted=len(self.cluster.evictions),
            waiting=len(self._arrived),
            never_placed=len(self._first),
            waits=waiting_times(self._waits) or NOBODY_WAITED,
            waits_by_namespace={
                team: waiting_times(waits) or NOBODY_WAITED for team, waits in sorted(self._waits_by_team.items())
            },
            cpu=_mean([sample.cpu for sample in self._samples]),
            memory=_mean([sample.memory for sample in self._samples]),
            fairness=_mean(self._fairness) if self._fairness else 1.0,
            cost=round(sum(self._prices.values()) * hours, 2),
            samples=tuple(self._samples),
            messages=dict(Counter(self.cluster.messages.values()).most_common(20)),
            evicted_again_and_again=len({pod for pod, _ in self.cluster.circles}),
            resources={
                name: _mean([sample.resources.get(name, 0.0) for sample in self._samples])
                for name in sorted({name for sample in self._samples for name in sample.resources})
            },
            stranded={name: _mean(shares) for name, shares in sorted(self._stranded.items())},
        )


def _share(table: NodeTable, rows: NDArray[np.intp], resource: str) -> NDArray[np.float64]:
    """The share of a resource that is requested on each row."""
    column = table.resource_index[resource]
    allocatable = table.allocatable[column, rows].astype(np.float64)
    shares: NDArray[np.float64] = np.zeros(len(rows))
    np.divide(table.requested[column, rows], allocatable, out=shares, where=allocatable > 0)
    return shares


def _wholes(table: NodeTable, rows: NDArray[np.intp]) -> dict[str, float]:
    """How much nodes have of each resource, of those that they have any of."""
    found = {
        name: float(table.allocatable[column, rows].sum(dtype=np.float64))
        for name, column in sorted(table.resource_index.items())
    }
    return {name: amount for name, amount in found.items() if amount}


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 6) if values else 0.0
