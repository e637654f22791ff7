"""Preemption by a plugin's own rules (`berth.framework.preemption`): DefaultPreemption's search with other victims.

Nodes are tried one by one through the plain filters: what a plugin says of single pods cannot be read off columns. So
the result for each is cached, if a plugin says what it depends on (`VictimBasis`), for all pods about which the filters
and the rules say the same; replicas that preempt one after another ask only about changed nodes. That no pod may be
preempted on a node is cached for longer, whatever else the rules depend on, since a crowd that fits nowhere mostly
meets such nodes. The core makes it for plugins that ask for it with `Handle.preemption`. Unlike DefaultPreemption's
own, its messages do not begin with "preemption:".
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.api.recent import Recent
from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import NODES_NAMED, Diagnosis
from berth.framework.effects import Steps
from berth.framework.extenders import Extender, interested
from berth.framework.handle import Handle
from berth.framework.interface import PostFilterAnswer, PostFilterResult
from berth.framework.preemption import VICTIMS_TERMINATING, VictimBasis, VictimCost, VictimRules
from berth.framework.status import Code, Status, error, unschedulable
from berth.plugins.preemption.budgets import Budgets
from berth.plugins.preemption.choice import cheapest
from berth.plugins.preemption.dry_run import NO_VICTIMS_FOUND, PLUGIN, DryRun
from berth.plugins.preemption.eligibility import code_of, rows_to_try
from berth.plugins.preemption.extenders import narrow
from berth.plugins.preemption.outcomes import DryRunOutcomes, KeptRowByRow
from berth.plugins.preemption.post_filter import NO_CANDIDATE, NO_NODES, nominated_row, wanted_candidates, why_not
from berth.plugins.preemption.ranked_pods import EMPTY_PRIORITY, RankedPods
from berth.plugins.preemption.search import Refusals, candidates_plainly, search_by_columns
from berth.state.pod_info import PodInfo
from berth.state.table import Int64

MAX_BASES = 32
"""For so many bases it is kept which rows have no potential victims; each costs 8 bytes a node."""
MAX_OUTCOMES = 16
"""For so many kinds of pods it is kept what was found on each row; each costs 57 bytes a node."""


class PreemptionByRules:
    """PostFilter for a plugin that has rules of its own."""

    __slots__ = (
        "_absolute", "_basis", "_budgets", "_cost", "_handle", "_outcomes", "_percentage", "_ranked_pods",
        "_refusal_basis", "_rules", "_table", "_vacant",
    )  # fmt: skip

    def __init__(
        self,
        handle: Handle,
        rules: VictimRules,
        percentage: int,
        absolute: int,
        cost: VictimCost | None = None,
        basis: VictimBasis | None = None,
        refusal_basis: VictimBasis | None = None,
    ) -> None:
        """`percentage` of the nodes where it may help, and at least `absolute`, are enough candidates."""
        self._cost = cost
        self._basis = basis
        self._refusal_basis = refusal_basis
        self._vacant: Recent[Hashable, Int64] = Recent(MAX_BASES)
        """By basis, the version of each row as of which no pod there could be preempted."""
        self._handle = handle
        self._rules = rules
        self._percentage = percentage
        self._absolute = absolute
        self._table = handle.cache.table
        self._budgets = Budgets(handle.objects)
        self._ranked_pods = RankedPods(self._table)
        self._outcomes: Recent[Hashable, DryRunOutcomes] = Recent(MAX_OUTCOMES)

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterAnswer | Steps[PostFilterAnswer]:
        """Name the node to free and the victims, or say why there is none; an ineligible pod keeps its nomination."""
        self._handle.evictions.note_search()
        row = nominated_row(self._handle, pod)
        is_open = row is not None and code_of(diagnosis, row) is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        nominated = self._table.view(row) if row is not None and is_open else None
        refusal = self._rules.ineligibility(pod, nominated)
        # The rules know the terminating pods; we have to account for those that the watch does not show yet.
        if refusal is None and nominated is not None:
            is_leaving = any(map(self._handle.evictions.is_asked_to_go, nominated.pods))
            refusal = VICTIMS_TERMINATING if is_leaving else None
        if refusal is not None:
            kept = row is not None or not pod.status.nominated_node_name
            return None if kept else PostFilterResult(""), unschedulable(refusal)
        if not len(self._table):
            return None, error(NO_NODES)
        rows = rows_to_try(diagnosis, self._table)
        if not len(rows):
            return why_not((), self._table)
        rows = np.roll(rows, -self._handle.rng.randrange(len(rows)))
        extenders = interested(self._handle.profile().extenders, "preempt", pod)
        return self._search(extenders, state, pod, rows)

    def _search(
        self, extenders: Sequence[Extender], state: CycleState, pod: PodInfo, rows: NDArray[np.intp]
    ) -> Steps[PostFilterAnswer]:
        plain = DryRun(self._handle.profile(), state, pod, self._budgets.all(), self._rules, self._cost)
        wanted = wanted_candidates(len(rows), self._percentage, self._absolute)
        basis = None if self._basis is None else self._basis(state, pod)
        versions = self._versions_without_victims(basis)
        is_vacant = versions[rows] == self._table.version[rows]
        tried = rows[~is_vacant]
        outcomes = None if extenders else self._known(state, pod, basis)
        if outcomes is None:
            candidates, refusals = candidates_plainly(tried, wanted, plain, self._table)
        else:
            kept = KeptRowByRow(outcomes, plain, self._table)
            best = search_by_columns(tried, wanted, kept, plain, self._table).best
            state.work.spend(PLUGIN, kept.owed)
            candidates, refusals = ([], outcomes.refusals(tried)) if best is None else ([best], ())
        versions[plain.vacant] = self._table.version[plain.vacant]
        if not candidates:
            return why_not((*refusals, *self._said_of_vacant(state, pod, rows[is_vacant])), self._table)
        if extenders:
            left = yield from narrow(extenders, state, pod, candidates, self._table)
            if isinstance(left, Status):
                return None, error(left.message)
            if not left:
                return None, unschedulable(NO_CANDIDATE)
            candidates = [plain.priced(one) for one in left]
        best = cheapest(candidates)
        return PostFilterResult(self._table.names[best.row], best.victims), None

    def _versions_without_victims(self, basis: Hashable) -> Int64:
        """Return the version of each row as of which it had no potential victims, for the caller to write on."""
        known = None if basis is None else self._vacant.get(basis)
        if known is None or len(known) != self._table.capacity:
            known = np.full(self._table.capacity, -1, dtype=np.int64)
            if basis is not None:
                self._vacant.put(basis, known, 0)
        return known

    def _known(self, state: CycleState, pod: PodInfo, victims: Hashable) -> DryRunOutcomes | None:
        """Return what is known about rows for pods like this one; None if nothing may be kept.

        A nominated pod is not like the others: it need not make way for itself.
        """
        is_nominated = self._handle.nominator.node_of(pod.uid) is not None
        if victims is None or self._refusal_basis is None or is_nominated or pod.shape.is_large:
            return None
        profile, refusals = self._handle.profile(), self._refusal_basis(state, pod)
        by_filters, answers = profile.basis(state, pod), profile.what_if(state, pod).answers_key
        if by_filters is None or refusals is None:
            return None
        key = answers, pod.priority, victims, refusals
        known = self._outcomes.get(key)
        if known is None:
            known = DryRunOutcomes(self._table, self._handle.nominator, self._ranked_pods, self._budgets)
            self._outcomes.put(key, known, pod.shape.size)
        known.catch_up(by_filters, EMPTY_PRIORITY)
        return known

    def _said_of_vacant(self, state: CycleState, pod: PodInfo, rows: NDArray[np.intp]) -> Refusals:
        """Return why rows that are known to have no potential victims cannot be freed.

        Each has its own message. If there are too many to show, one message is enough.
        """
        for group in rows.reshape(-1, 1) if len(rows) <= NODES_NAMED else [rows]:
            said = self._rules.potential_victims(state, pod, self._table.view(group.item(0)))
            yield said if isinstance(said, Status) else NO_VICTIMS_FOUND, group
