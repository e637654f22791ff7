"""What a search has found so far, and how it finds more: by proving proposals.

The generators of proposals (`edits`, `additions`, `releases`, `departures`) bring what may help, from the least
to the most; nothing becomes a change that the filters have not confirmed here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from berth.decisions.named_in_vain import NamedInVain
from berth_workbench.planning.help.consequences import Consequences
from berth_workbench.planning.help.needs import Need, PodQuestion
from berth_workbench.planning.help.proof import Proposal
from berth_workbench.planning.help.result import Change


@dataclass(slots=True, eq=False, repr=False)
class HelpFindings:
    """The changes and notes for one pod. They stay when the trials are used up in the middle of a step."""

    question: PodQuestion
    consequences: Consequences | None = None
    """What has to agree that a change helps: all pods of the workload get a place, and none as important loses one."""
    needs: tuple[Need, ...] = ()
    said: tuple[str, ...] = ()
    in_vain: tuple[NamedInVain, ...] = ()
    """What the pod names and the cluster does not have."""
    changes: list[Change] = field(default_factory=list)
    partial: list[Change] = field(default_factory=list)
    """Changes that place some pods of the workload and not all."""
    notes: list[str] = field(default_factory=list)
    is_complete: bool = True
    """Whether all was tried that might help."""

    def first(self, proposals: Iterable[Proposal | None]) -> Change | None:
        """Return the first change of several that helps."""
        helping = (self.helping(each) for each in proposals if each is not None)
        return next((change for change in helping if change is not None), None)

    def helping(self, proposal: Proposal) -> Change | None:
        """Return a change if the filters agree that it helps, and then the whole cluster with it."""
        change = self.question.prover.prove(self.question.info, proposal, self.question.group.beside)
        return None if change is None else self.judged(proposal._replace(change=change))

    def judged(self, proposal: Proposal) -> Change | None:
        """Return a change that the filters have agreed to, with its consequences; None if it is no help after all."""
        change = self._with_consequences(proposal)
        return None if change is None else self.complete(change)

    def complete(self, change: Change) -> Change | None:
        """Return a change that gives all pods of the workload a place; keep one that does so for some of them."""
        if not change.still_pending:
            return change
        if change.still_pending < len(self.question.group.waiting):
            self.partial.append(change)
        return None

    def _with_consequences(self, proposal: Proposal) -> Change | None:
        return proposal.change if self.consequences is None else self.consequences.of(proposal)

    def would_help(self, proposal: Proposal | None) -> bool:
        """Say whether all pods of the workload have a place with a change."""
        change = None if proposal is None else self._with_consequences(proposal)
        return change is not None and not change.still_pending

    def on_enough(self, propose: Callable[[int], Proposal], most: int) -> Change | None:
        """Return the change that is made on as few nodes alike as give all pods of the workload a place.

        `propose` makes the proposal for a number of nodes; each is taken to have room for as many pods as those before.
        Where others have taken it all, that is for twice as many.
        """
        one = propose(1)
        known = self.question.prover.prove(self.question.info, one, self.question.group.beside)
        if known is None:
            return None
        waiting, count, failed = len(self.question.group.waiting), 1, 0
        best = change = self._with_consequences(one._replace(change=known))
        while change is not None and change.still_pending and count < most:
            best, failed = change, count
            placed = waiting - change.still_pending
            count = min(most, max(count + 1, -(-waiting * count // placed)) if placed else 2 * count)
            change = self._with_consequences(propose(count))
        if change is None or change.still_pending:
            return None if best is None else self.complete(change or best)
        while count - failed > 1:  # so many are enough, and those that failed are not
            middle = (count + failed) // 2
            fewer = self._with_consequences(propose(middle))
            if fewer is not None and not fewer.still_pending:
                change, count = fewer, middle
            else:
                failed = middle
        return self.complete(change)

    def add_if_helping(self, proposals: Iterable[Proposal]) -> None:
        """Keep the first of several changes that helps; the filters cannot be asked about changes of these kinds."""
        judged = (self.judged(each) for each in proposals)
        self.changes += [each for each in [next((each for each in judged if each is not None), None)] if each]

    def add(self, proposals: Iterable[Proposal | None]) -> None:
        """Keep the first change of several that helps."""
        change = self.first(proposals)
        if change is not None:
            self.changes.append(change)
