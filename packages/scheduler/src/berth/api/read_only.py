"""Maps, lists and arrays that cannot be changed in place: what objects that many read are made of.

Objects are shared, by everybody who reads them and (their equal parts) among each other. Their structs are frozen, and
lists are decoded as tuples; `make_read_only` does the rest, once the core takes an object in and before a plugin sees
it. That is later than decoding on purpose: by then most maps are shared, so that few have to be made anew.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

import msgspec
import numpy as np
from msgspec import inspect
from msgspec.structs import force_setattr
from numpy.typing import NDArray

Key = TypeVar("Key")
Value = TypeVar("Value")


class ReadOnlyDict(dict[Key, Value]):
    """A dict that refuses to be changed. It is read as fast as a plain one, equals it, and is the same as JSON.

    `dict(found)`, `found.copy()` and `found | {…}` give plain dicts, to be changed at will.
    """

    __slots__ = ()

    def _refuse(self, *_arguments: Any, **_more: Any) -> NoReturn:
        raise TypeError("this map belongs to an object that others read, too, and cannot be changed; take a copy")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: Any) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class ReadOnlyList(list[Value]):
    """A list that refuses to be changed, read as fast as a plain one. Its keeper writes by the methods of `list`."""

    __slots__ = ()

    def _refuse(self, *_arguments: Any, **_more: Any) -> NoReturn:
        raise TypeError("this list belongs to the scheduler, and cannot be changed; take a copy")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse


def read_only_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of the same memory that cannot be written to, whatever flags are asked for."""
    return np.asarray(memoryview(array).toreadonly())  # type: ignore[arg-type] # an array is one


EMPTY: ReadOnlyDict[Any, Any] = ReadOnlyDict()
"""The map of every field that an object leaves out: one for all, since nobody can change it."""


def make_read_only(found: msgspec.Struct | None) -> None:
    """Put a read-only map in place of each map in a struct of `berth.api`, however deep: it equals the one before.

    Only fields whose type may hold a map are looked at.
    """
    if found is None:
        return
    plan = _plan_of(type(found))
    for field in plan.maps:
        value = getattr(found, field)
        if type(value) is dict:
            force_setattr(found, field, ReadOnlyDict(value))
    for field in plan.structs:
        part = getattr(found, field)
        if part is not None:  # as most are
            make_read_only(part)
    for field in plan.tuples:
        for each in getattr(found, field):
            make_read_only(each)
    for field in plan.maps_of_structs:
        for each in getattr(found, field).values():
            make_read_only(each)
    for field in plan.json:
        force_setattr(found, field, read_only_json(getattr(found, field)))


def read_only_json(value: Any) -> Any:
    """Return JSON with read-only maps for its objects and tuples for its arrays."""
    if isinstance(value, ReadOnlyDict):
        return value
    if isinstance(value, Mapping):
        return ReadOnlyDict({key: read_only_json(each) for key, each in value.items()})
    if isinstance(value, list | tuple):
        return tuple([read_only_json(each) for each in value])
    return value


class _Plan(NamedTuple):
    """The fields of a struct in which there may be maps, by what they hold; a field may be in two of these."""

    maps: tuple[str, ...]
    structs: tuple[str, ...]
    tuples: tuple[str, ...]
    """Tuples of structs."""
    maps_of_structs: tuple[str, ...]
    json: tuple[str, ...]
    """Anything, or tuples of anything."""


@lru_cache(maxsize=256)
def _plan_of(struct: type[msgspec.Struct]) -> _Plan:
    """Return what there is to do about a struct; its type must not be part of itself, as none of ours is."""
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)

    def fields(holds: Callable[[inspect.Type], bool]) -> tuple[str, ...]:
        return tuple(field.name for field in described.fields if any(map(holds, _alternatives(field.type))))

    return _Plan(
        maps=fields(lambda kind: isinstance(kind, inspect.DictType)),
        structs=fields(_may_hold_maps),
        tuples=fields(lambda kind: isinstance(kind, inspect.VarTupleType) and _may_hold_maps(kind.item_type)),
        maps_of_structs=fields(lambda kind: isinstance(kind, inspect.DictType) and _may_hold_maps(kind.value_type)),
        json=fields(lambda kind: isinstance(getattr(kind, "item_type", kind), inspect.AnyType)),
    )


def _alternatives(kind: inspect.Type) -> Iterable[inspect.Type]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _may_hold_maps(kind: inspect.Type) -> bool:
    """Say whether a type is a struct in which there may be maps."""
    return any(isinstance(each, inspect.StructType) and any(_plan_of(each.cls)) for each in _alternatives(kind))
