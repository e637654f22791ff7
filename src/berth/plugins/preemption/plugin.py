"""The DefaultPreemption plugin; see the package's docstring."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec
import numpy as np

from berth.framework.cycle_state import CycleState
from berth.framework.diagnosis import Diagnosis
from berth.framework.events import Action, ClusterEvent, ClusterEventWithHint, QueueingHint
from berth.framework.handle import Handle
from berth.framework.interface import PostFilterResult
from berth.framework.status import Code, Status, error, unresolvable, unschedulable
from berth.plugins.preemption.args import DefaultPreemptionArgs
from berth.plugins.preemption.budgets import Budgets
from berth.plugins.preemption.choice import Candidate, Shortlist, cheapest
from berth.plugins.preemption.dry_run import DryRun
from berth.plugins.preemption.eligibility import RowArray, ineligibility, rows_to_try
from berth.state.pod_info import PodInfo

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_NODES = "no nodes available"
GATED = "waiting for the preemption for this pod to be finished"

_NOT_HELPFUL = unresolvable(NOT_HELPFUL)
_GATED = unresolvable(GATED)


class DefaultPreemption:
    """PreEnqueue, PostFilter."""

    name: ClassVar[str] = "DefaultPreemption"
    args_type: ClassVar[type[msgspec.Struct]] = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._table = handle.cache.table
        self._budgets = Budgets(handle.objects)
        self._gates = handle.features.enabled("SchedulerAsyncPreemption")

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Hold a pod back while the API server is still being asked to evict its victims."""
        return _GATED if self._gates and self._handle.evictions.is_under_way(pod.uid) else None

    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Name the node to free and who must go, or say why none can be; who may not ask keeps its nomination."""
        nominated = self._nominated_row(pod)
        refusal = ineligibility(pod, nominated, diagnosis, self._table)
        if refusal is not None:
            kept = nominated is not None or not pod.status.nominated_node_name
            return None if kept else PostFilterResult(""), unschedulable(f"preemption: {refusal}")
        if not len(self._table):
            return None, error(f"preemption: {NO_NODES}")
        shortlist, outcome = self._find(state, pod, rows_to_try(diagnosis, self._table))
        candidates = shortlist.all()
        if candidates:
            best = cheapest(candidates)
            return PostFilterResult(self._table.names[best.row], best.victims), None
        broken = [group.status.message for group in outcome.groups if group.status.code is Code.ERROR]
        if broken:
            return None, error(f"preemption: {_together(broken)}")
        return PostFilterResult(""), unschedulable(f"preemption: {outcome.message()}")

    def _nominated_row(self, pod: PodInfo) -> int | None:
        """Return the row of the node that the pod is nominated to, if there is such a node."""
        name = self._handle.nominator.node_of(pod.uid) or pod.status.nominated_node_name
        row = self._table.row_of.get(name)
        return row if row is not None and self._table.valid[row] else None

    def _find(self, state: CycleState, pod: PodInfo, rows: RowArray) -> tuple[Shortlist, Diagnosis]:
        """Try the rows, from a random one on, until there are candidates enough; say why others cannot be freed."""
        outcome = Diagnosis(len(self._table), self._table.names.__getitem__)
        outcome.absent_status = _NOT_HELPFUL
        shortlist = Shortlist(self._args.wanted_candidates(len(rows)))
        if not len(rows):
            return shortlist, outcome
        offset = self._handle.rng.randrange(len(rows))
        refusals: dict[Status, list[int]] = {}
        for row, found in self._tries(state, pod, np.roll(rows, -offset)):
            if isinstance(found, Status):
                refusals.setdefault(found, []).append(row)
                continue
            shortlist.add(found)
            if shortlist.is_full:
                break
        for status, refused in refusals.items():
            outcome.add(status, np.array(refused, dtype=np.intp))
        return shortlist, outcome

    def _tries(self, state: CycleState, pod: PodInfo, rows: RowArray) -> Iterable[tuple[int, Candidate | Status]]:
        dry_run = DryRun(self._handle.profile(), state, pod, self._budgets.all())
        return ((row, dry_run.on(self._table.view(row))) for row in rows.tolist())

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The departure of a victim; what it helps is for the plugins to say whom it stood in the way of."""
        return (ClusterEventWithHint(ClusterEvent("Pod", Action.DELETE), after_pod_deletion),)


def after_pod_deletion(_pod: PodInfo, _old: PodInfo | None, _new: PodInfo | None) -> QueueingHint:
    """Leave the decision to the plugins that rejected the pod for what the victim had."""
    return QueueingHint.SKIP


def _together(messages: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
