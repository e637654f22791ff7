"""Extenders in preemption: which of the candidates may be freed, and which pods must go there.

Those that preempt are asked one after the other, each about what those before it left; they may name other victims on
a node. Source of the rules and messages: pkg/scheduler/framework/preemption, callExtenders; pkg/scheduler/extender.go.
"""

from collections.abc import Mapping, Sequence

from berth.framework.cycle_state import CycleState
from berth.framework.effects import Steps
from berth.framework.extenders import Extender, ExtenderCallRecord, NodeVictims, VictimIds, consult, note
from berth.framework.status import Status, error
from berth.plugins.preemption.choice import Candidate, by_importance
from berth.plugins.preemption.dry_run import NO_VICTIM_NEEDED
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable

Victims = Mapping[str, NodeVictims]


class _Refused(Exception):  # noqa: N818 - it becomes a status
    """An extender's answer is unusable."""


def narrow(
    extenders: Sequence[Extender], state: CycleState, pod: PodInfo, candidates: Sequence[Candidate], table: NodeTable
) -> Steps[Sequence[Candidate] | Status]:
    """Return the candidates that all extenders agree to, with their victims; or the error of one that failed."""
    victims: Victims = {table.names[one.row]: NodeVictims(one.victims, one.violations) for one in candidates}
    for extender in extenders:
        if not victims:
            break
        found = yield from consult(extender.preempt_call(pod, victims), extender.read_preempt)
        problem = found.problem
        before = len(victims)
        if not problem:
            try:
                victims = _victims(extender, found.result, table)
            except _Refused as refused:
                problem = str(refused)
        said = "" if problem else f"{len(victims)} of {before} candidates left"
        note(
            state, ExtenderCallRecord(extender.name, "preempt", problem, bool(problem) and extender.is_ignorable, said)
        )
        if problem and not extender.is_ignorable:
            return error(problem)
    return [Candidate(table.row_of[name], found.pods, found.violations) for name, found in victims.items()]


def _victims(extender: Extender, said: Mapping[str, VictimIds], table: NodeTable) -> Victims:
    """Return the pods behind the uids; an ignorable extender's nodes without victims are left out."""
    found: dict[str, NodeVictims] = {}
    for name, ids in said.items():
        row = table.row_of.get(name)
        if row is None or not table.valid[row]:
            raise _Refused(f"extender: {extender.name} claims to preempt on node: {name}, but there is no such node")
        pods = [_pod(extender, uid, name, table.pods[row]) for uid in ids.uids]
        if pods:
            found[name] = NodeVictims(tuple(by_importance(pods)), ids.violations)
        elif not extender.is_ignorable:
            raise _Refused(NO_VICTIM_NEEDED.format(name))
    return found


def _pod(extender: Extender, uid: str, node_name: str, running: Mapping[str, PodInfo]) -> PodInfo:
    pod = running.get(uid)
    if pod is None:
        raise _Refused(
            f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: {node_name}, "
            "but the pod is not found on that node"
        )
    return pod
