"""Which pods are spared first, and which of the nodes that can be freed is taken.

Sources: pkg/scheduler/util/utils.go, MoreImportantPod; pkg/scheduler/framework/preemption, pickOneNodeForPreemption.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from berth.state.pod_info import PodInfo

NOT_STARTED = math.inf
"""The start of a pod that has not started: later than all others."""

PRIORITY_SHIFT = 2**31
"""Added to each priority to make it positive, so that one more victim always means a larger sum."""


class Candidate(NamedTuple):
    """A node that can be freed: the pods that must go, most important first, and how many of them break a budget."""

    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    by_rules: float = 0.0
    """What it costs by a plugin's own rules."""


class Cost(NamedTuple):
    """What freeing a node costs; the least is best, compared from left to right."""

    violations: int
    by_rules: float
    highest_priority: int
    priority_sum: int
    victims: int
    running_since: float
    """Minus the earliest start among the most important victims, so that the pods that ran longest are spared."""


def start_time_s(pod: PodInfo) -> float:
    """Return when a pod started, in seconds since 1970; `NOT_STARTED` where that is not known."""
    started = pod.status.start_time
    return NOT_STARTED if started is None else _seconds(started)


@lru_cache(maxsize=4096)
def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return NOT_STARTED


def by_importance(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Return the pods of a node, given in order of arrival, the most important first.

    Priority counts first, then how long they have run, then their names, which is the order of the API server's lists.
    Of pods that have not started the one that came last is the most important: upstream takes the time of the
    comparison as their start, so that its order depends on which pods are compared first.
    """
    latest_first = list(pods)
    latest_first.reverse()
    return sorted(latest_first, key=importance)


def importance(pod: PodInfo) -> tuple[int, float, str, str]:
    """Return the key by which pods sort; equal for pods of one priority that have not started."""
    started = start_time_s(pod)
    name = (pod.namespace, pod.name) if started != NOT_STARTED else ("", "")
    return (-pod.priority, started, *name)


def cost(candidate: Candidate) -> Cost:
    """Return what freeing the node costs."""
    highest = max(pod.priority for pod in candidate.victims)
    return Cost(
        violations=candidate.violations,
        by_rules=candidate.by_rules,
        highest_priority=highest,
        priority_sum=sum(pod.priority + PRIORITY_SHIFT for pod in candidate.victims),
        victims=len(candidate.victims),
        running_since=-min(start_time_s(pod) for pod in candidate.victims if pod.priority == highest),
    )


def cheapest(candidates: Iterable[Candidate]) -> Candidate:
    """Return the candidate that costs least, the first of equals."""
    return min(candidates, key=cost)


class Shortlist:
    """Candidates in the order they are found, until there are enough of them.

    As upstream, it takes as many that break no budget as are wanted, and as many that break one. The search goes on
    as long as all candidates break a budget.
    """

    __slots__ = ("_clean", "_violating", "_wanted")

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._clean: list[Candidate] = []
        self._violating: list[Candidate] = []

    @property
    def is_full(self) -> bool:
        """Say whether the search may end."""
        return bool(self._clean) and len(self._clean) + len(self._violating) >= self._wanted

    def add(self, candidate: Candidate) -> None:
        """Take in a candidate, unless there are enough of its kind."""
        found = self._violating if candidate.violations else self._clean
        if len(found) < self._wanted:
            found.append(candidate)

    def all(self) -> Sequence[Candidate]:
        """Return the candidates, those that break no budget first."""
        return self._clean + self._violating
