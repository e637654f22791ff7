"""BudgetSafePreemption: preemption that breaks no PodDisruptionBudget, and weighs which nodes the pod prefers.

DefaultPreemption prefers nodes where no budget is broken, and breaks one where there is no other; which node it frees
does not depend on what the pod prefers. Here a pod stays pending rather than break a budget. Of the nodes that can be
freed that one is, whose most important victim has the lowest priority, less the pod's preference for the node times a
weight: the sum of the weights of its preferred node affinity terms.

Where a budget allows for some of its pods on a node but not for all, every largest set of pods that may go together is
tried, the least important first, up to `maxVictimSets`. Victims count against their budgets from when they are chosen,
until the API server shows the budget anew after they are gone: two pods that preempt at once do not spend an allowance
twice. Enabled in place of DefaultPreemption; whole pod groups are not preempted for.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, final

import msgspec

from berth.plugin import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EventsPlugin,
    Handle,
    LabelSelector,
    NodeView,
    PodInfo,
    PostFilterAnswer,
    PostFilterPlugin,
    Promises,
    QueueingHint,
    Selector,
    SelectorError,
    Status,
    Steps,
    VictimRules,
    VictimSets,
    compile_selector,
    invalid,
    queue_if,
    unresolvable,
    unschedulable,
)

NO_LOWER = "no pod of lower priority to preempt"
ALL_PROTECTED = "disruption budgets protect all {count} pod(s) of lower priority"
BUDGETS = "PodDisruptionBudget"


class BudgetSafePreemptionArgs(msgspec.Struct, frozen=True, rename="camel"):
    """On how many nodes preemption is tried out, as for DefaultPreemption, and what preferences count."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    preferred_nodes_weight: float = 1.0
    """How much higher the priority of victims may be for each point of the pod's preference; 0 leaves it out."""
    max_victim_sets: int = 100
    """How many sets of pods are tried on a node at most."""

    def validate(self, path: str) -> Iterable[str]:
        """Refuse numbers out of range."""
        if not 0 <= self.min_candidate_nodes_percentage <= 100:
            yield invalid(
                f"{path}.minCandidateNodesPercentage",
                self.min_candidate_nodes_percentage,
                "not in valid range [0, 100]",
            )
        if self.min_candidate_nodes_absolute < 1:
            yield invalid(f"{path}.minCandidateNodesAbsolute", self.min_candidate_nodes_absolute, "must be at least 1")
        if not 0 <= self.preferred_nodes_weight < 2**31:
            yield invalid(f"{path}.preferredNodesWeight", self.preferred_nodes_weight, "must be at least 0")
        if self.max_victim_sets < 1:
            yield invalid(f"{path}.maxVictimSets", self.max_victim_sets, "must be at least 1")


class Budget(NamedTuple):
    """A disruption budget, and how many pods may go by it now."""

    key: str
    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """The names of pods that go already, which the allowance does not contain any more."""

    def covers(self, pod: PodInfo) -> bool:
        """Say whether evicting the pod takes from the budget. A pod without labels is in no budget."""
        if pod.namespace != self.namespace or not pod.labels or pod.name in self.disrupted:
            return False
        return self.selector.matches(pod.labels)


class Spent(NamedTuple):
    """A pod that was chosen as a victim, and the version of each budget that it counted against then."""

    pod: PodInfo
    versions: dict[str, str]


