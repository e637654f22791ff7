"""When schedules run. The cases are those of robfig/cron's own tests (spec_test.go, parser_test.go), v3."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from berth_workloads.cron_jobs import DueRun, ScheduleError, due_run, read_schedule

NEW_YORK = ZoneInfo("America/New_York")


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("moment", "schedule", "expected"),
    [
        ("2012-07-09T14:45:00Z", "0/15 * * * *", "2012-07-09T15:00:00Z"),
        ("2012-07-09T14:59:59Z", "0/15 * * * *", "2012-07-09T15:00:00Z"),
        ("2012-07-09T15:45:00Z", "20-35/15 * * * *", "2012-07-09T16:20:00Z"),
        ("2012-07-09T23:46:00Z", "*/15 * * * *", "2012-07-10T00:00:00Z"),
        ("2012-07-09T23:45:00Z", "20-35/15 * * * *", "2012-07-10T00:20:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 9 Apr-Oct ?", "2012-08-09T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 */5 Apr,Aug,Oct Mon", "2012-08-01T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 */5 Oct Mon", "2012-10-01T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 * Feb Mon", "2013-02-04T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 * Feb Mon/2", "2013-02-01T00:00:00Z"),
        ("2012-12-31T23:59:45Z", "* * * * *", "2013-01-01T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 29 Feb ?", "2016-02-29T00:00:00Z"),
        ("2012-07-09T23:35:00Z", "0 0 30 Feb ?", None),
        ("2012-07-09T23:35:00Z", "0 0 31 Apr ?", None),
        ("2012-07-09T14:45:30Z", "@every 1h30m", "2012-07-09T16:15:30Z"),
        ("2012-07-09T14:45:00Z", "@weekly", "2012-07-15T00:00:00Z"),
    ],
)
def test_the_next_run(moment, schedule, expected):
    assert read_schedule(schedule).next_after(seconds(moment)) == (expected and seconds(expected))


@pytest.mark.parametrize(
    ("moment", "schedule", "expected"),
    [
        ("2012-03-11T00:00:00-05:00", "30 2 11 Mar ?", "2013-03-11T02:30:00-04:00"),
        ("2012-03-11T01:00:00-05:00", "0 * * * ?", "2012-03-11T03:00:00-04:00"),
        ("2012-03-11T00:00:00-05:00", "0 1 * * ?", "2012-03-11T01:00:00-05:00"),
        ("2012-03-11T00:00:00-05:00", "0 2 * * ?", "2012-03-12T02:00:00-04:00"),
        ("2012-11-04T00:00:00-04:00", "30 2 04 Nov ?", "2012-11-04T02:30:00-05:00"),
        ("2012-11-04T01:45:00-04:00", "30 1 04 Nov ?", "2012-11-04T01:30:00-05:00"),
        ("2012-11-04T01:00:00-04:00", "0 1 * * ?", "2012-11-04T01:00:00-05:00"),
        ("2012-11-04T01:00:00-05:00", "0 1 * * ?", "2012-11-05T01:00:00-05:00"),
    ],
)
def test_clocks_that_are_changed(moment, schedule, expected):
    assert read_schedule(schedule, NEW_YORK).next_after(seconds(moment)) == seconds(expected)


@pytest.mark.parametrize(
    ("day", "schedule", "expected"),
    [
        ("2012-07-15", "* * 1,15 * Sun", True),
        ("2012-06-15", "* * 1,15 * Sun", True),
        ("2012-08-01", "* * 1,15 * Sun", True),
        ("2012-07-15", "* * */10 * Sun", True),
        ("2012-07-15", "* * * * Mon", False),
        ("2012-07-09", "* * 1,15 * *", False),
        ("2012-07-15", "* * 1,15 * *", True),
        ("2012-07-15", "* * */2 * Sun", True),
    ],
)
def test_of_two_restricted_days_one_suffices(day, schedule, expected):
    midnight = seconds(f"{day}T00:00:00Z")
    assert (read_schedule(schedule).next_after(midnight - 60) == midnight) is expected


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("*//5 * * * *", "too many slashes: *//5"),
        ("1--5 * * * *", "too many hyphens: 1--5"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("@every 5", 'failed to parse duration @every 5: time: invalid duration "5"'),
    ],
)
def test_schedules_that_cannot_be_read(schedule, why):
    with pytest.raises(ScheduleError) as error:
        read_schedule(schedule)
    assert str(error.value) == why


@pytest.mark.parametrize(
    ("since", "now", "expected", "missed"),
    [
        ("2012-07-09T10:00:00Z", "2012-07-09T10:59:59Z", None, 0),
        ("2012-07-09T10:00:00Z", "2012-07-09T11:00:00Z", "2012-07-09T11:00:00Z", 1),
        ("2012-07-09T10:00:00Z", "2012-07-09T13:30:00Z", "2012-07-09T13:00:00Z", 3),
        ("2010-07-09T10:00:00Z", "2012-07-09T13:30:00Z", "2012-07-09T13:00:00Z", 2 * 365 * 24 + 24 + 3),
    ],
)
def test_of_missed_runs_the_last_is_due(since, now, expected, missed):
    due = due_run(read_schedule("0 * * * *"), seconds(since), seconds(now))
    assert due == DueRun(expected and seconds(expected), missed)
