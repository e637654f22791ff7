"""The scheduler without I/O: events and the time in, effects out.

`handle(event, now)` takes an event in, `step(now)` runs one cycle, `next_deadline()` is the only timer. The live
scheduler, the simulator, `berth decide` and the tests drive this same class; `docs/architecture.md` draws it.
Same seed and same events give the same effects.
"""

import random
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from berth.api.pod_resources import Counting
from berth.config.types import ExtensionPoint, SchedulerConfiguration
from berth.cycle.attempt import Attempt
from berth.cycle.binding import bind_pod, reserve_and_permit, undo, will_wait
from berth.cycle.decision import Trace
from berth.cycle.evicting import Evictor
from berth.cycle.extending import tell_failures
from berth.cycle.failing import SCHEDULER_ERROR, UNSCHEDULABLE, Failing, pod_event
from berth.cycle.groups.group_cycle import GroupCycle
from berth.cycle.groups.outcome import Outlets
from berth.cycle.missing_node import find_gone, missing_node
from berth.cycle.schedule import Search, schedule_pod
from berth.engine.build import build_profiles
from berth.engine.memo import Memos
from berth.engine.sums import BestRows
from berth.extender.http_extender import Whole, as_known, build_extenders
from berth.framework.blame import PluginBrokenError
from berth.framework.effects import Answer, Effect, PatchPodStatus, PodRef, Request, WaitUntil
from berth.framework.events import ASSIGNED_POD_DELETE
from berth.framework.handle import Handle
from berth.framework.instrument import Instrument
from berth.framework.registry import Registry
from berth.framework.status import Code, Status, error
from berth.framework.waiting_pods import WaitingPod, WaitingPods
from berth.generation import Generation, generation_of
from berth.intake import Intake, ObjectEvent
from berth.queue.move_requests import MoveRequestQueue
from berth.queue.queue import SchedulingQueue
from berth.queue.sorting import sort_key_of
from berth.queue.waking import WakeTable
from berth.state.cache import Cache, on_node
from berth.state.nominator import Nominator
from berth.state.objects import ObjectStore
from berth.state.pod_groups import group_of
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

Steps = Generator[Any, Any, Any]

TRACED_PODS = 256
"""How many recent pods' decisions are kept for explaining."""


