"""What things hold: all that can be reached from them."""

import gc
from collections import deque
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import msgspec
import numpy as np

_NOT_HELD = (type, ModuleType, CodeType, BuiltinFunctionType)
"""What belongs to the program, and not to what it has read."""


def reached_from(*roots: Any) -> Iterator[tuple[Any, str]]:
    """Yield each thing that the roots hold, once, with the types of those through which it is held."""
    seen, found = set[int](), deque((root, "") for root in roots)
    while found:
        one, way = found.popleft()
        if id(one) in seen or isinstance(one, _NOT_HELD):
            continue
        seen.add(id(one))
        yield one, way
        further = f"{way} > {type(one).__name__}"
        found.extend((held, further) for held in _held_by(one))


def _held_by(one: Any) -> Iterable[Any]:
    if isinstance(one, str | bytes):
        return ()
    if isinstance(one, msgspec.Struct):  # those of `berth.api` are hidden from the garbage collector
        return [getattr(one, name) for name in one.__struct_fields__]
    if isinstance(one, FunctionType):
        return [one.__closure__, one.__defaults__, one.__kwdefaults__]
    if isinstance(one, np.ndarray):
        return [one.base]
    return gc.get_referents(one)
