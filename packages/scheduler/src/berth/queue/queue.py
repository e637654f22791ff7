"""The three queues: active (to be tried now), backoff (tried lately), unschedulable (waiting for a reason).

                  ┌──────────── pop ────────────→ in flight ──→ binding: done
                  │                                   │
      add ──→ active ←─── backoff over ─── backoff ←──┤ an event helped meanwhile, or an error
       │          ↑                           ↑       │
       │          └───── event, no backoff ───┤       └──→ unschedulable ──┐
       └── gated by PreEnqueue ──→ unschedulable ─────── event or age ─────┘

PreEnqueue is asked whenever a pod enters active or backoff from elsewhere; pods in backoff have passed it, so an idle
scheduler may pop from there. Errors and rejections back off separately: only rejected pods are popped before their
time, and only those that an event has given a new chance. A pod that was rejected after a node had been found for it,
or whose victims may not be evicted, would end the same way if tried at once, so it waits like one with an error. Called
by the core with the time; decides nothing about nodes. Every pod is in at most one place. Source:
pkg/scheduler/backend/queue of release-1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count
from math import floor
from typing import Any, NamedTuple

from berth.framework.events import FORCE_ACTIVATE, RETRY, UNSCHEDULABLE_TIMEOUT, ClusterEvent
from berth.framework.interface import TenantSortPlugin
from berth.framework.status import Status
from berth.queue.heap import PodHeap
from berth.queue.hints import Strategy, WakeTable, heard, is_kept_gated, is_of_interest, strategies, strategy
from berth.queue.in_flight import InFlight, InFlightEvent
from berth.queue.policy import BACKOFF_WINDOW_S, QueuePolicy
from berth.queue.sort_key import QueueOrder
from berth.queue.tenant_heap import TenantHeap
from berth.queue.unschedulable import UnschedulablePods
from berth.state.nominator import Nominator
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

PreEnqueue = Callable[[PodInfo, str], Status | None]
"""Asks the PreEnqueue plugins about a pod, first the one of this name ("" for none in particular)."""
IncomingObserver = Callable[[str, str, QueuedPod], None]
"""Told the queue, the event and the pod each time a pod enters a queue."""


class QueueMark(NamedTuple):
    """What a queue remembered at some moment."""

    heaps: tuple[tuple[QueuedPod, ...], ...]
    """The pods that are active, in backoff, and in backoff after an error, as they would be popped."""
    unschedulable: tuple[QueuedPod, ...]
    next_flush: float | None
    next_backoff_flush: float | None
    alarms: Mapping[str, float]
    scheduling_cycle: int
    move_request_cycle: int = -1

    def pods(self) -> Iterator[QueuedPod]:
        """Yield all pods that were in it."""
        return chain(*self.heaps, self.unschedulable)


class SchedulingQueue:
    """Pending pods. Times are seconds on the core's clock."""

    pod_add, pod_update = "UnschedulablePodAdd", "UnschedulablePodUpdate"
    """The events of a pod that is new, or first heard of when it changes."""

    def __init__(
        self,
        *,
        sort_key: Callable[[QueuedPod], Any],
        pre_enqueue: PreEnqueue,
        tables: Mapping[str, WakeTable],
        nominator: Nominator,
        policy: QueuePolicy,
        on_incoming: IncomingObserver = lambda _queue, _event, _queued: None,
        on_left: Callable[[QueuedPod], None] = lambda _queued: None,
        tenants: TenantSortPlugin | None = None,
    ) -> None:
        """`tenants` says whose pod is popped next, if the queue is shared fairly; otherwise the first by key is
        popped.
        """

        # Backoffs end with windows, so all pods of a window have the same end, and are in the order of the active queue
        # (KEP-5142).
        def by_window(queued: QueuedPod) -> tuple[float | None, Any]:
            return queued.backoff_until, sort_key(queued)

        def by_end(queued: QueuedPod) -> float | None:
            return queued.backoff_until

        # One counter for all heaps: an entry that a pod left behind in one of them never has the token that it gets
        # later.
        tokens = count(1)
        order = sort_key if isinstance(sort_key, QueueOrder) else None
        if tenants is None:
            self.active: PodHeap = PodHeap(sort_key, tokens, order)
        else:
            self.active = TenantHeap(sort_key, tenants, tokens, order)
        if not policy.pop_from_backoff:
            self.backoff = PodHeap(by_end, tokens)
        elif tenants is None:
            self.backoff = PodHeap(by_window, tokens, order)
        else:
            # What an idle scheduler takes from backoff is shared as well: most pods wait there when room is short.
            self.backoff = TenantHeap(by_window, tenants, tokens, order)
        self.error_backoff = PodHeap(by_end, tokens)
        self._heaps = (self.active, self.backoff, self.error_backoff)
        self.unschedulable = UnschedulablePods()
        self.in_flight = InFlight()
        self._wait_out: set[str] = set()
        """Pods in flight that are to wait out their backoff when they come back."""
        self.nominator = nominator
        self.policy = policy
        self.scheduling_cycle = 0
        self._pre_enqueue = pre_enqueue
        self.tables = tables
        self._on_incoming = on_incoming
        self._on_left = on_left
        self._next_flush: float | None = None
        self._next_backoff_flush: float | None = None
        self._heard: dict[ClusterEvent, bool] = {}
        self._heard_at = 0
        self._alarms: dict[str, float] = {}
        """When to try pods again at a plugin's request, by uid."""
        self._next_alarm: float | None = None
        """The earliest of these, or an earlier time."""

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.error_backoff) + len(self.unschedulable)

    def __iter__(self) -> Iterator[QueuedPod]:
        for heap in self._heaps:
            yield from heap
        yield from tuple(self.unschedulable.values())

    def find(self, uid: str) -> QueuedPod | None:
        """Return a pod that is in one of the queues, or None."""
        return next((found for heap in self._heaps if (found := heap.get(uid))), self.unschedulable.get(uid))

    def is_to_be_tried(self, uid: str) -> bool:
        """Say whether a pod will be popped without anything else happening: it is active, or backing off."""
        return any(uid in heap for heap in self._heaps)

    def add(self, pod: PodInfo, now: float, event: str = "") -> None:
        """Take in a new pod; PreEnqueue decides whether it may be tried. `event` is what brought it ("": it is new)."""
        self._take(pod.uid)
        queued = QueuedPod(pod, now)
        self._to_active(queued, event or self.pod_add, now)
        if not queued.is_gated:  # a gated pod reserves no room by what its status says
            self._note_nomination(pod)

    def update(self, pod: PodInfo, events: Iterable[InFlightEvent], now: float) -> None:
        """Take a newer object of a pod, and see whether the change makes it worth trying."""
        queued = self.find(pod.uid)
        if queued is None:
            if pod.uid in self.in_flight:
                for happened in events:
                    self.in_flight.note(happened)
            else:
                self.add(pod, now, self.pod_update)
            return
        old, queued.pod = queued.pod, pod
        # A nomination that has disappeared from the status was revoked. One that has not appeared there yet is still on
        # its way.
        if old.status.nominated_node_name and not pod.status.nominated_node_name:
            self.nominator.withdraw(pod.uid)
        if self.reserves_room(queued):
            self._note_nomination(pod)
        for heap in self._heaps:
            # Its place may depend on what has changed, such as the priority.
            if pod.uid in heap:
                heap.push(queued)
        if pod.uid in self.unschedulable:
            self.unschedulable[pod.uid] = queued
            self._wake_by_own_change(queued, events, now)

    def adopt(self, others: Iterable[QueuedPod], now: float) -> None:
        """Take over what another queue remembers about the pods that both have: attempts, errors, current backoffs.

        A pod in backoff stays there. Whatever else it waits for in the other queue, it is tried here: these plugins may
        let it pass.
        """
        for other in others:
            queued = self.find(other.pod.uid)
            if queued is None:
                continue
            queued.attempts, queued.timestamp = other.attempts, other.timestamp
            queued.unschedulable_count, queued.consecutive_errors = other.unschedulable_count, other.consecutive_errors
            if not queued.is_gated:
                queued.initial_attempt = other.initial_attempt if other.initial_attempt is not None else now
            if other.backoff_until is not None and queued.pod.uid in self.active:
                self.active.remove(queued.pod.uid)
                queued.backoff_until = other.backoff_until
                if self._is_backing_off(queued, now):
                    self._to_backoff(queued, self.pod_add)
                else:
                    self._push_active(queued, self.pod_add, now)
            elif queued.pod.uid in self.active:
                self.active.push(queued)  # its place may depend on what was taken over

    def remember(self) -> QueueMark:
        """Note the contents, with nothing in flight."""
        return QueueMark(
            tuple(tuple(queued.copied(queued.pod) for queued in heap.ordered()) for heap in self._heaps),
            tuple(queued.copied(queued.pod) for queued in self.unschedulable.values()),
            self._next_flush,
            self._next_backoff_flush,
            dict(self._alarms),
            self.scheduling_cycle,
        )

    def rewind(self, mark: QueueMark, now: float, later_s: float) -> None:
        """Restore what was noted about the same pods, so much later, with nothing in flight. No observer is told.

        Pods about which nothing was noted are taken in as new.
        """
        pods = {queued.pod.uid: queued.pod for queued in self}
        for uid in pods:
            self._take(uid)
        for heap, remembered in zip(self._heaps, mark.heaps, strict=True):
            for queued in remembered:
                heap.push(queued.copied(pods.pop(queued.pod.uid, queued.pod), later_s))
        for queued in mark.unschedulable:
            self.unschedulable[queued.pod.uid] = queued.copied(pods.pop(queued.pod.uid, queued.pod), later_s)
        self._next_flush = None if mark.next_flush is None else mark.next_flush + later_s
        self._next_backoff_flush = None if mark.next_backoff_flush is None else mark.next_backoff_flush + later_s
        self._alarms = {uid: at + later_s for uid, at in mark.alarms.items()}
        self._next_alarm = min(self._alarms.values(), default=None)
        self.scheduling_cycle = mark.scheduling_cycle
        for pod in pods.values():
            self.add(pod, now)

    def delete(self, uid: str) -> None:
        """Forget a pod."""
        found = self._take(uid)
        if found is not None:
            self._on_left(found)
        self._alarms.pop(uid, None)
        self.nominator.withdraw(uid)

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod to be tried; the caller must call `done` or `add_unschedulable` later."""
        queued = self.active.pop()
        # A queued pod that is already in flight is dropped: a pod tried twice at once could be bound twice.
        while queued is not None and queued.pod.uid in self.in_flight:
            queued = self.active.pop()
        if queued is None and self.policy.pop_from_backoff:
            # Never from `error_backoff`: whatever failed may be overloaded, and trying again at once would not help.
            queued = self.backoff.pop()
            if queued is not None:
                self._on_incoming("active", "PopFromBackoffQ", queued)
        if queued is None:
            return None
        self._start(queued)
        return queued

    def peek(self) -> QueuedPod | None:
        """Return the pod that currently comes next, disregarding tenants' shares; it stays in the queue."""
        first = self.active.peek()
        return self.backoff.peek() if first is None and self.policy.pop_from_backoff else first

    def pop_with(self, first: QueuedPod, others: Iterable[str], now: float) -> list[QueuedPod]:
        """Take the pods to be tried together with a popped one, wherever they are; return all, `first` included.

        PreEnqueue is asked again about each of them: those that it keeps out, even the first, are left behind as gated.
        """
        together: list[QueuedPod] = []
        for uid in others:
            queued = self.find(uid)
            if queued is None or queued is first:
                continue
            was_gated = queued.is_gated
            if not self._passes_pre_enqueue(queued):
                if not was_gated:
                    self._take(uid)
                    self._gate(queued, "PopWithGroup")
                else:
                    # Filed again, since pods are filed by their gate, and a different plugin may gate it now.
                    self.unschedulable[uid] = queued
                continue
            self.take(uid)
            together.append(queued)
        if self._passes_pre_enqueue(first):
            return [first, *together]
        self.in_flight.done(first.pod.uid)
        # `pop` has counted an attempt that does not take place.
        first.attempts -= 1
        self._gate(first, "PopWithGroup")
        return together

    def take(self, uid: str) -> QueuedPod | None:
        """Take a certain pod to be tried, wherever it is, as `pop` takes the next; None if it is not here."""
        queued = self._take(uid)
        if queued is not None:
            self._start(queued)
        return queued

    def done(self, uid: str) -> None:
        """Note that a popped pod needs no more wake-ups."""
        self.in_flight.done(uid)
        self._wait_out.discard(uid)

    def add_unschedulable(
        self,
        queued: QueuedPod,
        unschedulable: Iterable[str],
        pending: Iterable[str],
        now: float,
        *,
        waits_out: bool = False,
    ) -> None:
        """Take back a popped pod that was not placed; if no plugin rejected it, it was an error.

        With `waits_out` the pod, if it backs off, is not popped before its backoff is over.

        Something that happened since it was popped may already be what it waits for.
        """
        uid = queued.pod.uid
        if self.find(uid) is not None:
            self.done(uid)
            return
        queued.unschedulable_plugins, queued.pending_plugins = frozenset(unschedulable), frozenset(pending)
        queued.timestamp, queued.gating_plugin, queued.was_flushed = now, "", False
        queued.gating_reasons = ()
        queued.waits_out = waits_out or uid in self._wait_out
        is_error = not queued.rejectors
        queued.consecutive_errors = queued.consecutive_errors + 1 if is_error else 0
        queued.unschedulable_count += not is_error
        self._note_nomination(queued.pod)
        # Before `done`, which forgets the events that only this pod was waiting for.
        how = self._after_attempt(queued)
        self.done(uid)
        self._requeue(queued, how, "ScheduleAttemptFailure", now)

    def move(self, event: ClusterEvent, old: Any, new: Any, now: float, *, except_uid: str = "") -> None:
        """Note that something happened, and wake the pods that it may help (except the one that caused it).

        An event that no plugin registered for is neither kept nor compared with any pod.
        """
        # So it is while the cluster is being read at the start: there is no pod to wake, and none that could miss the
        # event.
        if not len(self.in_flight) and not self._is_heard(event):
            return
        if not is_of_interest(event, self.tables):
            return
        happened = InFlightEvent(event, old, new)
        self.in_flight.note(happened)
        # All answers first, since nothing may be removed meanwhile. Then in the order in which the pods arrived, which
        # is not the order by shape.
        woken = list(strategies(self.unschedulable, happened, self.tables, except_uid))
        woken.sort(key=lambda one: self.unschedulable.number(one[0]))
        for queued, how in woken:
            del self.unschedulable[queued.pod.uid]
            self._requeue(queued, how, event.label, now)

    def _is_heard(self, event: ClusterEvent) -> bool:
        """Say whether an event may wake any pod; worked out once while pods wait for the same reasons."""
        if not len(self.unschedulable):
            return False
        if self._heard_at != self.unschedulable.rejections:
            self._heard_at, self._heard = self.unschedulable.rejections, {}
        found = self._heard.get(event)
        if found is None:
            found = self._heard[event] = any(True for _ in heard(self.unschedulable, event, self.tables))
        return found

    def activate(self, uid: str, now: float) -> None:
        """Move a pending pod to the active queue at once, at a plugin's request; one in flight comes back to
        backoff.
        """
        queued = self.find(uid)
        if queued is None:
            self.in_flight.note_for(uid, FORCE_ACTIVATE)
        elif uid in self.unschedulable:
            del self.unschedulable[uid]
            self._to_active(queued, FORCE_ACTIVATE.label, now)
        elif uid not in self.active:
            self._take(uid)
            self._out_of_backoff(queued, FORCE_ACTIVATE.label, now)

    def wake_at(self, uid: str, at: float) -> None:
        """Try a pod again at a time, at a plugin's request; if an earlier time was requested before, that one
        counts.
        """
        self._alarms[uid] = at = min(at, self._alarms.get(uid, at))
        self._next_alarm = at if self._next_alarm is None else min(at, self._next_alarm)

    def alarm_of(self, uid: str) -> float | None:
        """Return when a plugin has asked for a pod to be tried again; None if none has."""
        return self._alarms.get(uid)

    def retry(self, uid: str, now: float, *, after_error: bool = False) -> None:
        """Try a pod again once its backoff is over, at the core's request; PreEnqueue is asked again.

        With `after_error` something begun for the pod went wrong, so its last attempt counts as an error: the backoff
        starts now, and not even an idle scheduler takes the pod before it is over.
        """
        queued = self.unschedulable.pop(uid, None)
        if after_error and queued is None and uid in self.in_flight:
            self._wait_out.add(uid)
        if queued is not None:
            if after_error:
                queued.unschedulable_plugins = queued.pending_plugins = frozenset()
                queued.consecutive_errors = max(queued.consecutive_errors, queued.unschedulable_count, 1)
                queued.timestamp = now
            self._requeue(queued, Strategy.AFTER_BACKOFF, RETRY.label, now)
        else:
            self.in_flight.note_for(uid, RETRY)

    def reserves_room(self, queued: QueuedPod) -> bool:
        """Say whether a nomination of a pod counts: a gated pod keeps room only while that room is being made for it.

        A gated pod cannot use the room, for nobody knows how long.
        """
        table = self.tables.get(queued.pod.profile_name)
        return not queued.is_gated or (table is not None and queued.gating_plugin in table.makes_room)

    def flush(self, now: float) -> None:
        """Move the pods that have waited long enough: those whose backoff is over, and very old unschedulable ones."""
        self.flush_backoff(now)
        if self._next_alarm is not None and self._next_alarm <= now:
            self._wake_on_time(now)
        is_due, self._next_flush = _tick(self._next_flush, self.policy.flush_period_s, now)
        if is_due:
            self._flush_unschedulable(now)

    def flush_backoff(self, now: float) -> None:
        """Move the pods whose backoff is over: at the end of a window, or else periodically."""
        if not self.policy.pop_from_backoff:
            is_due, self._next_backoff_flush = _tick(
                self._next_backoff_flush, self.policy.backoff_flush_period_s, now, at_first=True
            )
            if not is_due:
                return
        for heap in (self.backoff, self.error_backoff):
            while (first := heap.peek()) is not None and not self._is_backing_off(first, now):
                heap.remove(first.pod.uid)  # not the one to be popped: where tenants share, that may be another
                self._out_of_backoff(first, "BackoffComplete", now)

    def backoff_deadline(self) -> float | None:
        """Return when `flush_backoff` will next have something to do, or None."""
        times = [first.backoff_until for heap in (self.backoff, self.error_backoff) if (first := heap.peek())]
        over = min((time for time in times if time is not None), default=None)
        if over is None:
            return None
        if self.policy.pop_from_backoff:
            # `over` is the start of the window in which the backoff ends; it lasts until that window is over.
            return over + BACKOFF_WINDOW_S
        return max(over, self._next_backoff_flush or 0.0)

    def next_deadline(self) -> float | None:
        """Return when `flush` will next have something to do, or None."""
        times = [self.backoff_deadline(), self._next_alarm]
        if self.unschedulable:
            times.append(self._next_flush)
        return min((time for time in times if time is not None), default=None)

    def _wake_on_time(self, now: float) -> None:
        for _, uid in sorted((at, uid) for uid, at in self._alarms.items() if at <= now):
            del self._alarms[uid]
            self.retry(uid, now)
        self._next_alarm = min(self._alarms.values(), default=None)

    def _flush_unschedulable(self, now: float) -> None:
        age_s = self.policy.unschedulable_age_s
        old = tuple(queued for queued in self.unschedulable.values() if now - queued.timestamp > age_s)
        for queued in old:
            queued.was_flushed = True
        if old:
            happened = InFlightEvent(UNSCHEDULABLE_TIMEOUT, None, None)
            self.in_flight.note(happened)
            self._move(old, happened, now)

    def _move(self, pods: Iterable[QueuedPod], happened: InFlightEvent, now: float) -> None:
        """Wake those unschedulable pods, out of these, that an event may help."""
        for queued in pods:
            if is_kept_gated(queued, happened.event, self.tables):
                continue
            found = strategy(queued, happened, self.tables)
            if found is not Strategy.SKIP:
                del self.unschedulable[queued.pod.uid]
                self._requeue(queued, found, happened.event.label, now)

    def _wake_by_own_change(self, queued: QueuedPod, events: Iterable[InFlightEvent], now: float) -> None:
        for happened in events:
            found = strategy(queued, happened, self.tables)
            if found is Strategy.SKIP:
                continue
            del self.unschedulable[queued.pod.uid]
            self._requeue(queued, found, happened.event.label, now)
            # It may have been gated again at once; the next event of the same change may then open that gate.
            if queued.pod.uid not in self.unschedulable:
                return

    def _after_attempt(self, queued: QueuedPod) -> Strategy:
        """Decide where a pod that was not placed goes, by what happened while it was in flight."""
        uid = queued.pod.uid
        # After an error it is unknown what would help. For a pod that was `done` and then failed in PreBind or Bind, it
        # is unknown what it missed. Both are tried again after their backoff.
        if not queued.rejectors or uid not in self.in_flight:
            return Strategy.AFTER_BACKOFF
        events = self.in_flight.events_since_start(uid)
        return max((strategy(queued, happened, self.tables) for happened in events), default=Strategy.SKIP)

    def _requeue(self, queued: QueuedPod, how: Strategy, event: str, now: float) -> None:
        if how is Strategy.SKIP:
            self.unschedulable[queued.pod.uid] = queued
            self._on_incoming("unschedulable", event, queued)
        elif how is Strategy.AFTER_BACKOFF and self._backs_off(queued, now):
            self._to_backoff(queued, event)
        else:
            self._to_active(queued, event, now)

    def _backs_off(self, queued: QueuedPod, now: float) -> bool:
        """Work out when a pod's backoff ends; say whether it still lasts."""
        # Consecutive errors back off by their own count; a rejection ends the sequence, and then the rejections count.
        failures = queued.consecutive_errors or queued.unschedulable_count
        if not failures:
            return False
        queued.backoff_until = self.policy.backoff_end(queued.timestamp + self.policy.backoff_s(failures))
        return self._is_backing_off(queued, now)

    def _is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        """Say whether a backoff still lasts. One that ends in the current window lasts until that window is over."""
        return queued.backoff_until is not None and queued.backoff_until >= self.policy.backoff_end(now)

    def _to_backoff(self, queued: QueuedPod, event: str) -> None:
        if self.policy.pop_from_backoff and not self._passes_pre_enqueue(queued):
            self._gate(queued, event)
            return
        (self.backoff if queued.rejectors and not queued.waits_out else self.error_backoff).push(queued)
        self._on_incoming("backoff", event, queued)

    def _out_of_backoff(self, queued: QueuedPod, event: str, now: float) -> None:
        """Move a pod from backoff to active. If it could have been popped there, PreEnqueue has already let it pass."""
        if self.policy.pop_from_backoff:
            self._push_active(queued, event, now)
        else:
            self._to_active(queued, event, now)

    def _to_active(self, queued: QueuedPod, event: str, now: float) -> None:
        if self._passes_pre_enqueue(queued):
            self._push_active(queued, event, now)
        else:
            self._gate(queued, event)

    def _push_active(self, queued: QueuedPod, event: str, now: float) -> None:
        if queued.initial_attempt is None:
            queued.initial_attempt = now
        queued.backoff_until = None
        self.active.push(queued)
        self._on_incoming("active", event, queued)

    def _passes_pre_enqueue(self, queued: QueuedPod) -> bool:
        """Ask PreEnqueue, first the plugin that last kept the pod out; note which one does so now."""
        before = queued.gating_plugin
        gate = self._pre_enqueue(queued.pod, before)
        if gate is None and not before:  # so it is for most pods, and by far the most often
            return True
        # Evaluated before the gate changes below, which this reads: a nomination begins to count when the gate opens.
        reserved = self.reserves_room(queued)
        queued.gating_plugin = "" if gate is None else gate.plugin
        queued.gating_reasons = () if gate is None else gate.reasons
        queued.is_gate_broken = gate is not None and not gate.code.is_rejection
        if gate is None and not reserved:
            self._note_nomination(queued.pod)
        if gate is not None:
            queued.unschedulable_plugins |= {gate.plugin}
        return gate is None

    def _gate(self, queued: QueuedPod, event: str) -> None:
        if not self.reserves_room(queued):
            self.nominator.take_back(queued.pod.uid)
        queued.backoff_until = None
        self.unschedulable[queued.pod.uid] = queued
        self._on_incoming("unschedulable", event, queued)

    def _start(self, queued: QueuedPod) -> None:
        self.scheduling_cycle += 1
        queued.attempts += 1
        queued.backoff_until = None
        self.in_flight.start(queued.pod)

    def _take(self, uid: str) -> QueuedPod | None:
        for heap in self._heaps:
            if (found := heap.remove(uid)) is not None:
                return found
        return self.unschedulable.pop(uid, None)

    def _note_nomination(self, pod: PodInfo) -> None:
        if pod.status.nominated_node_name:
            self.nominator.nominate(pod, pod.status.nominated_node_name)
        elif self.nominator.node_of(pod.uid) is not None:
            self.nominator.nominate(pod, self.nominator.node_of(pod.uid) or "")


def _tick(due: float | None, period_s: float, now: float, *, at_first: bool = False) -> tuple[bool, float]:
    """Say whether a periodic task is due, and when its next tick is.

    The first tick is the first call, and counts if `at_first`; late calls do not shift later ticks.
    """
    if due is None:
        return at_first, now + period_s
    if now < due:
        return False, due
    return True, due + (floor((now - due) / period_s) + 1) * period_s
