"""What a plan may cost: disruption budgets at every step, and how often it may move pods in all.

The model of a disruption: an evicted pod counts as disrupted from its eviction until the pod that takes its place runs.
A plan evicts one pod at a time and waits for that, so at every step exactly one pod is disrupted, and a budget is kept
if it allows one disruption at the start. A pod in two budgets stays, as the eviction API refuses it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from berth.api.node import PodDisruptionBudget, PodDisruptionBudgetStatus
from berth.plugins.preemption.budgets import KIND, Budget, Budgets
from berth.state.objects import ObjectStore
from berth.state.pod_info import PodInfo
from berth_workbench.planning.rebalance.request import RebalanceRequest
from berth_workbench.simulation.budgets import BudgetKeeper


def budgets_observed(objects: Iterable[object]) -> tuple[Budget, ...]:
    """Return the budgets whose status has been filled in; it says what the API server would allow."""
    store = ObjectStore()
    for each in objects:
        if isinstance(each, PodDisruptionBudget) and each.status != PodDisruptionBudgetStatus():
            store.put(KIND, each)
    return Budgets(store).all()


def budget_against(pod: PodInfo, observed: Sequence[Budget], kept: BudgetKeeper) -> str:
    """Return why budgets do not let a pod be evicted, while no other is disrupted; empty where they do.

    Both have to agree: what the cluster said of its budgets, and what they allow by the pods that there are.
    """
    name, refusal = kept.refusal(pod.pod)
    if name and "more than one" in refusal:
        return "in more than one PodDisruptionBudget"
    exhausted = any(budget.covers(pod) and budget.allowed < 1 for budget in observed)
    if name or (exhausted and not kept.spends_nothing(pod.pod)):
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