class Core:
    """All of the scheduler's state, and the only code that changes it."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        registry: Registry,
        *,
        rng: random.Random,
        memos: bool = True,
        instrument: Instrument | None = None,
        stopwatch: Callable[[], float] = lambda: 0.0,
        whole: Whole = as_known,
        generation: Generation | None = None,
    ) -> None:
        """`whole` gives pods and nodes as JSON for extenders, where somebody keeps more of them than the structs."""
        self.generation = generation or generation_of(config)
        self.now = 0.0
        self.cache = Cache(self.generation.assumed_ttl_s, sweep_period_s=self.generation.assumed_sweep_period_s)
        self.objects = ObjectStore()
        self.nominator = Nominator()
        self.waiting = WaitingPods()
        self.memos = Memos(self.cache, self.objects, enabled=memos)
        self.instrument = instrument or Instrument()
        self.trace = Trace(TRACED_PODS)
        self._rng = rng
        self._stopwatch = stopwatch
        handle = self._handle(config)
        plugins = self.generation.registry(registry)
        self.profiles = build_profiles(config, plugins, handle, self.memos, build_extenders(config.extenders, whole))
        self.queue = self._make_queue()
        self.evictions = handle.evictions
        self._failing = Failing(
            self.queue,
            self.nominator,
            latest=lambda pod: self.intake.latest(pod),
            now=lambda: self.now,
            tell=lambda effect: self._effects.append(effect),
        )
        outlets = self._outlets()
        self._evictor = Evictor(handle, self.queue, tell=outlets.tell, start=outlets.start, instrument=self.instrument)
        self.search = Search(self.cache.table, self._break_tie, policy=self.generation.cycle)
        enabled = config.feature_gates.enabled
        counting = Counting(enabled("PodLevelResources"), enabled("InPlacePodLevelResourcesVerticalScaling"))
        self._schedules_groups = enabled("GenericWorkload")
        groups = handle.pod_groups if self._schedules_groups else None
        self.intake = Intake(self.cache, self.objects, self.queue, frozenset(self.profiles), counting, groups)
        self._groups = GroupCycle.of(self, handle, self._evictor, outlets, stopwatch)
        self._tells_expectation = enabled("NominatedNodeNameForExpectation")
        self._effects: list[Effect] = []
        self._cycle: Steps | None = None
        self._parked: dict[int, Steps] = {}
        self._waits: list[tuple[WaitUntil, Steps]] = []
        self._inbox: deque[ObjectEvent] = deque()
        self._tickets = 0
        self.instrument.attached(self)

    @property
    def has_work(self) -> bool:
        """Say whether `step` would start a cycle now."""
        return self._cycle is None and bool(
            len(self.queue.active) or (self.queue.policy.pop_from_backoff and len(self.queue.backoff))
        )

    @property
    def is_cycle_open(self) -> bool:
        """Say whether a scheduling cycle is parked, waiting for an answer."""
        return self._cycle is not None

    def handle(self, event: ObjectEvent | Answer, now: float) -> list[Effect]:
        """Take an event in; return what is to be done about it."""
        self.now = now
        if isinstance(event, Answer):
            self._resume(event)
        else:
            self._inbox.append(event)
            self._empty_inbox()
        self._settle()
        self._announce_room()
        return self._take_effects()

    def step(self, now: float) -> list[Effect]:
        """Do what is due, then run one scheduling cycle if a pod is ready; return what is to be done."""
        self.now = now
        self._settle()
        if self._cycle is None:
            self.queue.flush(now)
            self._expire()
            queued = self.queue.pop(now)
            if queued is not None:
                self._cycle = self._schedule_one(queued)
                self._advance(self._cycle, None)
        self._announce_room()
        return self._take_effects()

    def next_deadline(self) -> float | None:
        """Return when `step` will have something to do even if nothing happens, or None."""
        times = [self.waiting.next_deadline(), *(wait.deadline for wait, _ in self._waits)]
        if self._cycle is None:  # else what is due in the queue must wait for the cycle's end
            times += [self.queue.next_deadline(), self.cache.next_expiry()]
        return min((time for time in times if time is not None), default=None)

    def _schedule_one(self, queued: QueuedPod) -> Steps:
        """One scheduling cycle, and the start of a binding cycle if it found a node."""
        pod = queued.pod
        group = group_of(pod) if self._schedules_groups else None
        if group is not None:
            yield from self._groups.run(queued, group)
            return
        if not self.intake.is_wanted(pod):
            self.queue.done(pod.uid)
            return
        attempt = Attempt(self.profiles[pod.spec.scheduler_name], pod, self._stopwatch)
        self.instrument.attempting(queued)
        try:
            yield from schedule_pod(self.search, attempt)
            yield from self._evictor.make_room(attempt)
        except Exception as bug:  # one pod's bad luck must not stop the others
            attempt.error, attempt.chosen_row = self._broke(pod, bug).message, None
        self._record(attempt, queued, self._stopwatch() - attempt.started)
        if attempt.chosen_row is None:
            self._reject(queued, attempt)
            return
        attempt.release_columns()
        node_name = self.cache.table.names[attempt.chosen_row]
        timeouts_s: dict[str, float] = {}
        try:
            status, timeouts_s = reserve_and_permit(self.cache, attempt, node_name, self.generation.permit)
        except Exception as bug:  # likewise
            status = self._broke(pod, bug)
        self.nominator.withdraw(pod.uid)
        if status is not None:
            self._undo(queued, attempt, node_name, status)
            return
        self._advance(self._binding_cycle(queued, attempt, node_name, timeouts_s), None)

    def _binding_cycle(
        self, queued: QueuedPod, attempt: Attempt, node_name: str, timeouts_s: dict[str, float]
    ) -> Steps:
        """Bind an assumed pod, beside the scheduling cycles that follow."""
        waiting = self._hold(attempt, node_name, timeouts_s)
        try:
            work = self._tells_expectation and will_wait(attempt.profile, attempt, node_name)
        except Exception as bug:  # likewise
            work = self._broke(attempt.pod, bug)
        status = work if isinstance(work, Status) else None
        if status is None:
            if self._tells_expectation and (waiting is not None or work):
                self._expect(attempt, node_name)
            try:
                permit_over = partial(self._permit_over, attempt, waiting)
                status = yield from bind_pod(attempt, node_name, waiting, permit_over, self.generation.permit)
            except Exception as bug:  # likewise
                status = self._broke(attempt.pod, bug)
            tell_failures(self.instrument, attempt, "bind")
        if status is not None:
            self.waiting.remove(attempt.pod.uid)
            self._undo(queued, attempt, node_name, status)
            return
        self.cache.finish_binding(attempt.pod.uid, self.now)
        self.queue.done(attempt.pod.uid)
        self.instrument.bound(queued, node_name, self.now)
        note = f"Successfully assigned {attempt.pod.key} to {node_name}"
        self._effects.append(pod_event(attempt.pod, "Normal", "Scheduled", "Binding", note))
        for plugin in attempt.profile.at(ExtensionPoint.POST_BIND):
            try:
                plugin.post_bind(attempt.state, attempt.pod, node_name)
            except Exception as bug:  # the pod is bound all the same
                self._broke(attempt.pod, bug)

    def _hold(self, attempt: Attempt, node_name: str, timeouts_s: dict[str, float]) -> WaitingPod | None:
        if not timeouts_s:
            return None
        deadlines = {plugin: self.now + timeout_s for plugin, timeout_s in timeouts_s.items()}
        waiting = WaitingPod(attempt.pod, node_name, deadlines, self.now)
        self.waiting.add(waiting)
        self.instrument.waits_on_permit(attempt.pod)
        return waiting

    def _permit_over(self, attempt: Attempt, waiting: WaitingPod | None, verdict: Status | None) -> None:
        if waiting is not None:
            label = (Code.SUCCESS if verdict is None else verdict.code).label
            self.instrument.waited_on_permit(label, self.now - waiting.waiting_since)
        if verdict is None:
            self.instrument.binding(attempt.pod)

    def _expect(self, attempt: Attempt, node_name: str) -> None:
        """Tell the API server where a pod that still waits is going to (status.nominatedNodeName)."""
        attempt.nominated_node_name = node_name
        self._effects.append(PatchPodStatus(PodRef.of(attempt.pod), nominated_node_name=node_name))

    def _undo(self, queued: QueuedPod, attempt: Attempt, node_name: str, status: Status) -> None:
        """Take back a choice that could not be carried out; the room it gives back may help others."""
        try:
            undo(self.cache, attempt, node_name)
        except Exception as bug:  # likewise
            self._broke(attempt.pod, bug)
        rejected = status.code.is_rejection
        self.instrument.binding_failed(attempt.pod, status.message, is_rejection=rejected)
        plugins = {status.plugin} if rejected and status.plugin else set()
        reason = UNSCHEDULABLE if rejected else SCHEDULER_ERROR
        self._notice_missing_node(status.message)
        told = attempt.nominated_node_name or ""
        self._failing.fail(queued, reason, status.message, plugins, nomination="", told=told)
        released = on_node(attempt.pod, node_name)
        self.queue.move(ASSIGNED_POD_DELETE, released, None, self.now, except_uid=attempt.pod.uid)

    def _broke(self, pod: PodInfo, bug: Exception) -> Status:
        """A bug, most likely in a plugin, has ended an attempt."""
        self.instrument.broke(pod, bug)
        return error(str(bug) if isinstance(bug, PluginBrokenError) else f"{type(bug).__name__}: {bug}")

    def _reject(self, queued: QueuedPod, attempt: Attempt) -> None:
        """A pod that no node was found for."""
        self._notice_missing_node(attempt.message)
        self._failing.reject(queued, attempt)

    def _notice_missing_node(self, message: str) -> None:
        if self.generation.forgets_missing_nodes and (name := missing_node(message)) is not None:
            self._advance(self._forget_node(name), None)

    def _forget_node(self, name: str) -> Steps:
        """A node that the API server does not know leaves the cache, as if the watch had said so."""
        if (node := (yield from find_gone(self.cache.table, name))) is not None:
            self._inbox.append(ObjectEvent("DELETED", "Node", node))
            self._empty_inbox()

    def _record(self, attempt: Attempt, queued: QueuedPod, seconds: float) -> None:
        decision = self.trace.note(attempt, self.cache.table, self.now, queued.attempts)
        self.instrument.decided(decision, seconds)
        tell_failures(self.instrument, attempt)

    def _take_in(self, event: ObjectEvent) -> None:
        started = self._stopwatch()
        for uid in self.intake.take(event, self.now):
            self.waiting.reject(uid, "", "pod was deleted")
        # At once: a pod that is held back may not be tried for long.
        for pod in self.nominator.take_pods_without_node():
            if self.intake.latest(pod) is not None:
                self._effects.append(PatchPodStatus(PodRef.of(pod), nominated_node_name=""))
        self.instrument.event_handled(f"{event.kind}{event.type.title()}", self._stopwatch() - started)

    def _advance(self, steps: Steps, value: Any) -> None:
        """Run a cycle until it ends or must wait."""
        try:
            effect = steps.send(value)
        except StopIteration:
            self._finished(steps)
            return
        except Exception:
            self._finished(steps)  # else no cycle would ever start again
            raise
        if isinstance(effect, WaitUntil):
            self._waits.append((effect, steps))
            return
        self._tickets += 1
        self._parked[self._tickets] = steps
        self._effects.append(Request(self._tickets, effect))

    def _finished(self, steps: Steps) -> None:
        if steps is self._cycle:
            self._cycle = None
            self._empty_inbox()

    def _empty_inbox(self) -> None:
        """Take in what has come, in its order, unless a cycle is open: then it waits for the cycle's end."""
        while self._inbox and self._cycle is None:
            self._take_in(self._inbox.popleft())

    def _resume(self, answer: Answer) -> None:
        steps = self._parked.pop(answer.ticket, None)
        if steps is not None:
            self._advance(steps, answer)

    def _settle(self) -> None:
        """Resume the cycles whose wait is over."""
        while True:
            if len(self.waiting):
                self.waiting.settled(self.now)
            ready = [entry for entry in self._waits if entry[0].deadline <= self.now or _holds(entry[0])]
            if not ready:
                return
            for entry in ready:
                self._waits.remove(entry)
                self._advance(entry[1], _holds(entry[0]))

    def _expire(self) -> None:
        expired = self.cache.expire(self.now)
        self.instrument.swept(expired)
        for pod in expired.pods:
            self.queue.move(ASSIGNED_POD_DELETE, pod, None, self.now)

    def _announce_room(self) -> None:
        """A node that was promised to a pod, and neither is nor was given to it, may suit those who had to yield."""
        for pod, node_name in self.nominator.take_released():
            state = self.cache.state_of(pod.uid)
            if state is None or self.cache.table.names[state.row] != node_name:
                self.queue.move(ASSIGNED_POD_DELETE, on_node(pod, node_name), None, self.now, except_uid=pod.uid)

    def _take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _break_tie(self, rows: BestRows) -> int:
        return int(rows[0]) if len(rows) == 1 else int(rows[self._rng.randrange(len(rows))])

    def _handle(self, config: SchedulerConfiguration) -> Handle:
        return Handle(
            cache=self.cache,
            objects=self.objects,
            nominator=self.nominator,
            waiting=self.waiting,
            features=config.feature_gates,
            now=lambda: self.now,
            activate=lambda uid: self.queue.activate(uid, self.now),
            reservation_changed=self.memos.note_reservation,
            rng=self._rng,
            tell=lambda event: self._effects.append(event),
        )

    def _outlets(self) -> Outlets:
        tell, start = (lambda effect: self._effects.append(effect)), (lambda steps: self._advance(steps, None))
        return Outlets(self._failing.fail, self._binding_cycle, start, self._record, tell, self._broke)

    def _make_queue(self) -> SchedulingQueue:
        profiles = self.profiles
        sorter = next(iter(profiles.values())).at(ExtensionPoint.QUEUE_SORT)[0]
        kind = SchedulingQueue if self.generation.queue.hints else MoveRequestQueue
        return kind(
            sort_key=sort_key_of(sorter),
            pre_enqueue=lambda pod: profiles[pod.spec.scheduler_name].run_pre_enqueue(pod),
            tables={name: WakeTable.of(profile) for name, profile in profiles.items()},
            nominator=self.nominator,
            policy=self.generation.queue,
            on_incoming=self.instrument.queue_incoming,
        )


def _holds(wait: WaitUntil) -> bool:
    """Say whether what is waited for has come; where that cannot be found out, only the deadline counts."""
    try:
        return wait.predicate()
    except Exception:  # a plugin's bug must not stop everybody else
        return False
