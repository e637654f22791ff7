"""Makes a day as clusters have it: services that follow the sun, jobs by day and by night, for several teams.

The shape of the load is drawn first, without sizes: replicas of services follow a cosine with its peak in the
afternoon, jobs come as a Poisson process whose rate follows the day (for half of the teams) or the night, with sizes
and durations that have the long tails of real clusters (log-normal). Then requests are scaled so that the demand at its
highest is the load that was asked for: what the cluster would have to run if nobody ever waited. All of it is drawn
from one seed.

Nodes may have GPUs, of several models. Jobs are made to ask for them, one after the other in an order that is drawn,
until together they ask for the load's share of all GPUs over the time: for a share of one, for whole ones, or for
several. A job of several such pods is a gang: a PodGroup, which counts where the scheduler's feature gates say so.
"""

import math
import random
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from berth_workbench.traces.alibaba_gpu_2023 import GPU_MILLI, MODEL, MOST_GPUS, gpus_of, of_models
from berth_workbench.traces.trace import (
    AnyRecord,
    JobStarts,
    NodeComes,
    ObjectComes,
    PodShapeGiven,
    ServiceScales,
    TimedWorkload,
    TraceHeader,
    by_time,
)

DAY_S = 86_400.0
HOUR_S = 3_600.0
AFTERNOON_S = 15 * HOUR_S
NIGHT_S = 2 * HOUR_S
SCALES_EVERY_S = 900.0
"""How often a service's replicas follow its load."""
GIB = 2**30
ZONES = ("zone-a", "zone-b", "zone-c")
TYPICAL_RUN_S = 1500.0
"""The median over jobs."""
LONGEST_RUN_S = 6 * HOUR_S
LARGEST_SHARE = 0.25
"""No pod asks for more of a node than this."""
MODELS = ("V100", "A10", "T4")
GPU_SIZES, GPU_WEIGHTS = (0, 1000, 2000, 4000, 8000), (38, 48, 3, 3, 8)
"""What pods of single jobs ask for, in thousandths of a GPU, and how often; 0 is a share of one.

Shares and single GPUs are most, as in openb; larger pods are more frequent than there, so that a day has some."""
CHOOSY = 0.3
"""The share of jobs that want one model only."""
MOST_PODS = 10_000_000
MOST_SERVICES = 100_000
MOST_SCALINGS = 10_000_000
"""How often services may look at their load, all together: 60 for half a century, or 100,000 for a day."""


class DailyPattern(msgspec.Struct, frozen=True, rename="camel"):
    """What kind of day is wanted."""

    pods: int = 100_000
    nodes: int = 1_000
    load: float = 0.9
    """The highest demand, as a share of the cluster's CPUs."""
    seconds: float = DAY_S
    teams: int = 8
    """Namespaces; each is larger than the next (Zipf's law)."""
    services: int = 60
    node_cpu: int = 32
    node_memory_gib: int = 128
    failing: float = 0.02
    """The share of jobs' pods that fail once."""
    gpu_nodes: int = 0
    """How many of the nodes have GPUs; their models alternate."""
    node_gpus: int = 8


_ATTRIBUTES = {field.encode_name: field.name for field in msgspec.structs.fields(DailyPattern)}


class PatternError(ValueError):
    """A pattern that cannot be drawn."""

    def __init__(self, field: str, why: str) -> None:
        """`field` is called as in a sweep's file."""
        super().__init__(f"{field}: {why}")
        self.attribute = _ATTRIBUTES[field]
        self.why = why


class _Drawn(msgspec.Struct):
    """A workload before its size is known."""

    at: float
    until: float
    pods: int
    weight: float
    """How large a pod is, compared with others."""
    memory_per_cpu: float


def daily_pattern(pattern: DailyPattern, seed: int = 0) -> TimedWorkload:
    """Return a day. Raises `PatternError` for a pattern that cannot be."""
    check_pattern(pattern)
    rng = random.Random(f"day {seed}")
    services = list(_services(pattern, rng))
    grown = (pairwise([0, *(count for _, count in curve)]) for _, curve, _, _ in services)
    made = sum(max(0, after - before) for counts in grown for before, after in counts)
    jobs = list(_jobs(pattern, rng, max(0, pattern.pods - made)))
    cpu_of_weight, memory_of_weight = _scales(pattern, services, jobs)
    records: list[AnyRecord] = list(_nodes(pattern))
    on_gpus = dict(_gpu_jobs(pattern, jobs, random.Random(f"gpus {seed}")))
    for number, (team, curve, weight, ratio) in enumerate(services):
        shape = _shape(pattern, weight * cpu_of_weight, weight * ratio * memory_of_weight, f"service-{number}", 1000)
        records += [
            ServiceScales(at=at, name=f"service-{number}", namespace=f"team-{team}", replicas=count, shape=shape)
            for at, count in curve
        ]
    for number, (team, job, runs, fails) in enumerate(jobs):
        memory = job.weight * job.memory_per_cpu * memory_of_weight
        shape = _shape(pattern, job.weight * cpu_of_weight, memory, f"job-{number}", 0)
        if number in on_gpus:
            asked = on_gpus[number]
            group = f"job-{number}" if job.pods > 1 and asked.milli >= 1000 else ""
            if group:
                records.append(_gang(job.at, f"team-{team}", group, job.pods))
            shape = msgspec.structs.replace(shape, resources=asked.resources, spec=asked.spec(group))
        records.append(
            JobStarts(
                at=job.at,
                name=f"job-{number}",
                namespace=f"team-{team}",
                pods=job.pods,
                runs=runs,
                fails=fails,
                shape=shape,
            )
        )
    source = f"a daily pattern, {pattern.pods} pods on {pattern.nodes} nodes, load {pattern.load:g}, seed {seed}"
    return TimedWorkload(TraceHeader(source=source, seconds=pattern.seconds), tuple(by_time(records)))


