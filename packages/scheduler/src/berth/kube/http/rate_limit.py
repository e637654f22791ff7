"""The client-side rate limit of `clientConnection.qps` and `.burst`: client-go's token bucket.

The HTTP transport keeps one bucket for each class of calls, as kube-scheduler gives events and leases clients
of their own: a flood of events then never delays a binding or a lease renewal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec

from berth.kube.pauses import Pauses

# What KubeSchedulerConfiguration defaults `clientConnection` to.
DEFAULT_QPS = 50.0
DEFAULT_BURST = 100


class RateLimit(msgspec.Struct, frozen=True):
    """`qps` and `burst` as configured: 0 stands for the default, a negative `qps` for no limit."""

    qps: float = 0.0
    burst: int = 0

    @property
    def is_off(self) -> bool:
        """Whether there is no limit."""
        return self.qps < 0

    def resolved(self) -> "RateLimit":
        """Return the same limit with the defaults filled in."""
        return RateLimit(qps=self.qps or DEFAULT_QPS, burst=self.burst if self.burst > 0 else DEFAULT_BURST)


class TokenBucket:
    """Lets `burst` calls pass at once, and after that `qps` calls a second, in the order in which they asked."""

    __slots__ = ("_clock", "_filled_at_s", "_limit", "_pauses", "_tokens", "waited_s")

    def __init__(
        self,
        limit: RateLimit,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limit = limit.resolved()
        self._clock = clock
        self._pauses = Pauses(sleep)
        self._tokens = float(self._limit.burst)
        self._filled_at_s = clock()
        self.waited_s = 0.0
        """Seconds that calls have been held back so far, for metrics and for the people who ask why."""

    async def acquire(self) -> None:
        """Return when the caller may send; a caller that gives up waiting leaves its turn to the others."""
        if self._limit.is_off or self._pauses.are_over:
            return
        delay_s = self._reserve()
        if delay_s <= 0:
            return
        self.waited_s += delay_s
        try:
            await self._pauses.wait(delay_s)
        except asyncio.CancelledError:
            self._tokens += 1  # callers who asked later have fixed waits already, so the next one to ask gains
            raise

    def open(self) -> None:
        """Let everybody pass from now on, those who wait among them."""
        self._pauses.end()

    def _reserve(self) -> float:
        """Take a token, on credit if need be; return how long to wait until it has been earned."""
        # The bucket may go below zero: each caller who waits owes one token more than the one before, so its wait is
        # longer by 1/qps. That keeps callers in the order in which they asked without a queue.
        now_s = self._clock()
        earned = (now_s - self._filled_at_s) * self._limit.qps
        self._tokens = min(float(self._limit.burst), self._tokens + earned) - 1
        self._filled_at_s = now_s
        return -self._tokens / self._limit.qps
