"""A changed configuration file, and changed code of plugins, put in force while the command goes on; and SIGHUP.

`berth run` and `berth up` follow what they were started with in the same way: the file every few seconds, and both at
once when SIGHUP comes.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth.cli.setup import registry_of
from berth.framework.setup import Setup

if TYPE_CHECKING:
    from berth.config.types import SchedulerConfiguration
    from berth.runtime.observing.metrics import Metrics
    from berth.runtime.reload import ConfigFile, NewSetup
    from berth.runtime.scheduler import LiveScheduler


def setup_followed(
    scheduler: "LiveScheduler",
    metrics: "Metrics",
    setup: Setup,
    plugins: Sequence[str],
    path: str,
    load: "Callable[[], SchedulerConfiguration]",
) -> "ConfigFile[NewSetup] | None":
    """Return what puts the file at `path`, and changed code of plugins, in force again.

    `plugins` are those that `--plugin` names, `load` reads the configuration as at the start. Where there is neither a
    file nor a plugin of other people's, nothing can change, and there is nothing to follow.
    """
    from berth.framework.plugin_code import PluginCode
    from berth.runtime.reload import ConfigFile, SetupReader

    if not path and not setup.registry.out_of_tree().names:
        return None
    code = PluginCode(setup.registry, lambda: registry_of(plugins)[0])
    reader = SetupReader(load, code, scheduler.reconfigure, lambda: scheduler.config)
    file = ConfigFile(
        Path(path) if path else None, reader.load, reader.apply, has_more=reader.has_new_code, more=reader.files
    )
    metrics.registry.register(file)
    return file


def on_signal(number: signal.Signals, act: "Callable[[], Coroutine[Any, Any, None]]") -> None:
    """Do this whenever the signal comes."""
    under_way: set[asyncio.Task[None]] = set()

    def told() -> None:
        task = asyncio.create_task(act(), name=number.name)
        under_way.add(task)  # the event loop alone does not keep a task alive
        task.add_done_callback(under_way.discard)

    asyncio.get_running_loop().add_signal_handler(number, told)
