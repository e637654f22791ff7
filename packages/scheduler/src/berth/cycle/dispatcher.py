"""What the parts of a core need: the time, a way to emit effects, and a way to run generators.

Made before everything else and handed to the parts that need it, so that no part has to know the core. Whatever must
wait for the outside (PostFilter, PreBind, Bind, an eviction) is a generator: it yields what it asks for and is resumed
with the answer. The dispatcher runs each of them until it yields, and keeps it parked until its answer arrives or its
time is up.

At most one of the generators is the scheduling cycle, which `open` starts. While it is parked, no object may change
under it: `is_open` is true, and the `Inbox` of `berth.core.intake` holds events back until it has ended. All others run
alongside and touch only what is theirs (a binding: its own assumed pod).
"""

import math
from collections.abc import Callable
from typing import Any

from berth.framework.blame import contained
from berth.framework.effects import Answer, Effect, Request, Steps, WaitUntil


class Interruption(BaseException):
    """Thrown into a waiting generator so that it cleans up and ends."""


THROWN_IN = (GeneratorExit, Interruption)
"""What a generator may raise without having a bug."""


class Dispatcher:
    """The core's clock, its outgoing effects, and its parked generators."""

    __slots__ = ("_clock", "_effects", "_interrupted", "_now", "_open", "_parked", "_tickets", "_waits", "running")

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """`clock` is the clock from which the core's times are read; None if time stands still while the core works."""
        self._clock = clock
        self._now = 0.0
        self._effects: list[Effect] = []
        self._open: Steps[Any] | None = None
        self._parked: dict[int, Steps[Any]] = {}
        """The generators waiting for an answer, by the ticket of the request."""
        self._waits: list[tuple[WaitUntil, Steps[Any]]] = []
        self._tickets = 0
        self._interrupted: dict[Steps[Any], Interruption] = {}
        """The generators that are to end, and have not been told yet."""
        self.running: Steps[Any] | None = None
        """The generator that is running."""

    def __len__(self) -> int:
        """How many generators are parked."""
        return len(self._parked) + len(self._waits)

    @property
    def is_open(self) -> bool:
        """Say whether a scheduling cycle has begun and not ended."""
        return self._open is not None

    def now(self) -> float:
        """Return the time of the event or step under way, in seconds; never the wall clock."""
        return self._now

    def set_time(self, now: float) -> None:
        """Note the time; only the core does, when it is called."""
        self._now = now

    def catch_up(self) -> None:
        """Read the time again: an attempt may have taken a while, and what follows counts from its end."""
        if self._clock is not None:
            self._now = max(self._now, self._clock())

    def tell(self, effect: Effect) -> None:
        """Emit an effect that nobody waits for."""
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """Hand over the effects to carry out, in the order in which they were emitted."""
        effects, self._effects = self._effects, []
        return effects

    def start(self, steps: Steps[Any]) -> None:
        """Run a generator alongside the scheduling cycles: at once, until it first has to wait."""
        self._advance(steps, None)

    def open(self, cycle: Steps[Any]) -> None:
        """Run the scheduling cycle until it ends or has to wait."""
        assert self._open is None, "at most one scheduling cycle is open"
        self._open = cycle
        self._advance(cycle, None)

    def resume(self, answer: Answer) -> None:
        """Give an answer to the generator that asked for it; an answer that nobody waits for is dropped."""
        steps = self._parked.pop(answer.ticket, None)
        if steps is not None:
            self._advance(steps, answer)

    def interrupt(self, steps: Steps[Any], interruption: Interruption) -> None:
        """End a parked generator: from `resume_ready`, or where it next waits.

        One that waits for an answer gets it first. What it asked for may have been done, and without hearing of it the
        generator would release again what was written.
        """
        self._interrupted.setdefault(steps, interruption)

    def let_go_on(self, steps: Steps[Any]) -> None:
        """Cancel an interruption that has not reached the generator yet."""
        self._interrupted.pop(steps, None)

    def resume_ready(self) -> bool:
        """Resume each generator whose condition holds or whose deadline has passed; say whether there was any.

        Interrupted ones come first.
        """
        if not (self._interrupted or self._waits):
            return False
        if self._end_interrupted():
            return True
        # Collected before any of them runs. What they do may make others ready: those are for the next call, after the
        # inbox, which the end of a cycle opens.
        ready = [entry for entry in self._waits if entry[0].deadline <= self._now or _holds(entry[0])]
        for wait, steps in ready:
            self._waits.remove((wait, steps))
            # Checked again, since those that ran before may have changed the answer.
            self._advance(steps, _holds(wait))
        return bool(ready)

    def next_deadline(self) -> float | None:
        """Return when the first wait ends even if nothing happens, or None."""
        # Nothing else will wake them, so `resume_ready` must be called again at once.
        if self._interrupted and any(steps in self._interrupted for _, steps in self._waits):
            return self._now
        return min((wait.deadline for wait, _ in self._waits if wait.deadline != math.inf), default=None)

    def _end_interrupted(self) -> bool:
        """End the interrupted generators that wait only for a condition, in the order in which they were
        interrupted.
        """
        waits = {steps: wait for wait, steps in self._waits} if self._interrupted else {}
        ending = [steps for steps in self._interrupted if steps in waits]
        for steps in ending:
            self._waits.remove((waits[steps], steps))
            self._advance(steps, self._interrupted.pop(steps))
        return bool(ending)

    def _advance(self, steps: Steps[Any], value: Any) -> None:
        # A generator may start another, and continues when that one has to wait.
        outer, self.running = self.running, steps
        try:
            effect = steps.throw(value) if isinstance(value, Interruption) else steps.send(value)
            # Interrupted while it waited for this answer, or while it ran: it has received the answer, and ends where
            # it would wait next. What it asks for there is not carried out.
            while (interruption := self._interrupted.pop(steps, None)) is not None:
                effect = steps.throw(interruption)
        except StopIteration:
            self._ended(steps)
            return
        except BaseException:
            self._ended(steps)  # a cycle that stayed open would keep every later one from starting
            raise
        finally:
            self.running = outer
        if isinstance(effect, WaitUntil):
            self._waits.append((effect, steps))
            return
        # No ticket is issued twice, so a late answer cannot be taken for another's.
        self._tickets += 1
        self._parked[self._tickets] = steps
        self._effects.append(Request(self._tickets, effect))

    def _ended(self, steps: Steps[Any]) -> None:
        self._interrupted.pop(steps, None)
        if steps is self._open:
            self._open = None


def _holds(wait: WaitUntil) -> bool:
    """Say whether the condition holds; if that cannot be found out, only the deadline counts."""
    try:
        return wait.predicate()
    except BaseException as raised:  # a bug in one plugin's condition must not stop the others
        contained(raised)
        return False
