"""How many pods a ReplicaSet makes or deletes, and which it deletes first.

Source: pkg/controller/replicaset and ActivePodsWithRanks in pkg/controller/controller_utils.go, v1.36, but that times
are compared as they are, not by the logarithm of the age.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
BURST = 500
"""So many pods are made or deleted at a time."""
_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST = re.compile(r"0|[1-9][0-9]{0,9}|-[0-9]{1,10}")
_LEAST_COST, _HIGHEST_COST = -(2**31), 2**31 - 1

P = TypeVar("P")


class Deletable(NamedTuple):
    """What decides how soon a pod is deleted when there are too many."""

    node: str
    """Empty where it has none."""
    phase: str
    is_ready: bool
    cost: int = 0
    ready_since_s: float = 0.0
    restarts: int = 0
    created_s: float | None = None
    """None where nobody says, which counts as newest."""


def missing_pods(wanted: int, active: int) -> int:
    """Return how many pods to make now, or how many to delete where that is negative."""
    return max(-BURST, min(BURST, wanted - active))


def deletion_cost(annotations: Mapping[str, str]) -> int:
    """Return what a pod's annotation says of the cost of deleting it; 0 where that cannot be read."""
    text = annotations.get(DELETION_COST, "")
    cost = int(text) if _COST.fullmatch(text) else 0
    return cost if _LEAST_COST <= cost <= _HIGHEST_COST else 0


def pods_to_delete(
    pods: Iterable[P], count: int, facts: Callable[[P], Deletable], related_on: Mapping[str, int]
) -> list[P]:
    """Return the `count` pods whose deletion costs least; of equals, those that are given first.

    Before others come those without a node; those that do not run yet; those that are not ready; those of low cost;
    those on a node with many related pods, as `related_on` counts them by node; those that became ready last; those
    restarted most often; the youngest. Related are the active pods of all ReplicaSets with the same owner.
    """

    def rank(pod: P) -> tuple[float, ...]:
        fact = facts(pod)
        return (
            bool(fact.node),
            _PHASE_RANK.get(fact.phase, 0),
            fact.is_ready,
            fact.cost,
            -related_on.get(fact.node, 0),
            -fact.ready_since_s,
            -fact.restarts,
            float("-inf") if fact.created_s is None else -fact.created_s,
        )

    return sorted(pods, key=rank)[:count]
