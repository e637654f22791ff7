"""The smallest sets of edits after which a pod fits: to the pod, to one node, or to one of each.

Each row has a set of needs that it does not meet. The pod fits there once all of them are gone. So the candidates are
the distinct sets, the smallest and cheapest first; each is proven on the whole pod, and what turns out not to be needed
in it is left out again. The search ends with the smallest number of edits that does, which is looked for on the pod and
on the nodes apart; one edit to each at once is tried only where neither does alone.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import combinations
from shlex import quote
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from berth.api.codec import ObjectError
from berth.api.node import Node
from berth.planning.helping.needs import Need, NodeEdit, PodEdit, Question
from berth.planning.helping.patches import patch_of
from berth.planning.helping.proving import after_patch, document_of
from berth.planning.helping.result import Change, Part
from berth.planning.helping.words import node_command, pod_command

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


class Combining:
    """The search for changes of the pod and of nodes."""

    __slots__ = ("_needs", "_patterns", "_question", "found", "is_complete")

    def __init__(self, question: Question, needs: Sequence[Need]) -> None:
        self._question = question
        self._needs = needs
        self._patterns = patterns_of(needs, question.valid)
        self.found: list[Change] = []
        self.is_complete = not any(need.is_cut for need in needs)

    def run(self) -> None:
        """Find the changes; those found before the trials are used up stay in `found`."""
        self._change_pod()
        self._change_nodes()
        if not self.found:
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
            self.is_complete = False

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
        before = len(self.found)
        proven: list[PodCandidate] = []
        for number, candidate in enumerate(candidates):
            if any(candidate.is_worse_than(known) for known in proven):
                continue
            if len(self.found) - before >= MAX_CHANGES or number >= TRIES:
                self.is_complete = False
                break
            fitted = self._fitted(candidate)
            change = None if fitted is None else self._proven_pod(fitted.edits)
            if change is not None and all(change.patch != known.patch for known in self.found):
                self.found.append(change)
                proven.append(candidate)
        return len(self.found) > before

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
        patch_type, patch = patch_of(question.document, question.edited(wholes))
        answer = question.prover.ask(after_patch("Pod", question.document, patch_type, patch))
        best: PodCandidate | None = None
        for row in np.flatnonzero(answer.fits).tolist():
            edits = [need.sized(row) if is_amount and need.sized else edit for need, edit, is_amount in parts]
            made = tuple(edit for edit in edits if edit is not None)
            fitted = PodCandidate(candidate.needs, made)
            if len(made) == len(edits) and (best is None or fitted.cost < best.cost):
                best = fitted
        return best

    def _proven_pod(self, edits: tuple[PodEdit, ...]) -> Change | None:
        question = self._question
        patch_type, patch = patch_of(question.document, question.edited(edits))
        try:
            pod = after_patch("Pod", question.document, patch_type, patch)
        except ObjectError:
            return None
        answer = question.prover.ask(pod)
        if not answer.is_yes:
            return None
        for fewer in combinations(edits, len(edits) - 1) if len(edits) > 1 else ():
            smaller = self._proven_pod(fewer)
            if smaller is not None:
                return smaller
        kind, target = "+".join(dict.fromkeys(edit.kind for edit in edits)), f"Pod/{question.pod.key}"
        return Change(
            on="pod",
            what=" and ".join(edit.what for edit in edits),
            patch=patch,
            fits_on=answer.node_names,
            patch_type=patch_type,
            target=target,
            kind=kind,
            cost=round(sum(edit.cost for edit in edits), 6),
            command=pod_command(
                question.pod, [edit.kind for edit in edits], patch_type, patch, is_there=question.is_in_cluster
            ),
        )

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _change_nodes(self) -> None:
        by_edits: dict[tuple[str, ...], tuple[float, int, list[int]]] = {}
        for pattern in self._patterns:
            if len(pattern.needs) > MAX_EDITS or not all(self._needs[i].node_edit for i in pattern.needs):
                continue
            for row in pattern.rows.tolist():
                edits = self._node_edits(pattern.needs, self._question.table.node(row))
                if edits is not None:
                    name = tuple(edit.what for edit in edits)
                    cost = sum(edit.cost for edit in edits)
                    by_edits.setdefault(name, (cost, len(edits), []))[2].append(row)
        ordered = sorted(by_edits.values(), key=lambda each: (each[1], each[0], -len(each[2])))
        before, size = len(self.found), 0
        for number, (_, count, rows) in enumerate(ordered):
            if len(self.found) > before and count > size:
                return  # fewer edits do
            if len(self.found) - before >= MAX_CHANGES or number >= TRIES:
                self.is_complete = False
                return
            size = count
            self._try_nodes(rows)

    def _node_edits(self, needs: Iterable[int], node: Node) -> list[NodeEdit] | None:
        edits = []
        for index in needs:
            make = self._needs[index].node_edit
            edit = None if make is None else make(node)
            if edit is None:
                return None
            edits.append(edit)
        return edits

    def _try_nodes(self, rows: list[int]) -> None:
        """Prove the same edits on the first of these nodes where they do, then on some more."""
        for place, row in enumerate(rows[:SAMPLE]):
            change = self._proven_node(row)
            if change is None:
                continue
            also, rest = [], rows[place + 1 :]
            for other in rest[:MAX_ALSO]:
                again = self._proven_node(other)
                if again is not None and again.kind == change.kind:
                    also.append(self._question.table.names[other])
            self.found.append(
                _with_others(change, tuple(sorted(also)), max(len(rest) - MAX_ALSO, 0)),
            )
            return
        self.is_complete &= len(rows) <= SAMPLE

    def _proven_node(self, row: int) -> Change | None:
        node = self._question.table.node(row)
        needs = [index for index, need in enumerate(self._needs) if need.failing[row]]
        edits = self._node_edits(needs, node)
        return None if edits is None else self._proven_edits(node, tuple(edits))

    def _proven_edits(self, node: Node, edits: tuple[NodeEdit, ...]) -> Change | None:
        question = self._question
        made = changed_node(node, edits)
        with question.prover.node(made.node) as row:
            answer = question.prover.ask(question.info)
            is_there = bool(answer.fits[row])
        if not is_there:
            return None
        for fewer in combinations(edits, len(edits) - 1) if len(edits) > 1 else ():
            smaller = self._proven_edits(node, fewer)
            if smaller is not None:
                return smaller
        return Change(
            on="node",
            what=made.what,
            patch=made.patch,
            fits_on=answer.node_names,
            patch_type=made.patch_type,
            target=f"Node/{node.metadata.name}",
            kind="+".join(dict.fromkeys(edit.kind for edit in edits)),
            cost=round(sum(edit.cost for edit in edits), 6),
            command=made.command,
        )

    # -- both --------------------------------------------------------------------------------------------------------

    def _change_both(self) -> None:
        """Try one edit of the pod and one of a node together."""
        tried = 0
        for pattern in self._patterns:
            if len(pattern.needs) != 2:
                continue
            for of_pod, of_node in (pattern.needs, pattern.needs[::-1]):
                for row in pattern.rows[:SAMPLE].tolist():
                    if tried >= TRIES or len(self.found) >= MAX_CHANGES:
                        self.is_complete = False
                        return
                    tried += 1
                    change = self._proven_pair(self._needs[of_pod], self._needs[of_node], row)
                    if change is not None:
                        self.found.append(change)
                        break

    def _proven_pair(self, of_pod: Need, of_node: Need, row: int) -> Change | None:
        question = self._question
        node = question.table.node(row)
        pod_edit = of_pod.sized(row) if of_pod.sized is not None else next(iter(of_pod.pod_edits), None)
        node_edit = None if of_node.node_edit is None else of_node.node_edit(node)
        if pod_edit is None or node_edit is None:
            return None
        patch_type, patch = patch_of(question.document, question.edited([pod_edit]))
        pod = after_patch("Pod", question.document, patch_type, patch)
        made = changed_node(node, (node_edit,))
        with question.prover.node(made.node) as changed_row:
            answer = question.prover.ask(pod)
        if not answer.fits[changed_row]:
            return None
        return Change(
            on="pod",
            what=f"{pod_edit.what}, and {made.what}",
            patch=patch,
            fits_on=answer.node_names,
            patch_type=patch_type,
            target=f"Pod/{question.pod.key}",
            kind=f"{pod_edit.kind}+{node_edit.kind}",
            cost=round(pod_edit.cost + node_edit.cost, 6),
            command=pod_command(question.pod, [pod_edit.kind], patch_type, patch, is_there=question.is_in_cluster),
            with_=(Part("node", made.what, made.patch_type, made.patch, f"Node/{node.metadata.name}", made.command),),
        )


class ChangedNode(NamedTuple):
    """A node with edits made, and what they are."""

    node: Node
    what: str
    patch_type: Any
    patch: Any
    command: str


def changed_node(node: Node, edits: Sequence[NodeEdit]) -> ChangedNode:
    """Return a node with edits made. Its patch has been applied to the node as it was."""
    name = node.metadata.name
    before, after = document_of(node), document_of(node)
    for edit in edits:
        edit.edit(after)
    patch_type, patch = patch_of(before, after)
    made = after_patch("Node", before, patch_type, patch)
    what = " and ".join(edit.what.replace("{node}", name) for edit in edits)
    # Only the first: a label or a taint that comes after it may have the same characters in its name, between quotes.
    commands = [edit.command.replace("{node}", quote(name), 1) for edit in edits if edit.command]
    command = " && ".join(commands) if len(commands) == len(edits) else node_command(name, patch_type, patch)
    return ChangedNode(made, what, patch_type, patch, command)


def _with_others(change: Change, also: tuple[str, ...], untried: int) -> Change:
    return msgspec.structs.replace(change, also_on=also, untried=untried)
