"""What the plugins of a profile say when a stock kube-scheduler asks them as an extender: documents in, documents out.

`ExtenderServer` owns the core behind the answers and calls these between two events. No pod is scheduled here: filter
runs PreFilter and Filter, prioritize PreScore and Score, preempt looks at each node without its victims. The pods that
kube-scheduler has just placed are known here once the watch shows them.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from berth.api.codec import ObjectError, decode
from berth.core.core import Core
from berth.engine.profile import PreFiltered, Profile
from berth.engine.verdicts import Mask
from berth.extender.wire import (
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeList,
    object_name,
)
from berth.framework.cycle_state import CycleState
from berth.framework.extenders import MAX_EXTENDER_PRIORITY
from berth.framework.interface import MAX_NODE_SCORE, FeasibleNodes
from berth.framework.status import Code, Status
from berth.plugins.preemption.budgets import Budgets
from berth.plugins.preemption.choice import Candidate
from berth.plugins.preemption.dry_run import DryRun, WhatIfNode
from berth.state.pod_info import PodInfo, PodShapes

UNKNOWN_NODE = "node is not known to this extender yet"


class AnswerError(Exception):
    """There is no answer; the message is for people, and goes to kube-scheduler's log."""


class ExtenderAnswers:
    """The plugins of one profile of a core, asked from outside."""

    __slots__ = ("_budgets", "_core", "_profile", "_shapes")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._profile: Profile = next(iter(core.profiles.values()))
        self._budgets = Budgets(core.objects)
        self._shapes = PodShapes()

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Say on which of the nodes the pod fits, and why not on the others. Raises `AnswerError`."""
        pod, names = self._pod(args.pod), names_given(args)
        rejected = self._rejected(pod, names)
        hopeless = {
            name: status.message
            for name, status in rejected.items()
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        }
        failed = {name: status.message for name, status in rejected.items() if name not in hopeless}
        kept = [name for name in names if name not in rejected]
        if args.nodes is None:
            return ExtenderFilterResult(None, tuple(kept), failed, hopeless)
        whole = tuple(node for node, name in zip(args.nodes.items, names, strict=True) if name not in rejected)
        return ExtenderFilterResult(NodeList(items=whole), None, failed, hopeless)

    def prioritize(self, args: ExtenderArgs) -> Sequence[HostPriority]:
        """Rank nodes from 0 to 10: what the plugins say on the average, by weight. Raises `AnswerError`."""
        pod, names = self._pod(args.pod), names_given(args)
        state = CycleState()
        self._pre_filtered(state, pod)
        nodes = FeasibleNodes(self._core.cache.table, self._mask(names))
        score_of = self._scores(state, pod, nodes) if nodes.count else {}
        return [HostPriority(name, score_of.get(name, 0)) for name in names]

    def preempt(self, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """Leave the nodes that the pod fits on without the victims and others there. Raises `AnswerError`."""
        pod = self._pod(args.pod)
        state = CycleState()
        self._pre_filtered(state, pod)
        left = {name: self._victims(state, pod, name, victims) for name, victims in _by_uid(args).items()}
        return ExtenderPreemptionResult({name: found for name, found in left.items() if found is not None})

    def _pod(self, raw: msgspec.Raw | None) -> PodInfo:
        if raw is None:
            raise AnswerError("the request has no Pod")
        try:
            pod = decode("Pod", raw)
        except ObjectError as error:
            raise AnswerError(f"the request's Pod cannot be read: {error}") from None
        return PodInfo.of(pod, self._shapes.of(pod))

    def _rejected(self, pod: PodInfo, names: Sequence[str]) -> dict[str, Status]:
        """Return the nodes that the pod does not fit on, each with the status of the first plugin that rejects it."""
        table, state = self._core.cache.table, CycleState()
        known = self._mask(names)
        unknown = Status(Code.UNSCHEDULABLE, (UNKNOWN_NODE,))
        rejected = {name: unknown for name in names if not self._is_known(name)}
        pre = self._pre_filtered(state, pod)
        absent = pre.absent_status
        if absent is not None:
            left = pre.node_names if pre.status is None and pre.node_names is not None else frozenset()
            rejected |= {name: absent for name in names if name not in rejected and name not in left}
            known &= self._mask(left)
        verdicts = self._profile.run_filter(state, pod, table, known)
        for status, rows in verdicts.rejected():
            _stop_at_errors(status)
            rejected |= {table.names[row]: status for row in rows.tolist()}
        _, left_out = self._profile.run_narrow(state, pod, verdicts.feasible())
        for status, rows in left_out:
            rejected |= {table.names[row]: status for row in rows.tolist()}
        return rejected

    def _pre_filtered(self, state: CycleState, pod: PodInfo) -> PreFiltered:
        pre = self._profile.run_pre_filter(state, pod)
        _stop_at_errors(pre.status)
        return pre

    def _scores(self, state: CycleState, pod: PodInfo, nodes: FeasibleNodes) -> dict[str, int]:
        _stop_at_errors(self._profile.run_pre_score(state, pod, nodes))
        scored = self._profile.run_score(state, pod, nodes)
        if isinstance(scored, Status):
            raise AnswerError(f"{scored.plugin}: {scored.message}")
        rows = nodes.row_array()
        weights = sum(scores.weight for scores in scored.by_plugin(rows))
        share = scored.total(rows) * MAX_EXTENDER_PRIORITY / (MAX_NODE_SCORE * max(weights, 1))
        names = (nodes.table.names[row] for row in rows.tolist())
        return dict(zip(names, np.rint(share).astype(int).tolist(), strict=True)) if weights else {}

    def _victims(self, state: CycleState, pod: PodInfo, name: str, given: MetaVictims) -> MetaVictims | None:
        """Return the pods that must leave a node, including those given; None where that would not help."""
        if not self._is_known(name):
            return None
        node, state = WhatIfNode.of(self._core.cache.table.view(self._core.cache.table.row_of[name])), state.clone()
        for uid in [victim.uid for victim in given.pods if victim.uid in node.pods]:
            victim = node.pods[uid]
            node.take(victim)
            _stop_at_errors(self._profile.run_remove_pod(state, pod, victim, node))
        if self._profile.run_filter_beside_nominated(state, pod, node) is None:
            return given
        found = DryRun(self._profile, state, pod, self._budgets.all()).on(node)
        if not isinstance(found, Candidate):
            return None
        more = tuple(MetaPod(victim.uid) for victim in found.victims)
        return MetaVictims(given.pods + more, given.num_pdb_violations + found.violations)

    def _is_known(self, name: str) -> bool:
        table = self._core.cache.table
        return name in table.row_of and bool(table.valid[table.row_of[name]])

    def _mask(self, names: Iterable[str]) -> Mask:
        table = self._core.cache.table
        mask: Mask = np.zeros(table.capacity, dtype=np.bool_)
        mask[[table.row_of[name] for name in names if self._is_known(name)]] = True
        return mask


def names_given(args: ExtenderArgs) -> list[str]:
    """Return the names of the nodes that a request is about, in its order; raises `AnswerError`."""
    if args.nodes is not None:
        return [object_name(node) for node in args.nodes.items]
    if args.node_names is None:
        raise AnswerError("the request has neither Nodes nor NodeNames")
    return list(args.node_names)


def _by_uid(args: ExtenderPreemptionArgs) -> dict[str, MetaVictims]:
    """Return the proposed victims by node and uid, in whichever form they came."""
    if args.node_name_to_meta_victims is not None:
        return args.node_name_to_meta_victims
    found: dict[str, MetaVictims] = {}
    for name, victims in (args.node_name_to_victims or {}).items():
        pods = tuple(MetaPod(decode("Pod", pod).metadata.uid) for pod in victims.pods)
        found[name] = MetaVictims(pods, victims.num_pdb_violations)
    return found


def _stop_at_errors(status: Status | None) -> None:
    if status is not None and status.code is Code.ERROR:
        raise AnswerError(f"{status.plugin}: {status.message}" if status.plugin else status.message)
