"""What a plan may cost: disruption budgets at every step, and how often it may move pods in all.

The model of a disruption: an evicted pod counts as disrupted from its eviction until the pod that takes its place runs.
A plan evicts one pod at a time and waits for that, so at every step exactly one pod is disrupted, and a budget is kept
if it allows one disruption at the start. A pod in two budgets stays, as the eviction API refuses it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from berth.planning.rebalancing.request import RebalanceRequest
from berth.plugins.preemption.budgets import Budget
from berth.state.pod_info import PodInfo


def budget_against(pod: PodInfo, budgets: Sequence[Budget]) -> str:
    """Return why budgets do not let a pod be evicted, while no other is disrupted; empty where they do."""
    covering = [budget for budget in budgets if budget.covers(pod)]
    if len(covering) > 1:
        return "in more than one PodDisruptionBudget"
    if covering and covering[0].allowed < 1:
        return "its PodDisruptionBudget allows no disruption"
    return ""


class Spending:
    """The moves of a plan so far, held against its limits."""

    __slots__ = ("_by_namespace", "_by_workload", "_request", "total")

    def __init__(self, request: RebalanceRequest) -> None:
        self._request = request
        self.total = 0
        self._by_workload: Counter[str] = Counter()
        self._by_namespace: Counter[str] = Counter()

    @property
    def left(self) -> int:
        """How many moves the plan may still make."""
        return self._request.max_moves - self.total

    def allows(self, workload: str, namespace: str) -> bool:
        """Say whether one more pod of a workload (`namespace/Kind/name`) may be moved."""
        request = self._request
        return (
            self.total < request.max_moves
            and (request.max_per_workload is None or self._by_workload[workload] < request.max_per_workload)
            and (request.max_per_namespace is None or self._by_namespace[namespace] < request.max_per_namespace)
        )

    def add(self, workload: str, namespace: str, count: int = 1) -> None:
        """Count a move, or with -1 take one back."""
        self.total += count
        self._by_workload[workload] += count
        self._by_namespace[namespace] += count

    def state(self) -> tuple[tuple[str, int], ...]:
        """What of the past still matters for what is allowed; two equal states allow the same."""
        counts: Iterable[tuple[str, int]] = ()
        if self._request.max_per_workload is not None:
            counts = [(f"w {name}", count) for name, count in self._by_workload.items() if count]
        if self._request.max_per_namespace is not None:
            counts = [*counts, *((f"n {name}", count) for name, count in self._by_namespace.items() if count)]
        return tuple(sorted(counts))