def check_pattern(pattern: DailyPattern) -> None:
    """Raise `PatternError` for a pattern that cannot be, or that would be too much to draw."""
    for field, value, least, most in (
        ("pods", pattern.pods, 1, MOST_PODS),
        ("nodes", pattern.nodes, 1, 1_000_000),
        ("nodeCpu", pattern.node_cpu, 1, 1_000_000),
        ("nodeMemoryGib", pattern.node_memory_gib, 1, 1_000_000),
        ("teams", pattern.teams, 1, 1_000),
        ("services", pattern.services, 0, MOST_SERVICES),
        ("gpuNodes", pattern.gpu_nodes, 0, pattern.nodes),
        ("nodeGpus", pattern.node_gpus, 1, MOST_GPUS),
    ):
        if not least <= value <= most:
            raise PatternError(field, f"{value} is not from {least} to {most}")
    if pattern.services > pattern.pods:
        raise PatternError("services", f"{pattern.services} of {pattern.pods} pods; each has at least one of them")
    if not 0 < pattern.load <= 5:
        raise PatternError("load", f"{pattern.load:g} is not above 0 and at most 5")
    if not 0 <= pattern.failing <= 1:
        raise PatternError("failing", f"{pattern.failing:g} is not a share from 0 to 1")
    if not 0 < pattern.seconds <= 366 * DAY_S:
        raise PatternError("seconds", "the time is above 0 and at most a year of 366 days")
    if (steps := pattern.services * pattern.seconds / SCALES_EVERY_S) > MOST_SCALINGS:
        raise PatternError(
            "services", f"they are scaled {steps:.0f} times in this time, and {MOST_SCALINGS} are the most there may be"
        )


def _nodes(pattern: DailyPattern) -> Iterator[NodeComes]:
    for number in range(pattern.nodes):
        labels = {"topology.kubernetes.io/zone": ZONES[number % len(ZONES)], "kubernetes.io/hostname": f"node-{number}"}
        has_gpus = number < pattern.gpu_nodes
        if has_gpus:
            labels[MODEL] = MODELS[number % len(MODELS)]
        yield NodeComes(
            at=0.0,
            name=f"node-{number}",
            cpu=1000 * pattern.node_cpu,
            memory=pattern.node_memory_gib * GIB,
            labels=labels,
            resources=gpus_of(pattern.node_gpus) if has_gpus else {},
            price=1.0,
        )


def _sizes(pattern: DailyPattern) -> list[float]:
    """The sizes of teams, each with those before it."""
    return list(accumulate(1 / (rank + 1) for rank in range(pattern.teams)))


def _team(sizes: list[float], rng: random.Random) -> int:
    return rng.choices(range(len(sizes)), cum_weights=sizes)[0]


def _daylight(at: float, peak_s: float, depth: float) -> float:
    """How busy a moment is, from 1 - depth to 1."""
    return 1 - depth * (1 - math.cos(2 * math.pi * (at - peak_s) / DAY_S)) / 2


_Service = tuple[int, list[tuple[float, int]], float, float]


