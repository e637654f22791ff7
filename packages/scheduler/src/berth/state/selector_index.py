"""Finds things that select pods by labels from a pod's labels, instead of trying every selector.

Most selectors demand a certain value of some label (`app=web`). A thing is filed under that label and value, and a pod
without it cannot be selected. So for a pod, only things filed under its own labels, and the few that demand no such
label, have to be tried.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from berth.api.selectors import Selector

T = TypeVar("T")

_Label = tuple[str, str]
"""A key and a value."""


class SelectorIndex(Generic[T]):
    """Things, each filed under one label that every pod they select has; None if there is no such label."""

    __slots__ = ("_by_label", "_label_of")

    def __init__(self) -> None:
        self._by_label: dict[_Label | None, dict[T, None]] = {}
        self._label_of: dict[T, _Label | None] = {}

    def add(self, thing: T, selectors: Iterable[Selector]) -> None:
        """File something that selects only pods that each of `selectors` matches."""
        labels = [label for selector in selectors for label in demanded(selector)]
        # Any demanded label would do; the one with the fewest things under it leaves the fewest to try.
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
        """Yield, each once, the things that may select a pod with these labels: all that do, and perhaps some that do
        not.
        """
        # Each thing is filed in one place, so none comes twice.
        yield from self._by_label.get(None, ())
        for label in labels.items():
            yield from self._by_label.get(label, ())


def demanded(selector: Selector) -> Iterator[_Label]:
    """Yield each label, with its value, that everything the selector selects must have."""
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            yield requirement.key, requirement.values[0]
