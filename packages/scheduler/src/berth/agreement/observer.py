"""The scheduler as a bystander: a core that decides nothing itself, but judges what another scheduler does.

It takes events in as any core does, and keeps a journal of what they change. A pod that is bound is judged before the
binding is taken in. Since the other scheduler's bindings arrive in a different order from its decisions, a binding and
everything after it are held back for a moment, until those that may have been decided before it have arrived too.

`berth observe` feeds one with a recorded stream of events, or runs one in place of the core of `berth run`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple

from berth.agreement.judging import AskedPod, Judge, Past, Pending
from berth.agreement.moments import CountedOtherwise, Moment, NodeAsBefore, Nominated, NotedChange
from berth.agreement.results import Agreement, JudgedFailure, Judgement
from berth.api.node import Node
from berth.api.pod import Pod
from berth.config.types import SchedulerConfiguration
from berth.core.core import Core, CoreParts
from berth.core.intake import FINISHED_PHASES, Event, ObjectEvent
from berth.cycle.attempt import Attempt
from berth.cycle.failure import UNSCHEDULABLE
from berth.cycle.instrument import Instrument
from berth.framework.effects import Answer, Effect
from berth.queue.changes import node_changes
from berth.state.cache import same_for_scheduling
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

KEPT_CHANGES: Final = 1024
MOST_HELD_S: Final = 5.0
"""How long a binding waits for those that were decided before it; it stops waiting once as many events have come as are
kept.
"""
LATE_S: Final = 1.0
"""Bindings whose judgement is overdue by more than this are only counted, since the observer is not keeping up."""
MOST_VICTIMS: Final = 8
"""At most this many pods preempted on a node are attributed to one preemptor."""
PREEMPTED: Final = "PreemptionByScheduler"
"""The reason of the condition DisruptionTarget of pods that a scheduler evicts."""


class Lookahead(NamedTuple):
    """How long a binding is held back: for so many events or, if that is None, for so many seconds."""

    events: int | None = 64
    seconds: float = float("inf")


class Observing(NamedTuple):
    """How a core observes."""

    lookahead: Lookahead = Lookahead()
    percentages: dict[str, int | None] = {}
    """By profile, which share of the nodes the other scheduler looks at."""
    scheduler_names: frozenset[str] = frozenset()
    """Whose pods are judged; all if empty."""
    keeps_totals: bool = False
    moment_s: float = float("inf")
    """The longest time that a binding is on its way; infinite if events have no reliable times."""
    judges_failures: bool = True
    """Whether pods that fit nowhere are looked at, too."""
    candidates: Mapping[str, SchedulerConfiguration] = MappingProxyType({})
    """Other configurations that decide about the same pods, by the names to give them."""
    agreement: Agreement | None = None
    """Where everything is counted, across the cores of successive configurations."""
    told: Instrument | None = None
    """The observer that is told what is decided; not through a recording, since these are not a core's own
    decisions.
    """
    on_judged: Callable[[Judgement], None] = lambda _judged: None
    on_failure: Callable[[JudgedFailure], None] = lambda _judged: None
    cases: BinaryIO | None = None
    """Where differing decisions are written as cases."""
    on_otherwise: Callable[[Core, PodInfo], None] | None = None
    """Called with each pod that was decided differently, while the core's cluster is in the state by which it is
    judged.
    """


class Victim(NamedTuple):
    """A pod that is being preempted, and since when that is known."""

    pod: PodInfo
    moment: Moment


class Unheard:
    """The pods about which nothing has been heard since they came, by scheduler and priority, oldest first.

    If the queue had one of them before a pod that is bound, its own binding is on its way.
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], dict[str, Pending]] = {}

    def add(self, pending: Pending) -> None:
        """Add a pod that has come."""
        self._queues.setdefault((pending.scheduler, pending.priority), {})[pending.uid] = pending

    def discard(self, pending: Pending) -> None:
        """Remove a pod that has been heard of."""
        key = pending.scheduler, pending.priority
        if (queue := self._queues.get(key)) is not None and queue.pop(pending.uid, None) is not None and not queue:
            del self._queues[key]

    def before(self, pending: Pending) -> Pending | None:
        """Return one that the queue certainly had before a pod, if there is one."""
        for (scheduler, priority), queue in self._queues.items():
            if scheduler == pending.scheduler and priority >= pending.priority:
                first = next(iter(queue.values()))
                if first.goes_before(pending):
                    return first
        return None

    def give_up_before(self, pending: Pending) -> None:
        """Remove all that the queue had before a pod: those not heard of by now are no longer waited for."""
        while (first := self.before(pending)) is not None:
            self.discard(first)


