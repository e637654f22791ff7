"""Notices slow plugins, and a slice of the core's work that does not end: it says where that is stuck, and when it is
beyond hope.

A plugin in an endless loop, or a cycle that is far too expensive, blocks the core but not the process. `OverrunWatch`
watches from the event loop: after `TOLD_AFTER_S` the log and `/readyz` report it, again each time twice as long has
passed; after `LOST_AFTER_S` it counts as lost. The log warns of an out-of-tree plugin that has kept the core for
`SLOW_AFTER_S`, since every pod waits for it: once in `WARN_EVERY_S` for each plugin and extension point.

Time is counted in looks, each of which counts for a short time at most, so that a process that was stopped and
continued, or a machine that slept, does not find its slice overdue when it wakes.
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
"""When the process ends itself, if its failing health checks did not get it restarted."""

_log = logging.getLogger("berth.scheduler")


@dataclass(slots=True, eq=False, repr=False)
class OverrunWatch:
    """Watches the turns of one core; `position` says where the current work is, None if that cannot be seen."""

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
        """Look periodically, until cancelled."""
        while True:
            before = asyncio.get_running_loop().time()
            await self._sleep(LOOK_EVERY_S)
            self.look(asyncio.get_running_loop().time() - before)

    def look(self, passed_s: float) -> None:
        """Check whether the slice of the last look, `passed_s` ago, is still under way."""
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
        """Warn of the plugin that keeps the core busy, if it is out-of-tree; at most once per slice."""
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
        """Return what is wrong, for `/readyz`: a slice takes far too long. Empty if nothing is."""
        return self.told(self._position()) if self.seconds >= TOLD_AFTER_S and self._turns.is_at_work else ""

    def told(self, found: WorkPosition | None) -> str:
        """Say what takes so long."""
        where = f": {found.describe()}" if found is not None else ""
        return f"the scheduling cycle has been at work for {self.seconds:.0f} s{where}"
