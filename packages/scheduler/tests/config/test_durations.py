"""Durations: Go's grammar, exact values, and Go's text back."""

import pytest

from berth.config.durations import Duration, format_duration_s, parse_duration_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("15s", 15.0),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("300ms", 0.3),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("5ns", 5e-9),
        ("1h2m3s", 3723.0),
        ("-1m", -60.0),
        ("+2m", 120.0),
        ("1s1s", 2.0),
    ],
)
def test_parse(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "15", "s", "1 s", "1d", "1s ", "--1s", "1.5.5s", ".s", "1e3s", "1S"])
def test_parse_refuses(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_s(text)


def test_parse_refuses_what_64_bits_cannot_hold():
    with pytest.raises(ValueError, match="too long"):
        parse_duration_s("9999999h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (15, "15s"),
        (600, "10m0s"),
        (3600, "1h0m0s"),
        (3723, "1h2m3s"),
        (1.5, "1.5s"),
        (0.3, "300ms"),
        (0.0015, "1.5ms"),
        (2e-6, "2µs"),
        (5e-9, "5ns"),
        (-60, "-1m0s"),
        (61.25, "1m1.25s"),
    ],
)
def test_format(seconds, text):
    assert format_duration_s(seconds) == text
    assert parse_duration_s(text) == pytest.approx(seconds)


def test_duration_is_seconds_and_writes_itself():
    assert Duration.parse("10m") == 600.0
    assert str(Duration.parse("10m")) == "10m0s"
