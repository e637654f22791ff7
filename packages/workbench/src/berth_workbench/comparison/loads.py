"""The loads on which configurations are tried: a cluster with pods to place in it, or a workload over time.

A load is a value. `packed` turns it into bytes, which are the same everywhere, so that a run can be described by their
hash and carried out by another process; `unpacked` turns them back.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from berth.api.codec import decode
from berth.api.meta import Struct
from berth.api.node import Node, PriorityClass
from berth.api.pod import Pod, PodStatus
from berth.framework.setup import Setup
from berth_workbench.planning.dynamic_admission import unasked_about
from berth_workbench.planning.scenario import APPLY
from berth_workbench.simulation.admission import OF_ADMISSION, AdmissionGate, admission_over, with_priority
from berth_workbench.simulation.budgets import follows_its_node
from berth_workbench.simulation.changes import read_step
from berth_workbench.simulation.cluster import SimulatedCluster
from berth_workbench.simulation.measures import controller_of, is_pending
from berth_workbench.simulation.site import Site
from berth_workbench.simulation.steps import Manifests, Step, take_steps
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch
from berth_workbench.simulation.workloads import POD_MAKERS, claim_templates, expand
from berth_workbench.snapshot.documents import Document
from berth_workbench.snapshot.snapshot import EMPTY, Snapshot, uncollected
from berth_workbench.traces.generator import DailyPattern
from berth_workbench.traces.trace import AnyRecord, TimedWorkload, TraceHeader

Json = dict[str, Any]


class ClusterLoad(msgspec.Struct, frozen=True):
    """A cluster, and the pods to be placed in it."""

    standing: tuple[Struct, ...]
    """Everything that is there, pods on nodes included."""
    pods: tuple[Pod, ...]
    """Without a node, in the order in which they came."""
    steps: tuple[tuple[str, Any], ...] = ()
    """Changes of the cluster once the pods are placed: the key of a scenario's step, and its value."""
    others: tuple[Json, ...] = ()
    """Manifests that the scheduler does not read by itself: what plugins follow, and workloads for the steps."""
    refused: dict[str, int] = {}
    """How many pods of the manifests the API server does not let be made, by the reason."""
    notes: tuple[str, ...] = ()
    """What has to be known to read an answer about it; no run depends on that, so it is not packed."""

    @classmethod
    @uncollected()
    def of(
        cls,
        snapshot: Snapshot,
        manifests: Iterable[Document] = (),
        *,
        replaces_all: bool = False,
        steps: Iterable[Step] = (),
    ) -> "ClusterLoad":
        """Take a cluster's pending pods, and those of the manifests after them.

        They come in the order of their creation, which objects tell in whole seconds: within a second, those that have
        a node are assumed to have come before those that still wait for one.

        With `replaces_all`, every running pod that a controller owns is placed anew, except those that follow their
        node (a DaemonSet's). `steps` are carried out once the pods are placed. Raises `ObjectError`, `ManifestError`.
        """
        standing: list[Struct] = []
        pending: list[Pod] = []
        placed: set[str] = set()
        classes: dict[str, PriorityClass] = {}
        for obj in snapshot.structs():  # pods come last
            if isinstance(obj, PriorityClass):
                classes[obj.metadata.name] = obj
            if not isinstance(obj, Pod):
                standing.append(obj)
                continue
            obj = with_priority(obj, classes, is_stored=True)
            if is_pending(obj):
                pending.append(obj)
            elif replaces_all and _is_replaceable(obj):
                placed.add(obj.key)
                pending.append(_unbound(obj))
            else:
                standing.append(obj)
        documents = list(manifests)
        expansion = expand(
            documents,
            nodes=[obj for obj in standing if isinstance(obj, Node)],
            templates=claim_templates(snapshot.of("ResourceClaimTemplate")),
            taken=[pod.key for pod in (*standing, *pending) if isinstance(pod, Pod)],
        )
        pending.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key not in placed, pod.key))
        changes = tuple(_described(each) for each in steps)
        others = [
            {**document.manifest, "kind": document.kind, "apiVersion": document.api_version}
            for document in (*snapshot.documents, *documents)
            if not document.is_read_by_scheduler and (changes or document.kind not in POD_MAKERS)
        ]
        standing += expansion.objects
        admission = admission_over((*standing, *pending), (*snapshot.of(*OF_ADMISSION), *documents))
        gate, refused = AdmissionGate(admission), Counter[str]()
        for pod in expansion.pods:
            new, why = gate.let_in(pod)
            if why:
                refused[f"refused by the API server: {why}"] += 1
            else:
                pending.append(new)
        notes = unasked_about(snapshot, documents)
        return cls(tuple(standing), tuple(pending), changes, tuple(others), dict(refused), notes)

    def stand(self, configuration: Setup, watch: WorkWatch = UNWATCHED, *, memos: bool = True) -> SimulatedCluster:
        """Return a cluster with all existing objects, including those that the configuration's plugins follow.

        Raises `StoppedError`, `ConfigError`, `RegistryError`.
        """
        made = Site.of(EMPTY, configuration, memos=memos).cluster
        made.add(watch.over(self.standing))
        made.admission.take(made.add_followed(self._documents()))
        return made

    def _documents(self) -> list[Document]:
        return [Document(each["kind"], each, "the cluster", each["apiVersion"]) for each in self.others]

    def place(self, cluster: SimulatedCluster, watch: WorkWatch = UNWATCHED) -> None:
        """Have the pods placed in a cluster with everything else, and carry the steps out.

        Raises `ChangeError`, `ManifestError`, `StuckError`, `StoppedError`.
        """
        cluster.add(watch.over(self.pods))
        cluster.settle(watch=watch)
        if self.steps:
            site = Site(cluster, self._documents(), watch=watch)
            take_steps(site, [_read(*each, f"steps[{number}]") for number, each in enumerate(self.steps)])