class _Held(NamedTuple):
    event: ObjectEvent
    moment: Moment
    asked: AskedPod | None
    """The question to ask before the event is taken in."""


class ObservingCore(Core):
    """A core that judges, but neither binds nor evicts nor reports to the API server."""

    def __init__(self, parts: CoreParts, observing: Observing, **recorded: Any) -> None:
        """`recorded` is what a recording core needs, if this one is recorded."""
        super().__init__(parts, **recorded)
        self.takes_many = False
        self.agreement = observing.agreement or Agreement()
        self._observing = observing
        self._held: deque[_Held] = deque()
        self._past = Past(KEPT_CHANGES)
        self._pending: dict[str, Pending] = {}
        self._unheard = Unheard()
        self._kept_up = 0.0
        """When there was last nothing left to judge."""
        self._victims: dict[str, Victim] = {}
        self._order = 0
        self._latest = 0.0
        """The time of the latest call; the core's own is that of what was taken in last."""
        self._told = observing.told or Instrument()
        self._judge = Judge(
            self,
            self._past,
            observing.percentages,
            keeps_totals=observing.keeps_totals,
            moment_s=observing.moment_s,
        )

        self._judge.on_otherwise = observing.on_otherwise

    @property
    def has_work(self) -> bool:
        """Whether `step` would take something in now."""
        return bool(self._held) and self._is_due(self._latest)

    def handle(self, event: Event | Answer, now: float) -> list[Effect]:
        """Take an event in, or hold it back behind a binding."""
        if not isinstance(event, ObjectEvent):
            return super().handle(event, now)
        self._note_time(now)
        self._order += 1
        moment = Moment(self._order, _revision(event.obj), now)
        asked = self._heard_of(event, moment) if event.kind == "Pod" else None
        if asked is not None or self._held:
            self._held.append(_Held(event, moment, asked))
        else:
            self._take_in(event, moment, None)
        return []

    def step(self, now: float, *, begins: bool = True) -> list[Effect]:
        """Take in what was held back for long enough, one event at a time."""
        self._note_time(now)
        if self.has_work:
            self._release()
            self._note_time(now)
        return []

    def _note_time(self, now: float) -> None:
        self._latest = now
        if not self.has_work:
            self._kept_up = now

    def next_deadline(self) -> float | None:
        """Return when something held back is due."""
        if not self._held:
            return None
        ahead, first = self._observing.lookahead.seconds, self._held[0].moment.at
        return first + (ahead if self._latest < first + ahead else MOST_HELD_S)

    def finish(self) -> None:
        """Take in everything held back: nothing more will come."""
        while self._held:
            self._release()

    def _is_due(self, now: float) -> bool:
        ahead, (_, first, asked) = self._observing.lookahead, self._held[0]
        events = self._order - first.order
        # Computed as in `next_deadline`, since a sum and a difference of the same times may round differently.
        if now < first.at + ahead.seconds and (ahead.events is None or events < ahead.events):
            return False
        is_given_up = now >= first.at + MOST_HELD_S or events >= KEPT_CHANGES
        return asked is None or is_given_up or not self._unheard.before(asked.pending)

    def _release(self) -> None:
        held = self._held.popleft()
        if held.asked is not None:
            self._unheard.give_up_before(held.asked.pending)
        self._take_in(held.event, held.moment, held.asked)

    def _heard_of(self, event: ObjectEvent, moment: Moment) -> AskedPod | None:
        """Note a waiting pod; return the question about one that is bound, or newly said to fit nowhere."""
        pod: Pod = event.obj
        uid = pod.metadata.uid
        is_over = event.type == "DELETED" or pod.status.phase in FINISHED_PHASES
        known = self._pending.pop(uid, None) if is_over or pod.spec.node_name else self._pending.get(uid)
        if known is not None:
            self._unheard.discard(known)
        if is_over:
            return None
        if pod.spec.node_name:
            if known is None:
                self._note_victim(pod, moment)
                return None
            binding = AskedPod(self._as_known(known.pod), known, moment, node=pod.spec.node_name)
            self._past.coming[uid] = binding
            return binding
        told = _told(pod)
        nominated = pod.status.nominated_node_name
        is_news = known is not None and (told != _told(known.pod) or nominated != known.pod.status.nominated_node_name)
        tried = moment if is_news and told else (None if known is None else known.tried)
        self._pending[uid] = pending = Pending.of(pod, moment if known is None else known.since, tried)
        if known is None and not pending.waits:
            self._unheard.add(pending)
        if known is None or not is_news or not told or not self._observing.judges_failures:
            return None
        new = nominated if nominated != known.pod.status.nominated_node_name else ""
        return AskedPod(self._as_known(known.pod), known, moment, told=told, nominated=new)

    def _as_known(self, pod: Pod) -> PodInfo:
        """Return a pod as plugins see it; reused if its event has already been taken in."""
        known = self.intake.pod(pod.key)
        return known if known is not None and known.pod is pod else self.intake.info(pod)

    def _note_victim(self, pod: Pod, moment: Moment) -> None:
        """Note a pod that is being preempted, so that it can be matched with its preemptor, reported before or
        after.
        """
        if pod.metadata.uid in self._victims:
            return
        if any(each.type == "DisruptionTarget" and each.reason == PREEMPTED for each in pod.status.conditions):
            self._victims[pod.metadata.uid] = Victim(self.intake.info(pod), moment)
            while len(self._victims) > KEPT_CHANGES:
                del self._victims[next(iter(self._victims))]

    def _take_in(self, event: ObjectEvent, moment: Moment, asked: AskedPod | None) -> None:
        if event.kind == "Pod":
            self._take_pod(event, moment, asked)
        elif event.kind == "Node":
            self._take_node(event, moment)
        else:
            super().handle(event, moment.at)

    def _take_pod(self, event: ObjectEvent, moment: Moment, asked: AskedPod | None) -> None:
        pod: Pod = event.obj
        uid = pod.metadata.uid
        if asked is not None:
            self._judge_in_order(asked)
        note, known = self._past.changes.append, self.intake.pod(pod.key)
        before, promised = self._counted(uid), self.nominator.node_of(uid) or ""
        super().handle(event, moment.at)
        after, promise = self._counted(uid), self.nominator.node_of(uid) or ""
        if promised != promise and (info := known or self.intake.pod(pod.key)) is not None:
            note(NotedChange(moment, Nominated(info, promised)))
        if before == after:
            return
        if before is not None and after is not None and before[1] == after[1]:
            if not same_for_scheduling(before[0], after[0]):
                note(NotedChange(moment, CountedOtherwise(uid, *before)))
            return
        if before is not None:
            note(NotedChange(moment, CountedOtherwise(uid, *before)))
        if after is not None:
            is_binding = asked is not None and bool(asked.node)
            note(NotedChange(moment, CountedOtherwise(uid), uid if is_binding else ""))

    def _judge_in_order(self, asked: AskedPod) -> None:
        """Judge a pod after those that were decided before it, although their bindings come later.

        They count from now on, as for the scheduler that has assumed them.
        """
        coming = self._past.coming
        for each in sorted((each for each in coming.values() if each.pending.goes_before(asked.pending)), key=_arrival):
            self._judge_binding(each._replace(moment=asked.moment))
            if each.node in self.cache.table.row_of and self.cache.state_of(each.pending.uid) is None:
                self.cache.assume(each.pod, each.node)
                self._past.changes.append(
                    NotedChange(asked.moment, CountedOtherwise(each.pending.uid), each.pending.uid)
                )
        if not asked.node:
            self._judge_it(asked)
        elif asked.pending.uid in coming:
            self._judge_binding(asked)

    def _judge_binding(self, asked: AskedPod) -> None:
        del self._past.coming[asked.pending.uid]
        self._judge_it(asked)
        self._past.note_binding(asked)

    def _counted(self, uid: str) -> tuple[PodInfo, str] | None:
        state = self.cache.state_of(uid)
        return None if state is None else (state.pod, self.cache.table.names[state.row])

    def _take_node(self, event: ObjectEvent, moment: Moment) -> None:
        node: Node = event.obj
        table = self.cache.table
        row = table.row_of.get(node.metadata.name)
        old = None if row is None else table.nodes[row]
        super().handle(event, moment.at)
        new = None if event.type == "DELETED" else node
        if old is None and new is None:
            return
        if old is None or new is None or node_changes(old, new):
            self._past.changes.append(NotedChange(moment, NodeAsBefore(node.metadata.name, old)))

    def _judge_it(self, asked: AskedPod) -> None:
        names, agreement = self._observing.scheduler_names, self.agreement
        if names and asked.pending.scheduler not in names:
            return
        turn = max(asked.moment.at + self._observing.lookahead.seconds, self._kept_up)
        if self._latest - turn > LATE_S:
            agreement.skipped["binding" if asked.node else "failure"] += 1
            return
        uid = asked.pending.uid
        queued = self.queue.take(uid) or QueuedPod(asked.pod, asked.moment.at)
        self._judge.on_decided = partial(self._report, queued, self._stopwatch())
        if asked.node:
            judged = self._judge.judge(asked)
            self.queue.done(uid)
            agreement.note(judged)
            self._told.observed(judged.decision.result, judged.points)
            self._told.bound(queued, asked.node, asked.moment.at)
            self._observing.on_judged(judged)
            return
        failure = self._judge.judge_failure(asked._replace(victims=self._victims_of(asked)))
        self.queue.add_unschedulable(queued, failure.plugins, (), asked.moment.at)
        agreement.note_failure(failure)
        self._observing.on_failure(failure)

    def _report(self, queued: QueuedPod, started: float, attempt: Attempt) -> None:
        """Report the attempt by which a pod is judged to the trace and the observer, as if it were a cycle's."""
        decision = self.trace.note(attempt, self.cache.table, self.now, queued.attempts)
        decision.fresh = attempt.found
        self._told.decided(decision, self._stopwatch() - started)
        decision.fresh = None
        if self._has_shadows:
            self.shadows.look(attempt, 0)

    def _victims_of(self, asked: AskedPod) -> tuple[PodInfo, ...]:
        """Return the pods that may be preempted for a pod on the node that it is nominated to, the likeliest first.

        The API server hears of victims before the pod's nomination or after it, and may hear of others' in between.
        """
        found = [
            victim
            for victim in self._victims.values()
            if victim.pod.node_name == asked.nominated
            and victim.moment.order > asked.pending.since.order
            and victim.pod.priority < asked.pod.priority
        ]
        found.sort(key=lambda victim: abs(victim.moment.order - asked.moment.order))
        return tuple(victim.pod for victim in found[:MOST_VICTIMS])


def _arrival(asked: AskedPod) -> int:
    return asked.pending.since.order


def _told(pod: Pod) -> str:
    """Return why a pod fits nowhere, as its condition says it."""
    return next(
        (
            each.message
            for each in pod.status.conditions
            if each.type == "PodScheduled" and each.reason == UNSCHEDULABLE
        ),
        "",
    )


def _revision(obj: Any) -> int:
    text = obj.metadata.resource_version
    return int(text) if text.isdigit() else 0
