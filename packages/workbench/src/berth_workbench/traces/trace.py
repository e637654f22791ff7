"""A workload over time: nodes that come and go, jobs that start, run and fail, services that are scaled.

A trace file is a header line and one record a line, by time, as JSON; compressed where its name ends in `.gz`. It holds
what happens, never what a scheduler made of it, so that any scheduler can be tried on it.
"""

import gzip
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from berth.api.codec import ObjectError, decode
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pools import kubelet_labels
from berth.api.untrusted import UNREADABLE, problem_of, shortened
from berth.api.user_error import UserError
from berth_workbench.simulation.workloads import POD_MAKERS
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.text import MAX_LINE, SnapshotError, opened

VERSION = 1
MOST_PODS_AT_ONCE = 1_000_000
"""A record that asks for more pods than this is taken for a mistake."""
MOST_OF_ANYTHING = 10**18
"""Amounts of resources are below it, so that they fit 64 bits; so are prices."""
LONGEST_S = 10 * 366 * 86_400.0
"""No trace covers more than ten years: a run through it looks at the cluster every few minutes of them."""


class TraceError(UserError, ValueError):
    """A trace that cannot be read; the message is one line that says where, and why."""


class TraceHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The first line of a trace."""

    kind: str = "BerthTrace"
    version: int = VERSION
    source: str = ""
    """Where it comes from, in words."""
    seconds: float = 0.0
    """How long the time is that it covers."""
    sample_s: float | msgspec.UnsetType = msgspec.UNSET
    """How often the cluster is to be measured, where the workload is no day."""


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

    def node(self) -> Node:
        """Return the node as an API object. Raises `ObjectError`."""
        allocatable = {"cpu": f"{self.cpu}m", "memory": str(self.memory), "pods": str(self.pods)}
        allocatable |= {name: str(amount) for name, amount in self.resources.items()}
        manifest = {
            "metadata": {
                "name": self.name,
                "uid": f"node/{self.name}",
                "labels": kubelet_labels(self.name, self.labels),
            },
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }
        found: Node = decode("Node", manifest)
        return found


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

    def pod(self, namespace: str, owner: str, kind: str) -> Pod:
        """Return the pod that all pods of a workload are copies of, with its owner's name. Raises `ObjectError`."""
        requests = {"cpu": f"{self.cpu}m", "memory": str(self.memory)}
        requests |= {name: str(amount) for name, amount in self.resources.items()}
        manifest = {
            "metadata": {
                "name": owner,
                "namespace": namespace,
                "labels": self.labels,
                "ownerReferences": [
                    {"kind": kind, "name": owner, "uid": f"{kind}/{namespace}/{owner}", "controller": True}
                ],
            },
            "spec": {
                "priority": self.priority,
                **self.spec,
                "containers": [{"name": "c", "resources": {"requests": requests}}],
            },
        }
        pod: Pod = decode("Pod", manifest)
        return pod


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


class ObjectComes(Record, frozen=True, kw_only=True, tag="object"):
    """An object is there from now on, or is changed: a claim, a class, what a plugin follows.

    Those of watch events are nodes and pods as well.
    """

    manifest: dict[str, Any]
    runs: float | None = None
    """For how many seconds a pod runs from when it is bound; None for one that ends when it is told to."""

    def document(self) -> Document:
        """Return the object as manifests have it."""
        kind, api_version = (str(self.manifest.get(each) or "") for each in ("kind", "apiVersion"))
        return Document(kind, self.manifest, f"the object at {self.at:g}", api_version)

    def is_of(self, kind: str) -> bool:
        """Whether it is an object of a kind."""
        return bool(self.manifest.get("kind") == kind)


class ObjectGoes(Record, frozen=True, kw_only=True, tag="objectGone"):
    """An object that came so is gone, if it is still there."""

    kind: str
    key: str
    """`namespace/name`, or its name where it has no namespace."""


AnyRecord = NodeComes | NodeGoes | JobStarts | ServiceScales | ObjectComes | ObjectGoes


