"""What would let a pod go that a PodDisruptionBudget protects; computed with the rules by which budgets are counted."""

from collections.abc import Iterator

from berth.api.node import PodDisruptionBudget
from berth_workloads.disruption_budgets import SEVERAL_BUDGETS, Bounds, disruptions_allowed, expected


def what_frees(budget: PodDisruptionBudget, why: str) -> str:
    """Say what would let one pod of a budget be evicted, whose status is up to date."""
    if why.startswith(SEVERAL_BUDGETS):
        return "leave it in one budget only"
    return ", or ".join(_ways(budget))


def _ways(budget: PodDisruptionBudget) -> Iterator[str]:
    status, spec = budget.status, budget.spec
    bounds = Bounds(spec.min_available, spec.max_unavailable)
    missing = status.desired_healthy - status.current_healthy
    if missing >= 0 and status.current_healthy < status.expected_pods:
        yield f"{_pods(missing + 1)} of it that are not healthy become healthy"
    for more in (1, 2, 3):
        total = status.expected_pods + more
        if disruptions_allowed(expected(bounds, total, total), status.current_healthy + more):
            yield f"{more} more healthy {'replica' if more == 1 else 'replicas'}"
            break
    if spec.max_unavailable is not None:
        yield f"maxUnavailable {status.expected_pods - status.current_healthy + 1}"
    elif status.current_healthy > 0:
        yield f"minAvailable {status.current_healthy - 1}"


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"
