"""Reads Google's cluster traces of 2019 (version 3): machines, and the instances of jobs and allocs.

Tables, columns and event types are those of clusterdata_trace_format_v3.proto. Resources are normalised: 1 is the
largest machine, whose size the traces do not tell, so the reader says what it takes it for. A collection becomes a job
whose pods run as long as its instances did; one that failed and was submitted again is a pod that fails once. Tasks
within an alloc use what the alloc has reserved, so the alloc's instances are the pods.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from berth_workbench.traces.tables import amount_in, files_of, is_sampled, number_in, rows_of
from berth_workbench.traces.trace import (
    LONGEST_S,
    AnyRecord,
    JobStarts,
    NodeComes,
    NodeGoes,
    PodShapeGiven,
    TimedWorkload,
    TraceHeader,
    by_time,
)

MACHINE_EVENT = (
    "time", "machine_id", "type", "switch_id", "capacity.cpus", "capacity.memory", "platform_id", "missing_data_reason",
)  # fmt: skip
INSTANCE_EVENT = (
    "time", "type", "collection_id", "scheduling_class", "missing_type", "collection_type", "priority",
    "alloc_collection_id", "instance_index", "machine_id", "alloc_instance_index", "resource_request.cpus",
    "resource_request.memory", "constraint",
)  # fmt: skip
SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST = 0, 3, 4, 5, 6, 7, 8
ADD, REMOVE, UPDATE = 1, 2, 3
TYPES = {
    "SUBMIT": SUBMIT, "SCHEDULE": SCHEDULE, "EVICT": EVICT, "FAIL": FAIL, "FINISH": FINISH, "KILL": KILL, "LOST": LOST,
    "ADD": ADD, "REMOVE": REMOVE, "UPDATE": UPDATE,
}  # fmt: skip
BEGIN_S = 600.0
"""Times count from ten minutes before the trace begins; what was there before is at 0."""
AFTER_THE_END_US = 2**63 - 1
HIGHEST_PRIORITY = 10**9
"""That a pod of a user can have; the traces have none above 450."""


class _Instance(msgspec.Struct):
    """What has been seen of one instance."""

    submitted: float
    running_since: float | None = None
    ran: float = 0.0
    has_failed: bool = False
    cpu: int = 0
    memory: int = 0
    priority: int = 0


def read_google_2019(
    directory: Path,
    *,
    largest_cpu: int,
    largest_memory: int,
    begin_s: float = 0.0,
    end_s: float = float("inf"),
    sample: float = 1.0,
) -> TimedWorkload:
    """Return the trace in a directory with machine_events and instance_events.

    `largest_cpu`, in thousandths, and `largest_memory`, in bytes, are what 1 stands for. Only what begins between
    `begin_s` and `end_s` is taken, in seconds of the trace, and of machines and collections a `sample`, a share of 1.
    Raises `TraceError`.
    """
    records: list[AnyRecord] = list(_machines(directory, largest_cpu, largest_memory, begin_s, end_s, sample))
    last, collections = _instances(directory, largest_cpu, largest_memory, end_s, sample)
    end = min(end_s, last)
    for collection, instances in collections.items():
        records += _job(collection, instances, begin_s, end)
    source = "Google cluster-usage traces v3 (2019)"
    return TimedWorkload(TraceHeader(source=source, seconds=max(0.0, end - begin_s)), tuple(by_time(records)))


def _seconds(row: Mapping[str, Any], where: str) -> float | None:
    time = number_in(row, "time", where) or 0.0
    if time >= AFTER_THE_END_US:
        return None
    number_in(row, "time", where, least=0, most=LONGEST_S * 1e6)
    return max(0.0, time / 1e6 - BEGIN_S)


def _type(row: Mapping[str, Any], where: str) -> int:
    named = TYPES.get(str(row.get("type")))
    return named if named is not None else int(number_in(row, "type", where) or 0)


def _machines(
    directory: Path, largest_cpu: int, largest_memory: int, begin_s: float, end_s: float, sample: float
) -> Iterator[AnyRecord]:
    for file in files_of(directory, "machine_events"):
        for number, row in rows_of(file, MACHINE_EVENT):
            where, machine, at = f"{file}:{number}", str(row.get("machine_id")), _seconds(row, f"{file}:{number}")
            if at is None or at >= end_s or not is_sampled(machine, sample):
                continue
            name, at = f"machine-{machine}", max(0.0, at - begin_s)
            if _type(row, where) == REMOVE:
                yield NodeGoes(at=at, name=name)
                continue
            labels = {"kubernetes.io/hostname": name}
            for label, column in (("switch", "switch_id"), ("platform", "platform_id")):
                if row.get(column):
                    labels[label] = str(row[column])[:63].strip("=+/")
            yield NodeComes(
                at=at,
                name=name,
                cpu=amount_in(row, "capacity.cpus", where, largest_cpu),
                memory=amount_in(row, "capacity.memory", where, largest_memory),
                pods=1000,
                labels=labels,
            )


def _instances(
    directory: Path, largest_cpu: int, largest_memory: int, end_s: float, sample: float
) -> tuple[float, dict[str, dict[int, _Instance]]]:
    """The last moment of the trace, and all instances by collection."""
    last = 0.0
    collections: dict[str, dict[int, _Instance]] = {}
    for file in files_of(directory, "instance_events"):
        for number, row in rows_of(file, INSTANCE_EVENT):
            where, collection = f"{file}:{number}", str(row.get("collection_id"))
            at = _seconds(row, where)
            is_in_alloc = bool(number_in(row, "alloc_collection_id", where))
            if at is None or at >= end_s or is_in_alloc or not is_sampled(collection, sample):
                continue
            last = max(last, at)
            index = int(number_in(row, "instance_index", where) or 0)
            instances = collections.setdefault(collection, {})
            instance = instances.setdefault(index, _Instance(submitted=at))
            instance.cpu = max(instance.cpu, amount_in(row, "resource_request.cpus", where, largest_cpu))
            memory = amount_in(row, "resource_request.memory", where, largest_memory)
            instance.memory = max(instance.memory, memory)
            instance.priority = int(number_in(row, "priority", where, least=0, most=HIGHEST_PRIORITY) or 0)
            _note(instance, _type(row, where), at)
    for instances in collections.values():
        for instance in instances.values():
            if instance.running_since is not None:  # it still runs when the trace ends
                instance.ran = last - instance.running_since
    return last, collections


def _note(instance: _Instance, kind: int, at: float) -> None:
    if kind == SCHEDULE:
        instance.running_since = at
    elif kind in (EVICT, FAIL, FINISH, KILL, LOST):
        if instance.running_since is not None:
            instance.ran = at - instance.running_since
        instance.running_since = None
        instance.has_failed |= kind == FAIL


def _job(collection: str, instances: Mapping[int, _Instance], begin_s: float, end_s: float) -> Iterator[JobStarts]:
    """Yield a job for each moment at which instances of a collection were submitted."""
    moments: dict[float, list[_Instance]] = {}
    for _, instance in sorted(instances.items()):
        if instance.ran > 0 and begin_s <= instance.submitted < end_s:
            moments.setdefault(instance.submitted, []).append(instance)
    for number, (at, together) in enumerate(sorted(moments.items())):
        first = together[0]
        shape = PodShapeGiven(
            cpu=max(each.cpu for each in together),
            memory=max(each.memory for each in together),
            priority=first.priority,
            labels={"collection": collection},
        )
        yield JobStarts(
            at=at - begin_s,
            name=f"collection-{collection}" + (f"-{number}" if number else ""),
            namespace="production" if first.priority >= PRODUCTION else "batch",
            pods=len(together),
            runs=tuple(round(each.ran, 3) for each in together),
            fails=tuple(index for index, each in enumerate(together) if each.has_failed),
            shape=shape,
        )


PRODUCTION = 120
"""The lowest priority of the production tier (Tirmazi et al., Borg: the next generation, EuroSys 2020)."""
