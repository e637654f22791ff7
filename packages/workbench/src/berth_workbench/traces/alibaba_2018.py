"""Reads Alibaba's cluster trace of 2018 (cluster-trace-v2018): machines, online services, batch tasks.

Tables and columns are those of its schema.txt. CPU is in hundredths of a core. Memory is normalised: 100 is the largest
machine, whose size the trace does not tell, so the reader says what it takes it for. A deploy unit (`app_du`) becomes a
service that grows as its containers appear; a task of a batch job becomes a job whose pods run as long as the task did,
from when it began: what it had to wait for is in its start already.
"""

from collections.abc import Iterator
from pathlib import Path

from berth_workbench.traces.tables import amount_in, files_of, is_sampled, name_in, number_in, rows_of, things_of
from berth_workbench.traces.trace import (
    LONGEST_S,
    MOST_PODS_AT_ONCE,
    AnyRecord,
    JobStarts,
    NodeComes,
    PodShapeGiven,
    ServiceScales,
    TimedWorkload,
    TraceHeader,
    by_time,
)

MACHINE = ("machine_id", "time_stamp", "failure_domain_1", "failure_domain_2", "cpu_num", "mem_size", "status")
CONTAINER = ("container_id", "machine_id", "time_stamp", "app_du", "status", "cpu_request", "cpu_limit", "mem_size")
TASK = (
    "task_name", "instance_num", "job_name", "task_type", "status", "start_time", "end_time", "plan_cpu", "plan_mem",
)  # fmt: skip
ZONE = "topology.kubernetes.io/zone"
ONLINE_PRIORITY = 1000
SHORTEST_RUN_S = 1.0
"""Times are whole seconds, so a task may end in the second in which it begins."""


def read_alibaba_2018(
    directory: Path, *, largest_memory: int, begin_s: float = 0.0, end_s: float = float("inf"), sample: float = 1.0
) -> TimedWorkload:
    """Return the trace in a directory with machine_meta, and container_meta or batch_task, or both.

    `largest_memory` is that of the largest machine, in bytes. Only what begins between `begin_s` and `end_s` is taken,
    and of machines, services and jobs a `sample`, a share of 1. Raises `TraceError`.
    """
    records: list[AnyRecord] = list(_nodes(directory, largest_memory, sample))
    records += _services(directory, largest_memory, begin_s, end_s, sample)
    records += _jobs(directory, largest_memory, begin_s, end_s, sample)
    last = max((record.at for record in records), default=0.0)
    longest = max((record.at + max(record.runs) for record in records if isinstance(record, JobStarts)), default=0.0)
    seconds = max(last, longest) if end_s == float("inf") else end_s - begin_s
    return TimedWorkload(TraceHeader(source="Alibaba cluster-trace-v2018", seconds=seconds), tuple(by_time(records)))


def _nodes(directory: Path, largest_memory: int, sample: float) -> Iterator[NodeComes]:
    for where, name, row in things_of(directory, "machine_meta", MACHINE, sample):
        domain = name_in(row, "failure_domain_2", where)
        yield NodeComes(
            at=0.0,
            name=name,
            cpu=amount_in(row, "cpu_num", where, 1000),
            memory=amount_in(row, "mem_size", where, largest_memory / 100),
            pods=1000,
            labels={"kubernetes.io/hostname": name, ZONE: f"domain-{domain}"},
        )


def _services(
    directory: Path, largest_memory: int, begin_s: float, end_s: float, sample: float
) -> Iterator[ServiceScales]:
    known: set[str] = set()
    replicas: dict[str, int] = {}
    shapes: dict[str, PodShapeGiven] = {}
    appeared: list[tuple[float, int, str]] = []
    for file in files_of(directory, "container_meta", is_needed=False):
        for number, row in rows_of(file, CONTAINER):
            where = f"{file}:{number}"
            container, unit = name_in(row, "container_id", where), name_in(row, "app_du", where)
            if container in known or not is_sampled(unit, sample):
                continue
            known.add(container)
            at = number_in(row, "time_stamp", where, least=0, most=LONGEST_S) or 0.0
            if at < end_s:
                appeared.append((max(0.0, at - begin_s), len(appeared), unit))
                if unit not in shapes:
                    cpu = amount_in(row, "cpu_request", where, 10)
                    memory = amount_in(row, "mem_size", where, largest_memory / 100)
                    shapes[unit] = _shape(cpu, memory, unit, ONLINE_PRIORITY)
    counted: dict[tuple[float, str], int] = {}
    for at, _, unit in sorted(appeared):
        replicas[unit] = replicas.get(unit, 0) + 1
        counted[at, unit] = replicas[unit]
    for (at, unit), count in counted.items():
        yield ServiceScales(at=at, name=unit, namespace="online", replicas=count, shape=shapes[unit])


def _jobs(directory: Path, largest_memory: int, begin_s: float, end_s: float, sample: float) -> Iterator[JobStarts]:
    for file in files_of(directory, "batch_task", is_needed=False):
        for number, row in rows_of(file, TASK):
            where = f"{file}:{number}"
            job, task = name_in(row, "job_name", where), name_in(row, "task_name", where)
            start = number_in(row, "start_time", where, least=0, most=LONGEST_S)
            end = number_in(row, "end_time", where, least=0, most=LONGEST_S)
            pods = number_in(row, "instance_num", where, least=0, most=MOST_PODS_AT_ONCE)
            # Tasks that never began, or had not ended when the trace was taken, have 0 for the time.
            if not start or not end or end < start or not pods or pods < 1 or not is_sampled(job, sample):
                continue
            if begin_s <= start < end_s:
                cpu = amount_in(row, "plan_cpu", where, 10)
                memory = amount_in(row, "plan_mem", where, largest_memory / 100)
                yield JobStarts(
                    at=start - begin_s,
                    name=f"{job}-{task}".replace("_", "-").lower(),
                    namespace="batch",
                    pods=int(pods),
                    runs=(max(SHORTEST_RUN_S, end - start),),
                    shape=_shape(cpu, memory, job, 0),
                )


def _shape(cpu: int, memory: int, app: str, priority: int) -> PodShapeGiven:
    return PodShapeGiven(cpu=cpu, memory=memory, priority=priority, labels={"app": app})
