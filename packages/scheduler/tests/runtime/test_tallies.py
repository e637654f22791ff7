"""Counters and histograms as Prometheus reads them."""

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.registry import Collector

from berth.runtime.observing.tallies import NEW_AT_MOST, CounterTally, HistogramTally, exponential_buckets


class Collecting(Collector):
    def __init__(self, tally):
        self._tally = tally

    def collect(self):
        return self._tally.collect()


def exposition(tally):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collecting(tally))
    return generate_latest(registry).decode()


def test_exponential_buckets_are_those_of_the_go_library():
    assert exponential_buckets(0.001, 2, 4) == pytest.approx((0.001, 0.002, 0.004, 0.008))


def test_a_histogram_reads_like_the_librarys_own():
    values = (0.0005, 0.001, 0.0011, 0.003, 5.0)
    bounds = (0.001, 0.002, 0.004)
    registry = CollectorRegistry()
    reference = Histogram("x_seconds", "Help.", ["a"], buckets=bounds, registry=registry)
    tally = HistogramTally("x_seconds", "Help.", bounds, ("a",))
    for value in values:
        reference.labels("b").observe(value)
        tally.observe(value, ("b",))
    ours = {line for line in exposition(tally).splitlines() if not line.startswith("#")}
    theirs = {
        line
        for line in generate_latest(registry).decode().splitlines()
        if not line.startswith("#") and "_created" not in line
    }
    assert ours == theirs
    assert tally.count(("b",)) == 5


def test_a_histogram_keeps_count_however_many_values_come_before_it_is_read():
    tally = HistogramTally("x_seconds", "Help.", (1.0, 2.0), ("a",))
    for _ in range(NEW_AT_MOST + 1):
        tally.observe(1.5, ("b",))
    assert tally.count(("b",)) == NEW_AT_MOST + 1
    exposition(tally)
    tally.observe(0.5, ("b",))
    text = exposition(tally)
    assert 'x_seconds_bucket{a="b",le="1"} 1.0' in text
    assert f'x_seconds_bucket{{a="b",le="2"}} {NEW_AT_MOST + 2}.0' in text
    assert f'x_seconds_sum{{a="b"}} {1.5 * (NEW_AT_MOST + 1) + 0.5}' in text


def test_a_counter_counts_by_label():
    tally = CounterTally("things", "Help.", ("kind",))
    tally.add(("a",))
    tally.add(("a",), 2)
    tally.add(("b",))
    assert 'things_total{kind="a"} 3.0' in exposition(tally)
    assert tally.value(("b",)) == 1
