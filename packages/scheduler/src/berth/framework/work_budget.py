"""The budget of work of one scheduling attempt: expensive work spends it, and when it is used up the attempt ends.

One object, hostile or merely unlucky, must not keep the scheduler from all other pods. So anything that may take long
because of an object's contents (a search for devices, an expression, a what-if for each running pod) spends steps of
the attempt's budget as it goes, over all nodes together. The budget is counted in steps and not in seconds, so the same
attempt ends in the same way on every machine and in every replay.

The cycle makes one budget for each attempt. Plugins find it in `CycleState.work`, what-ifs included:

    state.work.spend(self.name, len(candidates), lambda: f"comparing racks for node {node.name}")

`spend` raises `OutOfBudgetError` when nothing is left. A plugin lets it propagate: the pod's condition says which
plugin used the budget, and on what, and the pod is tried again after its backoff.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from berth.state.pod_info import PodInfo

DEFAULT_STEPS = 2_000_000
"""How many steps an attempt may take; a step is about a microsecond's work of one core. See docs/operations.md."""

STEPS_PER_SECOND = 1_000_000
"""How a limit in seconds translates into steps, so that it applies at the same point on every machine."""

STEPS_TO_TELL = STEPS_PER_SECOND // 10
"""The steps for working out an explanation for people, since nothing is scheduled meanwhile."""

STEPS_PER_NODE = 2
"""What the engine spends for a call of a plain form about one node, the view of the node included."""


def steps_to_filter(pod: PodInfo) -> int:
    """Return the steps for asking all filters about one node in their plain forms, for this pod.

    The plain forms go through the pod's spec, so a large pod costs more on each node.
    """
    found = pod.fragments.get(_STEPS_TO_FILTER)
    if not isinstance(found, int):
        found = pod.fragments[_STEPS_TO_FILTER] = 10 + _said_by(pod)
    return found


_STEPS_TO_FILTER = "steps to filter"


def _said_by(pod: PodInfo) -> int:
    spec, affinity = pod.spec, pod.spec.affinity
    count = len(spec.topology_spread_constraints) + len(spec.tolerations) + len(spec.node_selector) + len(spec.volumes)
    if affinity is None:
        return count
    for pods in (affinity.pod_affinity, affinity.pod_anti_affinity):
        count += 0 if pods is None else len(pods.required)
    if affinity.node_affinity is not None and affinity.node_affinity.required is not None:
        terms = affinity.node_affinity.required.node_selector_terms
        count += sum(1 + len(term.match_expressions) + len(term.match_fields) for term in terms)
    return count


class OutOfBudgetError(Exception):
    """An attempt has used up its budget of work; the text says which plugin used most of it."""


class WorkBudget:
    """How much work one attempt may still do, and which plugin has done how much."""

    __slots__ = ("_left", "_limit", "_spent", "_told")

    def __init__(self, limit: int = DEFAULT_STEPS) -> None:
        self._limit = limit
        self._left = limit
        self._spent: dict[str, int] = {}
        self._told = ""

    @property
    def limit(self) -> int:
        """How many steps there are for the attempt."""
        return self._limit

    @property
    def spent(self) -> int:
        """How many steps were taken so far; more than the limit if the last spender asked for more than was left."""
        return self._limit - self._left

    @property
    def by_plugin(self) -> Mapping[str, int]:
        """How many steps each plugin took so far."""
        return MappingProxyType(self._spent)

    @property
    def verdict(self) -> str:
        """Why the attempt has to end; the empty string while anything is left."""
        return self._told

    @property
    def most(self) -> str:
        """The plugin that has used most; to be asked only once something was spent."""
        return max(self._spent, key=lambda name: self._spent[name])

    def spend(self, plugin: str, steps: int, on: Callable[[], str] | None = None) -> None:
        """Spend steps for work that is about to be done. Raises `OutOfBudgetError` if it is more than is left.

        `on` says what the plugin is doing, to follow the plugin's name; it is called only when the budget is used up.
        """
        spent = self._spent
        spent[plugin] = spent.get(plugin, 0) + steps
        self._left -= steps
        if self._left < 0:
            raise OutOfBudgetError(self._why(plugin, on))

    def _why(self, plugin: str, on: Callable[[], str] | None) -> str:
        """Name the plugin that used most; the first verdict stays, whichever plugin asks for more later."""
        if not self._told:
            most = self.most
            doing = f", {on()}" if on is not None and most == plugin else ""
            self._told = f"gave up after {self.limit} steps of work: {self._spent[most]} of them by {most}{doing}"
        return self._told
