"""The times and rules in which the queues of the generations differ, as one value."""

from math import floor

import msgspec

BACKOFF_WINDOW_S = 1.0
"""How long a window is; windows start at multiples of it on the core's clock."""


class QueuePolicy(msgspec.Struct, frozen=True):
    """Ages, periods and backoffs in seconds."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    unschedulable_age_s: float = 300.0
    """How long a pod may stay unschedulable before it is tried again whatever happened."""
    flush_period_s: float = 30.0
    """How often the unschedulable pods are checked for that."""
    backoff_flush_period_s: float = 1.0
    """How often to look for finished backoffs."""
    pop_from_backoff: bool = True
    """Whether an idle scheduler takes the next pod from backoff before its time. If so, backoffs end in windows of
    `BACKOFF_WINDOW_S`, inside which the QueueSort plugin orders the pods as it does in the active queue (KEP-5142)."""
    hints: bool = True
    """Whether plugins' events decide who is woken (`SchedulingQueue`), or move requests wake everybody
    (`MoveRequestQueue`)."""

    def backoff_end(self, time: float) -> float:
        """Return what counts as the end of a backoff that ends at this time: the start of its window."""
        return floor(time / BACKOFF_WINDOW_S) * BACKOFF_WINDOW_S if self.pop_from_backoff else time

    def backoff_s(self, attempts: int) -> float:
        """Return the backoff after a number of failed attempts: it doubles from the initial to the maximum."""
        if attempts <= 0:
            return 0.0
        # Bounded first: a float cannot hold 2**1024.
        return float(min(self.initial_backoff_s * 2.0 ** min(attempts - 1, 1000), self.max_backoff_s))


V1_20_QUEUE = QueuePolicy(
    unschedulable_age_s=60.0,
    flush_period_s=30.0,
    pop_from_backoff=False,
    hints=False,
)
"""v1.17 to v1.20 (pkg/scheduler/internal/queue/scheduling_queue.go, Run and unschedulableQTimeInterval)."""
