"""Counters and histograms that cost a fraction of a microsecond, turned into Prometheus' families when scraped.

The library's own take locks for threads that we do not have; the scheduler counts several times for each pod.
`metrics` makes these and a collector of them. As in the library, what has no labels is there from the start, as 0:
a rate over it must not begin with its first rise.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric, SummaryMetricFamily

Labels = tuple[str, ...]

NEW_AT_MOST = 1024
"""So many values of a histogram wait to be sorted into buckets, at most."""


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

    __slots__ = ("_bounds", "_help", "_labels", "_name", "_new", "_rows", "_sums")

    def __init__(self, name: str, help_text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._rows: dict[Labels, NDArray[np.intp]] = {}
        self._sums: dict[Labels, float] = {}
        self._new: dict[Labels, list[float]] = {}
        """Values that are not sorted into buckets yet: one by one that costs more than to note them."""
        if not labels:
            self._new[()] = []

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count a value."""
        new = self._new.get(labels)
        if new is None:
            new = self._new[labels] = []
        new.append(value)
        if len(new) >= NEW_AT_MOST:
            self._sort(labels, new)

    def _sort(self, labels: Labels, new: list[float]) -> None:
        """Sort new values into their buckets. A value that is a bound belongs below it."""
        counts = np.bincount(np.searchsorted(self._bounds, new), minlength=len(self._bounds) + 1)
        before = self._rows.get(labels)
        self._rows[labels] = counts if before is None else before + counts
        self._sums[labels] = self._sums.get(labels, 0.0) + math.fsum(new)
        new.clear()

    def count(self, labels: Labels = ()) -> int:
        """How many values there were."""
        row = self._rows.get(labels)
        return (0 if row is None else int(row.sum())) + len(self._new.get(labels, ()))

    def collect(self) -> Iterable[Metric]:
        """For the scrape."""
        for labels, new in self._new.items():
            if new or labels not in self._rows:
                self._sort(labels, new)
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        names = [*(f"{bound:.12g}" for bound in self._bounds), "+Inf"]
        for labels, row in self._rows.items():
            buckets = list(zip(names, map(float, accumulate(row.tolist())), strict=True))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family
