"""A scheduling cycle that took long, with how long each of its steps took.

Format and thresholds: k8s.io/utils/trace as kube-scheduler uses it; a step is told if it took its share of the 100 ms.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from berth.cycle.decision import Decision

LONG_S = 0.1


def slow_cycle_lines(
    decision: Decision, seconds: float, *, in_full: bool = False, ended: datetime | None = None
) -> Iterator[str]:
    """Yield the lines about a cycle that took 100 ms or more, none about others; `in_full` tells short steps too."""
    if seconds < LONG_S:
        return
    begun = (ended or datetime.now().astimezone()) - timedelta(seconds=seconds)
    number = abs(hash((decision.pod.uid, decision.attempts))) % 2**31
    pod = decision.pod
    share_s = LONG_S / (len(decision.laps) + 1)
    yield (
        f'Trace[{number}]: "Scheduling" namespace:{pod.namespace},name:{pod.name} '
        f"({_time(begun, '%d-%b-%Y %H:%M:%S')}) (total time: {_ms(seconds)}ms):"
    )
    before = decision.started
    for step, at in decision.laps:
        if at - before >= share_s or in_full:
            when = begun + timedelta(seconds=at - decision.started)
            yield f'Trace[{number}]: ---"{step}" {_ms(at - before)}ms ({_time(when, "%H:%M:%S")})'
        before = at
    yield f"Trace[{number}]: [{seconds * 1000:.6f}ms] [{seconds * 1000:.6f}ms] END"


def _ms(seconds: float) -> int:
    return int(seconds * 1000 + 1e-9)


def _time(when: datetime, layout: str) -> str:
    return f"{when.strftime(layout)}.{when.microsecond // 1000:03d}"
