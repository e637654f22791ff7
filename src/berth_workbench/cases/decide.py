"""Replays recorded cases through the engine; `berth decide` prints what comes out.

A case names its objects and the pods to place in turn; out come decisions in the shape of the records, of which
`tests/conformance/README.md` says what each key means. A pod that fits is assumed on the node with the highest total,
the smallest name among equals; a pod that does not leaves nothing behind. Nothing is bound.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.codec import decode
from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.questions import decide, granting
from berth.cycle.attempt import Attempt
from berth.cycle.binding_cycle import reserve_and_permit, undo
from berth.engine.verdicts import Verdicts
from berth.extender.in_process import AnswerCall, nobody
from berth.framework.blame import contained, status_of
from berth.framework.registry import Registry
from berth.framework.status import Status, is_success
from berth.state.table import NodeTable
from berth_workbench.cases.cases import CaseError, Json, check_new, core_of, documents, is_sampled

__all__ = ["CaseError", "replay"]


def replay(
    case: Mapping[str, Any], registry: Registry, *, memos: bool = True, answer_call: AnswerCall = nobody
) -> list[Json]:
    """Return one decision for each pod of the case; `answer_call` takes the part of the extenders it configures.

    Raises `CaseError`, `ConfigError` or `ObjectError`.
    """
    sampled = is_sampled(case)
    core = core_of(case, registry, memos=memos, score_single_node=not sampled)
    pods = (decode("Pod", document) for document in documents(case, "pods"))
    return list(decisions_about(pods, core, sampled=sampled, answer_call=answer_call))


def decisions_about(
    pods: Iterable[Pod], core: Core, *, sampled: bool = False, answer_call: AnswerCall = nobody
) -> Iterator[Json]:
    """Yield a decision about each of these pods in turn; those that fit are assumed. Raises `CaseError`.

    The core has to score single nodes too, unless it is `sampled` (see `berth_workbench.cases.cases.core_of`).
    """
    show = _sampled_decision if sampled else _decision
    shown = None if sampled else _SHOWN.get(core.generation.name)
    for pod in pods:
        attempt = _place(core, pod, answer_call)
        yield _only(shown, show(attempt, core.cache.table))


_SHOWN: Mapping[str, frozenset[str]] = {
    "v1.20": frozenset({"pod", "preFilter", "filter", "feasible", "scores", "total", "chosen", "message"})
}
"""The keys that decisions of a generation show, where not all: that release recorded no more."""


def _only(shown: frozenset[str] | None, decision: Json) -> Json:
    """Return the decision with the keys that its generation shows; a v1.20 status names no plugin."""
    if shown is None:
        return decision
    kept = {key: value for key, value in decision.items() if key in shown}
    if "preFilter" in kept:
        kept["preFilter"] = {key: value for key, value in kept["preFilter"].items() if key != "plugin"}
    return kept


def _place(core: Core, given: Pod, answer_call: AnswerCall) -> Attempt:
    pod = core.intake.info(given)
    check_new(core, pod)
    # A bug ends the attempt, as in the core. What it asks the API server for, such as evictions, is granted, not made.
    attempt = decide(core, pod, granting(answer_call), on_bug=lambda raised: status_of(contained(raised)).message)
    row = attempt.outcome.chosen_row
    if row is not None and (refused := _held_back(core, attempt, core.cache.table.names[row])) is not None:
        attempt.outcome = attempt.outcome.failed(refused.message)
    return attempt


def _held_back(core: Core, attempt: Attempt, node_name: str) -> Status | None:
    """Have the pod take its place, where it stays if Permit has it wait; return why it may not, with the place free."""
    refused: Status | None
    try:
        refused, _ = reserve_and_permit(core.cache, attempt, node_name)
    except BaseException as raised:
        refused = status_of(contained(raised))
    if refused is not None:
        try:
            undo(core.cache, attempt, node_name)
        except BaseException as raised:  # the place is free even so
            contained(raised)
    return refused


def _decision(attempt: Attempt, table: NodeTable) -> Json:
    shown: Json = {"pod": attempt.pod.key}
    pre = attempt.found.pre_filtered
    if pre is not None and pre.status is not None:
        shown["preFilter"] = _status(pre.status)
    if pre is not None and pre.node_names is not None:
        shown["preFilterNodes"] = sorted(pre.node_names)
    if attempt.found.verdicts is not None:
        shown["filter"] = _filter(attempt.found.verdicts, table)
    shown |= _scores(attempt, table)
    if attempt.outcome.fits:
        narrowing = pre.narrowing_plugins if pre is not None else ()
        shown["unschedulablePlugins"] = sorted(narrowing)
    else:
        shown |= _failure(attempt)
    return {key: value for key, value in shown.items() if value or key in ("pod", "chosen")}


def _filter(verdicts: Verdicts, table: NodeTable) -> Json:
    """Return each searched node with the plugins that reject it; where only nominated pods do, with that."""
    found: Json = {}
    for verdict in verdicts.by_plugin:
        for row in np.flatnonzero(verdict.codes).tolist():
            status = verdict.status(row)
            if verdicts.searched[row] and status is not None:
                found.setdefault(table.names[row], {})[verdict.plugin] = _status(status, plugin=False)
    for status, rows in verdicts.overlay:
        for name in (table.names[row] for row in rows.tolist()):
            found.setdefault(name, {f"nominated:{status.plugin}": _status(status)})
    return found


def _scores(attempt: Attempt, table: NodeTable) -> Json:
    nodes, scored = attempt.found.nodes, attempt.found.scored
    if nodes is None:
        return {}
    rows = nodes.row_array()
    names = [table.names[row] for row in rows.tolist()]
    if scored is None:
        return {"feasible": sorted(names)}  # there are none, or a plugin failed to score them
    row = attempt.outcome.chosen_row
    chosen = {} if row is None else {"chosen": table.names[row]}  # none where Reserve or Permit did not let it
    return chosen | {
        "feasible": sorted(names),
        "scores": {
            s.plugin: dict(zip(names, _listed(s.weighted, len(names)), strict=True)) for s in scored.by_plugin(rows)
        },
        "total": dict(zip(names, scored.total(rows).tolist(), strict=True)),
    }


def _listed(weighted: NDArray[np.int64] | int, count: int) -> list[int]:
    return [weighted] * count if isinstance(weighted, int) else weighted.tolist()


def _failure(attempt: Attempt) -> Json:
    diagnosis = attempt.outcome.diagnosis
    failure: Json = {"message": attempt.outcome.message}
    if attempt.outcome.error is not None or diagnosis is None:
        return failure
    failure["unschedulablePlugins"] = sorted(diagnosis.unschedulable_plugins)
    status = attempt.outcome.post_filter_status
    if status is not None:
        shown = _status(status)
        failure["postFilter"] = {"code": "Success", "reasons": []} if is_success(status) else shown
    if attempt.outcome.victims:
        victims = sorted(victim.key for victim in attempt.outcome.victims)
        failure["preemption"] = [{"node": attempt.outcome.nominated_node_name, "victims": victims}]
    return failure


def _status(status: Status, *, plugin: bool = True) -> Json:
    shown: Json = {"code": status.code.label, "reasons": sorted(status.reasons)}
    return shown | {"plugin": status.plugin} if plugin else shown


def _sampled_decision(attempt: Attempt, table: NodeTable) -> Json:
    shown: Json = {"pod": attempt.pod.key}
    found, nodes = attempt.found.sampled, attempt.found.nodes
    if found is not None:
        shown["startIndex"], shown["nextStartIndex"] = found.start, found.next_start
        shown["feasibleInOrder"] = [table.names[row] for row in found.feasible.tolist()]
        shown["failed"] = sorted(table.names[row] for row in found.failed.tolist())
    if attempt.outcome.chosen_row is not None:
        shown["chosen"] = table.names[attempt.outcome.chosen_row]
    if attempt.found.scored is not None and nodes is not None:
        rows = nodes.row_array()
        names = (table.names[row] for row in rows.tolist())
        shown["total"] = dict(zip(names, attempt.found.scored.total(rows).tolist(), strict=True))
    return shown
