"""asyncio in virtual time: event loops whose clock jumps to the next timer when there is nothing else to do.

For tests of code that awaits. `VirtualLoop(VirtualTime())` runs a coroutine as any loop does (`run_until_complete`),
only that sleeping takes no time. Several loops may share a `VirtualTime`, one for each process of a simulated system;
then `turn` runs them by hand, and its caller says when time passes. A process whose loop gets no turns for a
while finds all its timers late afterwards, as one does that was stopped with SIGSTOP.

Nothing here depends on the machine's clock, sockets or threads: the same callbacks run in the same order every time.
"""
# ruff: noqa: SLF001 - asyncio offers no other way to make a loop of one's own

import asyncio
import heapq
import sys
from asyncio import events
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class Stuck(RuntimeError):  # noqa: N818 - it says what happened
    """A loop waits for something that can never come: no callback is ready, and no timer runs."""


class VirtualTime:
    """The present, in seconds; it moves when somebody says so."""

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def pass_until(self, moment: float) -> None:
        """Let time pass; a moment that is over already changes nothing."""
        self.now = max(self.now, moment)


class _Selector:
    """What a loop without sockets waits with: instead of waiting, it lets the time pass, if the loop is alone."""

    __slots__ = ("is_alone", "time")

    def __init__(self, time: VirtualTime) -> None:
        self.time = time
        self.is_alone = True

    def select(self, timeout: float | None) -> list[Any]:
        """Return at once; without a timeout nothing would ever end the wait."""
        if self.is_alone:
            if timeout is None:
                raise Stuck("nothing is ready to run, and no timer is set")
            self.time.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop on a `VirtualTime`; what would need a socket, a thread or a signal is not there."""

    def __init__(self, time: VirtualTime | None = None) -> None:
        super().__init__()
        self.virtual_time = time or VirtualTime()
        self._selector = _Selector(self.virtual_time)

    def time(self) -> float:
        """The present in virtual time."""
        return self.virtual_time.now

    def next_time(self) -> float | None:
        """When there will be something to run: now, at the first timer, or never (None)."""
        base: Any = self  # the stubs leave out what BaseEventLoop is made of
        if base._ready:
            return self.virtual_time.now
        scheduled = base._scheduled
        while scheduled and scheduled[0]._cancelled:  # cleared away as BaseEventLoop._run_once does
            base._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        return max(self.virtual_time.now, scheduled[0].when()) if scheduled else None

    def turn(self) -> None:
        """Run what is ready now, once; what becomes ready meanwhile waits for the next turn."""
        base: Any = self
        before = sys.get_asyncgen_hooks()
        self._selector.is_alone = False
        sys.set_asyncgen_hooks(firstiter=base._asyncgen_firstiter_hook, finalizer=base._asyncgen_finalizer_hook)
        events._set_running_loop(self)
        try:
            base._run_once()
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*before)
            self._selector.is_alone = True

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Arguments]], Result], *args: *Arguments
    ) -> "asyncio.Future[Result]":
        """Run it here and now: there are no threads."""
        future: asyncio.Future[Result] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There is no sleep from which another thread would have to wake the loop."""
