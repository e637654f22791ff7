"""Notices slow plugins, and a slice of the core's work that does not end: it says where that stands, and when it is
past hope.

A plugin in an endless loop, or a cycle that is far too dear, keeps the core but not the process. `OverrunWatch` looks
at it from the event loop: after `TOLD_AFTER_S` it is told in the log and by `/readyz`, again each time that twice as
long has passed; after `LOST_AFTER_S` it counts as lost. Other people's plugins are warned of once they have kept the
core for `SLOW_AFTER_S`, since every pod waits for them: each at each extension point once in `WARN_EVERY_S`.

Seconds are counted by looks, each of which counts for a short time at most. A process that was stopped and continued,
or a machine that slept, does not find its slice overdue when it wakes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from berth.runtime.stack import WorkPosition
from berth.runtime.turns import Turns

LOOK_EVERY_S = 0.1
MOST_PER_LOOK_S = 2.0
SLOW_AFTER_S = 0.1
WARN_EVERY_S = 600.0
TOLD_AFTER_S = 10.0
"""Cycles take milliseconds, those of large pod groups a few seconds."""
LOST_AFTER_S = 300.0
"""When hope is given up: health fails, the lease is left to expire. The largest group on the largest cluster that
Kubernetes supports is decided in well under a minute, and an operator has had time to read what the log says."""
ENDED_AFTER_S = 360.0
"""When the process ends itself, if nobody restarted it because of its health."""

_log = logging.getLogger("berth.scheduler")


@dataclass(slots=True, eq=False, repr=False)
class OverrunWatch:
    """Watches the turns of one core; `position` says where the work under way is, None if that cannot be seen."""

    _turns: Turns
    _position: Callable[[], WorkPosition | None]
    _sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _seen: int = field(default=-1, init=False)
    _tell_at_s: float = field(default=TOLD_AFTER_S, init=False)
    _watched_s: float = field(default=0.0, init=False)
    """How long this has been looking."""
    _warned: dict[tuple[str, str], float] = field(default_factory=dict, init=False)
    """When each plugin was warned of last, by its name and the extension point."""
    _warned_of: int = field(default=-1, init=False)
    """The slice in which a plugin was seen that is slow."""
    seconds: float = field(default=0.0, init=False)
    """How long the slice under way has been watched."""
    is_lost: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set once a slice has taken longer than `LOST_AFTER_S`, for good."""
    loss: str = field(default="", init=False)
    """What is wrong then, for `/livez`; empty while nothing is."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            before = asyncio.get_running_loop().time()
            await self._sleep(LOOK_EVERY_S)
            self.look(asyncio.get_running_loop().time() - before)

    def look(self, passed_s: float) -> None:
        """Look whether the slice of the last look is still under way; `passed_s` ago was the last look."""
        self._watched_s += passed_s
        if not self._turns.is_at_work or self._turns.begun != self._seen:
            if self._tell_at_s > TOLD_AFTER_S:
                _log.warning("the scheduling cycle that took so long has ended after about %.0f s", self.seconds)
            self._seen, self.seconds, self._tell_at_s = self._turns.begun, 0.0, TOLD_AFTER_S
            return
        self.seconds += min(passed_s, MOST_PER_LOOK_S)
        if self.seconds >= SLOW_AFTER_S and self._warned_of != self._seen:
            self._warn()
        if self.seconds >= self._tell_at_s:
            self._tell_at_s *= 2
            found = self._position()
            _log.error("%s%s", self.told(found), f"; its stack:\n{found.stack}" if found is not None else "")
        if self.seconds >= LOST_AFTER_S and not self.loss:
            self.loss = self.told(self._position())
            self.is_lost.set()

    def _warn(self) -> None:
        """Warn of the plugin that keeps the core, if it is other people's; once a slice at most."""
        found = self._position()
        if found is None or not found.plugin or found.is_in_tree:
            return
        self._warned_of, key = self._seen, (found.plugin, found.point)
        if self._watched_s < self._warned.get(key, -WARN_EVERY_S) + WARN_EVERY_S:
            return
        self._warned[key] = self._watched_s
        _log.warning(
            "%s takes more than %.0f ms, and every pod waits meanwhile; `berth plugins --profile` says what it costs",
            found.describe(),
            SLOW_AFTER_S * 1000,
        )

    def problem(self) -> str:
        """Return what is wrong, for `/readyz`: a slice takes far too long. Empty where nothing is."""
        return self.told(self._position()) if self.seconds >= TOLD_AFTER_S and self._turns.is_at_work else ""

    def told(self, found: WorkPosition | None) -> str:
        """Return in words what takes so long."""
        where = f": {found.describe()}" if found is not None else ""
        return f"the scheduling cycle has been at work for {self.seconds:.0f} s{where}"
