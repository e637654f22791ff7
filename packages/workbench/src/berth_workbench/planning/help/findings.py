"""What a search has found so far, and how it finds more: by trying proposals until one helps.

Whoever proposes (`edits`, `additions`, `objects`, `departures`) does so from the least to the most; nothing becomes a
change that has not been carried out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from berth.decisions.named_in_vain import NamedInVain
from berth_workbench.planning.help.consequences import Consequences
from berth_workbench.planning.help.needs import Need, PodQuestion
from berth_workbench.planning.help.proposals import Proposal
from berth_workbench.planning.help.result import SMALLER, Change

Proposing = Callable[[int], Proposal | None]
"""Makes the proposal for a number; None where there is none."""


@dataclass(slots=True, eq=False, repr=False)
class HelpFindings:
    """The changes and notes for one pod. They stay when the trials are used up in the middle of a step."""

    question: PodQuestion
    consequences: Consequences
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

    def helping(self, proposal: Proposal | None) -> Change | None:
        """Return a change that gives all pods of the workload a place; keep one that does so for some of them."""
        return self._complete(self._tried(proposal))

    def add_first(self, proposals: Iterable[Proposal | None]) -> Change | None:
        """Keep, and return, the first change of several that helps."""
        change = next((found for each in proposals if (found := self.helping(each)) is not None), None)
        self.changes += [] if change is None else [change]
        return change

    def add_least(self, propose: Proposing, most: int, *, is_each: bool = False) -> Change | None:
        """Keep, and return, the change for the smallest number that helps."""
        change = self.least(propose, most, is_each=is_each)
        self.changes += [] if change is None else [change]
        return change

    def least(self, propose: Proposing, most: int, *, is_each: bool = False) -> Change | None:
        """Return the change for the smallest number that gives all pods of the workload a place, or else keep the best.

        Whatever helps, helps with a larger number as well: nothing else is tried where the largest does not. With
        `is_each` it is a number of things that are each of use by themselves; then the first says whether any is.
        """
        of_most = self._tried(propose(most)) if most and not is_each else None
        if not is_each and not self._helps_some(of_most):
            return None
        best, enough, failed, count, before = None, 0, 0, 1, 0
        while before < most:
            change = of_most if of_most is not None and count == most else self._tried(propose(count))
            if change is not None and (best is None or change.still_pending < best.still_pending):
                best, enough, failed = change, count, before
            if (best is not None and not best.still_pending) or (best is None and is_each):
                break
            before, count = count, min(2 * count, most)
        while best is not None and enough - failed > 1:
            middle = (enough + failed) // 2
            change = self._tried(propose(middle))
            if change is not None and change.still_pending <= best.still_pending:
                best, enough = change, middle
            else:
                failed = middle
        return self._complete(best)

    def _helps_some(self, change: Change | None) -> bool:
        return change is not None and change.still_pending < len(self.question.group.waiting)

    def _tried(self, proposal: Proposal | None) -> Change | None:
        return None if proposal is None else self.consequences.of(proposal)

    def _complete(self, change: Change | None) -> Change | None:
        if change is None or not change.still_pending or change.kind == SMALLER:
            return change
        self.partial += [change] if self._helps_some(change) else []
        return None
