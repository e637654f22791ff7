"""An attribute that is computed when it is first read.

`functools.cached_property` takes a lock each first time up to Python 3.11, which costs more than most of what is
cached here; one thread owns all state, so none is needed.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """Calls the method once and leaves its result in the instance's dictionary."""

    def __init__(self, method: Callable[[Any], T]) -> None:
        self._method = method
        self._name = method.__name__
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> "lazy[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> "lazy[T] | T":
        if instance is None:
            return self
        # A descriptor without `__set__` comes after the instance's dictionary, so from now on this is not called any
        # more.
        value = instance.__dict__[self._name] = self._method(instance)
        return value
