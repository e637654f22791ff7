"""Dictionaries ordered by arrival."""

from collections.abc import Iterable, Iterator
from typing import Any


def put_in_order(mapping: dict[Any, Any], keys: Iterable[Any]) -> bool:
    """Put the entries of a dictionary in the order of these keys, others behind them; say whether any moved."""
    wanted = [key for key in keys if key in mapping]
    if wanted == list(mapping)[: len(wanted)]:
        return False
    entries = {key: mapping[key] for key in wanted}
    entries.update(mapping)
    # As a map that is read-only to others is changed, too.
    dict.clear(mapping)
    dict.update(mapping, entries)
    return True


class OrderedKeys:
    """Keys in order of arrival, which can be put back in their old places.

    Each has a number that says when it came. Undoing a change gives keys their old numbers, and the keys are sorted
    when next read: so undoing costs as much as was changed, not as much as there is.
    """

    __slots__ = ("_is_sorted", "_next", "_places")

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._next = 0
        self._is_sorted = True

    def add(self, *keys: str) -> None:
        """Add those keys that are not there, behind all others."""
        for key in keys:
            if key not in self._places:
                self._places[key] = self._next
                self._next += 1

    def remove(self, key: str) -> int | None:
        """Remove a key, and return its number; None if it is not there."""
        return self._places.pop(key, None)

    def put_back(self, key: str, place: int) -> None:
        """Give a present key its old number."""
        if self._places.get(key, place) != place:
            self._places[key] = place
            self._is_sorted = False

    @property
    def next_place(self) -> int:
        """The number of the next key; to be reset once later keys are gone again."""
        return self._next

    @next_place.setter
    def next_place(self, place: int) -> None:
        self._next = place

    def __iter__(self) -> Iterator[str]:
        if not self._is_sorted:
            self._places = dict(sorted(self._places.items(), key=lambda each: each[1]))
            self._is_sorted = True
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
