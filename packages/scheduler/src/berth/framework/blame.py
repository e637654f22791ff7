"""Names the plugin behind an error status or an exception, in kube-scheduler's words.

The prefixes are those of pkg/scheduler/framework/runtime, v1.36; a rejection is passed on unchanged.
"""

import inspect
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn, Protocol, TypeVar, TypeVarTuple

from berth.api.user_error import UserError
from berth.framework.status import Status, error
from berth.framework.work_budget import OutOfBudgetError

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


_IN_TREE = "berth.plugins"


def is_in_tree(module: str) -> bool:
    """Say whether a module, by its name, holds plugins of Berth's own."""
    return module.startswith(f"{_IN_TREE}.")


class Named(Protocol):
    """A plugin, or a stand-in for one."""

    @property
    def name(self) -> str: ...


class PluginBrokenError(UserError, RuntimeError):
    """A plugin raised an exception at an extension point; the exception is the cause of this one."""

    def __init__(self, point: str, plugin: str, bug: Exception) -> None:
        super().__init__(f"{prefix(point, plugin)}{described(bug)}")
        self.plugin = plugin
        self.bug = bug


def out_of_budget(bug: BaseException) -> OutOfBudgetError | None:
    """Return the `OutOfBudgetError` behind an exception, if it is not a bug but the end of the attempt's budget."""
    cause = bug.bug if isinstance(bug, PluginBrokenError) else bug
    return cause if isinstance(cause, OutOfBudgetError) else None


def status_of(bug: Exception) -> Status:
    """Return what ended an attempt as an error status: a bug, most likely a plugin's, or the end of its budget."""
    used_up = out_of_budget(bug)
    if used_up is not None:
        return error(str(used_up))
    return error(str(bug) if isinstance(bug, PluginBrokenError) else f"{type(bug).__name__}: {bug}")


class Escaped(RuntimeError):  # noqa: N818 - messages name what it stands for
    """A plugin raised something that is not an `Exception` (SystemExit, CancelledError, GeneratorExit), which is the
    cause of this one.

    It is a bug like any other, and must not end the process, or the task or generator that the plugin was called from.
    """

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"{type(raised).__name__}: {raised}")
        self.__cause__ = raised


def contained(raised: BaseException, passing: tuple[type[BaseException], ...] = ()) -> Exception:
    """Return whatever a call of a plugin raised as an `Exception`.

    Raises it unchanged if its type is in `passing`, or if it is a Ctrl-C at a terminal: Python raises that in the main
    thread, wherever that is at the time. A live scheduler's plugins run on another.
    """
    if isinstance(raised, Exception):
        return raised
    is_typed = isinstance(raised, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
    if is_typed or isinstance(raised, passing):
        raise raised
    return Escaped(raised)


def raise_again(bug: Exception, raised: BaseException) -> NoReturn:
    """Raise what `contained` returned for `raised`: the same exception with its cause, or an `Escaped` caused by it."""
    if bug is raised:
        raise bug
    raise bug from raised


def prefix(point: str, plugin: str) -> str:
    """Return the prefix of a plugin's error."""
    if point == "PreBindPreFlight":
        return f'running {point} "{plugin}": '
    return f'running {point} plugin "{plugin}": '


def ask(point: str, plugin: Named, method: Callable[[*Arguments], Result], *args: *Arguments) -> Result:
    """Call a plugin; whatever it raises becomes a `PluginBrokenError`."""
    try:
        return method(*args)
    except BaseException as raised:
        bug = contained(raised)
        raise PluginBrokenError(point, plugin.name, bug) from bug


def blamed(point: str, plugin: str, status: Status) -> Status:
    """Mark a failure with its plugin; an error also says at which point it happened."""
    if status.code.is_rejection:
        return status.by(plugin)
    return Status(status.code, (f"{prefix(point, plugin)}{status.message}",), plugin)


def described(bug: BaseException) -> str:
    """Return an exception in one line: its type, its message, and where in the plugin's own code it was raised."""
    bug = bug.__cause__ if isinstance(bug, Escaped) and bug.__cause__ is not None else bug
    place = place_of(bug)
    return f"{type(bug).__name__}: {bug}" + (f" ({place})" if place else "")


def origin_of(bug: BaseException) -> Hashable:
    """Return what identifies the origin of an exception: its type, and the line that raised it.

    Unlike `described` it costs next to nothing, for plugins that raise on every node.
    """
    traceback = bug.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return type(bug), *(() if traceback is None else (traceback.tb_frame.f_code, traceback.tb_lineno))


def place_of(bug: BaseException) -> str:
    """Return file and line of the innermost frame in the plugin's own code, `quiet_rack/plugin.py:12`; empty if there
    is none.

    There is none if the plugin could not even be called.
    """
    if isinstance(bug, Escaped) and bug.__cause__ is not None:
        bug = bug.__cause__
    return place_among(_frames_of(bug.__traceback__))


def place_of_function(method: Callable[..., object]) -> str:
    """Return file and line of a plugin's own method, whatever guards it; empty for one that is not Python."""
    own = inspect.unwrap(method)
    own = own.__func__ if inspect.ismethod(own) else own
    if not inspect.isfunction(own):
        return ""
    return place_in(own.__code__.co_filename, own.__module__, own.__code__.co_firstlineno)


def place_among(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Return the place of the plugin's own code among these frames, outermost first, each with its line.

    The framework calls plugins, so the first frame that is not Berth's is the plugin's, and with it the whole package
    that this frame is in.
    """
    own, found = "", ""
    for frame, line in frames:
        module = str(frame.f_globals.get("__name__", ""))
        package = _IN_TREE if is_in_tree(module) else module.partition(".")[0]
        own = own or (package if package != "berth" else "")
        if package == own:
            found = place_in(frame.f_code.co_filename, module, line)
    return found


def _frames_of(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def place_in(file: str, module: str, line: int) -> str:
    """Return file and line. The path starts at the package, so it is short and the same on every machine."""
    path = Path(file)
    depth = module.count(".") + (2 if path.stem == "__init__" else 1)
    return f"{'/'.join(path.parts[-depth:])}:{line}"
