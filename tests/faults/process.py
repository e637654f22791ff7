"""One scheduler as a supervisor sees it: started, paused, told to stop, killed, and started again.

The process is a whole `LiveScheduler` on an event loop of its own. Killing it cuts its wire first, so that whatever its
tasks do while they end is seen by nobody.
"""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta

from berth.core.assembly import build_core
from berth.runtime.observing.cycle_log import SchedulerLog
from berth.runtime.scheduler import LeadershipLost, LiveScheduler
from berth.runtime.turns import Inline
from berth.testing.virtual_loop import VirtualLoop
from tests.faults.wire import Wire

READING_S = 20e-6
"""How much time passes between two looks at the clock: work takes time, so slices end."""


class SlowRunner:
    """Does the core's work at once, but is sometimes late to say so: the event loop goes on meanwhile."""

    def __init__(self, process):
        self._process = process

    def start(self, work, done):
        ended = []
        Inline().start(work, ended.append)
        delay_s = self._process.rng.choice((0.0, 0.0, 0.001, 0.005))
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, done, *ended)
        else:
            done(*ended)

    def current_frame(self):
        return None

    def close(self):
        pass


class Preemptions(SchedulerLog):
    """Holds preemptors to one set of victims: who has some on their way out waits until the watch shows them going."""

    def __init__(self, process):
        super().__init__()
        self._process = process
        self._accepted = {}
        """The victims of each preemptor whose eviction the API server has agreed to, by uid."""

    def making_room(self, preemptor, victims_on):
        super().making_room(preemptor, victims_on)
        is_staying = self._process.core.evictions.is_staying
        # Whose binding was called off stays, was tried again since, and may have to make room again.
        staying = {
            pod["metadata"]["uid"] for pod in self._process.server.pods() if "deletionTimestamp" not in pod["metadata"]
        }
        accepted = self._accepted.pop(preemptor.uid, ())
        unseen = [victim.key for victim in accepted if is_staying(victim.uid) and victim.uid not in staying]
        if unseen:
            self._process.sim.accuse(f"pod {preemptor.key} preempts anew, though {unseen} go for it already")

    def victim_answered(self, victim, preemptor, node_name, refusal):
        super().victim_answered(victim, preemptor, node_name, refusal)
        if not refusal:
            self._accepted.setdefault(preemptor.uid, []).append(victim)


