"""The queue of v1.17 to v1.20: no hints; a change in the cluster is a request to move all unschedulable pods.

                  ┌────────── pop: cycle + 1 ──────────→ being scheduled ──→ bound
                  │                                            │ failed
      add ──→ active ←─── every 1 s ─── backoff ←── a move was requested in this cycle
                  ↑                        ↑                   │ else
                  └── backoff over ── move request,            ↓
                                      every 30 s if 60 s old ← unschedulable

A pod that is being scheduled cannot be moved. So each move request notes the cycle that it came in; a pod that fails in
that cycle or an earlier one goes to backoff rather than to the unschedulable pods, since what it missed may be what it
waits for. Errors wait like any failure. Chosen by `QueuePolicy.hints`; what it shares with today's queue is in `queue`.
Source: pkg/scheduler/internal/queue/scheduling_queue.go and pkg/scheduler/eventhandlers.go of release-1.20.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

from berth.api.node import Node
from berth.api.storage import StorageClass
from berth.framework.events import Action, ClusterEvent
from berth.queue.hints import Strategy
from berth.queue.in_flight import InFlightEvent
from berth.queue.queue import QueueMark, SchedulingQueue
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

ASSIGNED_POD_ADD, ASSIGNED_POD_UPDATE = "AssignedPodAdd", "AssignedPodUpdate"
FAILURE, TIMEOUT = "ScheduleAttemptFailure", "UnschedulableTimeout"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

MOVES = MappingProxyType(
    {
        "NodeAdd": "NodeAdd",
        "AssignedPodAdd": ASSIGNED_POD_ADD,
        "AssignedPodDelete": "AssignedPodDelete",
        "PersistentVolumeAdd": "PvAdd",
        "PersistentVolumeUpdate": "PvUpdate",
        "PersistentVolumeClaimAdd": "PvcAdd",
        "PersistentVolumeClaimUpdate": "PvcUpdate",
        "storage.k8s.io/StorageClassAdd": "StorageClassAdd",
        "ServiceAdd": "ServiceAdd",
        "ServiceUpdate": "ServiceUpdate",
        "ServiceDelete": "ServiceDelete",
        "storage.k8s.io/CSINodeAdd": "CSINodeAdd",
        "storage.k8s.io/CSINodeUpdate": "CSINodeUpdate",
    }
)
"""Which of today's events were move requests, and what they were called in metrics; other events moved no pods."""


class MoveRequestQueue(SchedulingQueue):
    """Pending pods, woken by move requests."""

    pod_add, pod_update = "PodAdd", "PodUpdate"

    move_request_cycle: int = -1
    """The scheduling cycle in which the last move request came."""

    def move(self, event: ClusterEvent, old: Any, new: Any, now: float, *, except_uid: str = "") -> None:
        """Request a move, if the scheduler of that time would have."""
        label = move_label(event, old, new)
        if label is not None:
            concerned = (q for q in self.unschedulable.values() if q.pod.uid != except_uid and _concerns(label, q, new))
            self._move_to_active_or_backoff(tuple(concerned), label, now)

    def remember(self) -> QueueMark:
        """Note the contents, with nothing in flight."""
        return super().remember()._replace(move_request_cycle=self.move_request_cycle)

    def rewind(self, mark: QueueMark, now: float, later_s: float) -> None:
        """Restore what was noted about the same pods, so much later."""
        super().rewind(mark, now, later_s)
        self.move_request_cycle = mark.move_request_cycle

    def _after_attempt(self, queued: QueuedPod) -> Strategy:
        """Decide where a pod that was not placed goes, whatever the reason."""
        # Besides move requests: the pod's own change, or the core's request to try it again.
        events = self.in_flight.events_since_start(queued.pod.uid)
        missed_something = any(not _is_about_another(happened.new, queued) for happened in events)
        # The current cycle, not the one in which the pod was popped: the error function of that time reads it when a
        # pod comes back.
        if missed_something or self.move_request_cycle >= self.scheduling_cycle:
            return Strategy.AFTER_BACKOFF
        return Strategy.SKIP

    def _flush_unschedulable(self, now: float) -> None:
        old = tuple(
            queued for queued in self.unschedulable.values() if now - queued.timestamp > self.policy.unschedulable_age_s
        )
        for queued in old:
            queued.was_flushed = True
        if old:
            self._move_to_active_or_backoff(old, TIMEOUT, now)

    def _wake_by_own_change(self, queued: QueuedPod, events: Iterable[InFlightEvent], now: float) -> None:
        """Wake a pod because it has changed itself: at once, whatever its backoff."""
        if any(True for _ in events):
            del self.unschedulable[queued.pod.uid]
            self._to_active(queued, self.pod_update, now)

    def _move_to_active_or_backoff(self, pods: Iterable[QueuedPod], event: str, now: float) -> None:
        for queued in pods:
            del self.unschedulable[queued.pod.uid]
            self._requeue(queued, Strategy.AFTER_BACKOFF, event, now)
        self.move_request_cycle = self.scheduling_cycle

    def _requeue(self, queued: QueuedPod, how: Strategy, event: str, now: float) -> None:
        """Queue a failed pod again: in backoff even if that is already over; the next flush moves it on."""
        if how is Strategy.AFTER_BACKOFF and event == FAILURE:
            self._backs_off(queued, now)
            self._to_backoff(queued, event)
        else:
            super()._requeue(queued, how, event, now)

    def _backs_off(self, queued: QueuedPod, now: float) -> bool:
        """All attempts count, however they failed."""
        queued.backoff_until = queued.timestamp + self.policy.backoff_s(queued.attempts)
        return self._is_backing_off(queued, now)

    def _is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        return queued.backoff_until is not None and queued.backoff_until > now

    def _to_backoff(self, queued: QueuedPod, event: str) -> None:
        """Put a pod into backoff; errors and rejections share one queue."""
        self.backoff.push(queued)
        self._on_incoming("backoff", event, queued)


def move_label(event: ClusterEvent, old: Any, new: Any) -> str | None:
    """Return the name that a move request had then, or None if the event was none."""
    if isinstance(old, Node) and isinstance(new, Node):
        return _node_change(old, new)
    if event.resource == "Pod" and event.action & Action.UPDATE:
        return ASSIGNED_POD_UPDATE
    if isinstance(new, StorageClass) and new.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return None
    return MOVES.get(event.label)


def _node_change(old: Node, new: Node) -> str | None:
    """Return the first respect in which a node has changed; becoming unschedulable helps no pod."""
    if old.spec.unschedulable and not new.spec.unschedulable:
        return "NodeSpecUnschedulableChange"
    if old.status.allocatable != new.status.allocatable:
        return "NodeAllocatableChange"
    if old.metadata.labels != new.metadata.labels:
        return "NodeLabelChange"
    if old.spec.taints != new.spec.taints:
        return "NodeTaintChange"
    if _conditions(old) != _conditions(new):
        return "NodeConditionChange"
    return None


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _is_about_another(obj: Any, queued: QueuedPod) -> bool:
    return isinstance(obj, PodInfo) and obj.uid != queued.pod.uid


def _concerns(label: str, queued: QueuedPod, new: Any) -> bool:
    """Say whether a move request moves this pod: an assigned pod helps only pods whose affinity terms match it."""
    if label not in (ASSIGNED_POD_ADD, ASSIGNED_POD_UPDATE) or not isinstance(new, PodInfo):
        return True
    return any(term.matches(new, {}) for term in queued.pod.required_affinity_terms)
