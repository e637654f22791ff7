"""Whose turn it is to touch the core, and where its work runs.

The core's state has no locks. It is touched by one party at a time: by a *slice*, which is a few milliseconds of the
core's own work and runs where the runner puts it, or on the event loop by the task that holds `between`. `Turns`
ensures that. `CoreThread` is the runner of a live process: a slice that never ends leaves the event loop free, and with
it watches, the lease, health and metrics. `Inline` does the work at once, for tests and virtual time.

    event loop:  ──run(slice)──┐  watches, lease, HTTP    ┌─then(result)── … ──between─── … ──run(slice)──┐
    core thread:               └─────────slice────────────┘                                                └──── …
"""

import asyncio
import contextlib
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable
from types import FrameType
from typing import Any, NamedTuple, Protocol, TypeVar

from berth.framework.blame import Escaped

Result = TypeVar("Result")
Work = Callable[[], Any]


class CycleBusy(RuntimeError):  # noqa: N818 - it says what is the case
    """The core is at work and cannot be asked now; the message says at what, for people."""


class Ended(NamedTuple):
    """How a piece of work ended."""

    value: Any
    error: Exception | None


Done = Callable[[Ended], None]


class SliceRunner(Protocol):
    """Does one piece of work at a time."""

    def start(self, work: Work, done: Done) -> None:
        """Do the work, then call `done` on the event loop that this was called on."""

    def current_frame(self) -> FrameType | None:
        """Return the innermost frame of the work under way on another thread; None where there is none."""

    def close(self) -> None:
        """Take no more work."""


class Inline:
    """Does work in the calling thread, at once: deterministic, and blocking."""

    __slots__ = ()

    def start(self, work: Work, done: Done) -> None:
        """Do the work."""
        done(_ended(work))

    def current_frame(self) -> FrameType | None:
        """Return None: nothing can ask while it works."""
        return None

    def close(self) -> None:
        """There is nothing to end."""


class CoreThread:
    """A thread that does the work handed to it. A daemon thread: work that never ends does not keep the process from
    ending.
    """

    __slots__ = ("_handed", "_is_at_work", "_thread")

    def __init__(self) -> None:
        self._handed: queue.SimpleQueue[tuple[Work, Done, asyncio.AbstractEventLoop] | None] = queue.SimpleQueue()
        self._is_at_work = False
        self._thread = threading.Thread(target=self._run, name="berth-core", daemon=True)

    def start(self, work: Work, done: Done) -> None:
        """Hand work over; the thread is made with the first. About 50 µs pass until `done` even if it is no work."""
        if self._thread.ident is None:
            self._thread.start()
        self._is_at_work = True
        self._handed.put((work, done, asyncio.get_running_loop()))

    def current_frame(self) -> FrameType | None:
        """Return where the thread is now; it goes on meanwhile."""
        if not self._is_at_work or self._thread.ident is None:
            return None
        return sys._current_frames().get(self._thread.ident)  # noqa: SLF001 - documented; it is meant for debuggers

    def close(self) -> None:
        """Let the thread end after its current work."""
        if self._thread.ident is not None:
            self._handed.put(None)

    def _run(self) -> None:
        while (handed := self._handed.get()) is not None:
            work, done, loop = handed
            ended = _ended(work)
            self._is_at_work = False
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits for this any more
                loop.call_soon_threadsafe(done, ended)
            del handed, work, done, ended, loop  # nothing is kept alive until the next work comes


def _ended(work: Work) -> Ended:
    try:
        return Ended(work(), None)
    except Exception as error:
        return Ended(None, error)
    except BaseException as raised:  # nobody but a plugin raises these here, and they must not end the event loop
        return Ended(None, Escaped(raised).with_traceback(raised.__traceback__))


class Turns:
    """One party at a time, in the order in which they asked. `busy_with` says in words what a slice is busy with."""

    __slots__ = ("_busy_with", "_lock", "_runner", "begun", "is_at_work")

    def __init__(self, runner: SliceRunner, busy_with: Callable[[], str]) -> None:
        self._runner = runner
        self._busy_with = busy_with
        self._lock = asyncio.Lock()
        self.begun = 0
        """How many pieces of work were begun; it says whether one that is under way is still the same."""
        self.is_at_work = False
        """Whether the runner is at work."""

    async def run(
        self,
        work: Callable[[], Result],
        then: Callable[[Result], None] | None = None,
        *,
        begins_within_s: float | None = None,
    ) -> Result:
        """Have the runner do the work; return what it returned, or raise what it raised (`Escaped` for oddities).

        Raises `CycleBusy` if its turn does not come within the timeout; without one it waits.

        `then` gets the result before any other turn begins, even if the caller was cancelled meanwhile: work that was
        begun is never lost, only no longer awaited.
        """
        await self._acquire(begins_within_s)
        over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

        def done(ended: Ended) -> None:
            if then is not None and ended.error is None:
                try:
                    then(ended.value)
                except Exception as bug:
                    ended = Ended(None, bug)
            self.is_at_work = False
            self._lock.release()
            if not over.done():
                over.set_result(ended)

        self.begun += 1
        self.is_at_work = True
        self._runner.start(work, done)
        ended = await over
        if ended.error is not None:
            raise ended.error
        return ended.value  # type: ignore[no-any-return]  # it is what `work` returned

    @contextlib.asynccontextmanager
    async def between(self, timeout_s: float) -> AsyncIterator[None]:
        """Hold the core on the event loop. Raises `CycleBusy` if that is not possible within the timeout."""
        await self._acquire(timeout_s)
        try:
            yield
        finally:
            self._lock.release()

    async def _acquire(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._lock.acquire()
        except TimeoutError:
            raise CycleBusy(self._busy_with()) from None
