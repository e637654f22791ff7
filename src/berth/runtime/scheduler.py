"""The live scheduler: one event loop owns the core, feeds it the API server's events, and carries out its effects.

`berth run`, `berth up` and `berth demo` make a `LiveScheduler` over a transport and await `run(stop)`. Everything that
touches the core runs on that event loop, between two awaits: no locks. The order of events:

    follow (list and watch) → all synced → lead, if leaders are elected → schedule until told to stop, or leadership
    is lost → wait for what is under way → give the lease up

Where leaders are elected, everything that is written passes the elector's fence (`berth.kube.fence`).
"""

import asyncio
import logging
import random
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from berth.api.meta import ObjectReference
from berth.api.pod import Pod
from berth.assembly import build_core
from berth.config.types import SchedulerConfiguration
from berth.cycle.instrument import Instrument
from berth.extender.client import ExtenderClient
from berth.extender.http_extender import kinds_sent_whole
from berth.framework.effects import Answer, Effect, PodRef
from berth.framework.registry import Registry
from berth.intake import Event, ShardsHeld
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
from berth.runtime.sharding import ShardedElection

SLICE_S = 0.005
"""How long cycles run before the event loop may serve its sockets again."""
MAX_PENDING_BINDINGS = 1024
"""Cycles pause while this many bindings are unanswered, since later decisions see a fresher state."""
PAUSE_AFTER_BUG_S = 0.1
"""The pause after a bug, so that one that recurs at once fills neither the log nor the processor."""
DRAIN_S = 5.0
"""How long stopping waits for requests under way."""

_log = logging.getLogger("berth.scheduler")


class LeadershipLost(RuntimeError):  # noqa: N818 - it says what happened
    """Another scheduler may be at work: this process must end without another write."""


class LiveScheduler:
    """A scheduler at work on one cluster; make it inside the event loop that runs it."""

    __slots__ = (
        "_clock",
        "_effects",
        "_elector",
        "_invalid_pods",
        "_is_leading",
        "_is_stopping",
        "_recorder",
        "_rng",
        "_wake",
        "core",
        "following",
        "identity",
    )

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
    ) -> None:
        """`extenders` calls those of the configuration, over HTTP unless something else is given.

        With several `shards`, leaders must be elected: each process schedules the namespaces whose leases it gets.
        """
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._clock = clock
        self._rng = rng or random.Random()
        observer = instrument or SchedulerLog()
        self.core = build_core(
            config,
            registry or _installed_plugins(),
            rng=self._rng,
            instrument=observer,
            stopwatch=time.perf_counter if instrument is not None else None,
            whole=self._whole,
            unschedulable_age_s=unschedulable_age_s,
            shards=shards if config.leader_election.leader_elect else 1,
            clock=clock,
        )
        self._wake = asyncio.Event()
        self._is_leading = False
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
        self._effects = Effects(
            self._served(writing), self._recorder, answer=self._answer, lookup=self._known_pod, report=_log.warning,
            bug=_bug, rng=self._rng, extenders=extenders or ExtenderClient(config.extenders, fence_of),
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

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; raises `LeadershipLost`, or whatever bug ended it."""
        helpers = [
            asyncio.create_task(self.following.run(), name="following"),
            asyncio.create_task(self._recorder.run(), name="events"),
        ]
        work = asyncio.create_task(self._work(stop), name="scheduling")
        told = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({work, told, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            self._is_stopping = True
            _raise_failure((*helpers, work))
            await self._end(work)
        finally:
            self._is_leading = False
            await _cancel((work, told, *helpers))
            under_way = self._elector.fence.under_way if self._elector is not None else 0
            under_way = max(under_way, await self._effects.stop())
        await self._release(under_way)

    async def _work(self, stop: asyncio.Event) -> None:
        """Wait to be synced, then to lead, then schedule; ends only by losing the lease or by being cancelled."""
        await self.following.wait_for_sync()
        _log.info("caches are synced: %d nodes, %d pending pods", len(self.core.cache.table), len(self.core.queue))
        if self._elector is None:
            await self._lead(stop)
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
        scheduling = asyncio.create_task(self._lead(stop), name="cycles")
        holding = asyncio.create_task(self._elector.hold(), name="lease")
        try:
            await asyncio.wait({scheduling, holding}, return_when=asyncio.FIRST_COMPLETED)
            _raise_failure((scheduling,))
            if holding.done():
                self._is_leading = False
                raise LeadershipLost(holding.result())
        finally:
            await _cancel((scheduling, holding))

    async def _lead(self, stop: asyncio.Event) -> None:
        """Run cycles as long as there is something to do, and sleep until there is again."""
        self._is_leading = True
        for invalid in tuple(self._invalid_pods.values()):
            self._warn_about(invalid)
        while not stop.is_set():
            self._wake.clear()
            try:
                has_more = self._run_slice()
            except Exception as error:  # a bug ends one cycle, not the scheduler
                _bug(error)
                await asyncio.sleep(PAUSE_AFTER_BUG_S)
                continue
            if has_more:
                await asyncio.sleep(0)
            else:
                await self._sleep_until(self.core.next_deadline())

    def _run_slice(self) -> bool:
        """Run cycles for a few milliseconds; say whether there is more to do at once."""
        core, now = self.core, self._clock()
        until = now + SLICE_S
        self._effects.carry_out(core.step(now))
        while core.has_work and self._effects.pending_bindings < MAX_PENDING_BINDINGS:
            now = self._clock()
            if now >= until:
                return True
            self._effects.carry_out(core.step(now))
        return False

    async def _sleep_until(self, deadline: float | None) -> None:
        """Wait for an event, an answer, or the core's next deadline."""
        delay_s = None if deadline is None else max(0.0, deadline - self._clock())
        try:
            async with asyncio.timeout(delay_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _end(self, work: "asyncio.Task[None]") -> None:
        """Begin nothing new, and wait a little for what is under way; answers still reach the core."""
        if self._elector is None or self._is_leading:
            await asyncio.sleep(0)
            if not await self._effects.drain(DRAIN_S):
                _log.warning("ended with requests under way: %s", self._effects.pending)
        _raise_failure((work,))

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
        now = self._clock()
        for change in changes:
            event = event_of(change)
            if event is not None:
                self._handle(event, now)
            elif isinstance(change, InvalidObject):
                self._set_aside(change)
        self._wake.set()

    def _answer(self, answer: Answer) -> None:
        self._handle(answer, self._clock())
        self._wake.set()

    def _hold_shards(self, held: frozenset[int]) -> None:
        """Shards have come or gone."""
        _log.info("scheduling the namespaces of %d shards: %s", len(held), ", ".join(map(str, sorted(held))) or "none")
        self._handle(ShardsHeld(held), self._clock())
        self._wake.set()

    def _handle(self, event: Event | Answer, now: float) -> None:
        try:
            effects: list[Effect] = self.core.handle(event, now)
        except Exception as error:  # an object that breaks the core is left out, and the others go on
            _bug(error, _name_of(event))
            return
        if effects:
            self._effects.carry_out(effects)

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


def _name_of(event: Event | Answer) -> str:
    if isinstance(event, Answer):
        return "an answer of the API server"
    if isinstance(event, ShardsHeld):
        return "a change of shards"
    meta = event.obj.metadata
    return f"{event.kind} {meta.namespace}/{meta.name}" if meta.namespace else f"{event.kind} {meta.name}"


def _bug(error: Exception, what: str = "a cycle") -> None:
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
