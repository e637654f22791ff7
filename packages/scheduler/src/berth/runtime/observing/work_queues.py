"""What waits for the API server and what is under way, in the terms of client-go's work queues.

A `WorkerPool` tells its `QueueWatch` of each job; the component's metrics read all of them when scraped.
"""

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from berth.runtime.observing.tallies import HistogramTally, exponential_buckets

BUCKETS = exponential_buckets(1e-8, 10, 10)
"""Those of client-go, from 10 ns to 10 s."""


class WorkQueues:
    """The work queues of one process."""

    __slots__ = ("_queues", "now", "waited", "worked")

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.waited = _duration("workqueue_queue_duration_seconds", "How long jobs waited in a work queue.")
        self.worked = _duration("workqueue_work_duration_seconds", "How long jobs of a work queue took.")
        self._queues: list[QueueWatch] = []

    def queue(self, name: str) -> "QueueWatch":
        """Return a new queue of this name."""
        made = QueueWatch(name, self)
        self._queues.append(made)
        return made

    def collect(self) -> Iterator[Metric]:
        """For the scrape. Nothing is ever re-added: retries happen within a job."""
        adds = CounterMetricFamily("workqueue_adds", "[BETA] Jobs put into a work queue.", labels=("name",))
        retries = CounterMetricFamily("workqueue_retries", "[BETA] Jobs put in again.", labels=("name",))
        depth = _gauge("workqueue_depth", "Jobs that wait in a work queue.")
        unfinished = _gauge("workqueue_unfinished_work_seconds", "For how long jobs have been under way, summed.")
        longest = _gauge(
            "workqueue_longest_running_processor_seconds", "For how long the oldest job has been under way."
        )
        for queue in self._queues:
            running_s = [self.now() - started for started in queue.running.values()]
            adds.add_metric((queue.name,), queue.adds)
            retries.add_metric((queue.name,), 0)
            depth.add_metric((queue.name,), queue.depth)
            unfinished.add_metric((queue.name,), sum(running_s))
            longest.add_metric((queue.name,), max(running_s, default=0.0))
        yield from (adds, retries, depth, unfinished, longest)
        yield from self.waited.collect()
        yield from self.worked.collect()


class QueueWatch:
    """One queue: how many jobs came, wait and are under way."""

    __slots__ = ("_all", "_next", "adds", "depth", "name", "running")

    def __init__(self, name: str, queues: WorkQueues) -> None:
        self.name = name
        self.adds = self.depth = 0
        self.running: dict[int, float] = {}
        """When the jobs under way began, by their numbers."""
        self._all = queues
        self._next = 0

    def put(self) -> float:
        """Count a job that has come; return when, for `begin`."""
        self.adds += 1
        self.depth += 1
        return self._all.now()

    def begin(self, put_at: float) -> int:
        """Count a job that has begun; return its number, for `end`."""
        now = self._all.now()
        self.depth -= 1
        self._next += 1
        self.running[self._next] = now
        self._all.waited.observe(now - put_at, (self.name,))
        return self._next

    def end(self, number: int) -> None:
        """Count a job that is over, however it went."""
        self._all.worked.observe(self._all.now() - self.running.pop(number), (self.name,))

    def drop_waiting(self) -> None:
        """Forget the jobs that will not begin any more."""
        self.depth = 0


def _gauge(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, f"[BETA] {help_text}", labels=("name",))


def _duration(name: str, help_text: str) -> HistogramTally:
    return HistogramTally(name, f"[BETA] {help_text}", BUCKETS, ("name",))
