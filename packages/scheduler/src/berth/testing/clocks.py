"""How long a plugin's calls take, and clocks that say another time: for `check_plugin`."""

import contextlib
import datetime
import functools
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

from berth.framework.blame import place_of_function
from berth.framework.loader import contract
from berth.framework.promises import promises_of
from berth.framework.registry import fills

WAITED_S, WORKED_S = 0.1, 0.5
"""A call may not wait so long for something outside, nor work so long: every pod waits meanwhile."""
TIMES = 2
"""So often it must have happened: the first call may import something, and machines are busy now and then."""


class CallTimes:
    """A plugin's class with each method of the contract timed.

    Waiting is told from having to share the machine: only who waits gives the processor away of his own accord.
    """

    def __init__(self, plugin: type) -> None:
        self._slow: Counter[str] = Counter()
        self._fault = ""
        methods = {name: self._timed(name, getattr(plugin, name)) for name in contract() if self._is_own(plugin, name)}
        own = {"__module__": plugin.__module__, "__qualname__": plugin.__qualname__, "promises": promises_of(plugin)}
        optional = {"optional": True} if vars(plugin).get("optional", False) else {}
        self.timed: type = type(plugin.__name__, (plugin,), {**own, **optional, **methods})

    def fault(self) -> str:
        """Return what takes too long, with what to do about it; empty where nothing does."""
        return self._fault

    def _is_own(self, plugin: type, name: str) -> bool:
        static = next((vars(kind)[name] for kind in plugin.__mro__ if name in vars(kind)), None)
        return fills(plugin, name) and not isinstance(static, staticmethod | classmethod) and callable(static)

    def _timed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*arguments: Any) -> Any:
            with self._watched(name, method):
                answer = method(*arguments)
            is_stepwise = isinstance(answer, Generator)
            return _TimedSteps(answer, lambda: self._watched(name, method)) if is_stepwise else answer

        return timed

    @contextlib.contextmanager
    def _watched(self, name: str, method: Callable[..., Any]) -> Iterator[None]:
        began, worked, gave_way = time.perf_counter(), time.thread_time(), _gave_way()
        try:
            yield
        finally:
            waited = time.perf_counter() - began
            worked = time.thread_time() - worked
            if worked > WORKED_S or (waited - worked > WAITED_S and _gave_way() > gave_way):
                self._slow[name] += 1
                if self._slow[name] == TIMES:
                    did = f"works for {worked:.1f} s" if worked > WORKED_S else f"waits for {waited:.1f} s"
                    self._fault = (
                        f"{name} {did} in one call ({place_of_function(method)}), and every pod waits meanwhile: work "
                        "things out beforehand (pod_added, handle.follow), or let a method that may wait yield an "
                        "ApiCall"
                    )


class _TimedSteps(Generator[Any, Any, Any]):
    """A plugin's generator with each of its steps watched."""

    def __init__(
        self, steps: Generator[Any, Any, Any], watched: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> None:
        self._watched = watched
        self.gi_yieldfrom = steps
        """Under the name by which it is found where a generator waits."""

    def send(self, value: Any) -> Any:
        with self._watched():
            return self.gi_yieldfrom.send(value)

    def throw(self, *raised: Any) -> Any:
        with self._watched():
            return self.gi_yieldfrom.throw(*raised)


def _gave_way() -> int:
    """Return how often this thread has given the processor away of its own accord."""
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    except (ImportError, AttributeError):  # not on Linux: whoever is slow counts as waiting
        return time.perf_counter_ns()


_TIME = ("time", "monotonic", "perf_counter")


@contextlib.contextmanager
def clocks_set(later_s: float, module: ModuleType | None) -> Iterator[None]:
    """Have Python's clocks go ahead by so many seconds, also where a module has names of them."""

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _DATETIME.now(tz) + datetime.timedelta(seconds=later_s)

        @classmethod
        def utcnow(cls) -> Any:
            return cls.now(datetime.UTC).replace(tzinfo=None)

    stands_for: dict[int, Any] = {id(_DATETIME): Later}
    with contextlib.ExitStack() as stack:
        for name in _TIME:
            for unit, factor in (("", 1), ("_ns", 1_000_000_000)):
                real = getattr(time, name + unit)
                ahead = functools.partial(lambda real, ahead: real() + ahead, real, int(later_s * factor))
                stands_for[id(real)] = ahead
                stack.enter_context(mock.patch.object(time, name + unit, ahead))
        stack.enter_context(mock.patch.object(datetime, "datetime", Later))
        for name, value in tuple(vars(module).items()) if module is not None else ():
            if id(value) in stands_for:
                stack.enter_context(mock.patch.object(module, name, stands_for[id(value)]))
        yield


_DATETIME = datetime.datetime
