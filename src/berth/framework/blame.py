"""Whose fault it was: errors of plugins, and exceptions of theirs, in the words that kube-scheduler has for them.

The prefixes are those of pkg/scheduler/framework/runtime, v1.36; a rejection is passed on as it is.
"""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from berth.framework.status import Status


class PluginBrokenError(RuntimeError):
    """A plugin raised an exception at an extension point; the exception is the cause of this one."""

    def __init__(self, point: str, plugin: str, bug: Exception) -> None:
        super().__init__(f"{prefix(point, plugin)}{type(bug).__name__}: {bug}")


def prefix(point: str, plugin: str) -> str:
    """Return what an error of a plugin begins with."""
    if point == "PreBindPreFlight":
        return f'running {point} "{plugin}": '
    return f'running {point} plugin "{plugin}": '


def ask(point: str, plugin: Any, method: Callable[..., Any], *args: Any) -> Any:
    """Call a plugin; what it raises comes out as `PluginBrokenError`."""
    try:
        return method(*args)
    except Exception as bug:
        raise PluginBrokenError(point, plugin.name, bug) from bug


def blamed(point: str, plugin: str, status: Status) -> Status:
    """Mark a failure with its plugin; an error says at which point it happened."""
    if status.code.is_rejection:
        return status.by(plugin)
    return Status(status.code, (f"{prefix(point, plugin)}{status.message}",), plugin)


def place_of(bug: BaseException, plugin: Any) -> str:
    """Return file and line of the innermost frame that is in the plugin's own code: `quiet_rack/plugin.py:12`.

    A plugin's own code is the package that its class is in, or the module where that is alone. Where no frame is in it,
    which is so for a method that was called wrongly, it is the last frame of all.
    """
    kind = plugin if isinstance(plugin, type) else type(plugin)
    top = kind.__module__.partition(".")[0]
    found, last = "", ""
    traceback: TracebackType | None = bug.__traceback__
    while traceback is not None:
        frame = traceback.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        last = _place(frame.f_code.co_filename, module, traceback.tb_lineno)
        if module.partition(".")[0] == top:
            found = last
        traceback = traceback.tb_next
    return found or last


def _place(file: str, module: str, line: int) -> str:
    """Return file and line, the file seen from where its package lies, which is short and the same everywhere."""
    path = Path(file)
    depth = module.count(".") + (2 if path.stem == "__init__" else 1)
    return f"{'/'.join(path.parts[-depth:])}:{line}"
