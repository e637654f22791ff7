"""Ages as kubectl prints them (k8s.io/apimachinery/pkg/util/duration)."""

from datetime import timedelta

import pytest

from berth_cluster.serving.tables import humanize
from packages.cluster.tests.objects import START

MINUTE, HOUR, DAY = 60, 3600, 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (1, "1s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY, "8d"),
        (729 * DAY, "729d"),
        (730 * DAY, "2y"),
        (740 * DAY, "2y10d"),
        (8 * 365 * DAY, "8y"),
    ],
)
def test_durations(seconds, text):
    assert humanize.duration(seconds) == text


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        ("2025-03-01T11:59:00Z", "60s"),
        ("2025-03-01T11:59:00.250000Z", "59s"),
        (None, "<unknown>"),
        ("yesterday", "<unknown>"),
    ],
)
def test_ages(timestamp, text):
    assert humanize.age(timestamp, START) == text


def test_a_future_time_has_no_age():
    assert humanize.age((START + timedelta(hours=1)).isoformat(), START) == "<invalid>"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "<none>"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]}, "a in (x,y)"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a"),
    ],
)
def test_selectors(selector, text):
    assert humanize.selector(selector) == text
