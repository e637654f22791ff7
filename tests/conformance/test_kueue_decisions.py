"""Every recorded decision of Kueue's scheduler, cycle by cycle; `kueue/` holds a file for each theme."""

import json
import re
from typing import Any

import pytest

from berth_kueue.decide import decide_case
from tests.conformance.records import cases

THEMES = [("quota", 400), ("preemption", 400), ("fair", 400), ("lives", 400), ("topology", 400)]


@pytest.mark.parametrize(("theme", "count"), THEMES)
def test_queues_are_decided_as_the_recorded_ones(theme: str, count: int) -> None:
    wrong, compared = [], 0
    for case in cases(f"kueue/{theme}"):
        recorded, free = case.pop("record"), case.pop("free", ())
        ours = decide_case(case)["record"]
        compared += 1
        for theirs, cycle in zip(recorded, ours, strict=True):
            if _told(theirs, free) != _told(cycle, free):
                wrong.append(f"{case['name']} at step {theirs['step']}\nrecorded {theirs}\nours     {cycle}")
                break
    assert compared == count
    assert not wrong, f"{len(wrong)} of {count} cases differ in {theme}, the first: " + "\n".join(wrong[:2])


def _told(cycle: dict[str, Any], free: list[str]) -> Any:
    """Return a cycle with what is free sorted: heads, entries and targets; shares are numbers."""
    told = json.loads(json.dumps(cycle), object_hook=_sorted)
    if "podSet" in free:  # A group of pod sets that finds no place: chance decides which of them is named.
        return json.loads(re.sub(r"pod set [a-z0-9]+", "a pod set", json.dumps(told)))
    return told


def _sorted(told: dict[str, Any]) -> dict[str, Any]:
    for field in ("heads", "entries", "targets"):
        if field in told:
            told[field] = sorted(told[field], key=lambda given: (given["workload"], given["clusterQueue"]))
    if "events" in told:
        told["events"] = sorted(told["events"])
    if "share" in told:
        told["share"] = float(told["share"])
    return told
