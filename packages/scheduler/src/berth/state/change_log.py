"""What changed since when: the positions that views and followers are valid for."""

from typing import Generic, TypeVar

T = TypeVar("T", int, str)


class ChangeLog(Generic[T]):
    """An append-only log of row numbers, or of names, of which only the recent part is kept.

    A position counts every change since the beginning, so it never repeats. A row that one node leaves and another
    takes is logged both times, so nothing derived for the first is mistaken for the second.
    """

    __slots__ = ("_changed", "_dropped", "_keep", "position")

    def __init__(self, keep: int = 4096) -> None:
        self._changed: list[T] = []
        self._dropped = 0
        self._keep = keep
        self.position = 0
        """How many changes there have been."""

    def append(self, thing: T) -> None:
        """Note that a row or name changed."""
        self._changed.append(thing)
        self.position += 1
        # Half at a time, so that each entry is moved at most once.
        if len(self._changed) > 2 * self._keep:
            self._dropped += self._keep
            del self._changed[: self._keep]

    def since(self, position: int) -> list[T] | None:
        """Return what changed after `position`, each once, ascending; None if the log does not reach back that far."""
        start = position - self._dropped
        if start < 0:
            return None
        changed = self._changed[start:]
        return changed if len(changed) <= 1 else sorted(set(changed))
