"""The metrics of v1.17 to v1.20 under the names of that time, besides today's.

Made by `metrics_for` where the configuration is of that generation. Names, labels and buckets:
pkg/scheduler/metrics/metrics.go of release-1.18 and release-1.20.
"""

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from berth.config.types import SchedulerConfiguration
from berth.cycle.attempt import PRE_FILTER_DONE, PREDICATES_DONE, PRIORITIZING_DONE, SNAPSHOT_DONE
from berth.cycle.decision import Decision
from berth.runtime.observing.metrics import (
    ALPHA,
    CYCLE_BUCKETS,
    PREFIX,
    Metrics,
    attempts_label,
    cache_size,
    gauge,
    histogram,
)
from berth.runtime.observing.tallies import SummaryTally, exponential_buckets
from berth.state.pod_info import PodInfo
from berth.state.queued_pod import QueuedPod

VICTIM_BUCKETS = tuple(float(5 * step) for step in range(1, 11))
PREDICATE_EVALUATION, PRIORITY_EVALUATION = "predicate_evaluation", "priority_evaluation"
PREEMPTION_EVALUATION, BINDING = "preemption_evaluation", "binding"
PRIORITIZING_EXTENDER = "prioritizing_extender"


class MetricsV120(Metrics):
    """Counts under both generations' names."""

    def __init__(self, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(stopwatch)
        self._binding: dict[str, float] = {}
        """When PreBind and Bind began for each pod that is being bound, by uid."""
        self.e2e = histogram(
            ALPHA,
            "e2e_scheduling_duration_seconds",
            "E2e scheduling latency in seconds (scheduling algorithm + binding)",
            CYCLE_BUCKETS,
            "result",
            "profile",
        )
        self.predicates = histogram(
            ALPHA,
            "scheduling_algorithm_predicate_evaluation_seconds",
            "Scheduling algorithm predicate evaluation duration in seconds",
            CYCLE_BUCKETS,
        )
        self.priorities = histogram(
            ALPHA,
            "scheduling_algorithm_priority_evaluation_seconds",
            "Scheduling algorithm priority evaluation duration in seconds",
            CYCLE_BUCKETS,
        )
        self.preemption = histogram(
            ALPHA,
            "scheduling_algorithm_preemption_evaluation_seconds",
            "Scheduling algorithm preemption evaluation duration in seconds",
            CYCLE_BUCKETS,
        )
        self.binding_duration = histogram(
            ALPHA, "binding_duration_seconds", "Binding latency in seconds", CYCLE_BUCKETS
        )
        self.parts = SummaryTally(
            PREFIX + "scheduling_duration_seconds",
            f"[{ALPHA}] Scheduling latency in seconds split by sub-parts of the scheduling operation",
            ("operation",),
        )
        self.victims = histogram(ALPHA, "preemption_victims", "Number of selected preemption victims", VICTIM_BUCKETS)
        self.pod_duration = histogram(
            ALPHA,
            "pod_scheduling_duration_seconds",
            "E2e latency for a pod being scheduled which may include multiple scheduling attempts.",
            exponential_buckets(0.01, 2, 20),
            "attempts",
        )

    def decided(self, decision: Decision, seconds: float) -> None:
        """The parts of a cycle, by the steps that were timed."""
        super().decided(decision, seconds)
        at = dict(decision.laps)
        predicates_done = at.get(PREDICATES_DONE)
        if predicates_done is None:
            return
        begun = at.get(SNAPSHOT_DONE, at.get(PRE_FILTER_DONE, predicates_done))
        self._part(self.predicates.observe, PREDICATE_EVALUATION, predicates_done - begun)
        if decision.chosen is not None:
            scored = at.get(PRIORITIZING_DONE, predicates_done)
            self._part(self.priorities.observe, PRIORITY_EVALUATION, scored - predicates_done)
        elif decision.outcome == "unschedulable":
            self._part(self.preemption.observe, PREEMPTION_EVALUATION, decision.started + seconds - predicates_done)

    def algorithm_took(self, decision: Decision, seconds: float) -> None:
        """At that time only a search that found a node counted."""
        if decision.chosen is not None:
            super().algorithm_took(decision, seconds)

    def binding(self, pod: PodInfo) -> None:
        """The binding begins."""
        super().binding(pod)
        self._binding[pod.uid] = self._stopwatch()

    def bound(self, queued: QueuedPod, node_name: str, now: float) -> None:
        """The binding has succeeded."""
        super().bound(queued, node_name, now)
        begun = self._binding.pop(queued.pod.uid, None)
        if begun is not None:
            self._part(self.binding_duration.observe, BINDING, self._stopwatch() - begun)
        if queued.initial_attempt is not None:
            self.pod_duration.observe(now - queued.initial_attempt, (attempts_label(queued.attempts),))

    def binding_failed(self, pod: PodInfo, reason: str, *, is_rejection: bool = False, is_gone: bool = False) -> None:
        """The binding has failed."""
        super().binding_failed(pod, reason, is_rejection=is_rejection, is_gone=is_gone)
        self._binding.pop(pod.uid, None)

    def collect(self) -> Iterator[Metric]:
        """Today's families, then those of that time."""
        yield from super().collect()
        asked = 0 if self._scheduler is None else self._scheduler.prioritizing_extenders
        goroutines = {BINDING: len(self._binding), PRIORITIZING_EXTENDER: asked}
        yield gauge(
            ALPHA,
            "scheduler_goroutines",
            "Number of running goroutines split by the work they do such as binding.",
            "work",
            goroutines.items(),
        )
        if self._scheduler is not None and self._with_core:
            yield cache_size(self._scheduler.core, "scheduler_cache_size")

    def _part(self, observe: Callable[[float], None], operation: str, seconds: float) -> None:
        observe(seconds)
        self.parts.observe(seconds, (operation,))

    def _ended(self, result: str, profile: str, seconds: float) -> None:
        super()._ended(result, profile, seconds)
        self.e2e.observe(seconds, (result, profile))


def metrics_for(config: SchedulerConfiguration) -> Metrics:
    """Return an observer that counts under the names of the configuration's generation."""
    return MetricsV120() if config.generation == "v1.20" else Metrics()
