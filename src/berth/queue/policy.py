"""The times and rules in which generations of queues differ: one value, asked by the queue."""

import msgspec


class QueuePolicy(msgspec.Struct, frozen=True):
    """Ages, periods and backoffs in seconds."""

    initial_backoff_s: float = 1.0
    max_backoff_s: float = 10.0
    unschedulable_age_s: float = 300.0
    """How long a pod may lie among the unschedulable before it is tried again whatever happened."""
    flush_period_s: float = 30.0
    """How often the unschedulable are looked through for that."""
    backoff_flush_period_s: float = 0.0
    """How often finished backoffs are looked for; 0: each pod moves on the moment that its own is over."""
    pop_from_backoff: bool = True
    """Whether an idle scheduler takes the next pod from backoff before its time."""
    hints: bool = True
    """Whether plugins' events decide who is woken (`SchedulingQueue`), or move requests wake everybody
    (`MoveRequestQueue`)."""

    def backoff_s(self, attempts: int) -> float:
        """Return the backoff after so many failed attempts: doubling from the initial to the maximum."""
        if attempts <= 0:
            return 0.0
        return float(min(self.initial_backoff_s * 2.0 ** min(attempts - 1, 62), self.max_backoff_s))


V1_20_QUEUE = QueuePolicy(
    unschedulable_age_s=60.0,
    flush_period_s=30.0,
    backoff_flush_period_s=1.0,
    pop_from_backoff=False,
    hints=False,
)
"""v1.17 to v1.20 (pkg/scheduler/internal/queue/scheduling_queue.go, Run and unschedulableQTimeInterval)."""
