"""What a PodDisruptionBudget allows: how many pods are expected, how many of them must be healthy, who may be evicted.

Source: pkg/controller/disruption and pkg/registry/core/pod/storage/eviction.go, v1.36.
"""

from typing import NamedTuple

from berth_workloads.int_or_percent import IntOrPercent, scaled

SEVERAL_BUDGETS = "has more than one PodDisruptionBudget, which the eviction subresource does not support"
NOT_ENOUGH = "The disruption budget {} needs {} healthy pods and has {} currently"


class Bounds(NamedTuple):
    """The bounds of a budget; at most one of them is given."""

    min_available: IntOrPercent | None
    max_unavailable: IntOrPercent | None

    @property
    def need_scale(self) -> bool:
        """Say whether they count by how many pods the controllers ask for, not by how many there are."""
        return self.max_unavailable is not None or isinstance(self.min_available, str)


class Expected(NamedTuple):
    """How many pods are expected, and how many of them must be healthy."""

    pods: int
    healthy: int


def expected(bounds: Bounds, pods: int, scale: int) -> Expected:
    """Return the bounds in numbers of pods; percentages are rounded up.

    `pods` is how many the budget selects, `scale` how many their controllers ask for together.
    """
    total = scale if bounds.need_scale else pods
    if bounds.max_unavailable is not None:
        return Expected(total, max(0, total - scaled(bounds.max_unavailable, total, round_up=True)))
    return Expected(total, scaled(bounds.min_available or 0, total, round_up=True))


def disruptions_allowed(wanted: Expected, healthy: int) -> int:
    """Return how many of the pods may be disrupted while so many are healthy."""
    return max(0, healthy - wanted.healthy) if wanted.pods > 0 else 0


def goes_anyway(phase: str, *, is_being_deleted: bool) -> bool:
    """Say whether evicting a pod disrupts nobody: it has ended, never ran, or is being deleted. No budget is asked."""
    return is_being_deleted or phase in ("Succeeded", "Failed", "Pending")


def unhealthy_may_go(policy: str | None, desired_healthy: int, current_healthy: int) -> bool:
    """Say whether a pod that is not ready may be evicted without spending a disruption.

    With the unhealthyPodEvictionPolicy AlwaysAllow it may; otherwise only while the other pods suffice.
    """
    return policy == "AlwaysAllow" or 0 < desired_healthy <= current_healthy
