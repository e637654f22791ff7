"""Several instruments as one: each event goes to those that handle it."""

from collections.abc import Callable
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

from berth.cycle.instrument import Instrument

_EVENTS = MappingProxyType({name: value for name, value in vars(Instrument).items() if isinstance(value, FunctionType)})
"""The instrument's methods, which do nothing, by their names."""


class Instruments(Instrument):
    """Hands each event on to the instruments that override its method.

    An event that only one of them handles costs nothing extra: that one's method replaces ours. Answers (`evaluations`
    has one) are those of the first that handles the event.
    """

    def __init__(self, *instruments: Instrument) -> None:
        following = [each.followed for each in instruments if each.followed is not None]
        assert len(following) <= 1, "one instrument at most follows pods"
        self.followed = next(iter(following), None)
        for name, silent in _EVENTS.items():
            methods = [(each, getattr(each, name)) for each in instruments]
            wanted = [method for each, method in methods if method != MethodType(silent, each)]
            if wanted:
                setattr(self, name, wanted[0] if len(wanted) == 1 else _in_turn(wanted))


def _in_turn(methods: list[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a function that calls all of them and answers like the first."""
    first, *others = methods

    def tell(*arguments: Any, **options: Any) -> Any:
        answer = first(*arguments, **options)
        for other in others:
            other(*arguments, **options)
        return answer

    return tell
