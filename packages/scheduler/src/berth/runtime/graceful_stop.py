"""The end of scheduling: nothing new begins, what was not sent is called off, and what was sent gets a little time to
finish.

Pods whose binding has not been sent are left to the successor, which is waiting for the lease: requests that were sent
end as soon as the API server answers, while unsent ones would take as long as the rate limit makes them.
"""

import asyncio
import logging
from collections.abc import Callable

from berth.runtime.acting.effects import Effects
from berth.runtime.arrivals import Arrivals
from berth.runtime.core_work import CoreWork
from berth.runtime.tasks import cancel, raise_failure

DRAIN_S = 5.0
"""How long stopping waits for the cycle and the requests under way."""
TELL_STOP_AFTER_S = 1.0
"""When stopping says what it waits for, if that is a cycle that does not end."""

_log = logging.getLogger("berth.scheduler")


class GracefulStop:
    """Waits for the cycle and the requests under way, and for what follows from their answers."""

    __slots__ = ("_arrivals", "_call_off", "_effects", "_work")

    def __init__(self, work: CoreWork, arrivals: Arrivals, effects: Effects, call_off: Callable[[], object]) -> None:
        """`call_off` makes the transport stop sending writes."""
        self._call_off = call_off
        self._work = work
        self._arrivals = arrivals
        self._effects = effects

    async def run(self, leading: "asyncio.Task[None]") -> None:
        """Begin nothing new, and wait a little for what is under way. Meanwhile the lease is held, and answers reach
        the core.

        Raises what ends the work before that.
        """
        if not self._work.is_leading:
            return
        draining = asyncio.create_task(self._drain(), name="draining")
        try:
            await asyncio.wait({draining, leading}, return_when=asyncio.FIRST_COMPLETED)
            raise_failure((leading, draining))
        finally:
            await cancel((draining,))

    async def _drain(self) -> None:
        """Let the core take in all answers, and wait for what follows from them."""
        loop = asyncio.get_running_loop()
        until = loop.time() + DRAIN_S
        if left := self._effects.call_off():
            _log.info("ending: %d bindings that wait are left to the next to schedule", left)
        self._call_off()
        is_over = False
        while not is_over:
            is_over = not await self._last_turn(until - loop.time())
            if not await self._effects.drain(max(0.0, until - loop.time())):
                _log.warning("ending with requests under way: %s", _counts(self._effects.pending))
                is_over = True
            is_over = is_over or not self._arrivals

    async def _last_turn(self, within_s: float) -> bool:
        """Take a turn at the core; say whether that worked in time, and report what is in the way if it takes long."""
        turn = asyncio.create_task(self._work.turn(), name="last turn")
        done, _ = await asyncio.wait({turn}, timeout=min(TELL_STOP_AFTER_S, max(0.0, within_s)))
        if not done:
            left_s = max(0.0, within_s - TELL_STOP_AFTER_S)
            _log.warning("told to stop, but %s; waiting for it for %.0f s", self._work.busy_with(), left_s)
            done, _ = await asyncio.wait({turn}, timeout=left_s)
        if not done:
            await cancel((turn,))
            return False
        raise_failure((turn,))
        return True


def _counts(pending: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in pending.items() if count)
