"""Progress of what takes more than two seconds, and a Ctrl-C that keeps what is done.

    with working("placing pods", total=len(pods)) as work:
        for pod in pods:
            if work.is_stopped:
                break
            ...
            work.advance()

The bar is drawn on standard error, and only on a terminal. The first Ctrl-C sets `is_stopped`, and the loop ends where
it can; the second one ends the command.
"""

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

import click

from berth.runtime.observing.logs import legible
from berth_workbench.simulation.watch import WorkWatch

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S = 2.0
"""How long a piece of work may take before people want to know how far it is."""
LOOK_EVERY_S = 0.1
"""How often the bar is drawn anew at most."""


class Work(WorkWatch):
    """A piece of work that is drawn as a bar; Ctrl-C stops it."""

    __slots__ = ("_bar", "_begun", "_looked", "_task", "_what")

    def __init__(self, what: str, total: int | None) -> None:
        super().__init__()
        self.total = total
        self._what = what
        self._begun = self._looked = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, steps: int = 1) -> None:
        """Say that this much more is done; cheap enough for an inner loop."""
        super().advance(steps)
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        if self._bar is None and now - self._begun >= PATIENCE_S and sys.stderr.isatty():
            self._begin()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self.done, total=self.total)

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(legible(self._what), total=self.total)

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
