"""The scheduler without I/O: events and time in, effects out.

`handle(event, now)` takes an event in, `step(now)` runs one cycle, `next_deadline()` is the only timer. The live
scheduler, the simulator, `berth decide` and the tests drive this same class; `docs/architecture.md` draws it, and
`berth.core.assembly.build_core` makes one. Same seed and same events give the same effects.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.api.pod import Pod
from berth.core.generation import Generation
from berth.core.intake import Event, Inbox, Intake, ObjectEvent
from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import BindingCycles
from berth.cycle.confirmation import BindingConfirmer
from berth.cycle.dispatcher import THROWN_IN, Dispatcher
from berth.cycle.eviction import Evictor
from berth.cycle.failure import FailureHandler, pod_event
from berth.cycle.groups.group_cycle import GroupCycle
from berth.cycle.instrument import Instrument
from berth.cycle.reports import Reporter
from berth.cycle.schedule import Search, find_nodes, schedule_pod, score_nodes, select_node
from berth.cycle.shadow import Shadows
from berth.engine.profile import Profile
from berth.framework.blame import contained
from berth.framework.custom_resources import CustomResources
from berth.framework.effects import Answer, Effect, Steps
from berth.framework.events import ASSIGNED_POD_DELETE
from berth.framework.handle import ClusterState
from berth.framework.health import HealthBook
from berth.framework.work_budget import WorkBudget
from berth.queue.queue import SchedulingQueue
from berth.state.cache import on_node
from berth.state.pod_groups import group_of
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod
from berth.state.views import Memory

ALIKE_AT_ONCE = 128
"""How many pods are placed in one step at most, if each is like the one before."""


BindAtOnce = Callable[[PodInfo, str], Pod]
"""Stores that a pod is bound to a node, and returns the pod as it is then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeParts:
    """What an event goes through, up to the queue."""

    resources: CustomResources
    inbox: Inbox
    intake: Intake
    queue: SchedulingQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptParts:
    """What an attempt to place a pod is made with."""

    profiles: dict[str, Profile]
    memos: Memory
    search: Search
    reporter: Reporter
    stopwatch: Callable[[], float]
    work_limit: int
    """How many steps of work one attempt may take (`berth.framework.work_budget`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpParts:
    """What follows an attempt: the pod is queued again, given room, or bound."""

    failure_handler: FailureHandler
    evictor: Evictor
    binding: BindingCycles
    confirmer: BindingConfirmer


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreParts:
    """What a core is made of."""

    generation: Generation
    dispatcher: Dispatcher
    state: ClusterState
    intake: IntakeParts
    attempts: AttemptParts
    follow_up: FollowUpParts
    groups: GroupCycle | None = None
    """None where pod groups mean nothing to this scheduler."""
    health: HealthBook
    """How the plugins are doing of which somebody wants to know; of most cores, none."""
    shadows: Shadows
    """Most cores have none."""


class Core:
    """All of the scheduler's state, and the only code that changes it."""

    def __init__(self, parts: CoreParts) -> None:
        state, intake, attempts, follow_up = parts.state, parts.intake, parts.attempts, parts.follow_up
        self.generation = parts.generation
        self._dispatcher = parts.dispatcher
        self.cache = state.cache
        self.objects = state.objects
        self.nominator = state.nominator
        self.waiting = state.waiting
        self.evictions = state.evictions
        self.resources = intake.resources
        self._inbox = intake.inbox
        self.intake = intake.intake
        self.queue = intake.queue
        self.profiles = attempts.profiles
        self.memos = attempts.memos
        self.search = attempts.search
        self._reporter = attempts.reporter
        self.trace = attempts.reporter.trace
        self._instrument = attempts.reporter.instrument
        self._stopwatch = attempts.stopwatch
        self._work_limit = attempts.work_limit
        self._failure_handler = follow_up.failure_handler
        self._evictor = follow_up.evictor
        self._binding = follow_up.binding
        self._confirmer = follow_up.confirmer
        self._groups = parts.groups
        self.health = parts.health
        self.shadows = parts.shadows
        # Bools, rather than asking the objects each time: most cores have neither.
        self._keeps_health, self._has_shadows = bool(parts.health), bool(parts.shadows)
        self.takes_many = True
        """Whether pods on nodes may be taken in many at once: no cycle has begun, and no observer looks at each
        event.
        """
        self._bind_at_once: BindAtOnce | None = None
        self._binds_runs = False
        self._before: PodInfo | None = None
        """The last pod, if it was bound at once, and those like it may be placed in a run."""

    @property
    def now(self) -> float:
        """The time of the latest event or step, in seconds."""
        return self._dispatcher.now()

    @property
    def schedules_groups(self) -> bool:
        """Whether pods of a group are placed together."""
        return self._groups is not None

    @property
    def has_work(self) -> bool:
        """Whether `step` would start a cycle now."""
        return not self._dispatcher.is_open and bool(
            len(self.queue.active) or (self.queue.policy.pop_from_backoff and len(self.queue.backoff))
        )

    @property
    def is_cycle_open(self) -> bool:
        """Whether a scheduling cycle is parked, waiting for an answer."""
        return self._dispatcher.is_open

    @property
    def unfinished(self) -> int:
        """The number of parked cycles, of pods waiting for Permit, and of events waiting for a cycle to end, added
        up.
        """
        return len(self._dispatcher) + len(self.waiting) + len(self._inbox)

    def handle(self, event: Event | Answer, now: float) -> list[Effect]:
        """Take an event in; return the effects to carry out."""
        self._dispatcher.set_time(now)
        if isinstance(event, Answer):
            self._dispatcher.resume(event)
        else:
            self._inbox.put(event)
        self._settle()
        self._announce_room()
        return self._dispatcher.take_effects()

    def handle_placed(self, pods: Sequence[Pod], now: float) -> list[Effect]:
        """Do what `handle` does for each of these pods, which have appeared on nodes.

        Before the first step, while the cluster is being read, taking in many at once costs half: no pod waits for room
        yet.
        """
        by_key = {pod.key: pod for pod in pods}
        is_new = len(by_key) == len(pods) and not any(map(self.intake.pod, by_key))
        if not (is_new and self.takes_many) or len(self.queue.unschedulable):
            return [effect for pod in pods for effect in self.handle(ObjectEvent("ADDED", "Pod", pod), now)]
        self._dispatcher.set_time(now)
        self._inbox.put_placed(by_key)
        self._settle()
        return self._dispatcher.take_effects()

    def load(self, pods: Mapping[str, Pod]) -> None:
        """Take in many pods that have a node at once: what `handle` would do for each while no pod is waiting.

        They are given by `namespace/name`. Only for a core that was just made and has no pending pods; none of these
        pods may be known to it.
        """
        assert not len(self.queue), "nobody would hear of the room that is taken"
        self.intake.take_placed(pods)

    def step(self, now: float, *, begins: bool = True) -> list[Effect]:
        """Do what is due, then run one scheduling cycle if a pod is ready; return the effects to carry out.

        Without `begins` no cycle is started: the caller has enough under way.
        """
        self.takes_many = False
        self._dispatcher.set_time(now)
        self._settle()
        self._confirmer.begin(self._binding.undo)
        if not self._dispatcher.is_open:
            self.queue.flush(now)
            self._expire()
            queued = self.queue.pop(now) if begins else None
            if queued is not None and self._before is not None:
                queued = self._go_on(queued, self._before)
            if queued is not None:
                self._dispatcher.open(self._schedule_one(queued))
                self._inbox.empty()
        self._announce_room()
        return self._dispatcher.take_effects()

    def call_off(self, reason: str, now: float) -> list[Effect]:
        """Call off the binding of every pod that is in Permit or PreBind; they are queued again, with this reason."""
        self._dispatcher.set_time(now)
        self._binding.call_off(reason)
        self._settle()
        self._announce_room()
        return self._dispatcher.take_effects()

    def let_bind(self, bind: BindAtOnce | None, *, in_runs: bool = True) -> None:
        """Bind pods by a function that stores the binding and returns the bound pod; None turns that off.

        For callers that are the API server themselves, and never refuse: once no plugin has anything left to do, a pod
        is bound within its attempt, without effects, answers and events. Each pod has an attempt and a decision of its
        own unless pods are placed `in_runs`, where each is like the one before.
        """
        self._bind_at_once, self._binds_runs, self._before = bind, in_runs, None

    def adopt(self, others: Iterable[QueuedPod], now: float) -> None:
        """Take over what another core's queue remembers about the pods that both have."""
        self.queue.adopt(others, now)

    def next_deadline(self) -> float | None:
        """Return when `step` will next have something to do even if nothing happens, or None."""
        times = [self.waiting.next_deadline(), self._dispatcher.next_deadline(), self._confirmer.next_deadline()]
        if not self._dispatcher.is_open:  # otherwise what is due in the queue must wait for the cycle's end
            times += [self.queue.next_deadline(), self.cache.next_expiry()]
        return min((time for time in times if time is not None), default=None)

    def _schedule_one(self, queued: QueuedPod) -> Steps[None]:
        """Run one scheduling cycle, and start a binding cycle if it found a node."""
        pod = queued.pod
        if self._keeps_health:
            self.health.rounds.number += 1
        # A member without a place in the queue's order fails alone: its group is tried when another member's turn
        # comes.
        group = group_of(pod) if self._groups is not None and queued.sort_error is None else None
        if self._groups is not None and group is not None:
            yield from self._groups.run(queued, group)
            return
        if not self.intake.is_wanted(pod):
            self._skip(queued)
            return
        work = WorkBudget(self._work_limit)
        attempt = Attempt(self.profiles[pod.profile_name], pod, self._stopwatch, work=work)
        self._instrument.attempting(queued)
        start_index = self.search.start_index
        try:
            if queued.sort_error is not None:
                raise queued.sort_error
            yield from schedule_pod(self.search, attempt)
            if self._has_shadows:
                self.shadows.look(attempt, start_index)
            yield from self._evictor.make_room(attempt)
        except BaseException as raised:  # a bug ends this attempt only, not the scheduler
            bug = contained(raised, THROWN_IN)
            attempt.outcome = attempt.outcome.failed(self._reporter.broke(pod, bug).message)
        if self._keeps_health and work.verdict:
            self.health.overran(attempt.profile.name, work.most, work.verdict)
        self._reporter.record(attempt, queued, self._stopwatch() - attempt.started, is_fresh=True)
        self._dispatcher.catch_up()  # what follows, backoffs above all, counts from the attempt's end
        row = attempt.outcome.chosen_row
        if row is None:
            self._failure_handler.reject(queued, attempt)
            return
        node_name = self.cache.table.names[row]
        if self._bind_at_once is not None and self._is_nobody_told and attempt.profile.binds_plainly(attempt.state):
            self._place(pod, self._bind_at_once(pod, node_name))
            self._before = pod if self._binds_runs else None
            return
        attempt.found.release_columns()  # the attempt may be kept for minutes, until the pod is bound
        status, timeouts_s = self._binding.reserve(attempt, node_name)
        self.nominator.withdraw(pod.uid)
        if status is not None:
            self._binding.undo(queued, attempt, node_name, status)
            return
        self._dispatcher.start(self._binding.run(queued, attempt, node_name, timeouts_s))

    @property
    def _is_nobody_told(self) -> bool:
        is_watched = type(self._instrument) is not Instrument and not self._instrument.leaves_out_plain
        return not (is_watched or self._keeps_health or self._has_shadows) and self.intake.handlers is None

    def _go_on(self, queued: QueuedPod, before: PodInfo) -> QueuedPod | None:
        """Place a popped pod, and those that follow, while each is like the one before: as attempts would, of which
        nothing is told and kept.

        Return the pod that needs a whole attempt; None if none is left, or enough were placed in one step.
        """
        self._before = None
        following: QueuedPod | None = queued
        for _ in range(ALIKE_AT_ONCE):
            if following is None or not self._goes_on(following, before):
                return following
            following = self.queue.pop(self.now)
        self._before = before
        return following

    def _goes_on(self, queued: QueuedPod, before: PodInfo) -> bool:
        """Place a pod if it is like the one before and goes to some node, and nothing but its binding is to be done."""
        pod, profile = queued.pod, self.profiles[before.profile_name]
        if not pod.shape.is_like(before.shape) or pod.profile_name != before.profile_name or queued.sort_error:
            return False
        if profile.percentage_of_nodes_to_score is not None or not self.intake.is_wanted(pod):
            return False
        try:
            row = self._row_for_another(profile, pod)
        except BaseException as raised:  # the attempt will meet it, too, and says whose bug it is
            contained(raised)
            return False
        if row is None or self._bind_at_once is None:
            return False
        self.trace.forget(pod.key)
        self._place(pod, self._bind_at_once(pod, self.cache.table.names[row]))
        return True

    def _row_for_another(self, profile: Profile, pod: PodInfo) -> int | None:
        """Return where a pod goes that is like the one before; None if it takes a whole attempt to say."""
        rows = profile.best_of_ranking(pod)
        if rows is not None:
            return self.search.break_tie(rows)
        attempt = Attempt(profile, pod, work=WorkBudget(self._work_limit))
        failure = find_nodes(self.search, attempt) or score_nodes(self.search, attempt)
        if failure is not None or not profile.binds_plainly(attempt.state):
            return None
        return select_node(self.search, attempt).chosen_row

    def _place(self, pod: PodInfo, bound: Pod) -> None:
        """Take in that a pod is bound to its node."""
        self.queue.done(pod.uid)
        self.nominator.withdraw(pod.uid)
        self.intake.place(pod, bound, self.now)

    def _skip(self, queued: QueuedPod) -> None:
        """Drop a popped pod that is by now gone, bound or assumed, or being deleted; in the last case an event says
        so.
        """
        pod = queued.pod
        self.queue.done(pod.uid)
        self._instrument.queue_left(queued)
        if pod.is_terminating:
            self.nominator.withdraw(pod.uid)
            note = f"skip schedule deleting pod: {pod.key}"
            self._dispatcher.tell(pod_event(pod, "Warning", "FailedScheduling", "Scheduling", note))

    def _settle(self) -> None:
        """Take in the events held back by a cycle that has ended, and resume every generator whose wait is over."""
        while True:
            self._inbox.empty()
            if len(self.waiting):
                self.waiting.settled(self.now)
            if not self._dispatcher.resume_ready():
                return

    def _expire(self) -> None:
        """Forget assumed pods that were not confirmed in time."""
        expired = self.cache.expire(self.now)
        self._instrument.swept(expired)
        for pod in expired.pods:
            self.queue.move(ASSIGNED_POD_DELETE, pod, None, self.now)

    def _announce_room(self) -> None:
        """Wake the pods that made way for a nominated pod which then went elsewhere: that node may suit them now."""
        for pod, node_name in self.nominator.take_released():
            state = self.cache.state_of(pod.uid)
            if state is None or self.cache.table.names[state.row] != node_name:
                self.queue.move(ASSIGNED_POD_DELETE, on_node(pod, node_name), None, self.now, except_uid=pod.uid)
