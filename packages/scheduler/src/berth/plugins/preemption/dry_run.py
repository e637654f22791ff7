"""Tries out one node through the plain filters: which pods would have to leave for the new one to fit there?

All pods of lower priority are taken off the node. If the pod then fits, they are put back one by one as long as it
still does: first those whose eviction would break a disruption budget, then the others, the most important first each
time. A pod that cannot be put back is a victim. This is the specification; `columns.py` must agree with it.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import force_setattr

from berth.api.read_only import ReadOnlyDict
from berth.framework.cycle_state import CycleState
from berth.framework.preemption import VictimCost, VictimRules, VictimSets
from berth.framework.profile_view import ProfileView
from berth.framework.status import Code, Status, error, is_success, unresolvable
from berth.framework.work_budget import WorkBudget, steps_to_filter
from berth.plugins.preemption.budgets import Budget, concerning, split_by_violation
from berth.plugins.preemption.choice import Candidate, by_importance
from berth.state.node_view import NodeView
from berth.state.pod_info import PodInfo

PLUGIN = "DefaultPreemption"

NO_VICTIMS = "No preemption victims found for incoming pod"
NO_VICTIM_NEEDED = 'expected at least one victim pod on node "{}"'

NO_VICTIMS_FOUND = unresolvable(NO_VICTIMS)


class WhatIfNode(NodeView, frozen=True, eq=False):
    """A copy of a node on which pods come and go in place. A new `NodeView` for every pod would cost too much."""

    @classmethod
    def of(cls, node: NodeView) -> "WhatIfNode":
        """Return a copy of a node."""
        fields = msgspec.structs.asdict(node)
        return cls(**fields | {"pods": ReadOnlyDict(node.pods), "requested": ReadOnlyDict(node.requested)})

    def put(self, pod: PodInfo) -> None:
        """Add a pod."""
        dict.__setitem__(self.pods, pod.uid, pod)
        self._count(pod, 1)

    def take(self, pod: PodInfo) -> None:
        """Take a pod off."""
        dict.__delitem__(self.pods, pod.uid)
        self._count(pod, -1)

    def _count(self, pod: PodInfo, sign: int) -> None:
        for resource, amount in pod.requests.items():
            dict.__setitem__(self.requested, resource, self.requested.get(resource, 0) + sign * amount)
        cpu_milli, memory_bytes = pod.scoring_requests
        before_cpu, before_memory = self.scoring_requested
        after = before_cpu + sign * cpu_milli, before_memory + sign * memory_bytes
        force_setattr(self, "scoring_requested", after)


class _Stopped(Exception):  # noqa: N818 - not an error: it ends a what-if that a plugin cannot follow
    """A plugin could not follow a pod that came or went."""

    def __init__(self, status: Status) -> None:
        self.status = status


class DryRun:
    """What-ifs about one pod, node by node."""

    __slots__ = ("_budgets", "_cost", "_pod", "_profile", "_rules", "_state", "_steps", "vacant")

    def __init__(
        self,
        profile: ProfileView,
        state: CycleState,
        pod: PodInfo,
        budgets: Sequence[Budget],
        rules: VictimRules | None = None,
        cost: VictimCost | None = None,
    ) -> None:
        """`rules` say which pods may have to leave; without them, those of lower priority. `cost` is the cost of the
        victims.
        """
        self.vacant: list[int] = []
        """The rows tried so far from which no pod may be evicted, by the rules or for lack of such pods."""
        self._rules = rules
        self._cost = cost
        self._profile = profile
        self._state = state
        self._pod = pod
        self._budgets = budgets
        self._steps = steps_to_filter(pod)

    @property
    def work(self) -> WorkBudget:
        """The budget of the attempt."""
        return self._state.work

    def on(self, node: NodeView) -> Candidate | Status:
        """Return the pods that would have to leave the node, or why it cannot be freed."""
        potential = self._potential(node) or NO_VICTIMS_FOUND
        if isinstance(potential, Status):
            if potential.code is not Code.ERROR:
                self.vacant.append(node.row)
            return potential
        if not isinstance(potential, VictimSets):
            return self._without(node, potential)
        found: Candidate | Status = NO_VICTIMS_FOUND
        for each in potential.sets:
            found = self._without(node, potential) if (potential := list(each)) else NO_VICTIMS_FOUND
            if isinstance(found, Candidate):
                break
        return found

    def _without(self, node: NodeView, potential: Sequence[PodInfo]) -> Candidate | Status:
        """Return which of these pods would have to leave, or why the pod does not fit even without them."""
        self._spend_on(node, len(potential))
        trial = _Trial(self._profile, self._state.clone(), self._pod, WhatIfNode.of(node), self._rules)
        try:
            return self._tried(trial, by_importance(potential))
        except _Stopped as stopped:
            return stopped.status

    def _potential(self, node: NodeView) -> Sequence[PodInfo] | VictimSets | Status:
        """Return the pods that may have to leave a node, or why it cannot be freed."""
        if self._rules is None:
            return [other for other in node.pods.values() if other.priority < self._pod.priority]
        found = self._rules.potential_victims(self._state, self._pod, node)
        return found if isinstance(found, Status | VictimSets) else list(found)

    def _spend_on(self, node: NodeView, potential: int) -> None:
        """Spend the steps for removing every pod once; putting each back is paid for when it happens."""
        steps = potential * (self._steps // 2) + self._steps
        self._state.work.spend(PLUGIN, steps, lambda: f"which looks for pods to evict on node {node.name}")

    def _tried(self, trial: "_Trial", potential: Sequence[PodInfo]) -> Candidate | Status:
        for other in potential:
            trial.take(other)
        status = trial.status()
        if status is not None:
            return status
        budgets = concerning(potential, self._budgets)
        self._state.work.spend(PLUGIN, len(self._budgets) // 8 + len(potential) * len(budgets) // 2)
        violating, others = split_by_violation(potential, budgets)
        must_go = [other for other in violating if not trial.spares(other)]
        violations = len(must_go)
        must_go += [other for other in others if not trial.spares(other)]
        if not must_go:
            return error(NO_VICTIM_NEEDED.format(trial.node.name))
        uids = {other.uid for other in must_go}
        victims = tuple(other for other in potential if other.uid in uids)
        return self.priced(Candidate(trial.node.row, victims, violations))

    def priced(self, candidate: Candidate) -> Candidate:
        """Return a candidate with what its victims cost by the rules, if they say."""
        if self._cost is None:
            return candidate
        node = self._profile.table.view(candidate.row)
        return candidate._replace(by_rules=self._cost(self._state, self._pod, node, candidate.victims))


class _Trial:
    """One node in a what-if, with the CycleState that goes with it."""

    __slots__ = ("_pod", "_profile", "_rules", "_state", "node")

    def __init__(
        self, profile: ProfileView, state: CycleState, pod: PodInfo, node: WhatIfNode, rules: VictimRules | None
    ) -> None:
        self.node = node
        self._rules = rules
        self._profile = profile
        self._state = state
        self._pod = pod

    def take(self, other: PodInfo) -> None:
        """Take a pod off."""
        self.node.take(other)
        self._follow(self._profile.run_remove_pod(self._state, self._pod, other, self.node))

    def put(self, other: PodInfo) -> None:
        """Put a pod back."""
        self.node.put(other)
        self._follow(self._profile.run_add_pod(self._state, self._pod, other, self.node))

    def spares(self, other: PodInfo) -> bool:
        """Put a pod back if the new one still fits with it; say whether it does."""
        self._state.work.spend(PLUGIN, 2 * steps_to_filter(self._pod))
        self.put(other)
        by_filters = self._said_by_filters()
        if by_filters is None and self._refusal() is None:
            return True
        self.take(other)
        refusal = None if by_filters is None else self._refusal()
        if refusal is not None and refusal.code is Code.ERROR:
            raise _Stopped(refusal)
        return False

    def status(self) -> Status | None:
        """Return why the pod does not fit in the node's present state, with and without the pods nominated to it."""
        return self._said_by_filters() or self._refusal()

    def _said_by_filters(self) -> Status | None:
        return self._profile.run_filter_beside_nominated(self._state, self._pod, self.node)

    def _refusal(self) -> Status | None:
        return None if self._rules is None else self._rules.refusal(self._state, self._pod, self.node)

    def _follow(self, status: Status | None) -> None:
        if not is_success(status):
            assert status is not None
            raise _Stopped(error(*status.reasons))
