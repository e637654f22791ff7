"""Tells an instrument of each finished request to the API server: its type, how long it took, whether it failed.

The parts that carry out effects (`effects`, `status`) share one: they ask it for the time before a request, and tell it
when the request is over. Types are upstream's names for the calls of its API dispatcher, and `other`.
"""

import time
from collections.abc import Callable

from berth.cycle.instrument import Instrument

BINDING, STATUS_PATCH, OTHER = "pod_binding", "pod_status_patch", "other"


class CallTimer:
    """A stopwatch, and the instrument to tell."""

    __slots__ = ("instrument", "now")

    def __init__(self, instrument: Instrument | None = None, now: Callable[[], float] = time.perf_counter) -> None:
        self.instrument = instrument or Instrument()
        self.now = now

    def over(self, call_type: str, started: float, *, has_failed: bool) -> None:
        """Report that a request begun at `started` has been answered or given up."""
        self.instrument.api_called(call_type, has_failed=has_failed, seconds=self.now() - started)
