"""The live scheduler: feeds the core from the API server, runs it, and carries out its effects.

`berth run`, `berth up` and `berth demo` make a `LiveScheduler` over a transport and await `run(stop)`. The event loop
runs everything that must go on whatever a plugin does: watches, the lease, requests, health. The core works in slices
of a few milliseconds, which the loop hands to a runner, usually a thread of its own, and awaits: see `turns`. What
arrives during a slice waits for the next; a slice's effects are started once it has ended. The order of events:

    follow (list and watch) → all synced → lead, if leaders are elected → schedule until told to stop, or leadership
    is lost → wait for what is under way → give the lease up → write the events that are left

Each step has a class of its own: `WatchedResources` and `Arrivals`, `Leadership`, `CoreWork`, `GracefulStop`, and
beside them `Reconfiguration`. `LiveScheduler` makes them and takes them in this order.

With leader election, everything that is written except events passes the elector's fence (`berth.kube.fence`).
"""

import asyncio
import contextlib
import logging
import random
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from berth.api.pod import Pod
from berth.config.types import SchedulerConfiguration
from berth.core.assembly import build_core
from berth.core.core import Core
from berth.core.options import Build, Clocks, CoreOptions, DecisionOptions, Instrumentation
from berth.cycle.instrument import Instrument
from berth.extender.client import ExtenderClient
from berth.extender.http_extender import kinds_sent_whole
from berth.framework.effects import PodRef
from berth.framework.registry import Registry
from berth.kube.changes import Change
from berth.kube.events import EventRecorder
from berth.kube.read_only import ReadOnlyTransport
from berth.kube.served import ServedTransport
from berth.kube.transport import Transport
from berth.kube.trouble import Report
from berth.runtime.acting.effects import Effects
from berth.runtime.arrivals import Arrivals
from berth.runtime.core_work import CoreWork, log_bug
from berth.runtime.graceful_stop import GracefulStop
from berth.runtime.grouped_report import GroupedReport
from berth.runtime.leadership import Leadership
from berth.runtime.observing.call_timer import CallTimer
from berth.runtime.observing.cycle_log import SchedulerLog
from berth.runtime.observing.work_queues import WorkQueues
from berth.runtime.overruns import ENDED_AFTER_S, LOST_AFTER_S, OverrunWatch
from berth.runtime.reconfiguration import Reconfiguration
from berth.runtime.tasks import cancel, raise_failure
from berth.runtime.turns import CoreThread, CycleBusy, Inline, SliceRunner
from berth.runtime.unreadable_pods import UnreadablePods
from berth.runtime.watched_resources import WatchedResources

LAST_SLICE_S = 0.5
"""How long the end waits for a slice that is under way, many times what a slice takes."""

LAST_EVENTS_S = 5.0
"""How long the end waits for events, when another may schedule already."""

Answered = TypeVar("Answered")

_log = logging.getLogger("berth.scheduler")


class LeadershipLost(RuntimeError):  # noqa: N818 - it says what happened
    """Another scheduler may be at work: this process must end without another write."""


class CycleStuck(RuntimeError):  # noqa: N818 - it says what happened
    """A slice of the core's work does not end, so the process must: nothing else can end the slice."""


