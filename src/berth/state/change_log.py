"""Which rows changed since when: the positions that memos and snapshots are valid for."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


class ChangeLog:
    """An append-only log of row numbers, of which only the recent part is kept.

    A position counts every change since the beginning, so it never repeats, and a row that is reused never looks
    unchanged.
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

    def since(self, position: int) -> Rows | None:
        """Return the distinct rows changed after `position`, or None where that is further back than the log."""
        changed = self.list_since(position)
        return None if changed is None else np.array(changed, dtype=np.intp)

    def list_since(self, position: int) -> list[int] | None:
        """Return the same as a list, ascending."""
        start = position - self._dropped
        if start < 0:
            return None
        changed = self._rows[start:]
        return changed if len(changed) <= 1 else sorted(set(changed))
