"""Counters and histograms that cost a fraction of a microsecond, turned into Prometheus' families when scraped.

The library's own take a lock each time, and the scheduler counts several times for each pod. These need none: each has
one writer, and a reader on another thread takes each dict, and each histogram's row, in one step that nothing can come
between. `metrics` makes these and a collector of them. As in the library, metrics without labels start at 0, so that a
rate over them does not miss the first rise.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

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
        for labels, count in tuple(self._counts.items()):
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
        for labels, (count, total) in tuple(self._rows.items()):
            family.add_metric(labels, count, total)
        yield family


class _Row(NamedTuple):
    """The values of a histogram under one set of labels."""

    counts: NDArray[np.intp]
    """How many there were in each bucket, without those that are new."""
    total: float
    new: list[float]
    """Values that are not sorted into buckets yet: one by one that costs more than to note them."""

    def sorted_into(self, bounds: Sequence[float], new: Sequence[float]) -> "_Row":
        """Return a row with these values in their buckets. A value equal to a bound belongs below it."""
        counts = np.bincount(np.searchsorted(bounds, new), minlength=len(bounds) + 1)
        return _Row(self.counts + counts, self.total + math.fsum(new), [])


class HistogramTally:
    """A histogram by label values, with cumulative buckets made only when scraped."""

    __slots__ = ("_bounds", "_help", "_labels", "_name", "_rows")

    def __init__(self, name: str, help_text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self._name = name
        self._help = help_text
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._rows: dict[Labels, _Row] = {} if labels else {(): self._empty()}

    def observe(self, value: float, labels: Labels = (), times: int = 1) -> None:
        """Count a value, so many times."""
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = self._empty()
        if times == 1:
            row.new.append(value)
        else:
            row.new.extend([value] * times)
        if len(row.new) >= NEW_AT_MOST:
            self._rows[labels] = row.sorted_into(self._bounds, row.new)

    def _empty(self) -> _Row:
        return _Row(np.zeros(len(self._bounds) + 1, dtype=np.intp), 0.0, [])

    def count(self, labels: Labels = ()) -> int:
        """How many values there were."""
        row = self._rows.get(labels)
        return 0 if row is None else int(row.counts.sum()) + len(row.new)

    def collect(self) -> Iterable[Metric]:
        """For the scrape."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        names = [*(f"{bound:.12g}" for bound in self._bounds), "+Inf"]
        for labels, noted in tuple(self._rows.items()):
            row = noted.sorted_into(self._bounds, tuple(noted.new))
            buckets = list(zip(names, map(float, accumulate(row.counts.tolist())), strict=True))
            family.add_metric(labels, buckets, row.total)
        yield family