class TimedWorkload(msgspec.Struct, frozen=True):
    """A workload over time, in memory."""

    header: TraceHeader
    records: tuple[AnyRecord, ...]
    """By time."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes that are there at any time, sorted."""
        found = {each.name for each in self.records if isinstance(each, NodeComes)}
        objects = (each for each in self.records if isinstance(each, ObjectComes) and each.is_of("Node"))
        return tuple(sorted(found | {str(each.manifest["metadata"]["name"]) for each in objects}))

    @property
    def pods(self) -> int:
        """How many pods its jobs and the growth of its services make; those that are replaced count once."""
        made, replicas, named = 0, dict[tuple[str, str], int](), set[str]()
        for record in self.records:
            if isinstance(record, JobStarts):
                made += record.pods
            elif isinstance(record, ServiceScales):
                key = record.namespace, record.name
                made += max(0, record.replicas - replicas.get(key, 0))
                replicas[key] = record.replicas
            elif isinstance(record, ObjectComes) and record.is_of("Pod") and not record.manifest["spec"]["nodeName"]:
                named.add(record.manifest["metadata"]["uid"])
        return made + len(named)


def durations_of(records: Iterable[AnyRecord]) -> dict[str, float]:
    """Return how long the pods of each job of a trace run, the longest of each, by `namespace/name`."""
    found: dict[str, float] = {}
    for record in records:
        if isinstance(record, JobStarts) and record.runs:
            key = f"{record.namespace}/{record.name}"
            found[key] = max(found.get(key, 0.0), *record.runs)
    return found


def write_trace(path: str | Path, header: TraceHeader, records: Iterable[AnyRecord]) -> int:
    """Write a trace; return how many records it has. The same records give the same file. Raises `OSError`."""
    encode = msgspec.json.Encoder().encode
    lines = [encode(header), *map(encode, records)]
    content = b"\n".join(lines) + b"\n"
    Path(path).write_bytes(gzip.compress(content, 6, mtime=0) if str(path).endswith(".gz") else content)
    return len(lines) - 1


def read_trace(path: str | Path) -> TimedWorkload:
    """Read a trace. Raises `TraceError`."""
    lines = lines_of(Path(path))
    begins, first = next(lines, (1, b"{}"))
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
        raise TraceError(f"{path}:{begins}: {problem_of(error)}") from None
    if not 0 <= header.seconds <= LONGEST_S:
        raise TraceError(f"{path}:{begins}: seconds is {header.seconds:g}; it is from 0 to {LONGEST_S:g}")
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyRecord)
    records: list[AnyRecord] = []
    checks = _Checks()
    for number, line in lines:
        try:
            record = decoder.decode(line)
        except UNREADABLE as error:
            raise TraceError(f"{path}:{number}: {problem_of(error)}") from None
        if problem := checks.problem(record, records[-1].at if records else 0.0):
            raise TraceError(f"{path}:{number}: {problem}")
        records.append(record)
    return TimedWorkload(header, tuple(records))