class Process:
    """One place in which a scheduler runs; `identity` is that of its present life."""

    def __init__(self, history, name):
        self.history, self.sim, self.server = history, history.sim, history.server
        self.name = name
        self.rng = random.Random(history.rng.random())
        self.troubles = []
        self.skew_s = 0.0
        """How far the machine's wall clock is off."""
        self.lives = 0
        self.paused_until = 0.0
        self.kill_at = None
        """("before" or "after", verbs): the write at whose boundary the process is killed."""
        self.renewed_at = None
        """When the last renewal of the lease was sent that this life knows to have worked."""
        self.loop = self.scheduler = self.wire = self.task = self.stop = None
        self.sent_after_loss = 0
        self.told_gone = set()
        """The uids of objects that a list has left out which was cut short on its way."""

    @property
    def identity(self):
        return f"{self.name}#{self.lives}"

    @property
    def is_alive(self):
        return self.loop is not None

    # -- for the simulation --------------------------------------------------------------------------------------

    def next_time(self):
        if self.loop is None:
            return None
        found = self.loop.next_time()
        return None if found is None else max(found, self.paused_until)

    def turn(self):
        self.loop.turn()
        if self.task is not None and self.task.done():
            self._ended()

    # -- for the scheduler ---------------------------------------------------------------------------------------

    def clock(self):
        if self.sim.current is self:
            self.sim.time.now += READING_S
        return self.sim.now

    def wall(self):
        return self.server.wall() + timedelta(seconds=self.skew_s)

    # -- its life ------------------------------------------------------------------------------------------------

    def start(self):
        if self.loop is not None:
            return
        self.lives += 1
        self.sim.tell(self.name, "%s starts", self.identity)
        self.renewed_at = None
        self.loop = VirtualLoop(self.sim.time)
        self.loop.set_exception_handler(self._broken)
        self.wire = Wire(self.sim, self.server, self, self.rng, self.history.harm)
        self.stop = asyncio.Event()
        self.task = self.loop.create_task(self._main(), name=self.identity)

    async def _main(self):
        self.scheduler = LiveScheduler(
            self.history.config,
            self.wire,
            registry=self.history.registry(),
            identity=self.identity,
            rng=random.Random(self.rng.random()),
            clock=self.clock,
            wall_clock=self.wall,
            unschedulable_age_s=self.history.plan.unschedulable_age_s,
            extenders=self.history.extender_client(self),
            runner=SlowRunner(self),
            build=self._build_core,
            call_off=self.wire.call_off,
        )
        await self.scheduler.run(self.stop)

    def _build_core(self, config, registry, options):
        watching = replace(options.instrumentation, instrument=Preemptions(self))
        return build_core(config, registry, replace(options, instrumentation=watching))

    def _ended(self):
        """The process has ended by itself: why, and will it be started again?"""
        error = None if self.task.cancelled() else self.task.exception()
        if error is None:
            self.sim.tell(self.name, "%s ends", self.identity)
        elif isinstance(error, LeadershipLost):
            self.sim.tell(self.name, "%s ends: %s", self.identity, error)
        else:
            self.sim.accuse(f"{self.identity} died: {type(error).__name__}: {error}")
        self._bury()
        self.sim.after(self.rng.uniform(0.5, 3.0), self.start)

    def _broken(self, loop, context):
        self.sim.accuse(f"{self.identity}: {context.get('message')}: {context.get('exception')!r}")

    def tell_to_stop(self):
        """SIGTERM."""
        if self.loop is not None and not self.stop.is_set():
            self.sim.tell(self.name, "%s is told to stop", self.identity)
            self.loop.call_soon(self.stop.set)

    def pause(self, seconds):
        """SIGSTOP, and SIGCONT later."""
        self.sim.tell(self.name, "%s is paused for %.1f s", self.identity, seconds)
        self.paused_until = max(self.paused_until, self.sim.now + seconds)

    def kill(self, life=None):
        """SIGKILL; started again a little later."""
        if self.loop is None or (life is not None and life != self.lives):
            return
        self.sim.tell(self.name, "%s is killed", self.identity)
        self._bury()
        self.sim.after(self.rng.uniform(0.2, 3.0), self.start)

    def _bury(self):
        """End every task, unseen, and forget the life."""
        self.wire.cut()
        loop, self.loop, self.task, self.scheduler = self.loop, None, None, None
        loop.set_exception_handler(lambda *_: None)
        self.paused_until = 0.0
        with self.history.unlogged():
            for _ in range(100):
                tasks = asyncio.all_tasks(loop)
                if not tasks:
                    break
                for task in tasks:
                    task.cancel()
                loop.turn()
                loop.turn()
            else:
                self.sim.accuse(f"{self.identity} has tasks that cannot be cancelled: {asyncio.all_tasks(loop)}")
            loop.turn()
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    # -- what the wire tells -------------------------------------------------------------------------------------

    def is_about_to_send(self, request):
        """Hold the process to its lease, and kill it before the write at whose boundary it is to die."""
        if self.wire.is_cut or not request.is_write or request.plural == "events":
            return
        if request.plural != "leases":
            self._check_lease(request)
            if unsynced := self.scheduler.following.unsynced():
                self.sim.accuse(f"{self.identity} sends {request} before its caches are synced: {unsynced}")
        if self.kill_at is not None and self.kill_at[0] == "before" and request.verb in self.kill_at[1]:
            self._die(request)

    def is_after_effect(self, request):
        if self.wire.is_cut or not request.is_write or request.plural in ("events", "leases"):
            return
        if self.kill_at is not None and self.kill_at[0] == "after" and request.verb in self.kill_at[1]:
            self._die(request)

    def _die(self, request):
        self.history.harm[f"killed {self.kill_at[0]} {request.verb}"] += 1
        self.sim.tell(self.name, "%s dies %s %s", self.identity, self.kill_at[0], request)
        self.kill_at = None
        self.wire.cut()  # from now on nobody sees it
        self.sim.after(0.0, self.kill, self.lives)

    def _check_lease(self, request):
        """A write is sent only while the lease is held: by the record, and by what this process can know of its age."""
        if not self.history.plan.candidates:
            return
        holder, renewed_at, duration_s = self.history.lease()
        if holder != self.identity:
            self._is_wrong(request, f"{holder or 'nobody'} holds the lease")
        elif self.sim.now > renewed_at + duration_s:
            self._is_wrong(request, f"its lease ended {self.sim.now - renewed_at - duration_s:.1f} s ago")

    def _is_wrong(self, request, why):
        self.sent_after_loss += 1
        if self.history.is_enabled("writes after the lease's end"):
            self.sim.accuse(f"{self.identity} sends {request}, though {why}")

    # -- what the checks ask -------------------------------------------------------------------------------------

    @property
    def core(self):
        return None if self.scheduler is None else self.scheduler.core

    def known_node(self, name):
        return None if self.scheduler is None else self.scheduler.following.find("Node", "", name)

    def counts(self, uid, node_name):
        """Whether the scheduler counts a pod on a node."""
        state = None if self.scheduler is None else self.core.cache.state_of(uid)
        return state is not None and self.core.cache.table.names[state.row] == node_name
