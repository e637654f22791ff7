"""Queues run until nothing more comes of it, as they would if no job ended and none arrived.

Evicted jobs stop at once. What happens on the way is a `RunStory`: who is admitted, in which order, and who has to make
way for whom.
"""

from typing import Any

import msgspec

from berth_kueue.cycle import CycleEntry
from berth_kueue.lives import Queues
from berth_kueue.model import PENDING
from berth_workbench.simulation.watch import UNWATCHED, WorkWatch

_ACTS = frozenset({"admitted", "preempting", "evicted", "deferredFit"})


class Preempted(msgspec.Struct, frozen=True, rename="camel"):
    """A workload that made way for another."""

    workload: str
    by: str
    reason: str
    """InClusterQueue, InCohortReclamation, …"""


class RunStory:
    """What happened while queues ran."""

    __slots__ = ("admitted", "cycles", "is_quiet", "preempted", "steps")

    def __init__(self) -> None:
        self.admitted: dict[str, int] = {}
        """The cycle in which workloads were admitted that still are, in their order."""
        self.preempted: dict[str, Preempted] = {}
        """By victim; one that is admitted again, with other flavors perhaps, had to begin anew."""
        self.steps: list[tuple[bool, str]] = []
        """Who came (True) and who went, in this order."""
        self.cycles = 0
        self.is_quiet = False
        """False where workloads kept preempting each other, so that it was given up."""

    def by(self, workload: str) -> list[Preempted]:
        """Whom a workload has preempted."""
        return [each for each in self.preempted.values() if each.by == workload]

    def take(self, entry: CycleEntry) -> None:
        """Note what became of a head."""
        key = entry.info.key
        if entry.result == "admitted":
            self.admitted[key] = self.cycles
            self.steps.append((True, key))
        elif entry.result == "preempting":
            for target in entry.targets:
                self.admitted.pop(target.info.key, None)
                self.preempted[target.info.key] = Preempted(target.info.key, key, target.reason)
                self.steps.append((False, target.info.key))


def run_until_quiet(queues: Queues, watch: WorkWatch = UNWATCHED) -> RunStory:
    """Run cycles until one changes nothing. Raises `StoppedError`."""
    story = RunStory()
    most = 100 + 6 * len(queues.workloads)
    while story.cycles < most:
        before = _standing(queues)
        result = queues.cycle()
        story.cycles += 1
        for entry in (*result.processed, *result.aside):
            story.take(entry)
        if any(entry.result in ("preempting", "evicted") for entry in result.processed):
            queues.evict_done("*")
            queues.settle()
        watch.step()
        if not any(entry.result in _ACTS for entry in result.processed) and _standing(queues) == before:
            story.is_quiet = True
            break
    return story


def _standing(queues: Queues) -> Any:
    """Who waits where, and at which flavor the next look begins."""
    return {
        name: (
            {key: info.last_tried and info.last_tried.indexes for key, info in pending.active.items()},
            set(pending.inadmissible),
        )
        for name, pending in queues.pending.queues.items()
    }


def is_admitted(queues: Queues, key: str) -> bool:
    """Say whether a workload holds quota."""
    return key in queues.workloads and queues.workloads[key].holds_quota


def waiting(queues: Queues) -> list[str]:
    """The workloads that wait for quota, by name."""
    return sorted(
        key for key, workload in queues.workloads.items() if workload.phase == PENDING and workload.spec.active
    )
