"""The live scheduler: it feeds the core what the API server says, has it work, and carries out its effects.

`berth run`, `berth up` and `berth demo` make a `LiveScheduler` over a transport and await `run(stop)`. The event loop
has everything that must go on whatever a plugin does: watches, the lease, requests, health. The core's work is done in
slices of a few milliseconds, which the loop hands to a runner, most often a thread of its own, and awaits: see `turns`.
What arrives during a slice waits for the next; what a slice wants done is begun when it has ended. The order of events:

    follow (list and watch) → all synced → lead, if leaders are elected → schedule until told to stop, or leadership
    is lost → wait for what is under way → give the lease up

Where leaders are elected, everything that is written passes the elector's fence (`berth.kube.fence`).
"""

import asyncio
import contextlib
import logging
import random
import socket
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from berth.api.meta import ObjectReference
from berth.api.pod import Pod
from berth.assembly import build_core
from berth.config.types import SchedulerConfiguration
from berth.core import Core
from berth.cycle.instrument import Instrument
from berth.extender.client import ExtenderClient
from berth.extender.http_extender import kinds_sent_whole
from berth.framework.effects import Answer, Bind, CallExtenders, Effect, PodRef, Request
from berth.framework.registry import Registry
from berth.intake import Event, ObjectEvent, ShardsHeld
from berth.kube.changes import Change, InvalidObject
from berth.kube.events import EventRecorder
from berth.kube.fence import Fence, fenced, lease_clock
from berth.kube.leader import LeaderElectionTimes, LeaderElector
from berth.kube.served import ServedTransport
from berth.kube.transport import Transport
from berth.runtime.acting.effects import Effects
from berth.runtime.following import Following, event_of
from berth.runtime.grouped_report import GroupedReport
from berth.runtime.observing.call_timer import CallTimer
from berth.runtime.observing.cycle_log import SchedulerLog
from berth.runtime.observing.work_queues import WorkQueues
from berth.runtime.overruns import ENDED_AFTER_S, LOST_AFTER_S, OverrunWatch
from berth.runtime.reloading import ReloadPostponed, adjusted
from berth.runtime.sharding import ShardedElection
from berth.runtime.standing import Standing, standing_of
from berth.runtime.turns import CoreThread, CycleBusy, Inline, SliceRunner, Turns

SLICE_S = 0.005
"""How long events are taken in, and then how long cycles run, before effects are carried out and the loop goes on."""
MAX_PENDING_BINDINGS = 1024
"""Cycles pause while this many bindings are unanswered, since later decisions see a fresher state."""
PAUSE_AFTER_BUG_S = 0.1
"""The pause after a bug, so that one that recurs at once fills neither the log nor the processor."""
DRAIN_S = 5.0
"""How long stopping waits for the cycle and the requests under way."""
RELOAD_WAIT_S = 5.0
"""How long a new configuration waits for bindings under way, and then again once it has turned back who waits."""
RELOAD_POLL_S = 0.02
LAST_SLICE_S = 0.5
"""How long the end waits for a slice that is under way, many times what a slice takes."""
TELL_STOP_AFTER_S = 1.0
"""When stopping says what it waits for, if that is a cycle that does not end."""

_log = logging.getLogger("berth.scheduler")


class LeadershipLost(RuntimeError):  # noqa: N818 - it says what happened
    """Another scheduler may be at work: this process must end without another write."""


class CycleStuck(RuntimeError):  # noqa: N818 - it says what happened
    """A slice of the core's work has not ended, so the process must: nothing else can end the slice."""


class SliceEnd(NamedTuple):
    """What a slice of the core's work left."""

    effects: list[Effect]
    has_more: bool
    deadline: float | None
    """When there is something to do even if nothing happens."""
    bug: BaseException | None = None


