"""How long a search for moves goes on: until it is stopped, or until its effort is used up.

All searches ask the scheduler's filters, one question after the other, through the board or the rules. Both come here
before each question. So whatever a search is doing, it hears within one question that it has to end, and a search with
an effort ends after as many questions on every machine. It ends by `StoppedError`; code that has moved pods on the
board undoes what would be left half done (`Board.whole`).
"""

from collections.abc import Iterator
from contextlib import contextmanager

from berth_workbench.simulation.watch import UNWATCHED, StoppedError, WorkWatch

QUESTION_S = 0.0005
"""What a question costs of the effort, in CP-SAT's deterministic seconds; about what it takes in a small cluster."""
NODE_S = 0.000002
"""What it costs more for each node."""


class Pace:
    """What the searches for one plan may still ask.

    Outside of `heeded` everything may be asked: what was found has to be finished.
    """

    __slots__ = ("_is_heeded", "_is_paid", "effort_s", "watch")

    def __init__(self, watch: WorkWatch = UNWATCHED, effort_s: float = 0.0) -> None:
        self.watch = watch
        self.effort_s = effort_s
        """What is left of the effort."""
        self._is_heeded = self._is_paid = False

    @contextmanager
    def heeded(self, *, is_paid: bool = False) -> Iterator[None]:
        """For the length of a search, end it by `StoppedError` where it is stopped.

        With `is_paid` its questions are paid out of the effort, and it ends where that is used up.
        """
        self._is_heeded, self._is_paid = True, is_paid
        try:
            yield
        finally:
            self._is_heeded = self._is_paid = False

    @property
    def is_stopped(self) -> bool:
        """Whether the search has been asked to stop."""
        return self.watch.is_stopped

    def ask(self, nodes: int) -> None:
        """Count a question about so many nodes. Raises `StoppedError` where it may not be asked."""
        self.spend(QUESTION_S + NODE_S * nodes)

    def spend(self, seconds: float = 0.0) -> None:
        """Take something off the effort of a search that is paid. Raises `StoppedError` if it has to end."""
        if not self._is_heeded:
            return
        if self.is_stopped or (self._is_paid and self.effort_s <= 0):
            raise StoppedError
        if self._is_paid:
            self.effort_s -= seconds
