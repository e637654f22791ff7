"""A workload over time: nodes that come and go, jobs that start, run and fail, services that are scaled.

A trace file is a header line and one record a line, by time, as JSON; compressed where its name ends in `.gz`. It holds
what happens, never what a scheduler made of it, so that any scheduler can be tried on it.
"""

import gzip
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from berth.api.untrusted import UNREADABLE, problem_of

VERSION = 1
MOST_PODS_AT_ONCE = 1_000_000
"""A record that asks for more pods than this is taken for a mistake."""


class TraceError(ValueError):
    """A trace that cannot be read; the message is one line that says where, and why."""


class TraceHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The first line of a trace."""

    kind: str = "BerthTrace"
    version: int = VERSION
    source: str = ""
    """Where it comes from, in words."""
    seconds: float = 0.0
    """How long the time is that it covers."""


class _Start(msgspec.Struct):
    """What tells a header from anything else."""

    kind: str = ""
    version: int = 0


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="what", kw_only=True):
    """Something that happens; `at` is in seconds since the beginning."""

    at: float


class NodeComes(Record, frozen=True, kw_only=True, tag="node"):
    """A node joins, or one that is there is changed."""

    name: str
    cpu: int
    """Allocatable, in thousandths of a CPU."""
    memory: int
    """Allocatable, in bytes."""
    pods: int = 110
    resources: dict[str, int] = {}
    """Other allocatable resources, such as `nvidia.com/gpu`."""
    labels: dict[str, str] = {}
    price: float = 0.0
    """What it costs an hour."""


class NodeGoes(Record, frozen=True, kw_only=True, tag="nodeGone"):
    """A node leaves, with everything on it."""

    name: str


class PodShapeGiven(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the pods of a workload are like."""

    cpu: int = 0
    """Requested, in thousandths of a CPU."""
    memory: int = 0
    """Requested, in bytes."""
    resources: dict[str, int] = {}
    priority: int = 0
    labels: dict[str, str] = {}
    spec: dict[str, Any] = {}
    """Anything else of a pod's spec: node selector, affinity, spread constraints, tolerations."""


class JobStarts(Record, frozen=True, kw_only=True, tag="job"):
    """A job's pods are created; each runs for its time from when it is bound, and is gone."""

    name: str
    namespace: str = "default"
    runs: tuple[float, ...]
    """For how many seconds; one for all pods, or one for each."""
    pods: int = 1
    fails: tuple[int, ...] = ()
    """The pods, by index, that fail once half-way and are replaced."""
    shape: PodShapeGiven = PodShapeGiven()


class ServiceScales(Record, frozen=True, kw_only=True, tag="service"):
    """A service has this many replicas from now on; the first such record of a service creates it."""

    name: str
    namespace: str = "default"
    replicas: int
    shape: PodShapeGiven = PodShapeGiven()


AnyRecord = NodeComes | NodeGoes | JobStarts | ServiceScales


class TimedWorkload(msgspec.Struct, frozen=True):
    """A workload over time, in memory."""

    header: TraceHeader
    records: tuple[AnyRecord, ...]
    """By time."""

    @property
    def pods(self) -> int:
        """How many pods its jobs and the growth of its services make; those that are replaced count once."""
        made, replicas = 0, dict[tuple[str, str], int]()
        for record in self.records:
            if isinstance(record, JobStarts):
                made += record.pods
            elif isinstance(record, ServiceScales):
                key = record.namespace, record.name
                made += max(0, record.replicas - replicas.get(key, 0))
                replicas[key] = record.replicas
        return made


def write_trace(path: str | Path, header: TraceHeader, records: Iterable[AnyRecord]) -> int:
    """Write a trace; return how many records it has. The same records give the same file. Raises `OSError`."""
    encode = msgspec.json.Encoder().encode
    lines = [encode(header), *map(encode, records)]
    content = b"\n".join(lines) + b"\n"
    Path(path).write_bytes(gzip.compress(content, 6, mtime=0) if str(path).endswith(".gz") else content)
    return len(lines) - 1


def read_trace(path: str | Path) -> TimedWorkload:
    """Read a trace. Raises `TraceError`."""
    lines = _lines(Path(path))
    first = next(lines, b"{}")
    try:
        start = msgspec.json.decode(first, type=_Start)
    except UNREADABLE:
        start = _Start()
    if start.kind != "BerthTrace":
        raise TraceError(f"{path}: no trace: its first line is not a header; `berth trace import` makes one of others")
    if start.version > VERSION:
        raise TraceError(f"{path}: a trace of version {start.version}; this Berth reads up to {VERSION}")
    try:
        header = msgspec.json.decode(first, type=TraceHeader)
    except UNREADABLE as error:
        raise TraceError(f"{path}:1: {problem_of(error)}") from None
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyRecord)
    records: list[AnyRecord] = []
    for number, line in enumerate(lines, 2):
        try:
            record = decoder.decode(line)
        except UNREADABLE as error:
            raise TraceError(f"{path}:{number}: {problem_of(error)}") from None
        if problem := _problem(record, records[-1].at if records else 0.0):
            raise TraceError(f"{path}:{number}: {problem}")
        records.append(record)
    return TimedWorkload(header, tuple(records))


def _problem(record: AnyRecord, before: float) -> str:
    if not before <= record.at < float("inf"):
        return f"at {record.at:g}: records are sorted by time, and the one before is at {before:g}"
    if isinstance(record, JobStarts):
        if not 0 < record.pods <= MOST_PODS_AT_ONCE:
            return f"job {record.name}: {record.pods} pods"
        if len(record.runs) not in (1, record.pods) or not all(0 <= run < float("inf") for run in record.runs):
            return f"job {record.name}: runs needs one number of seconds, or one for each of its {record.pods} pods"
        if any(not 0 <= index < record.pods for index in record.fails):
            return f"job {record.name}: fails names a pod that it does not have"
    if isinstance(record, ServiceScales) and not 0 <= record.replicas <= MOST_PODS_AT_ONCE:
        return f"service {record.name}: {record.replicas} replicas"
    return ""


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as start:
            is_zipped = start.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_zipped else path.open("rb") as file:
            yield from (line for line in file if line.strip())
    except (OSError, EOFError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise TraceError(f"{path}: {why}") from None


def by_time(records: Sequence[AnyRecord]) -> list[AnyRecord]:
    """Return records by time; those of one moment stay in their order, nodes first."""
    return sorted(records, key=lambda record: (record.at, not isinstance(record, NodeComes)))