def preference(pod: PodInfo, node: NodeView) -> int:
    """Return the sum of the weights of the pod's preferred node affinity terms that a node matches."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity:
        return 0
    total = 0
    for term in affinity.preferred:
        try:
            total += term.weight if term.preference.matches(node.labels, node.name) else 0
        except SelectorError:
            continue  # a term that cannot be read prefers no node
    return total


def largest_sets(pods: Sequence[PodInfo], budgets: Sequence[Budget]) -> Iterator[list[PodInfo]]:
    """Yield every set of pods that breaks no budget, and to which no other of the pods could be added.

    The first sets have the pods that come first in `pods`.
    """
    covering = [[index for index, budget in enumerate(budgets) if budget.covers(pod)] for pod in pods]
    left = [budget.allowed for budget in budgets]
    taken: list[PodInfo] = []
    passed: list[int] = []
    waiting = [0] * len(budgets)
    """How many of the pods that are still to be looked at each budget covers."""
    for each in covering:
        for index in each:
            waiting[index] += 1

    def can_be_largest() -> bool:
        # A pod that was passed over must find one of its budgets used up in the end, or it could be added.
        return all(any(left[index] <= waiting[index] for index in covering[place]) for place in passed)

    def choose(place: int) -> Iterator[list[PodInfo]]:
        if place == len(pods):
            if all(any(left[index] <= 0 for index in covering[other]) for other in passed):
                yield list(taken)
            return
        mine = covering[place]
        for index in mine:
            waiting[index] -= 1
        fits = all(left[index] > 0 for index in mine)
        if fits:
            for index in mine:
                left[index] -= 1
            taken.append(pods[place])
            yield from choose(place + 1)
            taken.pop()
            for index in mine:
                left[index] += 1
        if mine:
            passed.append(place)
            if can_be_largest():
                yield from choose(place + 1)
            passed.pop()
        for index in mine:
            waiting[index] += 1

    return choose(0)


@final
class BudgetSafePreemption(PostFilterPlugin, EventsPlugin, VictimRules):
    """PostFilter."""

    name: ClassVar[str] = "BudgetSafePreemption"
    args_type: ClassVar[type[msgspec.Struct]] = BudgetSafePreemptionArgs
    promises: ClassVar[Promises] = Promises()

    def __init__(self, args: BudgetSafePreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._objects = handle.objects
        self._cache = handle.cache
        self._preemption = handle.preemption(
            self, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute, cost=self.cost,
            basis=self.basis, refusal_basis=self.preferences,
        )  # fmt: skip
        self._spent: dict[str, Spent] = {}
        self._budgets: list[Budget] = []
        """The budgets as of the search under way."""

    def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none."""
        self._budgets = self._allowances()
        answer = self._preemption.post_filter(state, pod, diagnosis)
        result, status = answer if isinstance(answer, tuple) else (yield from answer)
        if status is not None:
            # Filters have rejected the pod, and what helps them wakes it. So does what helps here: a budget.
            diagnosis.note_plugin(status.by(self.name))
        for victim in () if result is None else result.victims:
            versions = {budget.key: self._version(budget.key) for budget in self._budgets if budget.covers(victim)}
            if versions:
                self._spent[victim.uid] = Spent(victim, versions)
        return result, status

    def potential_victims(
        self, state: CycleState, pod: PodInfo, node: NodeView
    ) -> Sequence[PodInfo] | VictimSets | Status:
        """Return the pods of lower priority that may go: all of them, or the largest sets that break no budget."""
        lower = [other for other in node.pods.values() if other.priority < pod.priority]
        if not lower:
            return unresolvable(NO_LOWER)
        budgets = [budget for budget in self._budgets if any(budget.covers(other) for other in lower)]
        state.work.spend(self.name, len(self._budgets) // 8 + len(lower) * len(budgets) // 2)
        tight = [budget for budget in budgets if sum(map(budget.covers, lower)) > budget.allowed]
        if not tight:
            return lower
        barred = [b for b in tight if b.allowed <= 0]
        lower = [other for other in lower if not any(budget.covers(other) for budget in barred)]
        if not lower:
            covered = sum(other.priority < pod.priority for other in node.pods.values())
            return unschedulable(ALL_PROTECTED.format(count=covered))
        return VictimSets(self._sets(state, node, lower, tight))

    def _sets(
        self, state: CycleState, node: NodeView, lower: Sequence[PodInfo], budgets: Sequence[Budget]
    ) -> Iterator[list[PodInfo]]:
        free = [other for other in lower if not any(budget.covers(other) for budget in budgets)]
        contested = sorted((other for other in lower if other not in free), key=lambda other: other.priority)
        for number, found in enumerate(largest_sets(contested, budgets)):
            if number == self._args.max_victim_sets:
                return
            state.work.spend(self.name, len(contested), lambda: f"which chooses among pods on node {node.name}")
            yield [*free, *found]

    def basis(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return what potential victims depend on: the pod's priority, and the budgets.

        A budget that allows for more pods than any node has protects none, however many more these are.
        """
        table = self._cache.table
        most = int(table.pod_count[table.rows()].max(initial=0))
        return pod.priority, tuple([budget._replace(allowed=min(budget.allowed, most)) for budget in self._budgets])

    def preferences(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Return what the cost of a node depends on, beside its victims: what the pod prefers."""
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        return affinity.preferred if affinity else ()

    def cost(self, state: CycleState, pod: PodInfo, node: NodeView, victims: Sequence[PodInfo]) -> float:
        """Return the priority of the most important victim, less the weighted preference for the node."""
        return victims[0].priority - self._args.preferred_nodes_weight * preference(pod, node)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A budget that allows for more helps where pods were protected, and so does one that is gone."""
        return [
            ClusterEventWithHint(ClusterEvent(BUDGETS, Action.DELETE)),
            ClusterEventWithHint(ClusterEvent(BUDGETS, Action.ADD | Action.UPDATE), self._after_budget),
        ]

    def _after_budget(self, pod: PodInfo, old: Any, new: Any) -> QueueingHint:
        """A budget helps that allows for more, selects other pods, or has been looked at by its controller."""
        if old is None or new is None:
            return QueueingHint.SKIP
        is_seen = new.status.observed_generation > old.status.observed_generation
        allows_more = new.status.disruptions_allowed > old.status.disruptions_allowed
        return queue_if(is_seen or allows_more or new.spec.selector != old.spec.selector)

    def _allowances(self) -> list[Budget]:
        """Return the budgets that select anything, with what victims that were chosen leave of their allowance."""
        found = []
        for each in self._objects.list(BUDGETS):
            try:
                selector = compile_selector(each.spec.selector)
            except SelectorError:
                continue
            if not selector.nothing and each.spec.selector != LabelSelector():  # which covers no pod here
                meta, status = each.metadata, each.status
                key = f"{meta.namespace}/{meta.name}"
                disrupted = frozenset(status.disrupted_pods)
                # Where the controller has not seen the budget as it is now, nobody knows what it allows for.
                allowed = 0 if status.observed_generation < meta.generation else status.disruptions_allowed
                budget = Budget(key, meta.namespace, selector, allowed, disrupted)
                found.append(budget._replace(allowed=budget.allowed - self._counted(budget, meta.resource_version)))
        for uid in [uid for uid, spent in self._spent.items() if not spent.versions]:
            del self._spent[uid]
        return found

    def _counted(self, budget: Budget, version: str) -> int:
        """Return how many victims the allowance still contains; those that it does not are forgotten."""
        count = 0
        for uid, spent in self._spent.items():
            known = spent.versions.get(budget.key)
            if known is None:
                continue
            if self._cache.state_of(uid) is None and version != known:
                del spent.versions[budget.key]  # the budget was counted anew since
            elif spent.pod.name not in budget.disrupted:
                count += 1
        return count

    def _version(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        found = self._objects.get(BUDGETS, name, namespace)
        return "" if found is None else str(found.metadata.resource_version)
