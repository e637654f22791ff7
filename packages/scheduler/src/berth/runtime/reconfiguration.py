"""Puts another configuration in force between two cycles, safely: a new core takes the place of the old one.

Resources that new plugins follow are read before the new core needs them, and those no longer wanted are dropped.

No pod is lost or bound twice on the way: no cycle begins before everything under way has ended and the watch has shown
it, so the informers' objects are the whole truth when the new core gets them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from berth.config.types import SchedulerConfiguration
from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.extender.client import ExtenderClient
from berth.framework.effects import Effect
from berth.runtime.acting.effects import Effects
from berth.runtime.arrivals import Arrivals
from berth.runtime.core_work import CoreWork
from berth.runtime.reload import ReloadPostponed, adjusted
from berth.runtime.watched_resources import WatchedResources

RELOAD_WAIT_S = 5.0
"""How long a new configuration waits for bindings under way, and then again once it has turned back who waits."""
RELOAD_POLL_S = 0.02


@dataclass(slots=True, eq=False, repr=False)
class Reconfiguration:
    """The configuration in force, and how another is put in its place."""

    config: SchedulerConfiguration
    """The configuration in force."""
    _work: CoreWork
    _arrivals: Arrivals
    _effects: Effects
    _following: WatchedResources
    _build: Callable[[SchedulerConfiguration], Core]
    _extenders_for: Callable[[SchedulerConfiguration], ExtenderClient]
    _clock: Callable[[], float]
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def put_in_force(self, config: SchedulerConfiguration) -> list[str]:
        """Put another configuration in force between two cycles; return the fields that cannot change at run time.

        Raises `ConfigError` and `ReloadPostponed`; then nothing has changed.
        """
        async with self._changing:
            config, fixed = adjusted(self.config, config)
            await self._switch(config)
        return fixed

    async def _switch(self, config: SchedulerConfiguration) -> None:
        """Let another core take over. Raises `ConfigError` and `ReloadPostponed`."""
        core = await self._work.turns.run(partial(self._build, config))
        try:
            await self._following.stage(core.resources, core.resources.polled)
            self._work.is_paused = True
            await self._settle_bindings()
            extenders = self._extenders_for(config)
            self._following.put_in_place(core.resources, core.resources.polled)

            def take_over(_: None) -> None:
                self.config = config
                self._work.take_over(core)

            await self._work.turns.run(partial(self._feed, core), take_over)
            await self._effects.use_extenders(extenders)
        finally:
            self._following.unstage()
            self._work.is_paused = False
            self._arrivals.be_quick()

    async def _settle_bindings(self) -> None:
        """Wait until no pod is between its cycle and the watch's confirmation of its binding. Raises `ReloadPostponed`.

        Bindings in Permit or PreBind are called off after a while, as a restart would do.
        """
        loop, turned_back = asyncio.get_running_loop(), False
        until = loop.time() + RELOAD_WAIT_S
        while True:
            await self._work.turn()
            unfinished = await self._work.turns.run(self._unfinished)
            if not unfinished:
                return
            if loop.time() >= until and turned_back:
                raise ReloadPostponed(f"{unfinished} pods are being bound, and that takes long")
            if loop.time() >= until:
                turned_back, until = True, loop.time() + RELOAD_WAIT_S
                await self._work.turns.run(self._turn_back, self._effects.carry_out)
            await asyncio.sleep(RELOAD_POLL_S)

    def _unfinished(self) -> int:
        return max(self._work.core.unfinished, self._work.core.cache.assumed_count, self._effects.pending_bindings)

    def _turn_back(self) -> list[Effect]:
        return self._work.core.call_off("the scheduler's configuration has changed", self._clock())

    def _feed(self, core: Core) -> None:
        """Give a new core everything that is followed, and what the queue of the old one remembers.

        Arrivals still waiting for the old core are already in the informers' objects. What comes while these are read
        is given twice, which does no harm.
        """
        self._arrivals.clear()
        if self._arrivals.shards is not None:
            self._work.tell(core, self._arrivals.shards)
        for obj in self._following.everything():
            self._work.tell(core, ObjectEvent("ADDED", core.resources.name_of(obj), obj))
        core.adopt(self._work.core.queue, self._clock())
