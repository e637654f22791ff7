"""Runs the core slice by slice: it takes in what has arrived, runs cycles, and returns effects.

A slice runs where the runner puts it, usually in a thread of its own (`turns`); its effects are started on the event
loop once it has ended.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.intake import Event, ObjectEvent, ShardsHeld
from berth.framework.effects import Answer, Bind, CallExtenders, Effect, Request
from berth.kube.changes import Change
from berth.runtime.acting.effects import Effects
from berth.runtime.arrivals import Arrivals
from berth.runtime.overruns import OverrunWatch
from berth.runtime.stack import WorkPosition, position_of
from berth.runtime.turns import SliceRunner, Turns
from berth.runtime.watched_resources import event_of

SLICE_S = 0.005
"""How long events are taken in, and then how long cycles run, before effects are carried out and the loop goes on."""
GATHER_S = 0.005
"""How long arrivals that are not urgent wait for others, so that one slice takes them in together."""
PLACED_AT_ONCE = 200
"""How many pods on nodes are taken in at once; it takes some three milliseconds."""
MAX_PENDING_BINDINGS = 1024
"""Cycles pause while this many bindings are unanswered, since later decisions see a fresher state."""
PAUSE_AFTER_BUG_S = 0.1
"""The pause after a bug, so that one that recurs at once fills neither the log nor the processor."""

_log = logging.getLogger("berth.scheduler")


class SliceEnd(NamedTuple):
    """The result of a slice of the core's work."""

    effects: list[Effect]
    has_more: bool
    deadline: float | None
    """When there is something to do even if nothing happens."""
    bug: BaseException | None = None


class CoreWork:
    """Runs the core as long as there is something to do."""

    __slots__ = (
        "_arrivals", "_clock", "_due", "_effects", "_handled", "_runner", "core", "is_leading", "is_paused",
        "is_stopping", "overruns", "turns",
    )  # fmt: skip

    def __init__(
        self, core: Core, arrivals: Arrivals, effects: Effects, runner: SliceRunner, clock: Callable[[], float]
    ) -> None:
        self.core = core
        """Touched in slices only, or by the task that holds `turns.between`."""
        self._arrivals = arrivals
        self._effects = effects
        self._runner = runner
        self._clock = clock
        self.turns = Turns(runner, self.busy_with)
        self.overruns = OverrunWatch(self.turns, self._position)
        self._due = 0
        """How many arrivals are to be taken in before cycles run again, so that neither waits for ever."""
        self._handled = 0
        self.is_leading = False
        """Whether cycles are run, and what the core wants done is done."""
        self.is_stopping = False
        """Whether the end has begun."""
        self.is_paused = False
        """Whether no cycle is to begin, since a new configuration is about to be put in force."""

    def take_over(self, core: Core) -> None:
        """Continue with another core, which has been given everything that has arrived."""
        self.core, self._due = core, 0

    async def run(self) -> None:
        """Run slices as long as there is something to do, and sleep until there is again."""
        while True:
            self._arrivals.all_taken()
            try:
                end = await self.turn()
            except Exception as bug:
                log_bug(bug)
                end = SliceEnd([], has_more=True, deadline=None, bug=bug)
            if end.bug is not None:
                await asyncio.sleep(PAUSE_AFTER_BUG_S)
            elif end.has_more:
                await asyncio.sleep(0)
            else:
                await self._sleep_until(end.deadline)

    async def turn(self) -> SliceEnd:
        """Run one slice, and start carrying out its effects."""
        return await self.turns.run(self._slice, self._carry_out)

    async def catch_up(self) -> None:
        """Return once everything that has arrived by now has been taken in."""
        target = self._handled + len(self._arrivals)
        await self.turn()
        while self._handled < target:
            await self.turn()

    @property
    def _may_begin(self) -> bool:
        return self.is_leading and not self.is_stopping and not self.is_paused

    def _slice(self) -> SliceEnd:
        """Take in what has arrived, then run cycles, each for a few milliseconds. Runs where the runner runs it."""
        core, clock, effects = self.core, self._clock, list[Effect]()
        until = clock() + SLICE_S
        self._due = self._due or len(self._arrivals)
        while self._due:
            # While the cluster is being read, most arrivals are pods on nodes.
            placed = [] if self.is_leading else self._arrivals.take_placed(min(self._due, PLACED_AT_ONCE))
            effects += self._handle_placed(placed) if placed else self._handle(self._arrivals.take())
            self._due -= len(placed) or 1
            self._handled += len(placed) or 1
            if self._due and clock() >= until:
                return SliceEnd(effects, has_more=True, deadline=None)
        if not self._may_begin:
            return SliceEnd(effects, has_more=bool(self._arrivals), deadline=None)
        try:
            # If only the rest of earlier arrivals was due, later ones still wait although their wake-up is used up.
            has_more = self._run_cycles(core, effects) or bool(self._arrivals)
        except BaseException as bug:  # a bug ends one cycle, not the scheduler
            log_bug(bug)
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
        """Take one arrival in; one on which the core raises is dropped, and the others go on."""
        event = arrival if isinstance(arrival, Answer | ShardsHeld) else event_of(arrival)
        return [] if event is None else self.tell(self.core, event)

    def _handle_placed(self, pods: list[Pod]) -> list[Effect]:
        try:
            return self.core.handle_placed(pods, self._clock())
        except BaseException:  # one by one it turns out which of them it was
            return [one for pod in pods for one in self.tell(self.core, ObjectEvent("ADDED", "Pod", pod))]

    def tell(self, core: Core, event: Event | Answer) -> list[Effect]:
        try:
            return core.handle(event, self._clock())
        except BaseException as bug:
            log_bug(bug, _name_of(event))
            return []

    def _carry_out(self, end: SliceEnd) -> None:
        """Start carrying out a slice's effects; nothing while we do not lead."""
        if end.effects and self.is_leading:
            self._effects.carry_out(end.effects)

    def _position(self) -> WorkPosition | None:
        frame = self._runner.current_frame()
        return None if frame is None else position_of(frame, self.core.profiles.values())

    def busy_with(self) -> str:
        """What the core is busy with, in words."""
        return self.overruns.told(self._position()) if self.turns.is_at_work else "the scheduler is busy"

    async def _sleep_until(self, deadline: float | None) -> None:
        """Wait for an event, an answer, or the core's next deadline."""
        delay_s = None if deadline is None else max(0.0, deadline - self._clock())
        try:
            async with asyncio.timeout(delay_s):
                await self._arrivals.wake.wait()
                if not self._arrivals.urgent.is_set():
                    # Each slice costs a hand-over to its thread, so whatever can wait comes with what follows it.
                    async with asyncio.timeout(GATHER_S):
                        await self._arrivals.urgent.wait()
        except TimeoutError:
            return


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


def log_bug(error: BaseException, what: str = "a cycle") -> None:
    """Log a bug with its traceback; the scheduler goes on."""
    _log.error("%s broke because of a bug in the scheduler; going on without it", what, exc_info=error)
