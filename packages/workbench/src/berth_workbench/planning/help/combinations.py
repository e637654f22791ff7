"""The smallest sets of edits after which a pod fits: to the pod, to one node, or to one of each.

Each row has a set of needs that it does not meet. The pod fits there once all of them are gone. So the candidates are
the distinct sets, the smallest and cheapest first; each is proven on the whole pod, and what turns out not to be needed
in it is left out again. The search ends with the smallest number of edits that does, which is looked for on the pod and
on the nodes apart; one edit to each at once is tried only where neither does alone.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.codec import decode
from berth.api.node import Node
from berth_workbench.planning.help.findings import HelpFindings
from berth_workbench.planning.help.needs import Need, NodeEdit, PodEdit
from berth_workbench.planning.help.proof import Proposal
from berth_workbench.planning.help.proposals import of_both, of_node, of_pod, on_all
from berth_workbench.planning.help.result import Change

Json = dict[str, Any]
Mask = NDArray[np.bool_]

MAX_EDITS = 4
"""No change is looked for that needs more edits of one object."""
MAX_CHANGES = 8
"""So many changes of the pod, and so many of nodes, are offered at most."""
TRIES = 60
"""So many candidates of either are tried."""
MAX_ALSO = 8
"""On so many further nodes a change is tried that helped on the first."""
TOGETHER = 20
"""No more nodes than these are changed for one workload."""
SAMPLE = 12
"""Of nodes that lack the same things, so many are tried before the set is given up."""


class Pattern(NamedTuple):
    """Rows that fail to meet the same needs."""

    needs: tuple[int, ...]
    rows: NDArray[np.intp]


def patterns_of(needs: Sequence[Need], valid: Mask) -> list[Pattern]:
    """Return the distinct sets of needs that rows fail, the smallest first; rows that meet all of them are left out."""
    rows = np.flatnonzero(valid)
    if not needs or not len(rows):
        return []
    failing = np.array([need.failing[rows] for need in needs], dtype=np.uint8)
    packed = np.packbits(failing, axis=0).T
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    found = []
    for number, place in enumerate(first.tolist()):
        members = tuple(np.flatnonzero(failing[:, place]).tolist())
        if members:
            found.append(Pattern(members, rows[which.ravel() == number]))
    return sorted(found, key=lambda pattern: (len(pattern.needs), -len(pattern.rows)))


class PodCandidate(NamedTuple):
    """Edits of the pod that should do, by the needs that they are for."""

    needs: tuple[int, ...]
    edits: tuple[PodEdit, ...]

    @property
    def cost(self) -> float:
        """What the edits cost together."""
        return sum(edit.cost for edit in self.edits)

    @property
    def given_up(self) -> frozenset[Hashable]:
        """What the edits give up together."""
        return frozenset[Hashable]().union(*(edit.given_up for edit in self.edits))

    def is_worse_than(self, other: "PodCandidate") -> bool:
        """Say whether this gives up all that the other does, and more, for no less."""
        return other.given_up < self.given_up and other.cost <= self.cost


class NodeCandidate(NamedTuple):
    """Edits that should do on some nodes: how many, what they cost, and of each node its row and edits."""

    size: int
    cost: float
    ways: list[tuple[int, tuple[NodeEdit, ...]]]


class Combining:
    """The search for changes of the pod and of nodes."""

    __slots__ = ("_findings", "_found", "_needs", "_patterns", "_question")

    def __init__(self, findings: HelpFindings) -> None:
        self._findings = findings
        self._question, self._needs, self._found = findings.question, findings.needs, findings.changes
        self._patterns = patterns_of(self._needs, self._question.valid)

    def run(self) -> None:
        """Find the changes."""
        self._findings.is_complete &= not any(need.is_cut for need in self._needs)
        self._change_pod()
        self._change_nodes()
        if not self._found:
            self._change_both()

    # -- the pod -----------------------------------------------------------------------------------------------------

    def _change_pod(self) -> None:
        candidates = self._pod_candidates()
        for size in range(1, MAX_EDITS + 1):
            of_size = [each for each in candidates if len(each.edits) == size]
            if not of_size and size == 1:
                of_size = [PodCandidate((i,), (edit,)) for i, need in enumerate(self._needs) for edit in need.pod_edits]
            if self._try_pod(of_size):
                return
        if any(len(each.edits) > MAX_EDITS for each in candidates):
            self._findings.is_complete = False

    def _pod_candidates(self) -> list[PodCandidate]:
        best: dict[Hashable, PodCandidate] = {}
        for pattern in self._patterns:
            if not all(self._needs[index].is_of_pod for index in pattern.needs):
                continue
            for group, candidate in self._edits_for(pattern):
                known = best.get(group)
                if known is None or candidate.cost < known.cost:
                    best[group] = candidate
        return sorted(best.values(), key=lambda each: (len(each.edits), each.cost))

    def _edits_for(self, pattern: Pattern) -> Iterator[tuple[Hashable, PodCandidate]]:
        """Yield the edits for the rows of a pattern, under a name for those that differ in their size only."""
        needs = [self._needs[index] for index in pattern.needs]
        if len(needs) == 1 and needs[0].pod_edits:
            for edit in needs[0].pod_edits:
                yield (pattern.needs, edit.what), PodCandidate(pattern.needs, (edit,))
            return
        is_sized = any(need.sized is not None for need in needs)
        for row in pattern.rows.tolist() if is_sized else pattern.rows[:1].tolist():
            edits = [need.sized(row) if need.sized is not None else need.pod_edits[-1] for need in needs]
            if all(edit is not None for edit in edits):
                made = tuple(edit for edit in edits if edit is not None)
                group = tuple(edit.what if edit.group is None else edit.group for edit in made)
                yield (pattern.needs, group), PodCandidate(pattern.needs, made)

    def _try_pod(self, candidates: Sequence[PodCandidate]) -> bool:
        """Prove candidates; say whether any does."""
        before = len(self._found)
        proven: list[PodCandidate] = []
        for number, candidate in enumerate(candidates):
            if any(candidate.is_worse_than(known) for known in proven):
                continue
            if len(self._found) - before >= MAX_CHANGES or number >= TRIES:
                self._findings.is_complete = False
                break
            fitted = self._for_all(self._fitted(candidate))
            change = None if fitted is None else self._findings.least(fitted.edits, partial(of_pod, self._question))
            if change is not None and all(change.patch != known.patch for known in self._found):
                self._found.append(change)
                proven.append(candidate)
        return len(self._found) > before

    def _fitted(self, candidate: PodCandidate) -> PodCandidate | None:
        """Return a candidate with the largest amounts with which the rest of it fits; None where none would.

        The candidate was made from what single needs say. With the other edits made, more nodes may come into question:
        who drops an affinity may have other domains to spread over. So the filters are asked where the pod fits when it
        asks for nothing of what is short, and the amounts are those of the best of these nodes.
        """
        needs = [self._needs[index] for index in candidate.needs]
        has_amount = [need.sized is not None and edit.group == need.key
                      for need, edit in zip(needs, candidate.edits, strict=True)]  # fmt: skip
        if not any(has_amount):
            return candidate
        parts = list(zip(needs, candidate.edits, has_amount, strict=True))
        wholes = [need.whole if is_amount and need.whole is not None else edit for need, edit, is_amount in parts]
        question = self._question
        answer = question.prover.ask(decode("Pod", question.edited(wholes)))
        best: PodCandidate | None = None
        for row in np.flatnonzero(answer.fits).tolist():
            edits = [need.sized(row) if is_amount and need.sized else edit for need, edit, is_amount in parts]
            made = tuple(edit for edit in edits if edit is not None)
            fitted = PodCandidate(candidate.needs, made)
            if len(made) == len(edits) and (best is None or fitted.cost < best.cost):
                best = fitted
        return best

    def _for_all(self, fitted: PodCandidate | None) -> PodCandidate | None:
        """Return a candidate with about the largest amount with which all pods of a workload have a place.

        For one pod that is what the best node has left. But all pods get it, those that run as well, so that there is
        more room than now; and where one has a place, there may be none for the next.
        """
        place = -1 if fitted is None else next((i for i, edit in enumerate(fitted.edits) if edit.amounts), -1)
        if fitted is None or place < 0 or self._question.group.size == 1 or self._findings.consequences is None:
            return fitted
        amounts = fitted.edits[place].amounts
        assert amounts is not None, "it was chosen for them"

        def leaving(steps: int) -> tuple[PodEdit, ...]:
            return (*fitted.edits[:place], amounts.edit(steps * amounts.step), *fitted.edits[place + 1 :])

        least, most = 0, -(-amounts.asked // amounts.step)
        while most - least > 1:
            middle = (least + most) // 2
            if self._findings.would_help(of_pod(self._question, leaving(middle))):
                least = middle
            else:
                most = middle
        return fitted._replace(edits=leaving(least)) if least else fitted

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _change_nodes(self) -> None:
        by_edits: dict[tuple[str, ...], NodeCandidate] = {}
        for pattern in self._patterns:
            if len(pattern.needs) > MAX_EDITS:
                continue
            for row in pattern.rows.tolist():
                edits = self._node_edits(pattern.needs, self._question.table.node(row))
                if edits is not None:
                    cost = sum(edit.cost for edit in edits)
                    like = by_edits.setdefault(tuple(edit.what for edit in edits), NodeCandidate(len(edits), cost, []))
                    like.ways.append((row, edits))
        ordered = sorted(by_edits.values(), key=lambda each: (each.size, each.cost, -len(each.ways)))
        before, size = len(self._found), 0
        for number, candidate in enumerate(ordered):
            if len(self._found) > before and candidate.size > size:
                return  # fewer edits do
            if len(self._found) - before >= MAX_CHANGES or number >= TRIES:
                self._findings.is_complete = False
                return
            size = candidate.size
            self._try_nodes(candidate.ways)

    def _node_edits(self, needs: Iterable[int], node: Node) -> tuple[NodeEdit, ...] | None:
        makers = [self._needs[index].node_edit for index in needs]
        edits = [None if make is None else make(node) for make in makers]
        made = tuple(edit for edit in edits if edit is not None)
        return made if len(made) == len(edits) else None

    def _try_nodes(self, ways: Sequence[tuple[int, tuple[NodeEdit, ...]]]) -> None:
        """Prove the same edits on the first of these nodes where they do, then on some more."""
        partial_before = len(self._findings.partial)
        for place, way in enumerate(ways[:SAMPLE]):
            change = self._proven_node(*way)
            if change is None:
                continue
            also, rest = [], ways[place + 1 :]
            for row, edits in rest[:MAX_ALSO]:
                again = self._proven_node(row, edits)
                if again is not None and again.kind == change.kind:
                    also.append(self._question.table.names[row])
            untried = max(len(rest) - MAX_ALSO, 0)
            self._found.append(msgspec.structs.replace(change, also_on=tuple(sorted(also)), untried=untried))
            return
        self._findings.is_complete &= len(ways) <= SAMPLE
        if len(self._findings.partial) > partial_before and len(ways) > 1:  # each has room for some of the pods
            each = [of_node(self._question.table.node(row), edits) for row, edits in ways[:TOGETHER]]
            change = self._findings.on_enough(lambda count: on_all(each[:count]), len(each))
            self._found += [] if change is None else [change]

    def _proven_node(self, row: int, edits: tuple[NodeEdit, ...]) -> Change | None:
        return self._findings.least(edits, partial(of_node, self._question.table.node(row)))

    # -- both --------------------------------------------------------------------------------------------------------

    def _change_both(self) -> None:
        """Try one edit of the pod and one of a node together."""
        tried = 0
        for pattern in self._patterns:
            if len(pattern.needs) != 2:
                continue
            for on_pod, on_node in (pattern.needs, pattern.needs[::-1]):
                for row in pattern.rows[:SAMPLE].tolist():
                    if tried >= TRIES or len(self._found) >= MAX_CHANGES:
                        self._findings.is_complete = False
                        return
                    tried += 1
                    change = self._findings.first([self._pair(self._needs[on_pod], self._needs[on_node], row)])
                    if change is not None:
                        self._found.append(change)
                        break

    def _pair(self, on_pod: Need, on_node: Need, row: int) -> Proposal | None:
        node = self._question.table.node(row)
        pod_edit = on_pod.sized(row) if on_pod.sized is not None else next(iter(on_pod.pod_edits), None)
        node_edit = None if on_node.node_edit is None else on_node.node_edit(node)
        if pod_edit is None or node_edit is None:
            return None
        return of_both(self._question, pod_edit, node, node_edit)
