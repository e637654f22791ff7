"""The decision log stays within its bound, and forgets no pod that lives."""

import errno
import logging
import random

import pytest

from berth.decisions import stories
from berth.decisions.decision_log import LEAST_BYTES, UNWRITTEN_BYTES, DecisionLog
from berth.decisions.log_segments import KEPT, Files, InMemory
from berth.decisions.stories import LogEntry, StoryStep

LIMIT = 256 * 1024


def life(number, *, at=None, key=None, padding=2000):
    """A pod that came and was bound; the message does not compress."""
    at = float(number) if at is None else at
    noise = random.Random(number).randbytes(padding // 2).hex()
    steps = [
        StoryStep(at, stories.QUEUED, queue="active", event="PodAdd"),
        StoryStep(at + 1, stories.BOUND, node=f"n-{noise}"),
    ]
    return LogEntry(key or f"default/web-{number}", f"uid-{number}", steps)


def filled(log, count, *, lives_every=10):
    """Many pods, of which one in ten lives on."""
    living = frozenset(f"uid-{number}" for number in range(0, count, lives_every))
    for number in range(count):
        log.write([life(number)])
        if log.is_full():
            log.make_room(living)
    return living


def test_what_was_written_is_found():
    log = DecisionLog()
    log.write([life(1), life(2)])
    (story,) = log.find("default/web-1")
    assert story.uid == "uid-1"
    assert [step.what for step in story.steps] == ["queued", "bound"]
    assert log.find("default/web") == log.find("default/web-11") == []


def test_it_stays_within_its_bound_and_every_pod_that_lives_is_told(tmp_path):
    log = DecisionLog(Files(tmp_path / "log"), LIMIT)
    living = filled(log, 600)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= LIMIT + 4000
    missing = [uid for uid in living if not log.find(f"default/web-{uid.removeprefix('uid-')}")]
    assert missing == []
    assert log.find("default/web-599")  # gone or not, the latest is there
    assert not log.find("default/web-1")  # gone, and long ago


def test_the_next_process_goes_on_where_the_last_one_ended(tmp_path):
    log = DecisionLog(Files(tmp_path / "log"), LIMIT)
    filled(log, 300)
    log.close()
    again = DecisionLog(Files(tmp_path / "log"), LIMIT)
    assert again.find("default/web-0") and again.find("default/web-299")
    living = filled(again, 600)
    assert all(again.find(f"default/web-{uid.removeprefix('uid-')}") for uid in living)


def test_steps_of_one_life_come_together_from_all_files_and_lives_are_told_apart(tmp_path):
    log = DecisionLog(Files(tmp_path / "log"), LIMIT)
    log.write([LogEntry("default/db-0", "old", [StoryStep(0.5, stories.BOUND, node="n0")])])
    log.write([LogEntry("default/db-0", "uid-0", [StoryStep(1.0, stories.QUEUED, queue="active", event="PodAdd")])])
    filled(log, 400)
    log.write([LogEntry("default/db-0", "uid-0", [StoryStep(9000.0, stories.BOUND, node="n1")])])
    (story,) = [story for story in log.find("default/db-0") if story.uid == "uid-0"]
    assert [step.what for step in story.steps] == ["queued", "bound"]


def test_the_living_that_are_too_many_lose_the_oldest_and_that_is_told_once(caplog):
    log = DecisionLog(InMemory(), LEAST_BYTES)
    with caplog.at_level(logging.WARNING):
        living = filled(log, 300, lives_every=1)
    assert log.size <= LEAST_BYTES + 4000
    found = [number for number in range(300) if log.find(f"default/web-{number}")]
    assert 299 in found and 0 not in found
    assert len(living) == 300
    assert len([record for record in caplog.records if "too small" in record.message]) == 1


class Full(InMemory):
    """A disk that is full until somebody makes room."""

    __slots__ = ("is_full",)

    def append(self, data):
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(data)


def test_a_full_disk_is_told_once_and_nothing_is_lost_if_it_does_not_last(caplog):
    disk = Full()
    disk.is_full = True
    log = DecisionLog(disk)
    for number in range(10):
        log.write([life(number)])
    assert len(caplog.records) == 1 and "No space left" in caplog.text
    assert log.find("default/web-3")
    disk.is_full = False
    log.write([life(10)])
    assert disk.size("") > 0
    assert all(log.find(f"default/web-{number}") for number in range(11))


def test_a_disk_that_stays_full_costs_bounded_memory():
    disk = Full()
    disk.is_full = True
    log = DecisionLog(disk)
    for number in range(120):
        log.write([life(number, padding=100_000)])
    assert len(log._unwritten) <= UNWRITTEN_BYTES
    assert log.lost > 0
    assert log.find("default/web-119") and not log.find("default/web-0")


def test_a_damaged_segment_costs_what_was_in_it_and_no_more(tmp_path, caplog):
    log = DecisionLog(Files(tmp_path / "log"), LIMIT)
    living = filled(log, 400)
    kept = tmp_path / f"log{KEPT}"
    kept.write_bytes(kept.read_bytes()[:-40])
    again = DecisionLog(InMemory(), LIMIT)
    log.close()
    again = DecisionLog(Files(tmp_path / "log"), LIMIT)
    assert again.find("default/web-399")
    filled(again, 600)
    assert again.size <= LIMIT + 4000
    assert again.find("default/web-599")
    assert "cannot be used" in caplog.text
    assert living


@pytest.mark.parametrize("line", [b"{", b'{"pod":"default/web-1","uid":"u","steps":7}', b"\xff\xfe"])
def test_lines_that_cannot_be_read_are_left_out(tmp_path, line):
    (tmp_path / "log").write_bytes(line + b"\n")
    log = DecisionLog(Files(tmp_path / "log"))
    log.write([life(1)])
    assert [story.uid for story in log.find("default/web-1")] == ["uid-1"]
