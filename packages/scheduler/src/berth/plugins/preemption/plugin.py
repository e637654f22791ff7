"""The DefaultPreemption plugin; see the package's docstring."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, final

import msgspec
import numpy as np

from berth.api.recent import Recent
from berth.config.errors import invalid
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.effects import Steps
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.evictions import group_key
from berth.framework.extenders import Extender, interested
from berth.framework.handle import Handle
from berth.framework.interface import (
    EventsPlugin,
    GroupQuestion,
    PodGroupInfo,
    PodGroupPostFilterPlugin,
    PostFilterAnswer,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
)
from berth.framework.promises import Promises
from berth.framework.status import Status, error, unresolvable, unschedulable
from berth.plugins.preemption.budgets import Budgets
from berth.plugins.preemption.choice import cheapest
from berth.plugins.preemption.dry_run import PLUGIN, DryRun
from berth.plugins.preemption.eligibility import RowArray, ineligibility, rows_to_try
from berth.plugins.preemption.extenders import narrow
from berth.plugins.preemption.groups import GroupPreemption
from berth.plugins.preemption.outcomes import DryRunOutcomes
from berth.plugins.preemption.post_filter import NO_CANDIDATE, NO_NODES, nominated_row, wanted_candidates, why_not
from berth.plugins.preemption.ranked_pods import RankedPods
from berth.plugins.preemption.refused import LowestPriorities, RefusedRows
from berth.plugins.preemption.search import CandidateSearch, Refusals, candidates_plainly
from berth.state.pod_groups import POD_GROUP, group_of
from berth.state.pod_info import PodInfo, PodShape


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """On how many nodes preemption is tried: a percentage of those where it may help, and a minimum."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: str) -> Iterable[str]:
        """Refuse numbers out of range, and two zeros."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        percentage_path, absolute_path = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
        if not 0 <= percentage <= 100:
            yield invalid(percentage_path, percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == 0 and absolute == 0:
            yield invalid(percentage_path, 0, "cannot be zero at the same time as minCandidateNodesAbsolute")
            yield invalid(absolute_path, 0, "cannot be zero at the same time as minCandidateNodesPercentage")

    def wanted_candidates(self, node_count: int) -> int:
        """Return how many candidates are enough, given the number of nodes where preemption may help."""
        return wanted_candidates(node_count, self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute)


MAX_REFUSED = 192
"""For how many shapes of pods it is kept which rows cannot be freed; each costs 2 bytes a node."""

MAX_OUTCOMES = 16
"""For how many shapes of pods it is kept which rows can be freed; each costs 49 bytes a node."""

PREFIX = "preemption: "
GATED = "waiting for the preemption for this pod to be finished"
GROUP_GATED = "waiting for the preemption for this pod group to be finished"
GROUP_GONE = "preemption: pod group for pod not found"
BY_PLACEMENT = "preemption: not eligible due to placement-based pod group scheduling limitation"
FOR_GROUPS = "preemption: not eligible due to workload aware preemption enabled"

_GATED = unresolvable(GATED)
_GROUP_GATED = unresolvable(GROUP_GATED)


@final
class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, PodGroupPostFilterPlugin, EventsPlugin):
    """PreEnqueue, PostFilter; the latter for groups too."""

    name: ClassVar[str] = "DefaultPreemption"
    args_type: ClassVar[type[msgspec.Struct]] = DefaultPreemptionArgs
    promises: ClassVar[Promises] = Promises(gates_preemptors=True, hints_by_shape=True)

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._table = handle.cache.table
        self._budgets = Budgets(handle.objects)
        self._ranked_pods = RankedPods(self._table)
        self._lowest = LowestPriorities(self._table)
        self._refused: Recent[PodShape, RefusedRows] = Recent(MAX_REFUSED)
        self._outcomes: Recent[PodShape, DryRunOutcomes] = Recent(MAX_OUTCOMES)
        self._no_help: tuple[int, PostFilterAnswer | None] = (-1, None)
        """The last answer of this kind, with how many nodes there were."""
        self._gates = handle.features.enabled("SchedulerAsyncPreemption")
        self._places_groups = handle.features.enabled("TopologyAwareWorkloadScheduling")
        self._preempts_for_groups = handle.features.enabled("WorkloadAwarePreemption")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold a pod back until the watch shows its victims going."""
        if not self._gates:
            return None
        group = group_of(pod)
        if group is not None and self._handle.evictions.is_under_way(group_key(group)):
            return _GROUP_GATED
        return _GATED if self._handle.evictions.is_under_way(pod.uid) else None

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none; an ineligible pod keeps its nomination."""
        barred = self._bar_of_groups(pod)
        if barred:
            return None, unschedulable(barred)
        self._handle.evictions.note_search()
        nominated = nominated_row(self._handle, pod)
        refusal = ineligibility(pod, nominated, diagnosis, self._table, self._handle.evictions)
        if refusal is not None:
            kept = nominated is not None or not pod.status.nominated_node_name
            return None if kept else PostFilterResult(""), unschedulable(f"{PREFIX}{refusal}")
        if not len(self._table):
            return None, error(f"{PREFIX}{NO_NODES}")
        rows = rows_to_try(diagnosis, self._table)
        extenders = interested(self._handle.profile().extenders, "preempt", pod) if len(rows) else []
        if extenders:
            return self._search_with(extenders, state, pod, rows)
        return self._search(state, pod, rows) if len(rows) else self._of_no_help()

    def pod_group_post_filter(
        self, group: PodGroupInfo, question: GroupQuestion
    ) -> Steps[tuple[PodInfo, ...] | Status]:
        """Name the victims for a whole group, or say why preemption would not help."""
        handle = self._handle
        preemption = GroupPreemption(
            handle.cache, handle.objects, handle.nominator, handle.evictions, self._budgets.all(), group
        )
        return (yield from preemption.victims(question))

    def _bar_of_groups(self, pod: PodInfo) -> str:
        """Say why a pod may not preempt others by itself because of the group it belongs to; "" where it may."""
        key = group_of(pod)
        if key is None:
            return ""
        if self._places_groups:
            found = self._handle.objects.get(POD_GROUP, key.name, key.namespace)
            if found is None:
                return GROUP_GONE
            if found.spec.scheduling_constraints is not None:
                return BY_PLACEMENT  # it would preempt anew for each placement that is tried
        return FOR_GROUPS if self._preempts_for_groups else ""

    def _search(self, state: CycleState, pod: PodInfo, rows: RowArray) -> PostFilterAnswer:
        """Try the rows, starting at a random one, until there are enough candidates; or know that there are none."""
        start, refused = self._handle.rng.randrange(len(rows)), self._refused_for(pod)
        basis = self._handle.profile().basis(state, pod) if refused is not None else None

        def search(outcomes: DryRunOutcomes | None = None) -> CandidateSearch:
            return CandidateSearch(
                state, pod, self._handle.profile(), self._budgets.all(), self._ranked_pods, self._lowest, outcomes
            )

        def refusals(rows: RowArray) -> Refusals | None:
            return search().refusals(rows)

        if refused is not None and basis is not None and refused.still_hold(basis, rows, refusals):
            state.work.spend(PLUGIN, refused.steps)
        else:
            before = state.work.spent
            outcomes = None if basis is None else self._outcomes_for(pod, basis)
            in_order = np.concatenate((rows[start:], rows[:start]))
            found = search(outcomes).best(in_order, self._args.wanted_candidates(len(rows)))
            if found.best is not None:
                return PostFilterResult(self._table.names[found.best.row], found.best.victims), None
            if refused is None or basis is None:
                return self._why_not(found.refusals)
            if not refused.learn(basis, rows, known := tuple(found.refusals), state.work.spent - before):
                return self._why_not(known)
        return refused.answer(self._why_not)

    def _refused_for(self, pod: PodInfo) -> RefusedRows | None:
        """Return what is known of rows that cannot be freed for pods like this one; None where nothing may be kept.

        A pod that is nominated is not like the others of its shape: it need not make way for itself.
        """
        if pod.shape.is_large or self._handle.nominator.node_of(pod.uid) is not None:
            return None
        known = self._refused.get(pod.shape)
        if known is None:
            known = RefusedRows(self._table, self._handle.nominator)
            self._refused.put(pod.shape, known, pod.shape.size)
        return known

    def _outcomes_for(self, pod: PodInfo, basis: Hashable) -> DryRunOutcomes:
        """Return what is known of rows for pods like this one, up to date; only where `_refused_for` may be asked."""
        known = self._outcomes.get(pod.shape)
        if known is None:
            known = DryRunOutcomes(self._table, self._handle.nominator, self._ranked_pods, self._budgets)
            self._outcomes.put(pod.shape, known, pod.shape.size)
        known.catch_up(basis, pod.priority)
        return known

    def _search_with(
        self, extenders: Sequence[Extender], state: CycleState, pod: PodInfo, rows: RowArray
    ) -> Steps[PostFilterAnswer]:
        """Find all candidates, have the extenders narrow them, and take the best of those left."""
        rows = np.roll(rows, -self._handle.rng.randrange(len(rows)))
        plain = DryRun(self._handle.profile(), state, pod, self._budgets.all())
        candidates, refusals = candidates_plainly(rows, self._args.wanted_candidates(len(rows)), plain, self._table)
        if not candidates:
            return self._why_not(refusals)
        left = yield from narrow(extenders, state, pod, candidates, self._table)
        if isinstance(left, Status):
            return None, error(f"{PREFIX}{left.message}")
        if not left:
            return None, unschedulable(f"{PREFIX}{NO_CANDIDATE}")
        best = cheapest(left)
        return PostFilterResult(self._table.names[best.row], best.victims), None

    def _of_no_help(self) -> PostFilterAnswer:
        """Say that no node is worth trying, which depends only on how many there are."""
        nodes, answer = self._no_help
        if answer is None or nodes != len(self._table):
            answer = self._why_not(())
            self._no_help = len(self._table), answer
        return answer

    def _why_not(self, refusals: Refusals) -> PostFilterAnswer:
        """Say why no node can be freed."""
        return why_not(refusals, self._table, PREFIX)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register the deletion of a pod; the plugins that rejected a pod decide whether it helps."""
        return (ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), after_pod_deletion),)


def after_pod_deletion(_pod: PodInfo, _old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
    """Skip: the plugins that rejected the pod decide whether a victim's going helps it."""
    return QueueingHint.SKIP
