"""Which rows changed since when: the positions that memos and followers are valid for."""


class ChangeLog:
    """An append-only log of row numbers, of which only the recent part is kept.

    A position counts every change since the beginning, so it never repeats. A row that one node leaves and another
    takes is logged both times, so nothing derived for the first is mistaken for the second.
    """

    __slots__ = ("_dropped", "_keep", "_rows", "position")

    def __init__(self, keep: int = 4096) -> None:
        self._rows: list[int] = []
        self._dropped = 0
        self._keep = keep
        self.position = 0
        """How many changes there have been."""

    def append(self, row: int) -> None:
        """Note that `row` changed."""
        self._rows.append(row)
        self.position += 1
        if len(self._rows) > 2 * self._keep:
            self._dropped += self._keep
            del self._rows[: self._keep]

    def since(self, position: int) -> list[int] | None:
        """Return the rows changed after `position`, each once, ascending; None where the log does not reach so far."""
        start = position - self._dropped
        if start < 0:
            return None
        changed = self._rows[start:]
        return changed if len(changed) <= 1 else sorted(set(changed))