class LiveScheduler:
    """A scheduler at work on one cluster; make it inside the event loop that runs it."""

    __slots__ = (
        "_arrivals", "_clock", "_drain", "_effects", "_leadership", "_reconfiguration", "_recorder", "_runner",
        "_unreadable", "_work", "following", "identity", "refused", "synced",
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
        build: Build = build_core,
        report: Report | None = None,
        writes: bool = True,
        refused: Callable[[], str] = str,
        call_off: Callable[[], object] = lambda: None,
    ) -> None:
        """`extenders` calls those of the configuration, over HTTP unless something else is given.

        With several `shards`, leaders must be elected: each process schedules the namespaces whose leases it gets.
        `runner` does the core's work, by default a `CoreThread`; `Inline` makes everything deterministic. `build` makes
        each core, as `build_core` does: a recorder's makes one that is recorded. `report` is told what
        keeps kinds from being followed, by default the log. Without `writes` nothing is written, whatever happens: the
        cores that `build` makes look on (`berth.agreement`), and what acts has nothing to do. `refused` says what the
        API server has refused for a while. `call_off` has a transport that holds writes back for a while send no more.
        """
        self.refused = refused
        """Says what the API server has refused for a while, and why; empty where it refuses nothing."""
        transport = transport if writes else ReadOnlyTransport(transport)
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._clock = clock
        rng = rng or random.Random()
        observer = instrument or SchedulerLog()
        plugins = registry or _installed_plugins()
        stopwatch = time.perf_counter if instrument is not None else None
        options = CoreOptions(
            rng=rng,
            decisions=DecisionOptions(
                unschedulable_age_s=unschedulable_age_s, shards=shards if config.leader_election.leader_elect else 1
            ),
            clocks=Clocks(core=clock),
            instrumentation=Instrumentation(instrument=observer, stopwatch=stopwatch),
            whole=self._whole,
        )

        def make_core(config: SchedulerConfiguration) -> Core:
            return build(config, plugins, options)

        core = make_core(config)
        self._runner = runner or CoreThread()
        self.synced = asyncio.Event()
        """Set when the core knows everything that was there at the start."""
        self._arrivals = Arrivals()
        self.following = WatchedResources(
            transport,
            self._take_in,
            report=report or GroupedReport(_log.warning),
            rng=rng,
            clock=clock,
            keep_raw=kinds_sent_whole(config.extenders),
            features=config.feature_gates,
            custom=core.resources,
            web=core.resources.polled,
        )
        self._leadership = leadership = Leadership(
            config, transport, self.identity, shards=shards, on_shards=self._hold_shards, clock=clock,
            wall_clock=wall_clock, rng=rng,
        )  # fmt: skip
        name = next(iter(core.profiles))
        # Events report what was done, even after the lease was released: no fence holds them back.
        self._recorder = EventRecorder(
            transport,
            reporting_controller=name,
            reporting_instance=f"{name}-{socket.gethostname()}",
            clock=wall_clock,
            rng=rng,
        )
        self._unreadable = UnreadablePods(self._recorder, lambda: writes and self.is_leading)

        def extenders_for(config: SchedulerConfiguration) -> ExtenderClient:
            return extenders or ExtenderClient(config.extenders, leadership.fence_of)

        self._effects = Effects(
            ServedTransport(leadership.writing, self.following.served, self.following.find), self._recorder,
            answer=self._arrivals.put, answer_bound=self._arrivals.put_bound, lookup=self._known_pod,
            report=_log.warning, bug=log_bug, rng=rng,
            extenders=extenders_for(config), timer=CallTimer(observer), acting_for=leadership.acting_for,
            pod_written=self.following.expect_pods, resources=lambda: self.core.resources,
        )  # fmt: skip
        self._work = CoreWork(core, self._arrivals, self._effects, self._runner, clock)
        self._drain = GracefulStop(self._work, self._arrivals, self._effects, call_off)
        self._reconfiguration = Reconfiguration(
            config, self._work, self._arrivals, self._effects, self.following, make_core,
            extenders_for, clock,
        )  # fmt: skip

    @property
    def core(self) -> Core:
        """The core; touched in slices only, or within `between_cycles`."""
        return self._work.core

    @property
    def config(self) -> SchedulerConfiguration:
        """The configuration in force."""
        return self._reconfiguration.config

    @property
    def overruns(self) -> OverrunWatch:
        """The watch for slices that do not end."""
        return self._work.overruns

    @property
    def is_leading(self) -> bool:
        """Whether cycles are run: informers have synced and, with leader election, we lead."""
        return self._work.is_leading

    @property
    def elects_leader(self) -> bool:
        """Whether the lease must be held to schedule."""
        return self._leadership.is_elected

    @property
    def leader(self) -> str:
        """Who leads, as far as is known; empty without leader election."""
        return self._leadership.leader

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
        """Writes that were not sent, or cut off, because the lease was not held; empty without leader election."""
        return self._leadership.fenced_writes

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
        return self._work.is_stopping

    def clock(self) -> float:
        """Now, on the clock of the core's times."""
        return self._clock()

    def lease_problem(self) -> str:
        """What is wrong with leadership: cycles still run although the lease is no longer ours. Empty if nothing is."""
        is_wrong = self.is_leading and self._leadership.is_lost
        return "the lease is lost, and the process still runs" if is_wrong else ""

    @property
    def is_at_work(self) -> bool:
        """Whether a slice is under way."""
        return self._work.turns.is_at_work

    @contextlib.asynccontextmanager
    async def between_cycles(self, timeout_s: float) -> AsyncIterator[Core]:
        """Hold the core, for code on the event loop that reads it. Raises `CycleBusy` after the timeout."""
        async with self._work.turns.between(timeout_s):
            yield self.core

    async def ask(self, question: Callable[[Core], Answered], timeout_s: float) -> Answered:
        """Answer a question that runs plugins, where and when cycles run, so that even one that never ends leaves the
        loop free.

        The question leaves the core as it was. Raises `CycleBusy` if it cannot begin within the timeout.
        """
        if self.is_stopping or not self.synced.is_set():
            raise CycleBusy("the scheduler is stopping" if self.is_stopping else "it has not seen the cluster yet")
        return await self._work.turns.run(lambda: question(self.core), begins_within_s=timeout_s)

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; raises `LeadershipLost`, `CycleStuck`, or whatever bug ended it."""
        events = asyncio.create_task(self._recorder.run(), name="events")
        try:
            await self._run(stop, events)
            if not await self._recorder.drain(LAST_EVENTS_S):
                _log.warning("ending before all events are written: the API server does not keep up")
        finally:
            await cancel((events,))

    async def _run(self, stop: asyncio.Event, events: "asyncio.Task[None]") -> None:
        """Schedule, and give the lease up; events are still written after that."""
        helpers = [
            asyncio.create_task(self.following.run(), name="following"),
        ]
        if not isinstance(self._runner, Inline):
            helpers.append(asyncio.create_task(self.overruns.run(), name="overruns"))
        core = asyncio.create_task(self._work.run(), name="core")
        leading = asyncio.create_task(self._lead(), name="scheduling")
        told = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({core, leading, told, events, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            self._work.is_stopping = True
            raise_failure((*helpers, events, core, leading))
            await cancel((core,))
            self._recorder.tell_what_was_done_first()
            await self._drain.run(leading)
        finally:
            self._work.is_leading = False
            await cancel((core, leading, told, *helpers))
            under_way = self._leadership.under_way
            under_way = max(under_way, await self._effects.stop())
            with contextlib.suppress(CycleBusy):  # who stands by, or has lost the lease, has not waited for its slice
                async with self._work.turns.between(LAST_SLICE_S):
                    pass
            self._runner.close()
        await self._leadership.release(under_way)
        if self._work.turns.is_at_work:
            raise CycleStuck(f"ended although {self._work.busy_with()}")

    async def _lead(self) -> None:
        """Wait to be synced, then to lead, then lead; ends only by losing the lease or by being cancelled."""
        await self.following.wait_for_sync()
        await self._work.catch_up()
        async with self._work.turns.between(LOST_AFTER_S):
            counts = len(self.core.cache.table), len(self.core.queue)
        _log.info("caches are synced: %d nodes, %d pending pods", *counts)
        self.synced.set()
        await self._leadership.acquire(self._recorder)
        self._begin()
        if not self._leadership.is_elected:
            await self._until_stuck()
            return
        lost = asyncio.create_task(self.overruns.is_lost.wait(), name="stuck")
        holding = asyncio.create_task(self._leadership.hold(), name="lease")
        try:
            await asyncio.wait({lost, holding}, return_when=asyncio.FIRST_COMPLETED)
            self._work.is_leading = False
            if holding.done():
                raise LeadershipLost(holding.result())
        finally:
            await cancel((lost, holding))
        await self._until_stuck()

    def _begin(self) -> None:
        """Start running cycles and carrying out effects."""
        self._work.is_leading = True
        self._unreadable.tell()
        self._arrivals.be_quick()

    async def _until_stuck(self) -> None:
        """Wait until a slice is beyond hope, if ever. Write nothing from then on; raise `CycleStuck`.

        Health fails from then on, so that the supervisor of the process restarts it; if nobody does, it ends itself.
        """
        await self.overruns.is_lost.wait()
        self._work.is_leading = False
        await self._effects.stop()
        problem = self.overruns.loss
        _log.error("%s; nothing is written any more, the lease is not renewed, and /livez fails", problem)
        self._leadership.abandon(problem)
        with contextlib.suppress(CycleBusy):
            async with self._work.turns.between(ENDED_AFTER_S - LOST_AFTER_S):
                pass
        raise CycleStuck(f"gave up, since {problem}")

    async def reconfigure(self, config: SchedulerConfiguration) -> list[str]:
        """Put another configuration in force between two cycles; return the fields that cannot change at run time.

        Raises `ConfigError` and `ReloadPostponed`; then nothing has changed.
        """
        return await self._reconfiguration.put_in_force(config)

    def _take_in(self, changes: list[Change]) -> None:
        """The informers' sink."""
        for invalid in self._arrivals.take_in(changes):
            self._unreadable.set_aside(invalid)

    def _hold_shards(self, held: frozenset[int]) -> None:
        _log.info("scheduling the namespaces of %d shards: %s", len(held), ", ".join(map(str, sorted(held))) or "none")
        self._arrivals.hold_shards(held)

    def _whole(self, obj: Any) -> bytes:
        """Return a pod or node as the API server has it, for extenders that are sent whole objects."""
        return self.following.whole(obj)

    def _known_pod(self, pod: PodRef) -> Pod | None:
        found: Pod | None = self.following.find("Pod", pod.namespace, pod.name)
        return found if found is not None and found.metadata.uid == pod.uid else None


def _installed_plugins() -> Registry:
    from berth.plugins.registry import full_registry

    return full_registry()
