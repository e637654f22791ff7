"""What a search has found so far, and how it finds more: by proving proposals, and leaving needless edits out.

The generators of proposals (`combinations`, `additions`, `releases`, `departures`) bring what may help, from the least
to the most; nothing becomes a change that the filters have not confirmed here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeVar

from berth_workbench.planning.help.needs import Need, Question
from berth_workbench.planning.help.proof import Proposal
from berth_workbench.planning.help.result import Change

Edit = TypeVar("Edit")


@dataclass(slots=True, eq=False, repr=False)
class HelpFindings:
    """The changes and notes for one pod. They stay when the trials are used up in the middle of a step."""

    question: Question
    needs: tuple[Need, ...] = ()
    said: tuple[str, ...] = ()
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_complete: bool = True
    """Whether all was tried that might help."""

    def first(self, proposals: Iterable[Proposal | None]) -> Change | None:
        """Return the first change of several that helps."""
        question = self.question
        proven = (question.prover.prove(question.info, each) for each in proposals if each is not None)
        return next((change for change in proven if change is not None), None)

    def least(self, edits: tuple[Edit, ...], propose: Callable[[tuple[Edit, ...]], Proposal | None]) -> Change | None:
        """Return the change of some edits of which none can be left out; None where even all of them do not help."""
        change = self.first([propose(edits)])
        if change is None or len(edits) == 1:
            return change
        smaller = (self.least(fewer, propose) for fewer in combinations(edits, len(edits) - 1))
        return next((each for each in smaller if each is not None), change)

    def add(self, proposals: Iterable[Proposal | None]) -> None:
        """Keep the first change of several that helps."""
        change = self.first(proposals)
        if change is not None:
            self.changes.append(change)
