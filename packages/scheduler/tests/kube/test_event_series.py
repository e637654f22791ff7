"""Notes and names of events within the limits of the API server."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from berth.kube.event_series import cut_note, event_name, micro_time
from packages.scheduler.tests.kube.fakes import START


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ("short", "short"),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 600, "é" * 510 + " ..."),
        ("x" + "é" * 600, "x" + "é" * 509 + " ..."),
    ],
    ids=["short", "full", "over", "two bytes", "cut inside a character"],
)
def test_notes_are_cut_to_1024_bytes(note, expected):
    assert cut_note(note) == expected
    assert len(cut_note(note).encode()) <= 1024


def test_names_are_unique_and_within_the_limit():
    names = {event_name("p", START, serial) for serial in range(999)}
    assert len(names) == 999
    long = event_name("p" * 240 + ".-" * 6, START, 1)
    assert len(long) <= 253 and ".-." not in long and "-." not in long


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05.000000Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 7, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T01:04:05.000007Z"),
    ],
)
def test_micro_time_has_six_digits_and_is_utc(moment, text):
    assert micro_time(moment) == text
