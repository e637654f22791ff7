"""`/metrics/slis`: the last result of each health check, and how often it had each result.

Checks are not run for the scrape: they count when a probe asks for them, as upstream. Names and labels:
k8s.io/component-base/metrics/prometheus/slis of v1.36 (KEP-3466).
"""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.runtime.observing.tallies import CounterTally

Check = Callable[[], str]
"""Returns what is wrong, or the empty string."""


class HealthSlis(Collector):
    """Counts the results of checks."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], bool] = {}
        self._results = CounterTally(
            "kubernetes_healthchecks", "[STABLE] Results of health checks.", ("name", "status", "type")
        )
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def watched(self, endpoint: str, name: str, check: Check) -> Check:
        """Return a check of `healthz`, `livez` or `readyz` whose results count."""

        def run() -> str:
            problem = check()
            self._last[name, endpoint] = not problem
            self._results.add((name, "error" if problem else "success", endpoint))
            return problem

        return run

    def exposition(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """For the scrape."""
        text = "[STABLE] 1 where a health check was passed when it was last run, else 0."
        family = GaugeMetricFamily("kubernetes_healthcheck", text, labels=("name", "type"))
        for labels, is_well in self._last.items():
            family.add_metric(labels, int(is_well))
        yield family
        yield from self._results.collect()
