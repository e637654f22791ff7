"""Metrics of the informers: how stale each is, and how often it had to list. Read when scraped; names are ours."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.runtime.watched_resources import WatchedResources


class InformerMetrics(Collector):
    """One sample for each resource that is followed; the health server gives them out."""

    def __init__(self, following: WatchedResources) -> None:
        self._following = following

    def collect(self) -> Iterator[Metric]:
        """The families; a resource that was never listed has no staleness yet."""
        text = "Seconds since what is known of a resource was last known to be what the API server has."
        stale = GaugeMetricFamily("berth_informer_staleness_seconds", text, labels=("resource",))
        text = "Lists of a resource that were read in full: one at the start, and one wherever a watch could not go on."
        lists = CounterMetricFamily("berth_informer_lists", text, labels=("resource",))
        text = "Comparisons of what is known of a resource with what the API server has."
        compared = CounterMetricFamily("berth_informer_comparisons", text, labels=("resource",))
        text = "Comparisons which found that a watch had lost something, so that the resource was listed again."
        repaired = CounterMetricFamily("berth_informer_repairs", text, labels=("resource",))
        text = "Pending pods that wait for a kind of object that the API server does not let us read."
        held = GaugeMetricFamily("berth_informer_held_pods", text, value=self._following.held_pods)
        for reflector in self._following.reflectors():
            resource = reflector.resource
            name = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            if (age_s := reflector.stale_s) is not None:
                stale.add_metric((name,), age_s)
            lists.add_metric((name,), reflector.lists)
            compared.add_metric((name,), reflector.comparisons)
            repaired.add_metric((name,), reflector.repairs)
        yield stale
        yield lists
        yield compared
        yield repaired
        yield held