def _services(pattern: DailyPattern, rng: random.Random) -> Iterator[_Service]:
    """Yield team, replicas over time, weight of a pod, and memory per CPU, of each service."""
    sizes = _sizes(pattern)
    share = pattern.pods * 0.1 / max(pattern.services, 1)  # services make few pods, but those stay
    for _ in range(pattern.services):
        team, size = _team(sizes, rng), max(1.0, rng.lognormvariate(math.log(max(share, 1.0)) - 0.5, 1.0))
        depth, peak = rng.uniform(0.2, 0.7), AFTERNOON_S + rng.gauss(0, HOUR_S)
        curve: list[tuple[float, int]] = []
        offset = rng.uniform(0, SCALES_EVERY_S)
        steps = int(pattern.seconds // SCALES_EVERY_S) + 1
        for step in range(steps):
            at = 0.0 if step == 0 else step * SCALES_EVERY_S + offset
            count = max(1, round(size * _daylight(at, peak, depth) * rng.uniform(0.97, 1.03)))
            if at < pattern.seconds and (not curve or abs(count - curve[-1][1]) > 0.04 * curve[-1][1]):
                curve.append((at, count))
        yield team, curve, rng.lognormvariate(0.3, 0.6), rng.uniform(2, 6)


_Job = tuple[int, _Drawn, tuple[float, ...], tuple[int, ...]]


def _jobs(pattern: DailyPattern, rng: random.Random, pods: int) -> Iterator[_Job]:
    """Yield jobs of this many pods together, in no order of time."""
    left, sizes = pods, _sizes(pattern)
    while left > 0:
        size = min(left, max(1, int(rng.lognormvariate(1.2, 1.3))))
        left -= size
        team = _team(sizes, rng)
        peak = NIGHT_S if team % 2 else AFTERNOON_S
        while True:  # by rejection: the rate of the day is never above 1
            at = rng.uniform(0, pattern.seconds)
            if rng.random() < _daylight(at, peak, 0.8):
                break
        typical = rng.lognormvariate(math.log(TYPICAL_RUN_S), 1.0)
        runs = tuple(round(min(LONGEST_RUN_S, max(5.0, typical * rng.lognormvariate(0, 0.25))), 1) for _ in range(size))
        fails = tuple(index for index in range(size) if rng.random() < pattern.failing)
        drawn = _Drawn(round(at, 3), at + max(runs), size, rng.lognormvariate(0, 0.8), rng.uniform(1, 8))
        yield team, drawn, runs, fails


class _GpusAsked(NamedTuple):
    """What each pod of a job asks for."""

    milli: int
    """In thousandths of a GPU; from 1,000 on it is whole ones."""
    models: tuple[str, ...]

    @property
    def resources(self) -> dict[str, int]:
        return gpus_of(self.milli // 1000) if self.milli >= 1000 else {GPU_MILLI: self.milli}

    def spec(self, group: str) -> dict[str, object]:
        """What stands in the spec, for a member of a group where one is named."""
        return of_models(list(self.models)) | ({"schedulingGroup": {"podGroupName": group}} if group else {})


def _gpu_jobs(pattern: DailyPattern, jobs: list[_Job], rng: random.Random) -> Iterator[tuple[int, _GpusAsked]]:
    """Yield the jobs that ask for GPUs, by number."""
    left = pattern.load * pattern.gpu_nodes * pattern.node_gpus * 1000 * pattern.seconds
    models = MODELS[: pattern.gpu_nodes]
    for number in rng.sample(range(len(jobs)), len(jobs)) if left else ():
        _, job, runs, _ = jobs[number]
        milli = rng.choices(GPU_SIZES, GPU_WEIGHTS)[0] if job.pods == 1 else rng.choice((1000, 1000, 2000, 8000))
        milli = min(milli or 10 * rng.randrange(10, 90), 1000 * pattern.node_gpus)
        asked = sum(min(run, max(0.0, pattern.seconds - job.at)) for run in runs) * milli
        # What would ask for more than all GPUs, or for more than is left, goes without.
        if asked <= left and job.pods * milli <= pattern.gpu_nodes * pattern.node_gpus * 1000 / 2:
            left -= asked
            yield number, _GpusAsked(milli, tuple(rng.sample(models, 1)) if rng.random() < CHOOSY else ())


def _gang(at: float, namespace: str, name: str, pods: int) -> ObjectComes:
    metadata = {"name": name, "namespace": namespace}
    spec = {"schedulingPolicy": {"gang": {"minCount": pods}}}
    manifest = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}
    return ObjectComes(at=at, manifest=manifest)


def _scales(pattern: DailyPattern, services: list[_Service], jobs: list[_Job]) -> tuple[float, float]:
    """How many thousandths of a CPU a weight of 1 is, and how many bytes a weight of 1 with a memory ratio of 1."""
    changes: list[tuple[float, float, float]] = []
    for _, curve, weight, ratio in services:
        before = 0
        for at, count in curve:
            changes.append((at, (count - before) * weight, (count - before) * weight * ratio))
            before = count
    for _, job, runs, _ in jobs:
        for run in runs:
            changes.append((job.at, job.weight, job.weight * job.memory_per_cpu))
            changes.append((job.at + run, -job.weight, -job.weight * job.memory_per_cpu))
    cpu = memory = most_cpu = most_memory = 0.0
    for _, more_cpu, more_memory in sorted(changes):
        cpu, memory = cpu + more_cpu, memory + more_memory
        most_cpu, most_memory = max(most_cpu, cpu), max(most_memory, memory)
    whole_cpu, whole_memory = pattern.nodes * pattern.node_cpu * 1000, pattern.nodes * pattern.node_memory_gib * GIB
    # Memory is asked for a little less than CPUs are, so that one of the two is what runs out.
    return (
        pattern.load * whole_cpu / max(most_cpu, 1e-9),
        0.8 * pattern.load * whole_memory / max(most_memory, 1e-9),
    )


def _shape(pattern: DailyPattern, cpu: float, memory: float, app: str, priority: int) -> PodShapeGiven:
    cpu = min(cpu, LARGEST_SHARE * pattern.node_cpu * 1000)
    mib = min(memory, LARGEST_SHARE * pattern.node_memory_gib * GIB) / 2**20
    return PodShapeGiven(
        cpu=max(10, 10 * round(cpu / 10)),
        memory=max(16, 16 * round(mib / 16)) * 2**20,
        priority=priority,
        labels={"app": app},
    )
