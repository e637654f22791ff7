"""Makes a workload of what happened in a cluster: of watch events as kubectl prints them, or of an audit log.

Each pod that got a node is a job of one pod: it comes when it was created, and runs as long as it did from when it was
bound until it ended or was deleted; those that never got a node are left out, for nobody knows how long they would have
run. Nodes come, change and go. What pods and nodes were beside requests, labels and the rules of where pods may run is
not in the workload: taints, ports, volumes, claims.

The audit log is the JSON lines of the log backend. Pods are read of requests for them, their `binding` and `status`, at
the levels `Request` and `RequestResponse`; nodes of the responses to their kubelets, at `RequestResponse`.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from berth.agreement.stream import Arrived, EventStream
from berth.api.codec import ObjectError, decode
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_resources import CPU, MEMORY, PODS, pod_requests
from berth.api.quantity import milli_value, value
from berth.api.untrusted import UNREADABLE, problem_of, shortened
from berth.core.intake import ObjectEvent
from berth_workbench.traces.tables import is_sampled
from berth_workbench.traces.trace import (
    AnyRecord,
    JobStarts,
    NodeComes,
    NodeGoes,
    PodShapeGiven,
    TimedWorkload,
    TraceError,
    TraceHeader,
    by_time,
    lines_of,
)

RULES = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "preemptionPolicy")
"""What a pod's spec says of where it may run."""


def read_watch_events(path: Path, *, end_s: float = float("inf"), sample: float = 1.0) -> TimedWorkload:
    """Return what happened in the files of a directory, or in one file. Raises `TraceError`, `StreamError`."""
    return workload_of(EventStream(_files(path)), "watch events", end_s, sample)


def read_audit_log(path: Path, *, end_s: float = float("inf"), sample: float = 1.0) -> TimedWorkload:
    """Return what an audit log tells of. Raises `TraceError`."""
    events = sorted((event for file in _files(path) for event in _audited(Path(file))), key=lambda each: each.at)
    return workload_of(events, "an audit log", end_s, sample)


def _files(path: Path) -> list[str]:
    files = sorted(str(each) for each in path.iterdir() if each.is_file()) if path.is_dir() else [str(path)]
    if not files:
        raise TraceError(f"{path}: there is no file in it")
    return files


class _Life:
    """A pod that is there, and when it came and was bound."""

    __slots__ = ("bound", "came", "pod")

    def __init__(self, pod: Pod, came: float) -> None:
        self.pod, self.came = pod, came
        self.bound: float | None = None


def workload_of(events: Iterable[Arrived], source: str, end_s: float, sample: float) -> TimedWorkload:
    """Return what happened, in seconds since the first event that has a time."""
    first = now = 0.0
    lives: dict[str, _Life] = {}
    nodes: dict[str, NodeComes] = {}
    records: list[AnyRecord] = []
    for event, at in events:
        kind, obj = event.kind, event.obj
        first = first or at
        now = max(now, at - first)
        if now >= end_s:
            break
        if kind == "Node" and is_sampled(obj.metadata.name, sample):
            records += _node_changes(nodes, event.type, obj, now)
        elif kind == "Pod" and is_sampled(obj.key, sample):
            life = lives.setdefault(obj.key, _Life(obj, now))
            if obj.spec.node_name and life.bound is None:
                life.bound = now
            if event.type == "DELETED" or obj.status.phase in ("Succeeded", "Failed"):
                records += _job(lives.pop(obj.key), now)
    for life in lives.values():
        records += _job(life, now)
    return TimedWorkload(TraceHeader(source=source, seconds=now), tuple(by_time(records)))


def _node_changes(nodes: dict[str, NodeComes], kind_of_event: str, node: Node, now: float) -> Iterator[AnyRecord]:
    name = node.metadata.name
    if kind_of_event == "DELETED":
        if nodes.pop(name, None) is not None:
            yield NodeGoes(at=now, name=name)
        return
    has = {each: (milli_value if each == CPU else value)(amount) for each, amount in node.status.allocatable.items()}
    cpu, memory, pods = has.pop(CPU, 0), has.pop(MEMORY, 0), has.pop(PODS, 110)
    labels = dict(node.metadata.labels)
    record = NodeComes(at=now, name=name, cpu=cpu, memory=memory, pods=pods, resources=has, labels=labels)
    known = nodes.get(name)
    if known is None or msgspec.structs.replace(known, at=now) != record:
        nodes[name] = record
        yield record


