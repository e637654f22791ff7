"""The metrics that are read off the scheduler when somebody scrapes: how many there are of what, now.

Names and labels are kube-scheduler's. Called by `metrics`, and by that of v1.20 for what had another name then.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from berth.core import Core

PREFIX = "scheduler_"


def gauge(name: str, help_text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """A gauge with the scheduler's prefix, of these values now."""
    family = GaugeMetricFamily(PREFIX + name, help_text, labels=(label,))
    for value, amount in values:
        family.add_metric((value,), amount)
    return family


def goroutines(bindings: int) -> Metric:
    """Binding cycles: they run beside the scheduling cycles, if not as goroutines."""
    text = "Number of binding cycles and the like that run beside the scheduling cycles, by operation."
    return gauge("goroutines", text, "operation", [("binding", bindings)])


def preemption_attempts(core: "Core") -> Metric:
    text = "Attempts to preempt other pods in the cluster till now."
    return CounterMetricFamily(f"{PREFIX}preemption_attempts", text, value=core.evictions.searches)


def pending_pods(core: "Core") -> Metric:
    queue = core.queue
    gated = sum(queued.is_gated for queued in queue.unschedulable.values())
    counts = {
        "active": len(queue.active),
        "backoff": len(queue.backoff) + len(queue.error_backoff),
        "unschedulable": len(queue.unschedulable) - gated,
        "gated": gated,
    }
    return gauge("pending_pods", "Pending pods, by the queue they are in.", "queue", counts.items())


def cache_size(core: "Core", name: str = "cache_size") -> Metric:
    """How many nodes and pods the cache holds."""
    assumed = core.cache.assumed_count
    sizes = {"nodes": len(core.cache.table), "pods": len(core.cache), "assumed_pods": assumed}
    return gauge(name, "Number of nodes, pods, and assumed (bound) pods in the cache.", "type", sizes.items())


def unschedulable_pods(core: "Core") -> Metric:
    counts: Counter[tuple[str, str]] = Counter()
    queue = core.queue
    for pods in (queue.active, queue.backoff, queue.error_backoff, queue.unschedulable.values()):
        for queued in pods:
            counts.update((plugin, queued.pod.spec.scheduler_name) for plugin in queued.unschedulable_plugins)
    text = "Unschedulable pods, by the plugin that rejected them."
    family = GaugeMetricFamily(PREFIX + "unschedulable_pods", text, labels=("plugin", "profile"))
    for labels, count in counts.items():
        family.add_metric(labels, count)
    return family


def inflight_events(core: "Core") -> Metric:
    counts = core.queue.in_flight.counts().items()
    return gauge("inflight_events", "Events kept because pods are being scheduled.", "event", counts)


def pending_calls(pending: dict[str, int]) -> Metric:
    text = "Requests to the API server that are under way or wait, by kind of call."
    return gauge("pending_async_api_calls", text, "call_type", pending.items())
