"""Replays recorded cases through the engine; `berth decide` prints what comes out.

A case names its objects and the pods to place in turn; out come decisions in the shape of the records, of which
`tests/conformance/README.md` says what each key means. A pod that fits is assumed on the node with the highest total,
the smallest name among equals; a pod that does not leaves nothing behind. Nothing is bound unless the case says so
(`placements.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from berth.api.codec import decode
from berth.api.pod import Pod
from berth.core.core import Core
from berth.core.intake import ObjectEvent
from berth.core.questions import decide, granting, profile_of
from berth.cycle.attempt import Attempt
from berth.decisions.by_plugins import figures_of
from berth.engine.verdicts import Verdicts
from berth.extender.in_process import AnswerCall, nobody
from berth.framework.blame import contained, status_of
from berth.framework.registry import Registry
from berth.framework.status import Status, is_success
from berth.state.pod_info import PodInfo
from berth.state.table import NodeTable
from berth_workbench.cases.cases import CaseError, Json, core_of, documents, is_sampled
from berth_workbench.cases.placements import Placements, permit_of
from berth_workbench.cases.queue_order import queue_order

__all__ = ["CaseError", "replay", "told"]


def told(case: Mapping[str, Any], registry: Registry, *, memos: bool = True, answer_call: AnswerCall = nobody) -> Json:
    """Return `steps`, a decision for each entry of the case's `pods`, and where it matters the order of the queue.

    `answer_call` takes the part of the extenders that the case configures. Raises `CaseError`, `ConfigError` or
    `ObjectError`.
    """
    sampled = is_sampled(case)
    core = core_of(case, registry, memos=memos, score_single_node=not sampled)
    entries = [_entry(document) for document in documents(case, "pods")]
    pending = _introduced(core, (pod for pod in entries if pod is not None))
    before = queue_order(core, pending)
    steps = list(
        decisions_about(entries, core, sampled=sampled, binds=bool(case.get("bound")), answer_call=answer_call)
    )
    after = queue_order(core, pending).get("queueOrder")
    changed = {"queueOrderAfter": after} if after and after != before.get("queueOrder") else {}
    return {"steps": steps, **before, **changed}


def replay(
    case: Mapping[str, Any], registry: Registry, *, memos: bool = True, answer_call: AnswerCall = nobody
) -> list[Json]:
    """Return the `steps` of `told` alone."""
    steps: list[Json] = told(case, registry, memos=memos, answer_call=answer_call)["steps"]
    return steps


def _entry(document: Mapping[str, Any]) -> Pod | None:
    """Return the pod to place; None for a wait that runs out."""
    if document.get("timeout"):
        return None
    pod: Pod = decode("Pod", document)
    return pod


def _introduced(core: Core, pods: Iterable[Pod]) -> list[PodInfo]:
    """Introduce all pods that are to be placed to the core, and so to its plugins, as pending ones; return each
    once.
    """
    found: dict[str, PodInfo] = {}
    for pod in pods:
        if pod.key not in found:
            if core.cache.state_of(pod.metadata.uid) is not None:
                raise CaseError(f"pod {pod.key}: a pod with its uid {pod.metadata.uid!r} is on a node already")
            core.handle(ObjectEvent("ADDED", "Pod", pod), core.now)
            found[pod.key] = core.intake.pod(pod.key) or core.intake.info(pod)
    return list(found.values())


def decisions_about(
    pods: Iterable[Pod | None],
    core: Core,
    *,
    sampled: bool = False,
    binds: bool = False,
    answer_call: AnswerCall = nobody,
) -> Iterator[Json]:
    """Yield a decision about each of these pods in turn, for None about the wait that runs out next.

    Pods that fit are assumed, and bound where `binds`. The core has to score single nodes too, unless it is `sampled`
    (see `berth_workbench.cases.cases.core_of`).
    """
    show = _sampled_decision if sampled else _decision
    shown = None if sampled else _SHOWN.get(core.generation.name)
    placements = Placements(core, binds=binds)
    for pod in pods:
        if pod is None:
            yield _timed_out(placements)
            continue
        info = core.intake.pod(pod.key) or core.intake.info(pod)
        if standing := placements.standing(info):
            yield {"pod": info.key, "skipped": standing}
            continue
        yield _only(shown, _placed(core, info, placements, answer_call, show) | _figures(core, info))


def _figures(core: Core, pod: PodInfo) -> Json:
    """Return the figures of plugins by now: figure → value of its first label → … → number."""
    found: Json = {}
    for _, _, figure in figures_of([profile_of(core, pod)]):
        first, *others = figure.name.split("_")
        path = ["".join((first, *map(str.title, others))), *figure.labels.values()]
        inner = found
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = figure.value
    return found


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


def _timed_out(placements: Placements) -> Json:
    """Let the time of the pod that waits longest run out."""
    key = placements.time_out()
    if not key:
        return {"pod": "", "skipped": "nobody waits"}
    return _said({"pod": key, "timeout": True, **placements.settle().shown()})


def _placed(
    core: Core,
    pod: PodInfo,
    placements: Placements,
    answer_call: AnswerCall,
    show: Callable[[Attempt, NodeTable], Json],
) -> Json:
    """Decide about a pod and give it its place; return what is told of it."""
    # A bug ends the attempt, as in the core. What it asks the API server for, such as evictions, is granted, not made.
    attempt = decide(core, pod, granting(answer_call), on_bug=lambda raised: status_of(contained(raised)).message)
    row = attempt.outcome.chosen_row
    told: Json = {}
    if row is not None:
        taken = placements.take(attempt, core.cache.table.names[row])
        if attempt.profile.permit and taken.permitted is not None:
            told["permit"] = permit_of(taken.permitted)
        if taken.reserved is not None:
            told["reserve"] = _status(taken.reserved)
        if taken.refusal is not None and taken.permitted is None:
            attempt.outcome = attempt.outcome.failed(taken.refusal.message)
        elif taken.refusal is not None:  # that of Permit says which node it was
            told["message"] = taken.refusal.message
    decision = show(attempt, core.cache.table)
    scores = attempt.profile.scorers or attempt.profile.extenders
    if "total" in decision and not scores and core.generation.name != "v1.20":
        # The sum of the scores that are shown, as the records have it; the cycle counts 1 for each node then.
        decision["total"] = dict.fromkeys(decision["total"], 0)
    return decision | _said(told | placements.settle().shown())


def _said(decision: Json) -> Json:
    return {key: value for key, value in decision.items() if value or key in ("pod", "chosen")}


def _decision(attempt: Attempt, table: NodeTable) -> Json:
    shown: Json = {"pod": attempt.pod.key}
    pre = attempt.found.pre_filtered
    if pre is not None and pre.status is not None:
        shown["preFilter"] = _status(pre.status)
        if attempt.outcome.error is not None:  # that of PreFilter, as the cycle words it
            shown["preFilter"]["reasons"] = [attempt.outcome.message]
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
    return _said(shown)


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