def _job(life: _Life, now: float) -> Iterator[JobStarts]:
    if life.bound is None:
        return
    pod, requests = life.pod, dict(pod_requests(life.pod))
    spec = msgspec.to_builtins(pod.spec)
    yield JobStarts(
        at=life.came,
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        runs=(now - life.bound,),
        shape=PodShapeGiven(
            cpu=requests.pop(CPU, 0),
            memory=requests.pop(MEMORY, 0),
            resources={name: amount for name, amount in requests.items() if amount},
            priority=pod.spec.priority or 0,
            labels=dict(pod.metadata.labels),
            spec={name: spec[name] for name in RULES if spec.get(name)},
        ),
    )


class _Audit(msgspec.Struct, rename="camel"):
    """A line of an audit log."""

    stage: str = ""
    verb: str = ""
    object_ref: dict[str, Any] | None = None
    response_status: dict[str, Any] | None = None
    request_object: dict[str, Any] | None = None
    response_object: dict[str, Any] | None = None
    stage_timestamp: str = ""
    kind: str = ""


def _audited(file: Path) -> Iterator[Arrived]:
    pods: dict[str, Pod] = {}
    decoder = msgspec.json.Decoder(_Audit)
    for number, line in lines_of(file):
        where = f"{file}:{number}"
        try:
            audit = decoder.decode(line)
            if audit.kind != "Event":
                raise TraceError(f"{where}: {shortened(repr(audit.kind), 80)} is no Event of an audit log")
            ref, code = audit.object_ref or {}, int((audit.response_status or {}).get("code") or 0)
            if (
                audit.stage != "ResponseComplete"
                or not 200 <= code < 300
                or ref.get("resource") not in ("pods", "nodes")
            ):
                continue
            event = _event(audit, ref, pods)
            at = datetime.fromisoformat(audit.stage_timestamp).timestamp()
        except (*UNREADABLE, ObjectError) as error:
            raise TraceError(f"{where}: {problem_of(error)}") from None
        except ValueError as error:
            raise error if isinstance(error, TraceError) else TraceError(f"{where}: {error}") from None
        if event is not None:
            yield Arrived(event, at)


def _event(audit: _Audit, ref: Mapping[str, Any], pods: dict[str, Pod]) -> ObjectEvent | None:
    """Return what a request did to a pod or node; None where it says nothing of what it is now."""
    kind, part = ("Pod" if ref["resource"] == "pods" else "Node"), ref.get("subresource") or ""
    name, namespace = str(ref.get("name") or ""), str(ref.get("namespace") or "")
    given = audit.response_object if audit.response_object else audit.request_object if audit.verb == "create" else None
    if given is not None and given.get("kind", kind) != kind:
        given = None
    key = f"{namespace}/{name or ((given or {}).get('metadata') or {}).get('name', '')}"
    if kind == "Pod" and part == "binding":
        target, known = ((audit.request_object or {}).get("target") or {}).get("name"), pods.get(key)
        if known is None or not target:
            return None
        spec = msgspec.structs.replace(known.spec, node_name=str(target))
        pods[key] = msgspec.structs.replace(known, spec=spec)
        return ObjectEvent("MODIFIED", kind, pods[key])
    if audit.verb == "delete" and not part:
        obj = pods.pop(key, None) if kind == "Pod" else decode("Node", {"metadata": {"name": name}})
        return None if obj is None else ObjectEvent("DELETED", kind, obj)
    if given is None or part not in ("", "status"):
        return None
    metadata = {"namespace": namespace, **(given.get("metadata") or {})}
    if not metadata.get("name"):
        return None
    obj = decode(kind, {**given, "metadata": metadata})
    if kind == "Pod":
        known = pods.get(key)
        if known is not None and not obj.spec.node_name and known.spec.node_name:
            obj = msgspec.structs.replace(obj, spec=known.spec)
        pods[key] = obj
    return ObjectEvent("ADDED" if audit.verb == "create" else "MODIFIED", kind, obj)
