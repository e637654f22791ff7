"""Calls extenders: after Filter, and alongside Score.

Filter extenders are called one after the other, each with the nodes that those before it left; prioritizers all at
once. An extender that fails ends the attempt, unless it is ignorable or only prioritises. Preemption has its own module
(`berth.plugins.preemption.extenders`), and so has binding. Source of the rules: pkg/scheduler/schedule_one.go.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from berth.api.node import Node
from berth.cycle.attempt import Attempt, LeftOut
from berth.engine.scores import PluginScores, Scored
from berth.framework.diagnosis import Diagnosis, RejectedNodes
from berth.framework.effects import Steps
from berth.framework.extenders import (
    EXTENDER_NAME,
    MAX_EXTENDER_PRIORITY,
    Extender,
    ExtenderCallRecord,
    Filtered,
    consult,
    consult_all,
    interested,
    note,
)
from berth.framework.interface import MAX_NODE_SCORE, FeasibleNodes, RowArray
from berth.framework.status import unresolvable, unschedulable
from berth.state.table import NodeTable

LARGEST_SCORE = 2**53
"""More than any meaningful score; the sum of a few still fits an int64, where Go's would wrap around."""
NO_REASON = "left out without a reason"


class FilteredByExtenders(NamedTuple):
    """The feasible nodes that extenders left, what they say about the others by row, and what went wrong, if
    anything.
    """

    nodes: FeasibleNodes
    left_out: dict[int, LeftOut]
    problem: str | None


def filter_by_extenders(attempt: Attempt, nodes: FeasibleNodes) -> Steps[FilteredByExtenders]:
    """Let extenders narrow down the feasible nodes."""
    table = nodes.table
    left_out: dict[int, LeftOut] = {}
    problem: str | None = None
    rows = left = nodes.row_array()
    for extender in interested(attempt.profile.extenders, "filter", attempt.pod):
        if not len(left):
            break
        given = [table.node(row) for row in left.tolist()]
        read = partial(extender.read_filter, given=given)
        found = yield from consult(extender.filter_call(attempt.pod, given), read)
        if found.problem:
            _note(attempt, extender, "filter", found.problem, is_ignored=extender.is_ignorable)
            if extender.is_ignorable:
                continue
            problem = found.problem
            break
        left = _narrowed(left_out, extender, found.result, table, left)
        _note(attempt, extender, "filter", note_text=f"{len(left)} of {len(given)} nodes left")
    for row in left.tolist():  # an extender may name a node as failed and still return it; then it is kept
        left_out.pop(row, None)
    if len(left) < len(rows):
        mask = np.zeros_like(nodes.mask)
        mask[left] = True
        nodes = FeasibleNodes(table, mask)
    return FilteredByExtenders(nodes, left_out, problem)


def _narrowed(
    left_out: dict[int, LeftOut], extender: Extender, found: Filtered, table: NodeTable, given: RowArray
) -> RowArray:
    """Return the rows that are left; note in `left_out` why the others are not."""
    # For a node in both maps the second says more: preemption would not help there.
    for name, message in {**found.failed, **found.unresolvable}.items():
        row = table.row_of.get(name)
        if row is not None:
            made = unresolvable if name in found.unresolvable else unschedulable
            left_out[row] = LeftOut(extender.name, made(message))
    kept = np.array(sorted({table.row_of[name] for name in found.kept}), dtype=np.intp)
    for row in np.setdiff1d(given, kept).tolist():
        left_out.setdefault(row, LeftOut(extender.name, unresolvable(NO_REASON), is_silent=True))
    return kept


def diagnose_extenders(diagnosis: Diagnosis, left_out: Mapping[int, LeftOut]) -> None:
    """Add to the diagnosis what extenders said; it overrides what plugins said about the same nodes.

    Plugins that an extender overrules are still asked about events, as they are upstream.
    """
    if not left_out:
        return
    told = {row: said for row, said in left_out.items() if not said.is_silent}
    diagnosis.overrule(rejected_by_extenders(told))
    diagnosis.unschedulable_plugins.add(EXTENDER_NAME)


def rejected_by_extenders(left_out: Mapping[int, LeftOut]) -> list[RejectedNodes]:
    """Return the rows that extenders ruled out, grouped by status; each status bears the extender's name.

    An extender is no plugin: events are asked about under `EXTENDER_NAME`, whichever extender it was.
    """
    said = {row: left_out[row].status.by(left_out[row].extender) for row in sorted(left_out)}
    return [
        RejectedNodes(status, np.array([row for row in said if said[row] == status], dtype=np.intp))
        for status in dict.fromkeys(said.values())
    ]


def score_by_extenders(attempt: Attempt, nodes: FeasibleNodes, scored: Scored) -> Steps[Scored]:
    """Return the scores with those of prioritizers added: score times weight times ten."""
    asked = interested(attempt.profile.extenders, "prioritize", attempt.pod)
    given = _nodes(nodes)
    answers = yield from consult_all([(one.prioritize_call(attempt.pod, given), one.read_prioritize) for one in asked])
    more: list[PluginScores] = []
    for extender, found in zip(asked, answers, strict=True):
        _note(attempt, extender, "prioritize", found.problem, is_ignored=True)
        if not found.problem:
            more.append(_weighted(extender, found.result, nodes))
    return scored.with_more(more)


def _weighted(extender: Extender, said: Sequence[tuple[str, int]], nodes: FeasibleNodes) -> PluginScores:
    """Return an extender's scores over the feasible rows; nodes that it does not name get none."""
    place_of = {nodes.table.names[row]: place for place, row in enumerate(nodes.row_array().tolist())}
    sums = [0] * nodes.count
    for name, score in said:
        if name in place_of:
            # Extenders score up to 10, plugins up to 100.
            sums[place_of[name]] += score * extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
    weighted = np.array([max(-LARGEST_SCORE, min(LARGEST_SCORE, total)) for total in sums], dtype=np.int64)
    return PluginScores(extender.name, extender.weight, weighted)


def _nodes(nodes: FeasibleNodes) -> list[Node]:
    return [nodes.table.node(row) for row in nodes.row_array().tolist()]


def _note(
    attempt: Attempt, extender: Extender, verb: Any, problem: str = "", *, is_ignored: bool = False, note_text: str = ""
) -> None:
    note(attempt.state, ExtenderCallRecord(extender.name, verb, problem, bool(problem) and is_ignored, note_text))
