"""Bounded stores that drop what was asked for least recently."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def recent(store: OrderedDict[K, T], key: K, make: Callable[[], T], at_most: int) -> T:
    """Return what a store has under a key, made where it has nothing. At most `at_most` entries are kept."""
    found = store.get(key)
    if found is not None:
        store.move_to_end(key)
        return found
    found = store[key] = make()
    if len(store) > at_most:
        store.popitem(last=False)
    return found
