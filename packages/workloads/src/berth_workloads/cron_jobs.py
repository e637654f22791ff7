"""When a CronJob runs: its schedule, and which run is due.

Source: the standard syntax of robfig/cron v3, which kube-controller-manager uses, and mostRecentScheduleTime in
pkg/controller/cronjob, v1.36. Times are seconds since the epoch; a schedule is read in a time zone.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import NamedTuple, Protocol

MANY_MISSED = 100
"""From more missed runs on than these, somebody should be told."""
_MACROS = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_UNITS = MappingProxyType({"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9})
_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_SEARCHED = timedelta(days=5 * 366)
"""A schedule without a run in so long a time has none: 30 February."""


class ScheduleError(ValueError):
    """A schedule that cannot be read; the message is cron's."""


class Schedule(Protocol):
    """When something runs."""

    def next_after(self, moment_s: float) -> float | None:
        """The next run after a moment, or None where there is none."""


class _Every(NamedTuple):
    period_s: int

    def next_after(self, moment_s: float) -> float:
        return int(moment_s) + self.period_s


class _Cron(NamedTuple):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Both days and weekdays are restricted, and one of them suffices."""
    zone: tzinfo

    def next_after(self, moment_s: float) -> float | None:
        moment = datetime.fromtimestamp(moment_s // 60 * 60 + 60, UTC)
        end = moment + _SEARCHED
        while moment < end:
            # Hours and minutes are added in absolute time: what a change of clocks leaves out is left out, and what
            # it repeats runs twice, as cron has it.
            local = moment.astimezone(self.zone)
            if local.month not in self.months or not self._is_day(local):
                later = local.replace(hour=0, minute=0, fold=0) + timedelta(days=1)
                moment = max(later.astimezone(UTC), moment + timedelta(minutes=1))
            elif local.hour not in self.hours:
                moment += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minutes:
                moment += timedelta(minutes=1)
            else:
                return moment.timestamp()
        return None

    def _is_day(self, local: datetime) -> bool:
        matches = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return any(matches) if self.either_day else all(matches)


def read_schedule(text: str, zone: tzinfo = UTC) -> Schedule:
    """Read five fields, a name such as `@hourly`, or `@every 1h30m`. Raises `ScheduleError`."""
    if text.startswith("@every "):
        return _Every(_period_s(text.removeprefix("@every ")))
    if text.startswith("@") and text not in _MACROS:
        raise ScheduleError(f"unrecognized descriptor: {text}")
    fields = _MACROS.get(text, text).split()
    if len(fields) != 5:
        raise ScheduleError(
            f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]" if text else "empty spec string"
        )
    minutes, hours = _values(fields[0], 0, 59), _values(fields[1], 0, 23)
    days, months = _values(fields[2], 1, 31), _values(fields[3], 1, 12, _MONTHS)
    weekdays = _values(fields[4], 0, 6, _DAYS)
    either = not any(_is_star(part) for field in (fields[2], fields[4]) for part in field.split(","))
    return _Cron(minutes, hours, days, months, weekdays, either, zone)


def _is_star(part: str) -> bool:
    return re.fullmatch(r"[*?](/1)?", part) is not None


def _values(field: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    return frozenset(value for part in field.split(",") for value in _range(part, low, high, names))


def _range(part: str, low: int, high: int, names: tuple[str, ...]) -> range:
    bounds, *steps = part.split("/")
    ends = bounds.split("-")
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {part}")
    if len(ends) > 2:
        raise ScheduleError(f"too many hyphens: {part}")
    first, last = low, high
    if ends[0] not in ("*", "?"):
        first = _number(ends[0], low, names)
        # "5/15" stands for "from 5 on, every 15".
        last = _number(ends[1], low, names) if len(ends) > 1 else high if steps else first
    step = _number(steps[0], 0, ()) if steps else 1
    if first < low:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({low}): {part}")
    if last > high:
        raise ScheduleError(f"end of range ({last}) above maximum ({high}): {part}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {part}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")
    return range(first, last + 1, step)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _period_s(text: str) -> int:
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ScheduleError(f'failed to parse duration @every {text}: time: invalid duration "{text}"')
    return max(1, int(sum(float(number) * _UNITS[unit] for number, unit in parts)))


class DueRun(NamedTuple):
    """The run that is due, if one is, and about how many there have been since the last one that was made."""

    at_s: float | None
    missed: int = 0


def due_run(schedule: Schedule, since_s: float, now_s: float) -> DueRun:
    """Return the most recent run after `since_s` that is not in the future; earlier ones are left out."""
    first = schedule.next_after(since_s)
    if first is None or now_s < first:
        return DueRun(None)
    second = schedule.next_after(first)
    if second is None or now_s < second:
        return DueRun(first, 1)
    period_s = int(second - first)
    missed = int((now_s - first) // period_s) + 1
    # Far in the past, the schedule is not gone through run by run, but from two periods ago on.
    latest, following = None, schedule.next_after(first + (missed - 2) * period_s)
    while following is not None and following <= now_s:
        latest, following = following, schedule.next_after(following)
    return DueRun(latest, missed)
