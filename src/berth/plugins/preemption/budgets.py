"""PodDisruptionBudgets: which of several pods cannot all be evicted without breaking one."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from berth.api.node import PodDisruptionBudget
from berth.api.selectors import EVERYTHING, Selector, SelectorError, compile_selector
from berth.framework.readers import ObjectReader
from berth.state.pod_info import PodInfo

KIND = "PodDisruptionBudget"


class Budget(NamedTuple):
    """How many more pods of a set may be disrupted; pods whose eviction is under way are not counted again."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: Set[str]

    def covers(self, pod: PodInfo) -> bool:
        """Say whether evicting the pod takes from the budget."""
        return self.selects(pod) and pod.name not in self.disrupted

    def selects(self, pod: PodInfo) -> bool:
        """Say whether the budget's selector selects the pod. A pod without labels is in no budget."""
        return pod.namespace == self.namespace and bool(pod.labels) and self.selector.matches(pod.labels)


class Budgets:
    """All budgets, compiled again only when one has changed."""

    __slots__ = ("_budgets", "_objects", "_version")

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._version = -1
        self._budgets: tuple[Budget, ...] = ()

    def all(self) -> tuple[Budget, ...]:
        """Return the budgets as they are now, without those whose selector selects nothing or cannot be read."""
        version = self._objects.version(KIND)
        if version != self._version:
            made = (_budget(found) for found in self._objects.list(KIND))
            self._budgets = tuple(budget for budget in made if budget is not None)
            self._version = version
        return self._budgets


def _budget(found: PodDisruptionBudget) -> Budget | None:
    """Return a budget; None where it covers no pod, which is what an empty selector means here."""
    try:
        selector = compile_selector(found.spec.selector)
    except SelectorError:
        return None
    if selector.nothing or selector == EVERYTHING:
        return None
    status = found.status
    return Budget(found.metadata.namespace, selector, status.disruptions_allowed, status.disrupted_pods.keys())


def concerning(pods: Iterable[PodInfo], budgets: Sequence[Budget]) -> list[Budget]:
    """Return the budgets in the namespaces of these pods: no other can be broken by evicting one of them."""
    namespaces = {pod.namespace for pod in pods}
    return [budget for budget in budgets if budget.namespace in namespaces]


def split_by_violation(pods: Iterable[PodInfo], budgets: Sequence[Budget]) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return the pods whose eviction would break a budget if those before them were evicted too, and the others."""
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        breaks = False
        for index, budget in enumerate(budgets):
            if budget.covers(pod):
                left[index] -= 1
                breaks = breaks or left[index] < 0
        (violating if breaks else others).append(pod)
    return violating, others
