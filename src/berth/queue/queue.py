"""The three queues: active (to be tried now), backoff (tried lately), unschedulable (waiting for a reason).

                  ┌──────────── pop ────────────→ in flight ──→ bound: done
                  │                                   │
      add ──→ active ←─── backoff over ─── backoff ←──┤ an event helped meanwhile, or an error
       │          ↑                           ↑       │
       │          └───── event, no backoff ───┤       └──→ unschedulable ──┐
       └── gated by PreEnqueue ──→ unschedulable ─────── event or age ─────┘

Called by the core with the time; decides nothing about nodes. Every pod is in at most one place.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from berth.framework.events import FORCE_ACTIVATE, RETRY, UNSCHEDULABLE_TIMEOUT, ClusterEvent
from berth.framework.status import Status
from berth.queue.heap import PodHeap
from berth.queue.in_flight import Happened, InFlight
from berth.queue.policy import QueuePolicy
from berth.queue.waking import Strategy, WakeTable, strategy
from berth.state.nominator import Nominator
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

PreEnqueue = Callable[[PodInfo], Status | None]
IncomingObserver = Callable[[str, str], None]
"""Told the queue and the event each time a pod enters a queue."""


class SchedulingQueue:
    """Pending pods. Times are seconds on the core's clock."""

    def __init__(
        self,
        *,
        sort_key: Callable[[QueuedPod], Any],
        pre_enqueue: PreEnqueue,
        tables: Mapping[str, WakeTable],
        nominator: Nominator,
        policy: QueuePolicy,
        on_incoming: IncomingObserver = lambda _queue, _event: None,
    ) -> None:
        tokens = count(1)
        self.active = PodHeap(sort_key, tokens)
        self.backoff = PodHeap(lambda queued: queued.backoff_until, tokens)
        self.error_backoff = PodHeap(lambda queued: queued.backoff_until, tokens)
        self.unschedulable: dict[str, QueuedPod] = {}
        self.in_flight = InFlight()
        self.nominator = nominator
        self.policy = policy
        self.scheduling_cycle = 0
        self._pre_enqueue = pre_enqueue
        self.tables = tables
        self._on_incoming = on_incoming
        self._next_flush: float | None = None

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.error_backoff) + len(self.unschedulable)

    def __iter__(self) -> Iterator[QueuedPod]:
        for heap in (self.active, self.backoff, self.error_backoff):
            yield from heap
        yield from tuple(self.unschedulable.values())

    def find(self, uid: str) -> QueuedPod | None:
        """Return a pod that is in one of the queues, or None."""
        heaps = (self.active, self.backoff, self.error_backoff)
        return next((found for heap in heaps if (found := heap.get(uid))), self.unschedulable.get(uid))

    def add(self, pod: PodInfo, now: float) -> None:
        """Take in a new pod; PreEnqueue decides whether it may be tried."""
        self._take(pod.uid)
        self._note_nomination(pod)
        self._to_active(QueuedPod(pod, now), "PodAdd", now)

    def update(self, pod: PodInfo, events: Iterable[Happened], now: float) -> None:
        """Take a newer object of a pod, and see whether the change makes it worth trying."""
        queued = self.find(pod.uid)
        if queued is None:
            if pod.uid in self.in_flight:
                for happened in events:
                    self.in_flight.note(happened)
            else:
                self.add(pod, now)
            return
        old, queued.pod = queued.pod, pod
        if old.status.nominated_node_name and not pod.status.nominated_node_name:
            self.nominator.withdraw(pod.uid)
        self._note_nomination(pod)
        if pod.uid in self.active:
            self.active.push(queued)
        if pod.uid in self.unschedulable:
            self._wake_by_own_change(queued, events, now)

    def delete(self, uid: str) -> None:
        """Forget a pod."""
        self._take(uid)
        self.nominator.withdraw(uid)

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod to be tried; the caller must say `done` or `add_unschedulable` later."""
        queued = self.active.pop()
        if queued is None and self.policy.pop_from_backoff:
            queued = self._pop_from_backoff(now)
        if queued is None:
            return None
        self.scheduling_cycle += 1
        self._start(queued, now)
        return queued

    def pop_with(self, first: QueuedPod, others: Iterable[str], now: float) -> list[QueuedPod]:
        """Take the pods that are to be tried with a popped one from wherever they lie; return all, `first` included.

        PreEnqueue is asked about each of them anew: those it keeps out, be it the first, are left behind as gated.
        """
        together: list[QueuedPod] = []
        for uid in others:
            queued = self.find(uid)
            if queued is None or queued is first:
                continue
            gate = self._pre_enqueue(queued.pod)
            if gate is not None and queued.is_gated:
                continue
            self._take(uid)
            if gate is not None:
                self._gate(queued, gate, "PopWithGroup", now)
                continue
            queued.let_through()
            self._start(queued, now)
            together.append(queued)
        gate = self._pre_enqueue(first.pod)
        if gate is None:
            return [first, *together]
        self.in_flight.done(first.pod.uid)
        first.attempts -= 1
        self._gate(first, gate, "PopWithGroup", now)
        return together

    def done(self, uid: str) -> None:
        """Note that a popped pod needs no wake-ups any more."""
        self.in_flight.done(uid)

    def add_unschedulable(
        self, queued: QueuedPod, unschedulable: Iterable[str], pending: Iterable[str], now: float
    ) -> None:
        """Take back a popped pod that was not placed; without rejecting plugins it was an error."""
        uid = queued.pod.uid
        queued.unschedulable_plugins, queued.pending_plugins = frozenset(unschedulable), frozenset(pending)
        queued.timestamp, queued.gating_plugin = now, ""
        is_error = not queued.rejectors
        queued.consecutive_errors = queued.consecutive_errors + 1 if is_error else 0
        queued.unschedulable_count += not is_error
        self._note_nomination(queued.pod)
        events = list(self.in_flight.events_since_start(uid))
        self.in_flight.done(uid)
        if is_error:
            self._to_backoff_or_active(queued, "ScheduleAttemptFailure", now)
            return
        best = max((strategy(queued, happened, self.tables) for happened in events), default=Strategy.SKIP)
        self._requeue(queued, best, "ScheduleAttemptFailure", now)

    def move(self, event: ClusterEvent, old: Any, new: Any, now: float, *, except_uid: str = "") -> None:
        """Note that something happened, and wake the pods that it may help (but for one that caused it itself)."""
        happened = Happened(event, old, new)
        self.in_flight.note(happened)
        for queued in tuple(self.unschedulable.values()):
            found = strategy(queued, happened, self.tables)
            if found is not Strategy.SKIP and queued.pod.uid != except_uid:
                del self.unschedulable[queued.pod.uid]
                self._requeue(queued, found, event.label, now)

    def activate(self, uid: str, now: float) -> None:
        """Move a pending pod to the active queue at once, on a plugin's word."""
        queued = self.find(uid)
        if queued is None:
            if uid in self.in_flight:
                self.in_flight.note(Happened(FORCE_ACTIVATE, None, None))
        elif uid not in self.active:
            self._take(uid)
            self._to_active(queued, FORCE_ACTIVATE.label, now)

    def retry(self, uid: str, now: float) -> None:
        """Try a pod again once its backoff is over, on the core's word; PreEnqueue is asked anew."""
        queued = self.unschedulable.pop(uid, None)
        if queued is not None:
            self._to_backoff_or_active(queued, RETRY.label, now)
        elif uid in self.in_flight:
            self.in_flight.note(Happened(RETRY, None, None))

    def flush(self, now: float) -> None:
        """Move on what has waited long enough: backoffs that are over, and very old unschedulable pods."""
        self.flush_backoff(now)
        if self._next_flush is None:
            self._next_flush = now + self.policy.flush_period_s
        elif now >= self._next_flush:
            self._next_flush = now + self.policy.flush_period_s
            self._flush_unschedulable(now)

    def flush_backoff(self, now: float) -> None:
        """Move on the pods whose backoff is over."""
        for heap in (self.backoff, self.error_backoff):
            while (first := heap.peek()) is not None and (first.backoff_until or 0.0) <= now:
                heap.pop()
                self._to_active(first, "BackoffComplete", now)

    def backoff_deadline(self) -> float | None:
        """Return when `flush_backoff` will next have something to do, or None."""
        times = [first.backoff_until for heap in (self.backoff, self.error_backoff) if (first := heap.peek())]
        return min((time for time in times if time is not None), default=None)

    def next_deadline(self) -> float | None:
        """Return when `flush` will next have something to do, or None."""
        times = [self.backoff_deadline()]
        if self.unschedulable:
            times.append(self._next_flush)
        return min((time for time in times if time is not None), default=None)

    def _flush_unschedulable(self, now: float) -> None:
        for queued in tuple(self.unschedulable.values()):
            if now - queued.timestamp > self.policy.unschedulable_age_s:
                del self.unschedulable[queued.pod.uid]
                queued.was_flushed = True
                self._requeue(queued, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label, now)

    def _wake_by_own_change(self, queued: QueuedPod, events: Iterable[Happened], now: float) -> None:
        for happened in events:
            found = strategy(queued, happened, self.tables)
            if found is not Strategy.SKIP:
                del self.unschedulable[queued.pod.uid]
                self._requeue(queued, found, happened.event.label, now)
                return

    def _requeue(self, queued: QueuedPod, how: Strategy, event: str, now: float) -> None:
        if how is Strategy.SKIP:
            self.unschedulable[queued.pod.uid] = queued
            self._on_incoming("unschedulable", event)
        elif how is Strategy.IMMEDIATELY or queued.is_gated:
            self._to_active(queued, event, now)
        else:
            self._to_backoff_or_active(queued, event, now)

    def _to_backoff_or_active(self, queued: QueuedPod, event: str, now: float) -> None:
        failures = queued.consecutive_errors or queued.unschedulable_count
        queued.backoff_until = queued.timestamp + self.policy.backoff_s(failures)
        if queued.backoff_until <= now:
            self._to_active(queued, event, now)
            return
        (self.error_backoff if queued.consecutive_errors else self.backoff).push(queued)
        self._on_incoming("backoff", event)

    def _to_active(self, queued: QueuedPod, event: str, now: float) -> None:
        """PreEnqueue has the last word on every way into the active queue."""
        gate = self._pre_enqueue(queued.pod)
        if gate is not None:
            self._gate(queued, gate, event, now)
            return
        queued.let_through()
        queued.backoff_until = None
        self.active.push(queued)
        self._on_incoming("active", event)

    def _gate(self, queued: QueuedPod, gate: Status, event: str, now: float) -> None:
        queued.gating_plugin = gate.plugin
        queued.unschedulable_plugins |= {gate.plugin}
        queued.timestamp = now
        self.unschedulable[queued.pod.uid] = queued
        self._on_incoming("gated", event)

    def _start(self, queued: QueuedPod, now: float) -> None:
        queued.attempts += 1
        queued.initial_attempt = now if queued.initial_attempt is None else queued.initial_attempt
        queued.backoff_until = None
        self.in_flight.start(queued.pod.uid)

    def _pop_from_backoff(self, now: float) -> QueuedPod | None:
        while (queued := self.backoff.pop()) is not None:
            if self._pre_enqueue(queued.pod) is None:
                return queued
            self._to_active(queued, "PopFromBackoffQ", now)
        return None

    def _take(self, uid: str) -> QueuedPod | None:
        for heap in (self.active, self.backoff, self.error_backoff):
            if (found := heap.remove(uid)) is not None:
                return found
        return self.unschedulable.pop(uid, None)

    def _note_nomination(self, pod: PodInfo) -> None:
        if pod.status.nominated_node_name:
            self.nominator.nominate(pod, pod.status.nominated_node_name)
        elif self.nominator.node_of(pod.uid) is not None:
            self.nominator.nominate(pod, self.nominator.node_of(pod.uid) or "")
