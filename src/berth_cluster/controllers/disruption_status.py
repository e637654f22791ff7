"""A PodDisruptionBudget's status: how many of its pods are healthy, how many must be, how many may be disrupted.

Pure functions over budgets and pods as JSON. Called by the disruption controller. Upstream: pkg/controller/disruption,
v1.36.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from berth_cluster.controllers.meta import (
    JsonObject,
    format_time,
    int_of,
    is_being_deleted,
    parse_time,
    set_condition,
)
from berth_cluster.controllers.pods import ready_since

CONDITION = "DisruptionAllowed"
DELETION_WAIT_S = 120.0
"""So long an evicted pod counts as going; then the eviction is taken to have come to nothing."""


class Evictions(NamedTuple):
    """Evictions that were allowed: those still awaited, the pods of those that came to nothing, when to look again."""

    awaited: dict[str, str]
    overdue: list[JsonObject]
    recheck_s: float | None


class Need(NamedTuple):
    """How many pods are expected, and how many of them must be healthy."""

    expected: int
    desired: int


def evictions(budget: JsonObject, pods: Sequence[JsonObject], now_s: float) -> Evictions:
    """What has become of the pods that `status.disruptedPods` names."""
    noted = (budget.get("status") or {}).get("disruptedPods") or {}
    awaited, overdue, due_s = {}, [], []
    for pod in pods:
        name = pod["metadata"]["name"]
        if name not in noted or is_being_deleted(pod):
            continue
        end_s = parse_time(noted[name]) + DELETION_WAIT_S
        if end_s > now_s:
            awaited[name] = noted[name]
            due_s.append(end_s)
        else:
            overdue.append(pod)
    return Evictions(awaited, overdue, min(due_s, default=None))


def need(budget: JsonObject, pod_count: int, scale: int) -> Need:
    """The bound of the budget in pods; `scale` is what the pods' controllers ask for together.

    Percentages are rounded up, and are of the scale.
    """
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        return Need(scale, max(0, scale - _amount(spec["maxUnavailable"], scale)))
    least = spec.get("minAvailable")
    if least is None:
        return Need(pod_count, 0)
    return Need(pod_count if isinstance(least, int) else scale, _amount(least, scale))


def needs_scale(budget: JsonObject) -> bool:
    """Whether the bound is one that only the pods' controllers make sense of."""
    spec = budget["spec"]
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def _amount(bound: int | str, total: int) -> int:
    if isinstance(bound, int):
        return bound
    return math.ceil(int(bound.rstrip("%")) * total / 100)


def counted_status(
    budget: JsonObject, pods: Sequence[JsonObject], needed: Need, awaited: dict[str, str], now_s: float
) -> JsonObject:
    """The status for these pods."""
    healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in awaited for pod in pods)
    allowed = max(0, healthy - needed.desired) if needed.expected > 0 else 0
    status: JsonObject = {
        "observedGeneration": int_of(budget["metadata"], "generation"),
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": needed.desired,
        "expectedPods": needed.expected,
    }
    if awaited:
        status["disruptedPods"] = awaited
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return {**status, "conditions": _conditions(budget, str(bool(allowed)), reason, "", now_s)}


def failed_status(budget: JsonObject, message: str, now_s: float) -> JsonObject:
    """The status when the pods cannot be counted: nothing may be disrupted."""
    before = budget.get("status") or {}
    conditions = _conditions(budget, "False", "SyncFailed", message, now_s)
    return {**before, "disruptionsAllowed": 0, "conditions": conditions}


def _is_healthy(pod: JsonObject) -> bool:
    return ready_since(pod) is not None and not is_being_deleted(pod)


def _conditions(budget: JsonObject, status: str, reason: str, message: str, now_s: float) -> list[JsonObject]:
    known = (budget.get("status") or {}).get("conditions") or []
    condition = {
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": int_of(budget["metadata"], "generation"),
        "lastTransitionTime": format_time(now_s),
    }
    return set_condition(known, condition)
