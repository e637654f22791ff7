"""Reads Microsoft's Philly trace (philly-traces): jobs that train on GPUs, and the machines.

`cluster_job_log` is one JSON list of jobs, each with its attempts; the last attempt says on how many machines a job
ran, and on how many GPUs of each. A job is as many pods as that, which run as long as all its attempts together, from
when it was submitted. The trace does not tell what jobs asked for beside GPUs, nor how large machines are: pods ask for
nothing else, and the reader says what machines have. Virtual clusters are namespaces.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of, shortened
from berth_workbench.snapshot.text import SnapshotError, opened
from berth_workbench.traces.alibaba_gpu_2023 import MOST_GPUS, gpus_of
from berth_workbench.traces.tables import files_of, is_sampled, name_in, number_in, rows_of
from berth_workbench.traces.trace import (
    AnyRecord,
    JobStarts,
    NodeComes,
    PodShapeGiven,
    TimedWorkload,
    TraceError,
    TraceHeader,
    by_time,
    is_name,
)

MACHINE = ("machineId", "number of GPUs", "single GPU mem")
MAX_LOG = 1 << 30


class _Place(msgspec.Struct):
    gpus: list[str] = []


class _Attempt(msgspec.Struct):
    start_time: str | None = None
    end_time: str | None = None
    detail: list[_Place] = []


class _Job(msgspec.Struct):
    jobid: str
    vc: str
    submitted_time: str
    attempts: list[_Attempt] = []


def read_philly(
    directory: Path, *, cpu: int, memory: int, begin_s: float = 0.0, end_s: float = float("inf"), sample: float = 1.0
) -> TimedWorkload:
    """Return the trace in a directory with cluster_job_log and cluster_machine_list.

    Each machine has so much `cpu`, in thousandths, and `memory`, in bytes. Raises `TraceError`.
    """
    records: list[AnyRecord] = list(_nodes(directory, cpu, memory, sample))
    jobs = [job for file in files_of(directory, "cluster_job_log") for job in _jobs(file, sample)]
    first = min((job.at for job in jobs), default=0.0)
    placed = [
        msgspec.structs.replace(job, at=job.at - first - begin_s) for job in jobs if begin_s <= job.at - first < end_s
    ]
    longest = max((job.at + max(job.runs) for job in placed), default=0.0)
    seconds = longest if end_s == float("inf") else end_s - begin_s
    return TimedWorkload(TraceHeader(source="Philly", seconds=seconds), tuple(by_time([*records, *placed])))


def _nodes(directory: Path, cpu: int, memory: int, sample: float) -> Iterator[NodeComes]:
    for file in files_of(directory, "cluster_machine_list"):
        for number, given in rows_of(file, MACHINE):
            row = {str(name).strip(): str(value).strip() for name, value in given.items()}
            where = f"{file}:{number}"
            name = name_in(row, MACHINE[0], where)
            gpus = int(number_in(row, MACHINE[1], where, least=0, most=MOST_GPUS) or 0)
            if is_sampled(name, sample):
                labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.memory": row.get(MACHINE[2], "")}
                yield NodeComes(
                    at=0.0, name=name, cpu=cpu, memory=memory, pods=1000, resources=gpus_of(gpus), labels=labels
                )


def _jobs(file: Path, sample: float) -> Iterator[JobStarts]:
    """Yield the jobs that ran, by seconds since 1970."""
    try:
        with opened(file) as opened_file:
            text = opened_file.read(MAX_LOG)
        jobs = msgspec.json.decode(text, type=list[_Job])
    except SnapshotError as error:
        raise TraceError(str(error)) from None
    except UNREADABLE as error:
        raise TraceError(f"{file}: {problem_of(error)}") from None
    for number, job in enumerate(jobs):
        where = f"{file}: job {number}, {shortened(job.jobid, 80)}"
        if not is_name(job.jobid) or not is_name(job.vc):
            raise TraceError(f"{where}: {'jobid' if not is_name(job.jobid) else 'vc'} is no name")
        ran = [each for each in job.attempts if each.start_time and each.end_time]
        if not ran or not is_sampled(job.jobid, sample):
            continue
        seconds = sum(_at(each.end_time, where) - _at(each.start_time, where) for each in ran)
        if seconds < 0:
            raise TraceError(f"{where}: its attempts end before they begin")
        sizes = Counter(len(place.gpus) for place in ran[-1].detail)
        for part, (gpus, pods) in enumerate(sorted(sizes.items(), reverse=True)):
            yield JobStarts(
                at=_at(job.submitted_time, where),
                name=job.jobid if not part else f"{job.jobid}-{part}",
                namespace=job.vc,
                pods=pods,
                runs=(seconds,),
                shape=PodShapeGiven(resources=gpus_of(gpus), labels={"job": job.jobid}),
            )


def _at(text: Any, where: str) -> float:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise TraceError(f"{where}: {shortened(repr(text), 80)} is no time") from None
