"""Single edits: of the pod, each way to give one of its needs up; of nodes, what they lack, where that is one thing.

Each is proven on the whole pod. Amounts are the largest with which it still fits; for a workload, about the largest
with which all of its pods have a place. The same edit of several nodes is one change: it says on which others it does
as well, and is made on as many as the workload needs.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from berth.api.codec import decode
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import Need, NodeEdit, PodEdit
from berth_workbench.planning.help.proposals import of_node, of_pod, on_all
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


class Editing:
    """The search for an edit that does."""

    __slots__ = ("_findings", "_found", "_needs", "_question")

    def __init__(self, findings: HelpFindings) -> None:
        self._findings = findings
        self._question, self._needs, self._found = findings.question, findings.needs, findings.changes

    def run(self) -> None:
        """Find the changes, the cheapest first."""
        self._findings.is_complete &= not any(need.is_cut for need in self._needs)
        self._edit_pod()
        self._edit_nodes()

    # -- the pod -----------------------------------------------------------------------------------------------------

    def _edit_pod(self) -> None:
        edits = sorted(((edit, need) for need in self._needs for edit in self._edits_for(need)),
                       key=lambda each: each[0].cost)  # fmt: skip
        given_up = set[Hashable]()
        for edit, need in self._within_bounds(edits):
            if edit.is_last_resort and need.key in given_up:
                continue
            edit = self._for_all(edit)
            change = self._findings.first([of_pod(self._question, edit)])
            if change is not None and all(change.patch != known.patch for known in self._found):
                self._found.append(change)
                given_up.add(need.key)

    def _within_bounds(self, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
        """Yield as many as may be tried and found."""
        before = len(self._found)
        for number, each in enumerate(candidates):
            if len(self._found) - before >= MAX_CHANGES or number >= TRIES:
                self._findings.is_complete = False
                return
            yield each

    def _edits_for(self, need: Need) -> Iterator[PodEdit]:
        """Yield the ways to give a need up; where they differ in amounts only, the least of them.

        With the need given up as a whole, more nodes may come into question than it says by itself. So the filters are
        asked where the pod fits then, and the amounts are those of the best of these nodes.
        """
        yield from need.pod_edits
        if need.sized is None or need.whole is None:
            return
        question = self._question
        answer = question.prover.ask(decode("Pod", question.edited(need.whole)))
        edits = [edit for row in np.flatnonzero(answer.fits).tolist() if (edit := need.sized(row)) is not None]
        if edits:
            yield min(edits, key=lambda edit: edit.cost)

    def _for_all(self, edit: PodEdit) -> PodEdit:
        """Return an edit with about the largest amount with which all pods of a workload have a place.

        For one pod that is what the best node has left. But all pods get it, those that run as well, so that there is
        more room than now; and where one has a place, there may be none for the next.
        """
        amounts = edit.amounts
        if amounts is None or self._question.group.size == 1 or self._findings.consequences is None:
            return edit
        least, most = 0, -(-amounts.asked // amounts.step)
        while most - least > 1:
            middle = (least + most) // 2
            if self._findings.would_help(of_pod(self._question, amounts.edit(middle * amounts.step))):
                least = middle
            else:
                most = middle
        return amounts.edit(least * amounts.step) if least else edit

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _edit_nodes(self) -> None:
        by_edit: dict[str, list[tuple[int, NodeEdit]]] = {}
        for row, need in self._lacking_one():
            edit = None if need.node_edit is None else need.node_edit(self._question.table.node(row))
            if edit is not None:
                by_edit.setdefault(edit.what, []).append((row, edit))
        for ways in self._within_bounds(sorted(by_edit.values(), key=lambda ways: (ways[0][1].cost, -len(ways)))):
            self._try_nodes(ways)

    def _lacking_one(self) -> Iterator[tuple[int, Need]]:
        """Yield the rows that lack a single thing, and what."""
        if self._needs:
            failing = np.array([need.failing for need in self._needs])
            for row in np.flatnonzero(self._question.valid & (failing.sum(axis=0) == 1)).tolist():
                yield row, self._needs[int(failing[:, row].argmax())]

    def _try_nodes(self, ways: Sequence[tuple[int, NodeEdit]]) -> None:
        """Prove the same edit on the first of these nodes where it does, then on some more."""
        partial_before = len(self._findings.partial)
        for place, way in enumerate(ways[:SAMPLE]):
            change = self._proven(*way)
            if change is None:
                continue
            rest = ways[place + 1 :]
            also = [self._question.table.names[row] for row, edit in rest[:MAX_ALSO] if self._proven(row, edit)]
            untried = max(len(rest) - MAX_ALSO, 0)
            self._found.append(msgspec.structs.replace(change, also_on=tuple(sorted(also)), untried=untried))
            return
        self._findings.is_complete &= len(ways) <= SAMPLE
        if len(self._findings.partial) > partial_before and len(ways) > 1:  # each has room for some of the pods
            each = [of_node(self._question.table.node(row), edit) for row, edit in ways[:TOGETHER]]
            change = self._findings.on_enough(lambda count: on_all(each[:count]), len(each))
            self._found += [] if change is None else [change]

    def _proven(self, row: int, edit: NodeEdit) -> Change | None:
        return self._findings.first([of_node(self._question.table.node(row), edit)])
