"""Counters and histograms that cost a fraction of a microsecond, turned into Prometheus' families when scraped.

The library's own take locks for threads that we do not have; the scheduler counts several times for each pod.
`metrics` makes these and a collector of them. As in the library, what has no labels is there from the start, as 0:
a rate over it must not begin with its first rise.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric, SummaryMetricFamily

Labels = tuple[str, ...]


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` upper bounds, each `factor` times the one before."""
    return tuple(start * factor**step for step in range(count))


class CounterTally:
    """A counter by label values."""

    __slots__ = ("_counts", "_help", "_labels", "_name")

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._counts: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, labels: Labels = (), amount: float = 1.0) -> None:
        """Count."""
        self._counts[labels] = self._counts.get(labels, 0.0) + amount

    def value(self, labels: Labels = ()) -> float:
        """The count so far."""
        return self._counts.get(labels, 0.0)

    def collect(self) -> Iterable[Metric]:
        """For the scrape."""
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class SummaryTally:
    """Count and sum of values by label values, without quantiles."""

    __slots__ = ("_help", "_labels", "_name", "_rows")

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._rows: dict[Labels, tuple[int, float]] = {}

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count a value."""
        count, total = self._rows.get(labels, (0, 0.0))
        self._rows[labels] = (count + 1, total + value)

    def collect(self) -> Iterable[Metric]:
        """For the scrape."""
        family = SummaryMetricFamily(self._name, self._help, labels=self._labels)
        for labels, (count, total) in self._rows.items():
            family.add_metric(labels, count, total)
        yield family


class HistogramTally:
    """A histogram by label values, with cumulative buckets made only when scraped."""

    __slots__ = ("_bounds", "_help", "_labels", "_name", "_rows", "_sums")

    def __init__(self, name: str, help_text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._rows: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        if not labels:
            self._row(())

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count a value."""
        row = self._rows.get(labels) or self._row(labels)
        row[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def _row(self, labels: Labels) -> list[int]:
        row = self._rows[labels] = [0] * (len(self._bounds) + 1)
        self._sums[labels] = 0.0
        return row

    def count(self, labels: Labels = ()) -> int:
        """How many values there were."""
        return sum(self._rows.get(labels, ()))

    def collect(self) -> Iterable[Metric]:
        """For the scrape."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        names = [*(f"{bound:.12g}" for bound in self._bounds), "+Inf"]
        for labels, row in self._rows.items():
            buckets = list(zip(names, map(float, accumulate(row)), strict=True))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family
