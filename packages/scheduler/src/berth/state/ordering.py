"""Dictionaries whose order says who came first."""

from collections.abc import Iterable, Iterator
from typing import Any


def put_in_order(mapping: dict[Any, Any], keys: Iterable[Any]) -> bool:
    """Let the entries of a dictionary stand in the order of these keys, others behind them; say whether any moved."""
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
    """Keys in the order in which they came, which may be taken back to where they stood.

    Each has a number that says when it came. Whoever takes a change back gives keys their numbers again, and the keys
    are sorted when they are next read: so what is taken back costs as much as was changed, not as much as there is.
    """

    __slots__ = ("_is_sorted", "_next", "_places")

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._next = 0
        self._is_sorted = True

    def add(self, *keys: str) -> None:
        """Add keys behind all others, those that are not there."""
        for key in keys:
            if key not in self._places:
                self._places[key] = self._next
                self._next += 1

    def remove(self, key: str) -> int | None:
        """Take a key out, and return its number; None where it is not there."""
        return self._places.pop(key, None)

    def put_back(self, key: str, place: int) -> None:
        """Give a key that is there the number that it had."""
        if self._places.get(key, place) != place:
            self._places[key] = place
            self._is_sorted = False

    @property
    def next_place(self) -> int:
        """The number of the key that comes next; to be set to what it was when later keys are gone again."""
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
