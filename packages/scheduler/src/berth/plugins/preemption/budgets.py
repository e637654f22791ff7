"""PodDisruptionBudgets: which of several pods cannot all be evicted without breaking one."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from berth.api.node import PodDisruptionBudget
from berth.api.recent import Recent, json_size
from berth.api.selectors import EVERYTHING, Selector, SelectorError, compile_selector
from berth.framework.readers import ObjectReader
from berth.state.objects import key_of
from berth.state.pod_info import PodInfo

KIND = "PodDisruptionBudget"

CHANGES_KEPT = 128
"""At most this many changes of budgets are remembered."""


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
    """All budgets, each compiled again only when it has changed."""

    __slots__ = ("_all", "_by_key", "_log", "_objects", "_version", "position")

    def __init__(self, objects: ObjectReader) -> None:
        self._objects = objects
        self._version = -1
        self._by_key: dict[str, Budget] = {}
        self._all: tuple[Budget, ...] = ()
        self._log: Recent[int, Budget] = Recent(CHANGES_KEPT)
        """By position, each budget that was changed or removed, as it was, and each that is new or changed, as it is
        then."""
        self.position = 0
        """How often budgets have come, gone or changed, as far as `all` has seen."""

    def all(self) -> tuple[Budget, ...]:
        """Return the budgets as they are now, without those whose selector selects nothing or cannot be read."""
        version = self._objects.version(KIND)
        if version != self._version:
            changed = None if self._version < 0 else self._objects.changed_since(KIND, self._version)
            if changed is None:
                found = {key_of(one): one for one in self._objects.list(KIND)}
                for key in {**self._by_key, **found}:
                    self._take(key, found.get(key))
            else:
                for key in dict.fromkeys(changed):
                    namespace, _, name = key.rpartition("/")
                    self._take(key, self._objects.get(KIND, name, namespace))
            self._all, self._version = tuple(self._by_key.values()), version
        return self._all

    def changed_since(self, position: int) -> Sequence[Budget] | None:
        """Return the budgets that came, went or changed after a position, as they were; None where it is too old."""
        if self.position - position > CHANGES_KEPT:
            return None
        found = [budget for at in range(position, self.position) if (budget := self._log.get(at)) is not None]
        return found if len(found) == self.position - position else None

    def _take(self, key: str, found: PodDisruptionBudget | None) -> None:
        """Take in a budget as it is now; None where it is gone."""
        before = self._by_key.get(key)
        after = None if found is None else _budget(found)
        if after is None:
            self._by_key.pop(key, None)
        else:
            self._by_key[key] = after
        for budget in (before, after):
            if budget is not None:
                self._log.put(self.position, budget, json_size((budget.selector, list(budget.disrupted))))
                self.position += 1


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
