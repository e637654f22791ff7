"""How long to wait before trying again: exponential with jitter, as client-go's reflectors do it."""

import random
import time
from collections.abc import Callable

RETRY_AFTER_CAP_S = 60.0
"""A server that asks for more than this is not waited for any longer: it may have recovered long before."""


class Backoff:
    """Delays that double from `initial_s` up to `maximum_s`, and start over after `reset_after_s` without a failure."""

    __slots__ = ("_clock", "_initial_s", "_last_s", "_maximum_s", "_next_s", "_random", "_reset_after_s")

    def __init__(
        self,
        rng: random.Random,
        *,
        initial_s: float = 0.8,
        maximum_s: float = 30.0,
        reset_after_s: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._random = rng
        self._initial_s = initial_s
        self._maximum_s = maximum_s
        self._reset_after_s = reset_after_s
        self._clock = clock
        self._next_s = initial_s
        self._last_s = clock()

    def next_delay_s(self) -> float:
        """Return the delay before the next try: between one and two times the current step, at most `maximum_s`."""
        now_s = self._clock()
        if now_s - self._last_s > self._reset_after_s:
            self.reset()
        self._last_s = now_s
        step_s = self._next_s
        self._next_s = min(step_s * 2, self._maximum_s)
        return min(step_s * (1 + self._random.random()), self._maximum_s)

    def delay_after_s(self, error: Exception) -> float:
        """Return the delay that the server has asked for in an error, else the next step."""
        asked_s: float | None = getattr(error, "retry_after_s", None)
        return min(asked_s, RETRY_AFTER_CAP_S) if asked_s else self.next_delay_s()

    def reset(self) -> None:
        """Start from the initial delay again."""
        self._next_s = self._initial_s
