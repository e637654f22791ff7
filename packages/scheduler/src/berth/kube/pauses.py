"""Waits before sending requests that can all be ended at once, since nothing is sent once the process is ending.

Used by the token buckets of the HTTP transport, and by the retries of Bindings.
"""

import asyncio
from collections.abc import Awaitable, Callable


class Pauses:
    """A set of waits; once ended, there are no more."""

    __slots__ = ("_sleep", "_under_way", "are_over")

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._under_way: set[asyncio.Timeout] = set()
        self.are_over = False

    async def wait(self, delay_s: float) -> None:
        """Wait so long, or until all waits are ended."""
        if self.are_over:
            return
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._under_way.add(scope)  # not before it is entered: it could not be rescheduled
                try:
                    await self._sleep(delay_s)
                finally:
                    self._under_way.discard(scope)
        except TimeoutError:
            if not scope.expired():
                raise

    def end(self) -> None:
        """End all waits, now and from now on."""
        self.are_over = True
        if self._under_way:
            now_s = asyncio.get_running_loop().time()
            for scope in self._under_way:  # each leaves the set when the loop comes to it, not here
                scope.reschedule(now_s)
