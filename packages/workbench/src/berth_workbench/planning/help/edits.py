"""Single edits: of the pod, each way to give one of its needs up; of nodes, what they lack, where that is one thing.

Amounts are the largest with which the pod still fits; for a workload, about the largest with which all of its pods
have a place. The same edit of several nodes is one change: it says on which others it does as well, and is made on as
many as the workload needs.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from berth.api.codec import decode
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import Need, PodEdit
from berth_workbench.planning.help.proposals import Proposal, of_node, of_pod, on_all
from berth_workbench.planning.help.result import Change

MAX_CHANGES = 8
"""So many changes of the pod, and so many of nodes, are offered at most."""
TRIES = 60
"""So many edits of either are tried."""
MAX_ALSO = 8
"""On so many further nodes a change is tried that helped on the first."""
TOGETHER = 20
"""No more nodes than these are changed for one workload."""
SAMPLE = 12
"""Of nodes that lack the same thing, so many are tried before the edit is given up."""

Candidate = TypeVar("Candidate")


def edit_pod(findings: HelpFindings) -> None:
    """Find edits of the pod, the cheapest first."""
    edits = [(edit, need) for need in findings.needs for edit in _edits_for(findings, need)]
    given_up = set[Hashable]()
    for edit, need in _within_bounds(findings, sorted(edits, key=lambda each: each[0].cost)):
        if not (edit.is_last_resort and need.key in given_up):
            change = _tried(findings, edit)
            if change is not None and all(change.patch != known.patch for known in findings.changes):
                findings.changes.append(change)
                given_up.add(need.key)


def _within_bounds(findings: HelpFindings, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield as many as may be tried and found."""
    before = len(findings.changes)
    for number, each in enumerate(candidates):
        if len(findings.changes) - before >= MAX_CHANGES or number >= TRIES:
            findings.is_complete = False
            return
        yield each


def _edits_for(findings: HelpFindings, need: Need) -> Iterator[PodEdit]:
    """Yield the ways to give a need up; where they differ in amounts only, the least of them.

    With the need given up as a whole, more nodes may come into question than it says by itself. So the filters are
    asked where the pod fits then, and the amounts are those of the best of these nodes.
    """
    yield from need.pod_edits
    if need.sized is None or need.whole is None:
        return
    question = findings.question
    answer = question.filters.ask(decode("Pod", question.edited(need.whole)))
    edits = [edit for row in np.flatnonzero(answer.fits).tolist() if (edit := need.sized(row)) is not None]
    if edits:
        yield min(edits, key=lambda edit: edit.cost)


def _tried(findings: HelpFindings, edit: PodEdit) -> Change | None:
    """Return the change of an edit, or for the smallest number with which all pods of a workload have a place.

    What is enough for one pod is what the best node has left. But all pods get it, those that run as well, so that
    there is more room than now; and where one has a place, there may be none for the next.
    """
    question, numbers = findings.question, edit.numbers
    if numbers is None or (edit.is_enough_for_one and question.group.size == 1):
        return findings.helping(of_pod(question, edit))
    return findings.least(lambda number: of_pod(question, numbers.edit(number)), numbers.most)


def edit_nodes(findings: HelpFindings) -> None:
    """Find edits of nodes that lack a single thing, the cheapest first."""
    question, by_edit = findings.question, dict[str, list[Proposal]]()
    if not findings.needs:
        return
    failing = np.array([need.failing for need in findings.needs])
    for row in np.flatnonzero(question.valid & (failing.sum(axis=0) == 1)).tolist():
        need, node = findings.needs[int(failing[:, row].argmax())], question.table.node(row)
        edit = None if need.node_edit is None else need.node_edit(node)
        if edit is not None:
            by_edit.setdefault(edit.what, []).append(of_node(node, edit))
    for alike in _within_bounds(findings, sorted(by_edit.values(), key=lambda alike: (alike[0].cost, -len(alike)))):
        _try_nodes(findings, alike)


def _try_nodes(findings: HelpFindings, alike: Sequence[Proposal]) -> None:
    """Try the same edit on the first of these nodes where it does, then on some more."""
    partial_before = len(findings.partial)
    for place, proposal in enumerate(alike[:SAMPLE]):
        change = findings.helping(proposal)
        if change is not None:
            rest = alike[place + 1 :]
            does = [each.steps[0].told.target for each in rest[:MAX_ALSO] if findings.helping(each)]
            also = sorted(target.removeprefix("Node/") for target in does)
            untried = max(len(rest) - MAX_ALSO, 0)
            findings.changes.append(msgspec.structs.replace(change, also_on=tuple(also), untried=untried))
            return
    findings.is_complete &= len(alike) <= SAMPLE
    if len(findings.partial) > partial_before and len(alike) > 1:  # each has room for some of the pods
        together = alike[:TOGETHER]
        findings.add_least(lambda count: on_all(together[:count]), len(together), is_each=True)
