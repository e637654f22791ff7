"""Reads the Standard Workload Format of the Parallel Workloads Archive: one job a line, in eighteen numbers.

A job is a pod of one CPU for each of its processors, all of them at once when it was submitted, and they run as long as
it did. They are placed one by one here, while the machine began them together: so a plugin that schedules gangs is what
to try on it. Memory is in KiB a processor. -1 stands for what is not known. The header says how large the machine is.
"""

from collections.abc import Iterator
from pathlib import Path

from berth_workbench.traces.tables import is_sampled
from berth_workbench.traces.trace import (
    LONGEST_S,
    MOST_OF_ANYTHING,
    MOST_PODS_AT_ONCE,
    AnyRecord,
    JobStarts,
    NodeComes,
    PodShapeGiven,
    TimedWorkload,
    TraceError,
    TraceHeader,
    by_time,
    lines_of,
)

FIELDS = 18
JOB, SUBMIT, RUN, ALLOCATED, USED_KIB, ASKED, ASKED_KIB, USER = 0, 1, 3, 4, 6, 7, 9, 11
KIB = 1024


def read_swf(
    file: Path, *, node_memory: int, begin_s: float = 0.0, end_s: float = float("inf"), sample: float = 1.0
) -> TimedWorkload:
    """Return the trace in a file; each node has so much memory, in bytes. Raises `TraceError`."""
    header: dict[str, str] = {}
    jobs = list(_jobs(file, header, begin_s, end_s, sample))
    processors = _whole(file, header, "MaxProcs") or _whole(file, header, "MaxNodes")
    nodes = _whole(file, header, "MaxNodes") or processors
    if not processors:
        raise TraceError(f"{file}: its header has neither MaxProcs nor MaxNodes, so how large is the machine?")
    records: list[AnyRecord] = [
        NodeComes(
            at=0.0,
            name=f"node-{number}",
            cpu=1000 * ((number + 1) * processors // nodes - number * processors // nodes),
            memory=node_memory,
            pods=1000,
            labels={"kubernetes.io/hostname": f"node-{number}"},
        )
        for number in range(nodes)
    ]
    longest = max((job.at + job.runs[0] for job in jobs), default=0.0)
    seconds = longest if end_s == float("inf") else end_s - begin_s
    source = header.get("Computer") or file.name
    return TimedWorkload(TraceHeader(source=source, seconds=seconds), tuple(by_time([*records, *jobs])))


def _jobs(file: Path, header: dict[str, str], begin_s: float, end_s: float, sample: float) -> Iterator[JobStarts]:
    for number, line in lines_of(file):
        text = line.decode(errors="replace").strip()
        if text.startswith(";"):
            name, _, value = text.lstrip("; \t").partition(":")
            header.setdefault(name.strip(), value.strip())
            continue
        where = f"{file}:{number}"
        fields = _numbers(text, where)
        at, run = fields[SUBMIT], fields[RUN]
        pods = int(fields[ASKED] if fields[ASKED] > 0 else fields[ALLOCATED])
        name = f"job-{fields[JOB]:.0f}"
        if run < 0 or pods < 1 or not begin_s <= at < end_s or not is_sampled(name, sample):
            continue
        if pods > MOST_PODS_AT_ONCE or at > LONGEST_S or run > LONGEST_S:
            raise TraceError(f"{where}: a job of {pods} processors, at {at:g}, for {run:g} seconds")
        kib = fields[ASKED_KIB] if fields[ASKED_KIB] > 0 else max(0.0, fields[USED_KIB])
        if kib * KIB >= MOST_OF_ANYTHING:
            raise TraceError(f"{where}: {kib:g} KiB of memory is more than anything has")
        user = "unknown" if fields[USER] < 0 else f"user-{fields[USER]:.0f}"
        shape = PodShapeGiven(cpu=1000, memory=int(kib * KIB), labels={"job": name})
        yield JobStarts(at=at - begin_s, name=name, namespace=user, pods=pods, runs=(run,), shape=shape)


def _numbers(text: str, where: str) -> list[float]:
    parts = text.split()
    if len(parts) != FIELDS:
        raise TraceError(f"{where}: {len(parts)} fields, and {FIELDS} are expected")
    try:
        numbers = [float(part) for part in parts]
    except ValueError as error:
        raise TraceError(f"{where}: {error}") from None
    if not all(-MOST_OF_ANYTHING < number < MOST_OF_ANYTHING for number in numbers):
        raise TraceError(f"{where}: a field is no finite number")
    return numbers


def _whole(file: Path, header: dict[str, str], name: str) -> int:
    text = (header.get(name) or "0").split()[0]
    if not text.isdigit() or int(text) > MOST_PODS_AT_ONCE:
        raise TraceError(f"{file}: {name} of its header is {text!r}, no such number")
    return int(text)