class LiveScheduler:
    """A scheduler at work on one cluster; make it inside the event loop that runs it."""

    __slots__ = (
        "_arrivals", "_build", "_clock", "_due", "_effects", "_elector", "_extenders_for", "_handled", "_invalid_pods",
        "_is_leading", "_is_paused", "_is_stopping", "_recorder", "_rng", "_runner", "_shards", "_turns", "_wake",
        "config", "core", "following", "identity", "overruns", "synced",
    )  # fmt: skip

    def __init__(
        self,
        config: SchedulerConfiguration,
        transport: Transport,
        *,
        registry: Registry | None = None,
        instrument: Instrument | None = None,
        identity: str = "",
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        unschedulable_age_s: float | None = None,
        extenders: ExtenderClient | None = None,
        shards: int = 1,
        runner: SliceRunner | None = None,
        build: Callable[..., Core] = build_core,
    ) -> None:
        """`extenders` calls those of the configuration, over HTTP unless something else is given.

        With several `shards`, leaders must be elected: each process schedules the namespaces whose leases it gets.
        `runner` does the core's work, by default a `CoreThread`; `Inline` makes everything deterministic. `build` makes
        each core, with the arguments of `build_core`: a recorder's makes one that is recorded.
        """
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._clock = clock
        self._rng = rng or random.Random()
        observer = instrument or SchedulerLog()
        self._build = partial(
            build,
            registry=registry or _installed_plugins(),
            rng=self._rng,
            instrument=observer,
            stopwatch=time.perf_counter if instrument is not None else None,
            whole=self._whole,
            unschedulable_age_s=unschedulable_age_s,
            shards=shards if config.leader_election.leader_elect else 1,
            clock=clock,
        )
        self.config = config
        """The configuration in force."""
        self.core = self._build(config)
        """Touched in slices only, or within `between_cycles`."""
        self._runner = runner or CoreThread()
        self._turns = Turns(self._runner, self._busy_with)
        self.overruns = OverrunWatch(self._turns, self._standing)
        self._arrivals: deque[Change | Answer | ShardsHeld] = deque()
        """What the core has not been told yet. Filled on the event loop, emptied in slices: both ends are atomic."""
        self._due = 0
        """How many arrivals are to be taken in before cycles run again, so that neither waits for ever."""
        self._handled = 0
        self.synced = asyncio.Event()
        """Set when the core knows everything that was there at the start."""
        self._wake = asyncio.Event()
        self._is_leading = False
        self._shards: ShardsHeld | None = None
        """Which shards are ours, where there are any, as the core was told last."""
        self._is_paused = False
        """Whether no cycle is to begin, since a new configuration is about to be put in force."""
        self._is_stopping = False
        self._invalid_pods: dict[str, InvalidObject] = {}
        self.following = Following(
            transport,
            self._take_in,
            report=GroupedReport(_log.warning),
            rng=self._rng,
            clock=clock,
            keep_raw=kinds_sent_whole(config.extenders),
            features=config.feature_gates,
            custom=self.core.resources,
        )
        names = tuple(self.core.profiles)
        self._elector: LeaderElector | ShardedElection | None = None
        writing: Transport = transport
        acting_for: Callable[[str], Transport] | None = None
        fence_of: Callable[[str], Fence] | None = None
        if config.leader_election.leader_elect:
            own_clock = lease_clock if clock is time.monotonic else clock
            make = partial(_elector, config, transport, self.identity, own_clock, wall_clock, self._rng)
            if shards == 1:
                self._elector = single = make()
                fence_of = partial(_fence_of, single)
            else:
                self._elector = sharded = _sharded(shards, make, config, self.identity, own_clock, self._hold_shards)
                fence_of = sharded.fence_of
            writing = fence = fenced(transport, fence_of)
            acting_for = fence.acting_for
        self._recorder = EventRecorder(
            writing,
            reporting_controller=names[0],
            reporting_instance=f"{names[0]}-{socket.gethostname()}",
            clock=wall_clock,
            rng=self._rng,
        )

        def extenders_for(config: SchedulerConfiguration) -> ExtenderClient:
            return extenders or ExtenderClient(config.extenders, fence_of)

        self._extenders_for = extenders_for
        self._effects = Effects(
            self._served(writing), self._recorder, answer=self._answer, lookup=self._known_pod, report=_log.warning,
            bug=_bug, rng=self._rng, extenders=self._extenders_for(config),
            timer=CallTimer(observer), acting_for=acting_for,
        )  # fmt: skip

    @property
    def is_leading(self) -> bool:
        """Whether cycles are run: informers synced and, where leaders are elected, we are the leader."""
        return self._is_leading

    @property
    def elects_leader(self) -> bool:
        """Whether the lease must be held to schedule."""
        return self._elector is not None

    @property
    def leader(self) -> str:
        """Who leads, as far as is known; empty where no leaders are elected."""
        return self._elector.leader if self._elector is not None else ""

    @property
    def pending_calls(self) -> dict[str, int]:
        """Requests to the API server that are under way or wait, by kind of call."""
        return self._effects.pending

    @property
    def lost_races(self) -> int:
        """Bindings that failed because another scheduler had bound the pod to another node."""
        return self._effects.lost_races

    @property
    def fenced_writes(self) -> dict[str, int]:
        """Writes that were not sent, or cut off, since the lease was not held; empty where no leaders are elected."""
        fence = self._elector.fence if self._elector is not None else None
        return {} if fence is None else {"refused": fence.refused, "cut_off": fence.cut}

    @property
    def work_queues(self) -> WorkQueues:
        """The queues in which those requests wait."""
        return self._effects.work_queues

    @property
    def prioritizing_extenders(self) -> int:
        """How many extenders are being asked for scores."""
        return self._effects.prioritizing

    @property
    def is_stopping(self) -> bool:
        """Whether the end has begun."""
        return self._is_stopping

    def clock(self) -> float:
        """Now, on the clock of the core's times."""
        return self._clock()

    def lease_problem(self) -> str:
        """What is wrong with leadership: cycles still run although the lease is no longer ours. Empty if nothing is."""
        elector = self._elector
        is_wrong = self._is_leading and elector is not None and not elector.is_leader
        return "the lease is lost, and the process still runs" if is_wrong else ""

    @property
    def is_at_work(self) -> bool:
        """Whether a slice is under way."""
        return self._turns.is_at_work

    @contextlib.asynccontextmanager
    async def between_cycles(self, timeout_s: float) -> AsyncIterator[Core]:
        """Hold the core, for code on the event loop that reads it. Raises `CycleBusy` after the timeout."""
        async with self._turns.between(timeout_s):
            yield self.core

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; raises `LeadershipLost`, `CycleStuck`, or whatever bug ended it."""
        helpers = [
            asyncio.create_task(self.following.run(), name="following"),
            asyncio.create_task(self._recorder.run(), name="events"),
        ]
        if not isinstance(self._runner, Inline):
            helpers.append(asyncio.create_task(self.overruns.run(), name="overruns"))
        core = asyncio.create_task(self._keep_working(), name="core")
        work = asyncio.create_task(self._work(), name="scheduling")
        told = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({core, work, told, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            self._is_stopping = True
            _raise_failure((*helpers, core, work))
            await _cancel((core,))
            await self._end(work)
        finally:
            self._is_leading = False
            await _cancel((core, work, told, *helpers))
            under_way = self._elector.fence.under_way if self._elector is not None else 0
            under_way = max(under_way, await self._effects.stop())
            with contextlib.suppress(CycleBusy):  # who stands by, or has lost the lease, has not waited for its slice
                async with self._turns.between(LAST_SLICE_S):
                    pass
            self._runner.close()
        await self._release(under_way)
        if self._turns.is_at_work:
            raise CycleStuck(f"ended although {self._busy_with()}")

    async def _work(self) -> None:
        """Wait to be synced, then to lead, then lead; ends only by losing the lease or by being cancelled."""
        await self.following.wait_for_sync()
        await self._catch_up()
        async with self._turns.between(LOST_AFTER_S):
            counts = len(self.core.cache.table), len(self.core.queue)
        _log.info("caches are synced: %d nodes, %d pending pods", *counts)
        self.synced.set()
        if self._elector is None:
            self._lead()
            await self._until_stuck()
            return
        if self._elector.leader not in ("", self.identity):
            _log.info("standing by: the leader is %s", self._elector.leader)
        await self._elector.acquire()
        self._recorder.record(
            self._elector.lease,
            type="Normal",
            reason="LeaderElection",
            action="LeaderElection",
            note=f"{self.identity} became leader",
        )
        self._lead()
        lost = asyncio.create_task(self.overruns.is_lost.wait(), name="stuck")
        holding = asyncio.create_task(self._elector.hold(), name="lease")
        try:
            await asyncio.wait({lost, holding}, return_when=asyncio.FIRST_COMPLETED)
            self._is_leading = False
            if holding.done():
                raise LeadershipLost(holding.result())
        finally:
            await _cancel((lost, holding))
        await self._until_stuck()

    def _lead(self) -> None:
        """From here on cycles run, and what the core wants done is done."""
        self._is_leading = True
        for invalid in tuple(self._invalid_pods.values()):
            self._warn_about(invalid)
        self._wake.set()

    async def _until_stuck(self) -> None:
        """Wait until a slice is past hope, if ever. Write nothing from then on; raise `CycleStuck`.

        Health fails from then on, so that whoever watches the process restarts it; if nobody does, it ends itself.
        """
        await self.overruns.is_lost.wait()
        self._is_leading = False
        await self._effects.stop()
        problem = self.overruns.loss
        _log.error("%s; nothing is written any more, the lease is not renewed, and /livez fails", problem)
        if self._elector is not None:
            self._elector.abandon(problem)
        with contextlib.suppress(CycleBusy):
            async with self._turns.between(ENDED_AFTER_S - LOST_AFTER_S):
                pass
        raise CycleStuck(f"gave up, since {problem}")

    # -- another configuration -----------------------------------------------------------------------------

    async def reconfigure(self, config: SchedulerConfiguration) -> list[str]:
        """Put another configuration in force between two cycles; return the fields that cannot change at work.

        A new core is made and told everything that the informers know; attempts and backoffs are taken over. Raises
        `ConfigError` and `ReloadPostponed`; then nothing has changed.
        """
        config, fixed = adjusted(self.config, config)
        core = await self._turns.run(partial(self._build, config))
        self._is_paused = True
        try:
            await self._settle_bindings()
            extenders = self._extenders_for(config)

            def take_over(_: None) -> None:
                self.core, self.config, self._due = core, config, 0

            await self._turns.run(partial(self._feed, core), take_over)
            await self._effects.use_extenders(extenders)
        finally:
            self._is_paused = False
            self._wake.set()
        return fixed

    async def _settle_bindings(self) -> None:
        """Wait until no pod is between its cycle and what the watch says of its binding. Raises `ReloadPostponed`.

        Pods that wait for Permit or in PreBind are turned back after a while, as a restart would do.
        """
        loop, turned_back = asyncio.get_running_loop(), False
        until = loop.time() + RELOAD_WAIT_S
        while True:
            await self._turn()
            unfinished = await self._turns.run(self._unfinished)
            if not unfinished:
                return
            if loop.time() >= until and turned_back:
                raise ReloadPostponed(f"{unfinished} pods are being bound, and that takes long")
            if loop.time() >= until:
                turned_back, until = True, loop.time() + RELOAD_WAIT_S
                await self._turns.run(self._turn_back, self._effects.carry_out)
            await asyncio.sleep(RELOAD_POLL_S)

    def _unfinished(self) -> int:
        return max(self.core.unfinished, self.core.cache.assumed_count, self._effects.pending_bindings)

    def _turn_back(self) -> list[Effect]:
        return self.core.call_off("the scheduler's configuration has changed", self._clock())

    def _feed(self, core: Core) -> None:
        """Tell a new core everything that is followed, and what the queue of the old one remembers.

        What still waits for the old core to be told is in the informers' objects already. What comes while they are
        read is told twice, which means nothing.
        """
        self._arrivals.clear()
        if self._shards is not None:
            self._tell(core, self._shards)
        for obj in self.following.everything():
            self._tell(core, ObjectEvent("ADDED", type(obj).__name__, obj))
        core.adopt(self.core.queue, self._clock())

    # -- the core's work -----------------------------------------------------------------------------------

    async def _keep_working(self) -> None:
        """Run slices as long as there is something to do, and sleep until there is again."""
        while True:
            self._wake.clear()
            try:
                end = await self._turn()
            except Exception as bug:
                _bug(bug)
                end = SliceEnd([], has_more=True, deadline=None, bug=bug)
            if end.bug is not None:
                await asyncio.sleep(PAUSE_AFTER_BUG_S)
            elif end.has_more:
                await asyncio.sleep(0)
            else:
                await self._sleep_until(end.deadline)

    async def _turn(self) -> SliceEnd:
        """Run one slice, and begin what it wants done."""
        return await self._turns.run(self._slice, self._carry_out)

    async def _catch_up(self) -> None:
        """Return when all that has arrived by now was taken in."""
        target = self._handled + len(self._arrivals)
        await self._turn()
        while self._handled < target:
            await self._turn()

    @property
    def _may_begin(self) -> bool:
        return self._is_leading and not self._is_stopping and not self._is_paused

    def _slice(self) -> SliceEnd:
        """Take in what has arrived, then run cycles, each for a few milliseconds. Runs where the runner runs it."""
        core, clock, effects = self.core, self._clock, list[Effect]()
        until = clock() + SLICE_S
        self._due = self._due or len(self._arrivals)
        while self._due:
            arrival = self._arrivals.popleft()
            effects += self._handle(arrival)
            self._due -= 1
            self._handled += 1
            if self._due and clock() >= until:
                return SliceEnd(effects, has_more=True, deadline=None)
        if not self._may_begin:
            return SliceEnd(effects, has_more=bool(self._arrivals), deadline=None)
        try:
            # Where only the rest of earlier arrivals was due, later ones still wait, and their wake-up is spent.
            has_more = self._run_cycles(core, effects) or bool(self._arrivals)
        except BaseException as bug:  # a bug ends one cycle, not the scheduler
            _bug(bug)
            return SliceEnd(effects, has_more=True, deadline=None, bug=bug)
        return SliceEnd(effects, has_more, None if has_more else core.next_deadline())

    def _run_cycles(self, core: Core, effects: list[Effect]) -> bool:
        """Run at least one cycle; say whether there is more to do at once."""
        now = self._clock()
        until = now + SLICE_S
        room = MAX_PENDING_BINDINGS - self._effects.pending_bindings - sum(map(_is_binding, effects))
        while True:
            new = core.step(now, begins=room > 0)
            effects += new
            room -= sum(map(_is_binding, new))
            if not core.has_work or room <= 0 or not self._may_begin:
                return False
            now = self._clock()
            if now >= until:
                return True

    def _handle(self, arrival: Change | Answer | ShardsHeld) -> list[Effect]:
        """Take one arrival in; one that breaks the core is left out, and the others go on."""
        event = arrival if isinstance(arrival, Answer | ShardsHeld) else event_of(arrival)
        return [] if event is None else self._tell(self.core, event)

    def _tell(self, core: Core, event: Event | Answer) -> list[Effect]:
        try:
            return core.handle(event, self._clock())
        except BaseException as bug:
            _bug(bug, _name_of(event))
            return []

    def _carry_out(self, end: SliceEnd) -> None:
        """Begin what a slice wants done; nothing while we do not lead, or do not any more."""
        if end.effects and self._is_leading:
            self._effects.carry_out(end.effects)

    def _standing(self) -> Standing | None:
        frame = self._runner.standing()
        return None if frame is None else standing_of(frame, self.core.profiles.values())

    def _busy_with(self) -> str:
        """What the core is busy with, in words."""
        return self.overruns.told(self._standing()) if self._turns.is_at_work else "the scheduler is busy"

    async def _sleep_until(self, deadline: float | None) -> None:
        """Wait for an event, an answer, or the core's next deadline."""
        delay_s = None if deadline is None else max(0.0, deadline - self._clock())
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _end(self, work: "asyncio.Task[None]") -> None:
        """Begin nothing new, and wait a little for what is under way. The lease is held, and answers reach the core.

        Raises what ends the work before that.
        """
        if not self._is_leading:
            return
        draining = asyncio.create_task(self._drain(), name="draining")
        try:
            await asyncio.wait({draining, work}, return_when=asyncio.FIRST_COMPLETED)
            _raise_failure((work, draining))
        finally:
            await _cancel((draining,))

    async def _drain(self) -> None:
        """Have the core take in all answers, and wait for what follows from them."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DRAIN_S
        is_over = False
        while not is_over:
            is_over = not await self._last_turn(until - loop.time())
            if not await self._effects.drain(max(0.0, until - loop.time())):
                _log.warning("ending with requests under way: %s", _counts(self._effects.pending) or "events")
                is_over = True
            is_over = is_over or not self._arrivals

    async def _last_turn(self, within_s: float) -> bool:
        """Have a turn at the core; say whether that worked in time, and who is in the way if it takes long."""
        turn = asyncio.create_task(self._turn(), name="last turn")
        done, _ = await asyncio.wait({turn}, timeout=min(TELL_STOP_AFTER_S, max(0.0, within_s)))
        if not done:
            left_s = max(0.0, within_s - TELL_STOP_AFTER_S)
            _log.warning("told to stop, but %s; waiting for it for %.0f s", self._busy_with(), left_s)
            done, _ = await asyncio.wait({turn}, timeout=left_s)
        if not done:
            await _cancel((turn,))
            return False
        _raise_failure((turn,))
        return True

    async def _release(self, under_way: int) -> None:
        """Give the lease up, unless a request was broken off: it may take effect yet, when another leads already."""
        if self._elector is None:
            return
        if under_way:
            self._elector.abandon(f"requests under way could not be ended: {under_way}")
        else:
            await self._elector.release()

    # -- into the core -------------------------------------------------------------------------------------

    def _take_in(self, changes: list[Change]) -> None:
        """The informers' sink."""
        for change in changes:
            if isinstance(change, InvalidObject):
                self._set_aside(change)
            else:
                self._arrivals.append(change)
        self._wake.set()

    def _answer(self, answer: Answer) -> None:
        self._arrivals.append(answer)
        self._wake.set()

    def _hold_shards(self, held: frozenset[int]) -> None:
        """Shards have come or gone. The fence knows already; the core learns it before its next cycle."""
        _log.info("scheduling the namespaces of %d shards: %s", len(held), ", ".join(map(str, sorted(held))) or "none")
        self._shards = ShardsHeld(held)
        self._arrivals.append(self._shards)
        self._wake.set()

    def _set_aside(self, invalid: InvalidObject) -> None:
        """Log once that an object cannot be read; for a pod, also emit an event that its owner sees."""
        where = f"{invalid.namespace}/{invalid.name}" if invalid.namespace else invalid.name
        kept = "its last good state is used" if invalid.old is not None else "it is left out"
        _log.warning("%s %s cannot be read, so %s: %s", invalid.resource.kind, where, kept, invalid.problem)
        if invalid.resource.kind == "Pod":
            self._invalid_pods[where] = invalid
            if self._is_leading:
                self._warn_about(invalid)

    def _warn_about(self, invalid: InvalidObject) -> None:
        """A Warning event on a pod that cannot be read, once."""
        self._invalid_pods.pop(f"{invalid.namespace}/{invalid.name}", None)
        self._recorder.record(
            ObjectReference("v1", "Pod", invalid.namespace, invalid.name, invalid.uid),
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=f"the pod cannot be read by the scheduler: {invalid.problem}",
        )

    def _whole(self, obj: Any) -> bytes:
        """A pod or node as the API server has it, for extenders that are sent whole objects."""
        return self.following.whole(obj)

    def _served(self, transport: Transport) -> Transport:
        """Carry out effects in the versions that the server serves."""
        return ServedTransport(transport, self.following.served, self.following.find)

    def _known_pod(self, pod: PodRef) -> Pod | None:
        found: Pod | None = self.following.find("Pod", pod.namespace, pod.name)
        return found if found is not None and found.metadata.uid == pod.uid else None


