"""A changed configuration file, put in force while the command goes on; and what signals have a command do.

`berth run` and `berth up` follow the file that they were started with in the same way: every few seconds, and at once
when SIGHUP comes.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from berth.config.types import SchedulerConfiguration
    from berth.runtime.observing.metrics import Metrics
    from berth.runtime.scheduler import LiveScheduler


def follow_config(
    scheduler: "LiveScheduler", metrics: "Metrics", path: str, load: "Callable[[], SchedulerConfiguration]"
) -> "asyncio.Task[None]":
    """Put the file at `path` in force whenever it has changed, until the task is cancelled; `load` reads it."""
    from berth.runtime.reload import ConfigFile

    file = ConfigFile(Path(path), load, scheduler.reconfigure)
    metrics.registry.register(file)
    on_signal(signal.SIGHUP, lambda: file.look(at_once=True))
    return asyncio.create_task(file.run(), name="configuration file")


def on_signal(number: signal.Signals, act: "Callable[[], Coroutine[Any, Any, None]]") -> None:
    """Do this whenever the signal comes."""
    under_way: set[asyncio.Task[None]] = set()

    def told() -> None:
        task = asyncio.create_task(act(), name=number.name)
        under_way.add(task)  # the event loop alone does not keep a task alive
        task.add_done_callback(under_way.discard)

    asyncio.get_running_loop().add_signal_handler(number, told)
