"""Things that select pods by their labels, found by a pod's labels instead of by trying every selector.

Most selectors demand one certain value of some label (`app=web`). A thing is filed under that label and value, and
a pod without it cannot be selected. So for a pod only what is filed under its own labels has to be tried, and the
few things that demand no such label.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from berth.api.selectors import Selector

T = TypeVar("T")

_Label = tuple[str, str]
"""A key and a value."""


class SelectorIndex(Generic[T]):
    """Things, each filed under one label that every pod they select has; None where there is no such label."""

    __slots__ = ("_by_label", "_label_of")

    def __init__(self) -> None:
        self._by_label: dict[_Label | None, dict[T, None]] = {}
        self._label_of: dict[T, _Label | None] = {}

    def add(self, thing: T, selectors: Iterable[Selector]) -> None:
        """File something that selects only pods that each of `selectors` matches."""
        labels = [label for selector in selectors for label in demanded(selector)]
        # Any demanded label would be right; the one with the fewest things under it leaves the fewest to be tried.
        label = min(labels, key=lambda label: len(self._by_label.get(label, ())), default=None)
        self._by_label.setdefault(label, {})[thing] = None
        self._label_of[thing] = label

    def remove(self, thing: T) -> None:
        """Forget something. Raises `KeyError`."""
        label = self._label_of.pop(thing)
        filed = self._by_label[label]
        del filed[thing]
        if not filed:
            del self._by_label[label]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Yield, each once, whatever may select a pod with these labels: all that do, and some that do not."""
        # Each thing is filed in one place, so none comes twice.
        yield from self._by_label.get(None, ())
        for label in labels.items():
            yield from self._by_label.get(label, ())


def demanded(selector: Selector) -> Iterator[_Label]:
    """Yield each label that whatever the selector selects has, with its value."""
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            yield requirement.key, requirement.values[0]
