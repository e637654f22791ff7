"""Whose fault it was: errors of plugins, and exceptions of theirs, in the words that kube-scheduler has for them.

The prefixes are those of pkg/scheduler/framework/runtime, v1.36; a rejection is passed on as it is.
"""

from collections.abc import Callable
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