def _installed_plugins() -> Registry:
    from berth.plugins.registry import full_registry

    return full_registry()


def _fence_of(elector: LeaderElector, _namespace: str) -> Fence:
    """One lease covers all namespaces."""
    return elector.fence


def _sharded(
    shards: int,
    make: Callable[[str, Callable[[], None]], LeaderElector],
    config: SchedulerConfiguration,
    identity: str,
    clock: Callable[[], float],
    on_change: Callable[[frozenset[int]], None],
) -> ShardedElection:
    election = config.leader_election
    return ShardedElection(
        shards,
        make,
        lease_name=election.resource_name,
        identity=identity,
        times=_times(config),
        on_change=on_change,
        clock=clock,
    )


def _times(config: SchedulerConfiguration) -> LeaderElectionTimes:
    election = config.leader_election
    return LeaderElectionTimes(election.lease_duration_s, election.renew_deadline_s, election.retry_period_s)


def _elector(
    config: SchedulerConfiguration,
    transport: Transport,
    identity: str,
    clock: Callable[[], float],
    wall_clock: Callable[[], datetime],
    rng: random.Random,
    name: str = "",
    on_seen: Callable[[], None] = lambda: None,
) -> LeaderElector:
    """The elector of the lease that is configured, or of another of that kind."""
    election = config.leader_election
    return LeaderElector(
        transport,
        namespace=election.resource_namespace,
        name=name or election.resource_name,
        identity=identity,
        times=_times(config),
        on_new_leader=lambda leader: _log.info("the leader%s is %s", f" of {name}" if name else "", leader),
        on_seen=on_seen,
        clock=clock,
        wall_clock=wall_clock,
        rng=rng,
    )


def _name_of(event: Event | Answer | None) -> str:
    if event is None or isinstance(event, Answer):
        return "an answer of the API server"
    if isinstance(event, ShardsHeld):
        return "a change of shards"
    meta = event.obj.metadata
    return f"{event.kind} {meta.namespace}/{meta.name}" if meta.namespace else f"{event.kind} {meta.name}"


def _is_binding(effect: Effect) -> bool:
    """Whether this counts as a binding until it is answered; extenders may bind, too."""
    return isinstance(effect, Request) and isinstance(effect.effect, Bind | CallExtenders)


def _counts(pending: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in pending.items() if count)


def _bug(error: BaseException, what: str = "a cycle") -> None:
    """Log a bug with its traceback; the scheduler goes on."""
    _log.error("%s broke because of a bug in the scheduler; going on without it", what, exc_info=error)


def _raise_failure(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Raise the exception of a task that should still be running."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _cancel(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