def _described(step: Step) -> tuple[str, Any]:
    """Return a step as a scenario's file has it, with manifests in place of their files."""
    if isinstance(step, Manifests):
        return APPLY, [
            {**document.manifest, "kind": document.kind, "apiVersion": document.api_version}
            for document in step.documents
        ]
    return step.step, msgspec.to_builtins(step)


def _read(step: str, value: Any, where: str) -> Step:
    if step != APPLY:
        return read_step(step, value, where)
    return Manifests([Document(each["kind"], each, where, each.get("apiVersion", "")) for each in value], where)


def _is_replaceable(pod: Pod) -> bool:
    is_over = pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None
    return bool(controller_of(pod.metadata)[0]) and not follows_its_node(pod) and not is_over


def _unbound(pod: Pod) -> Pod:
    return Pod(pod.metadata, msgspec.structs.replace(pod.spec, node_name=""), PodStatus())


class DrawnLoad(msgspec.Struct, frozen=True):
    """A day of some pattern, drawn anew for each seed."""

    pattern: DailyPattern


Load = ClusterLoad | TimedWorkload | DrawnLoad


def notes_of(load: Load) -> tuple[str, ...]:
    """Return the notes needed to read an answer about a load."""
    return load.notes if isinstance(load, ClusterLoad) else ()


_ENCODE = msgspec.json.Encoder().encode


class _Head(msgspec.Struct, frozen=True):
    """The first line of a packed load."""

    kind: str
    pods: int = 0
    """How many of the objects are pods to be placed; they come last."""
    steps: tuple[tuple[str, Any], ...] = ()
    others: tuple[Json, ...] = ()
    pattern: DailyPattern = DailyPattern()
    refused: dict[str, int] = {}


def packed(load: Load) -> bytes:
    """Return a load as bytes: a line that says what it is, and one for each object or record."""
    if isinstance(load, DrawnLoad):
        return _ENCODE(_Head("DailyPattern", pattern=load.pattern))
    if isinstance(load, TimedWorkload):
        return b"\n".join([_ENCODE(load.header), *map(_ENCODE, load.records)])
    objects: Sequence[Struct] = (*load.standing, *load.pods)
    lines = [_ENCODE((type(obj).__name__, obj)) for obj in objects]
    head = _Head("ClusterLoad", len(load.pods), load.steps, load.others, refused=load.refused)
    return b"\n".join([_ENCODE(head), *lines])


def unpacked(content: bytes) -> Load:
    """Return the load packed in some bytes."""
    first, _, rest = content.partition(b"\n")
    head = msgspec.json.decode(first, type=_Head)
    if head.kind == "DailyPattern":
        return DrawnLoad(head.pattern)
    if head.kind == TraceHeader().kind:
        record_of = msgspec.json.Decoder(AnyRecord).decode
        header = msgspec.json.decode(first, type=TraceHeader)
        return TimedWorkload(header, tuple(record_of(line) for line in rest.splitlines()))
    objects = list(_objects(rest))
    begin = len(objects) - head.pods
    pods = tuple(pod for pod in objects[begin:] if isinstance(pod, Pod))
    return ClusterLoad(tuple(objects[:begin]), pods, head.steps, head.others, head.refused)


def _objects(content: bytes) -> Iterator[Struct]:
    line_of = msgspec.json.Decoder(tuple[str, msgspec.Raw]).decode
    for line in content.splitlines():
        kind, body = line_of(line)
        yield decode(kind, bytes(body))


def hash_of(content: bytes) -> str:
    """Return the hash by which a content is known."""
    return hashlib.sha256(content).hexdigest()
