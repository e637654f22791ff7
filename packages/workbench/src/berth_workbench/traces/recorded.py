"""Turns watch events of a cluster into a workload over time: what people and controllers did there.

What the cluster's own scheduler did is left out. A pod has no node unless it came with one, no pod is nominated or
preempted, and claims and volumes stay as they came. A pod that ended, ends as long after its binding as it did there;
one that was deleted goes at that moment. A pod that had to leave because of where it was, preempted, drained or with
its node, has not left here: its controller's replacement is treated as the pod itself.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from berth.agreement.stream import Arrived, EventStream
from berth.api.pod import Pod, PodStatus
from berth.api.resources import RESOURCES
from berth.core.intake import FINISHED_PHASES, ObjectEvent
from berth.state.objects import key_of
from berth_workbench.snapshot.documents import NOT_READ
from berth_workbench.traces.trace import AnyRecord, NodeGoes, ObjectComes, ObjectGoes, TimedWorkload, TraceHeader

OUTCOMES: Final = frozenset({"PersistentVolumeClaim", "ResourceClaim"})
"""Kinds whose objects change because a pod that uses them got a node."""
SAMPLES: Final = 100
"""So often the cluster is measured from the first event to the last."""


def recorded_workload(paths: Sequence[str]) -> TimedWorkload:
    """Return the workload of files as `EventStream` reads them. Raises `StreamError`."""
    stream = EventStream(paths)
    recorded = _Recorded()
    for event in stream.header.objects if stream.header is not None else ():
        recorded.hear(event, 0.0)
    return _heard(recorded, stream, ", ".join(paths))


def workload_of(events: Iterable[Arrived], source: str) -> TimedWorkload:
    """Return the workload of events that come from anywhere else, by time."""
    return _heard(_Recorded(), events, source)


def _heard(recorded: "_Recorded", events: Iterable[Arrived], source: str) -> TimedWorkload:
    for event, at in events:
        recorded.hear(event, at)
    return recorded.workload(source)


class _Seen(msgspec.Struct):
    """A pod of the stream."""

    key: str
    """What it is called here; another one's name where it stands in for that."""
    record: int | None
    """Where the record of its coming is; None where it came with a node."""
    stands_in: bool = False
    bound_at: float | None = None
    is_over: bool = False
    """Whether nothing that happens to it from now on is of this workload."""


class _Recorded:
    """Makes records of events."""

    def __init__(self) -> None:
        self._records: list[AnyRecord] = []
        self._contents: dict[tuple[str, str], Any] = {}
        self._pods: dict[str, _Seen] = {}
        self._leaving: defaultdict[str, deque[_Seen]] = defaultdict(deque)
        """By the uid of their controller, pods that another one is made for."""
        self._there: int | None = None
        """How many records are of what was there when something changed for the first time."""
        self._begin = self._end = 0.0

    def hear(self, event: ObjectEvent, at: float) -> None:
        """Take an event in; those of a moment come in their order."""
        self._end = at
        if event.type != "ADDED" and self._there is None:
            self._there, self._begin = len(self._records), at
        if event.kind == "Pod":
            self._hear_of_pod(event, at)
        elif event.type == "DELETED":
            key = key_of(event.obj)
            self._contents.pop((event.kind, key), None)
            self._records.append(
                NodeGoes(at=at, name=key) if event.kind == "Node" else ObjectGoes(at=at, kind=event.kind, key=key)
            )
        elif event.kind not in NOT_READ and not self._is_outcome(event):
            metadata = msgspec.structs.replace(event.obj.metadata, resource_version="")
            self._comes(event.kind, msgspec.structs.replace(event.obj, metadata=metadata), at)

    def workload(self, source: str) -> TimedWorkload:
        """Return what was heard: what was there before anything changed, pods last, and what came after that."""
        there = len(self._records) if self._there is None else self._there
        begin = self._end if self._there is None else self._begin
        first = sorted(self._records[:there], key=lambda each: isinstance(each, ObjectComes) and each.is_of("Pod"))
        seconds = max(self._end - begin, 0.0)
        records = (
            msgspec.structs.replace(each, at=max(each.at - begin, 0.0)) for each in (*first, *self._records[there:])
        )
        return TimedWorkload(TraceHeader(source=source, seconds=seconds, sample_s=seconds / SAMPLES), tuple(records))

    def _is_outcome(self, event: ObjectEvent) -> bool:
        if event.kind == "PersistentVolume":
            return self._there is not None and event.obj.spec.claim_ref is not None
        return event.kind in OUTCOMES and (event.kind, key_of(event.obj)) in self._contents

    def _comes(self, kind: str, obj: Any, at: float) -> None:
        name = kind, key_of(obj)
        if self._contents.get(name) != obj:
            self._contents[name] = obj
            of_kind = {"apiVersion": RESOURCES[kind].api_version, "kind": kind}
            self._records.append(ObjectComes(at=at, manifest={**msgspec.to_builtins(obj), **of_kind}))

    def _hear_of_pod(self, event: ObjectEvent, at: float) -> None:
        pod: Pod = event.obj
        seen = self._pods.get(pod.metadata.uid)
        is_finished = pod.status.phase in FINISHED_PHASES
        if seen is None:
            if event.type == "DELETED" or is_finished:
                return
            seen = self._pods[pod.metadata.uid] = self._new(pod)
        if event.type == "DELETED":
            del self._pods[pod.metadata.uid]
        if seen.is_over:
            return
        if pod.spec.node_name and seen.bound_at is None:
            seen.bound_at = at
        if any(each.type == "DisruptionTarget" and each.status == "True" for each in pod.status.conditions):
            seen.is_over = True
            if owner := _controller(pod):
                self._leaving[owner].append(seen)
        elif event.type == "DELETED" or is_finished:
            self._ends(seen, at, runs=at - seen.bound_at if is_finished and seen.bound_at is not None else None)
        elif not seen.stands_in:
            self._comes("Pod", _as_it_came(pod, has_node=seen.record is None), at)

    def _new(self, pod: Pod) -> _Seen:
        if (waiting := self._leaving.get(_controller(pod))) and not pod.spec.node_name:
            gone = waiting.popleft()
            return _Seen(gone.key, gone.record, stands_in=True)
        return _Seen(pod.key, None if pod.spec.node_name else len(self._records))

    def _ends(self, seen: _Seen, at: float, runs: float | None) -> None:
        seen.is_over = True
        self._contents.pop(("Pod", seen.key), None)
        if runs is None or seen.record is None:
            self._records.append(ObjectGoes(at=at, kind="Pod", key=seen.key))
            return
        came = self._records[seen.record]
        assert isinstance(came, ObjectComes)
        self._records[seen.record] = msgspec.structs.replace(came, runs=runs)


def _controller(pod: Pod) -> str:
    return next((each.uid for each in pod.metadata.owner_references if each.controller), "")


def _as_it_came(pod: Pod, *, has_node: bool) -> Pod:
    """Return a pod without what the scheduler and the kubelet have made of it."""
    metadata = msgspec.structs.replace(pod.metadata, resource_version="")
    status = PodStatus(resource_claim_statuses=pod.status.resource_claim_statuses)
    if has_node:
        return Pod(metadata, pod.spec, msgspec.structs.replace(status, start_time=pod.status.start_time))
    return Pod(metadata, msgspec.structs.replace(pod.spec, node_name=""), status)
