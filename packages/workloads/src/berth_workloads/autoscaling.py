"""How many replicas a HorizontalPodAutoscaler wants, given what pods use.

Source: replica_calculator.go and the behaviour of pkg/controller/podautoscaler/horizontal.go, v1.36.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

TOLERANCE = Fraction(1, 10)
DOWNSCALE_STABILIZATION_S = 300.0
INITIALIZATION_S, METRIC_WINDOW_S = 300.0, 15.0


class MeasuredPod(NamedTuple):
    """A pod of the scaled workload: what it uses and requests of a resource."""

    request: Fraction
    usage: Fraction | None
    """None where nobody knows."""
    is_ready: bool = True


class ReplicaProposal(NamedTuple):
    """The replicas that one metric asks for, and the usage from which that follows."""

    replicas: int
    average: Fraction
    """Of a ready pod."""
    utilization: int | None
    """Percent of what is requested."""


def wanted_replicas(
    pods: Sequence[MeasuredPod],
    current: int,
    target: Fraction,
    *,
    by_utilization: bool,
    tolerance: Fraction = TOLERANCE,
) -> ReplicaProposal | None:
    """Return how many replicas bring the average usage to the target; None where no pod's usage is known.

    A target is an average, or a percentage of the requests. Pods that are not ready, or of which nothing is known, are
    taken as what changes the size least.
    """
    ready = [pod for pod in pods if pod.is_ready and pod.usage is not None]
    missing = [pod for pod in pods if pod.usage is None]
    unready = [pod for pod in pods if not pod.is_ready and pod.usage is not None]
    if not ready:
        return None
    used, asked = sum((pod.usage or Fraction(0) for pod in ready), Fraction(0)), sum(pod.request for pod in ready)
    average = used / len(ready)
    utilization = int(used * 100 / asked) if asked else None
    ratio = Fraction(utilization or 0) / target if by_utilization else average / target
    counts_unready = bool(unready) and ratio > 1
    considered = list(ready)
    if missing:
        bound = max(Fraction(100), target) / 100 if by_utilization else None
        low = ratio < 1
        considered += [
            pod._replace(usage=(pod.request * bound if bound is not None else target) if low else Fraction(0))
            for pod in missing
        ]
    if counts_unready:
        considered += [pod._replace(usage=Fraction(0)) for pod in unready]
    new_ratio = ratio
    if len(considered) > len(ready):
        used = sum((pod.usage or Fraction(0) for pod in considered), Fraction(0))
        asked = sum(pod.request for pod in considered)
        new_ratio = Fraction(int(used * 100 / asked)) / target if by_utilization else used / len(considered) / target
    is_near = abs(1 - new_ratio) <= tolerance or (ratio < 1) is not (new_ratio < 1)
    replicas = current if is_near else math.ceil(new_ratio * len(considered))
    turns = (new_ratio < 1 and replicas > current) or (new_ratio > 1 and replicas < current)
    if turns and len(considered) > len(ready):
        replicas = current
    return ReplicaProposal(replicas, average, utilization)


class ScalingPolicy(NamedTuple):
    """By how much the size may change within a period."""

    is_percent: bool
    value: int
    period_s: float


class ScalingRules(NamedTuple):
    """How quickly a workload grows, or shrinks."""

    policies: tuple[ScalingPolicy, ...]
    stabilization_s: float
    select: str = "Max"


DEFAULT_UP = ScalingRules((ScalingPolicy(False, 4, 15.0), ScalingPolicy(True, 100, 15.0)), 0.0)
DEFAULT_DOWN = ScalingRules((ScalingPolicy(True, 100, 15.0),), DOWNSCALE_STABILIZATION_S)


class ScaleEvent(NamedTuple):
    """A change of size that was made, or a size that was recommended."""

    at_s: float
    replicas: int


def limited_replicas(
    current: int, wanted: int, up: ScalingRules, down: ScalingRules, recommended: Iterable[ScaleEvent],
    changes: Iterable[ScaleEvent], now_s: float,
) -> int:  # fmt: skip
    """Return the size that the rules let a workload have now.

    Within the window of stabilization the most careful of the recommendations counts: the least to grow, the largest
    to shrink. `changes` are by how many replicas it has grown (or shrunk, below 0), and when.
    """
    known = list(recommended)
    least = min([wanted, *(each.replicas for each in known if each.at_s > now_s - up.stabilization_s)])
    largest = max([wanted, *(each.replicas for each in known if each.at_s > now_s - down.stabilization_s)])
    stable = min(max(current, least), largest)
    changed = list(changes)
    if stable > current:
        return min(stable, max(current, _bound(current, up, changed, now_s, 1)))
    if stable < current:
        return max(stable, min(current, _bound(current, down, changed, now_s, -1)))
    return current


def _bound(current: int, rules: ScalingRules, changes: Sequence[ScaleEvent], now_s: float, sign: int) -> int:
    if rules.select == "Disabled":
        return current
    bounds = []
    for policy in rules.policies:
        recent = sum(
            each.replicas for each in changes if each.at_s > now_s - policy.period_s and each.replicas * sign > 0
        )
        start = current - recent
        change = Fraction(start * policy.value, 100) if policy.is_percent else Fraction(policy.value)
        bounds.append(math.ceil(start + change) if sign > 0 else int(start - change))
    farthest = max if (rules.select == "Max") is (sign > 0) else min
    return farthest(bounds, default=current)