class _Checks:
    """Finds what no cluster can have, looking at each kind of pod and node once."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._encode = msgspec.json.Encoder().encode

    def problem(self, record: AnyRecord, before: float) -> str:
        """Say what is wrong with a record, if anything; `before` is when the one before it is."""
        if not before <= record.at <= LONGEST_S:
            late = record.at > LONGEST_S
            most = f"a trace covers at most {LONGEST_S:g} seconds"
            return f"at {record.at:g}: " + (
                most if late else f"records are sorted by time, and the one before is at {before:g}"
            )
        if isinstance(record, NodeGoes | ObjectGoes):
            return ""
        if isinstance(record, ObjectComes):
            return _manifest_problem(record.document())
        if isinstance(record, NodeComes):
            return _name_problem("node", record.name) or self._node_problem(record)
        kind = "job" if isinstance(record, JobStarts) else "service"
        if problem := _name_problem(kind, record.name):
            return problem
        problem = _namespace_problem(record.namespace)
        if isinstance(record, JobStarts):
            problem = problem or _job_problem(record)
        elif not 0 <= record.replicas <= MOST_PODS_AT_ONCE:
            problem = problem or f"{record.replicas} replicas"
        problem = problem or self._pod_problem(record)
        return problem and f"{kind} {record.name}: {problem}"

    def _node_problem(self, node: NodeComes) -> str:
        problem = _amounts_problem({"cpu": node.cpu, "memory": node.memory, "pods": node.pods, **node.resources})
        if not problem and not 0 <= node.price < MOST_OF_ANYTHING:
            problem = f"price is {node.price:g}"
        if not problem and self._is_new(node.labels, node.resources):
            problem = _object_problem(node.node)
        return problem and f"node {node.name}: {problem}"

    def _pod_problem(self, record: JobStarts | ServiceScales) -> str:
        shape = record.shape
        if problem := _amounts_problem({"cpu": shape.cpu, "memory": shape.memory, **shape.resources}):
            return problem
        if shape.spec.get("nodeName"):
            return "its pods name a node; the scheduler is to find one"
        if not self._is_new(shape.priority, shape.labels, shape.resources, shape.spec):
            return ""
        return _object_problem(lambda: shape.pod(record.namespace, record.name, "Job"))

    def _is_new(self, *parts: Any) -> bool:
        """Whether nothing like this was looked at; amounts are no part of it, for they are looked at each time."""
        key = hashlib.blake2b(self._encode(parts), digest_size=16).digest()
        if key in self._known:
            return False
        self._known.add(key)
        return True


def _manifest_problem(given: Document) -> str:
    if given.kind in POD_MAKERS:
        return f"an object of kind {given.kind}; jobs and services have records of their own"
    if not given.kind or not given.api_version:
        return "an object without apiVersion or kind"
    return _object_problem(lambda: decode(given.kind, given.manifest)) if given.is_read_by_scheduler else ""


def _object_problem(make: Callable[[], object]) -> str:
    try:
        make()
    except ObjectError as error:
        return error.reason
    return ""


def _amounts_problem(amounts: Mapping[str, int]) -> str:
    for name, amount in amounts.items():
        if not 0 <= amount < MOST_OF_ANYTHING:
            return f"{name} is {amount}; it is at least 0, and less than {MOST_OF_ANYTHING:g}"
    return ""


def _name_problem(kind: str, name: str) -> str:
    if not name:
        return f"a {kind} without a name"
    return "" if is_name(name) else f"a {kind} called {shortened(ascii(name), 80)}, which is no name"


def _namespace_problem(namespace: str) -> str:
    if not namespace:
        return "its namespace is empty"
    return "" if is_name(namespace) else f"a namespace called {shortened(ascii(namespace), 80)}, which is no name"


def is_name(text: str) -> bool:
    """Whether something can be called so: traces have names with underscores, which Kubernetes would refuse."""
    return text.isprintable() and text.strip() == text != "" and "/" not in text


def _job_problem(job: JobStarts) -> str:
    if not 0 < job.pods <= MOST_PODS_AT_ONCE:
        return f"{job.pods} pods"
    if len(job.runs) not in (1, job.pods) or not all(0 <= run < float("inf") for run in job.runs):
        return f"runs needs one number of seconds, or one for each of its {job.pods} pods"
    if any(not 0 <= index < job.pods for index in job.fails):
        return "fails names a pod that it does not have"
    return ""


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not empty, with their numbers, unpacked where it is compressed.

    Raises `TraceError`, also for a small file that unpacks to very much, and for an endless line.
    """
    try:
        with opened(path) as file:
            for number in count(1):
                line = file.readline(MAX_LINE + 1)
                if not line:
                    return
                if len(line) > MAX_LINE:
                    raise TraceError(f"{path}:{number}: a line of more than {MAX_LINE} bytes")
                if line.strip():
                    yield number, line
    except SnapshotError as error:
        raise TraceError(str(error)) from None


def by_time(records: Sequence[AnyRecord]) -> list[AnyRecord]:
    """Return records by time; those of one moment stay in their order, nodes first."""
    return sorted(records, key=lambda record: (record.at, not isinstance(record, NodeComes)))
