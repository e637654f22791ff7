"""Progress of what takes more than two seconds, a Ctrl-C that keeps what is done, and `--for`, which ends it in time.

    with working("placing pods", total=len(pods)) as work:
        for pod in pods:
            if work.is_stopped:
                break
            ...
            work.advance()

The bar is drawn on standard error, and only on a terminal. The first Ctrl-C sets `is_stopped`, and the loop ends where
it can; the second one ends the command. The time of `--for` counts from the start of the command, and ends all its
work in the same way.
"""

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from berth.runtime.observing.logs import legible
from berth_workbench.simulation.watch import WorkWatch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S = 2.0
"""How long a piece of work may take before people want to know how far it is."""
LOOK_EVERY_S = 0.1
"""How often the bar is drawn anew at most."""
_UNTIL = "berth_workbench.until"
"""What the context of a command calls the moment at which the time of `--for` is up."""
_JOBS = "berth_workbench.jobs"

Command = TypeVar("Command", bound=Callable[..., Any])


def for_option(command: Command) -> Command:
    """`--for`: every piece of work of the command ends when that time is up."""
    decorate = click.option(
        "--for",
        metavar="DURATION",
        expose_value=False,
        callback=_end_in_time,
        help="Take no longer than this, such as 30s or 5m, and tell what was found by then.",
    )
    return decorate(command)


def _end_in_time(context: click.Context, _option: click.Parameter, text: str | None) -> None:
    from berth.config.durations import parse_duration_s

    if text is None:
        return
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if seconds <= 0:
        raise click.BadParameter(f"{text!r} is no time to do anything in")
    context.meta[_UNTIL] = time.monotonic() + seconds


def jobs_option(command: Command) -> Command:
    """`--jobs`: how many processes work at the answer of the command."""
    decorate = click.option(
        "--jobs",
        type=click.IntRange(1, 1024),
        default=None,
        metavar="N",
        expose_value=False,
        callback=_work_at_once,
        help="How many processes. [default: one for each CPU]",
    )
    return decorate(command)


def _work_at_once(context: click.Context, _option: click.Parameter, jobs: int | None) -> None:
    from berth_workbench.simulation.processes import cores

    context.meta[_JOBS] = jobs or cores()


def _jobs() -> int:
    context = click.get_current_context(silent=True)
    jobs: int = 1 if context is None else context.meta.get(_JOBS, 1)
    return jobs


class EndedEarly(click.ClickException):
    """A command was cut short, so that it answers neither Yes nor No."""

    exit_code = 3
    """None of those for success (0), failure (1), which is a No as well, and wrong usage (2)."""


def found_by_then() -> str:
    """Say why the work of a command has ended early, below what it has found."""
    return f"{_why_it_ended()}; this is what was found by then"


def nothing_by_then() -> str:
    """Say why the work of a command has ended early if there is no result to show."""
    return f"{_why_it_ended()}, and before there was anything to tell"


def _why_it_ended() -> str:
    is_late = time.monotonic() >= _until()
    return "the time of --for was up before the end" if is_late else "stopped before the end"


def _until() -> float:
    context = click.get_current_context(silent=True)
    until: float = math.inf if context is None else context.meta.get(_UNTIL, math.inf)
    return until


class Work(WorkWatch):
    """A piece of work that is drawn as a bar; Ctrl-C stops it."""

    __slots__ = ("_bar", "_looked", "_started", "_task")

    def __init__(self, what: str, total: int | None) -> None:
        super().__init__(_until(), jobs=_jobs())
        self.begin(what, total)
        self._started = self._looked = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, steps: int = 1) -> None:
        """Say that this much more is done; cheap enough for an inner loop."""
        super().advance(steps)
        if self._follows is not None:  # another process draws
            return
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        if self._bar is None and now - self._started >= PATIENCE_S and sys.stderr.isatty():
            self._draw()
        if self._bar is not None and self._task is not None:
            told = legible(self.in_words())
            self._bar.update(self._task, description=told, completed=self.done, total=self.total, refresh=True)

    def _draw(self) -> None:
        """Put up a bar that is drawn by `advance` alone: with a thread of its own, nothing could be forked."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._bar.start()
        self._task = self._bar.add_task("", total=self.total)

    def end(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextlib.contextmanager
def working(what: str, total: int | None = None) -> Iterator[Work]:
    """Show progress for the length of a block, and turn the first Ctrl-C in it into `is_stopped`."""
    work = Work(what, total)
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None

    def stop(_number: int, _frame: FrameType | None) -> None:
        if work.is_stopped:
            raise KeyboardInterrupt
        work.stop()
        click.echo("stopping; what is done is kept (Ctrl-C again ends at once)", err=True)

    if is_main:
        signal.signal(signal.SIGINT, stop)
    try:
        yield work
    finally:
        work.end()
        if is_main:
            signal.signal(signal.SIGINT, before)
