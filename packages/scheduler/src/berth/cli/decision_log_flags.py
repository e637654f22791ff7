"""`--decision-log` and `--decision-log-size`, the same for every command that runs a scheduler.

What was typed becomes a `LogKeeper` with its collector, or nothing where the log is off. Where the files cannot be
written that is told once, and stories are kept in memory instead.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import click

from berth.cli.numbers import size_of_at_least
from berth.cli.option_rules import is_typed

if TYPE_CHECKING:
    from berth.decisions.collector import DecisionCollector
    from berth.decisions.keeper import LogKeeper

Command = TypeVar("Command", bound=Callable[..., Any])

OFF = "off"
FILE_NAME = "decisions.jsonl"
DEFAULT_SIZE = "128Mi"
IN_MEMORY_BYTES = 32 * 1024 * 1024
"""How much is kept in memory where no file can be written."""
SCHEDULERS_BESIDE = 8
"""How many schedulers of one user for one cluster find a file each without being told."""


class OpenLog(NamedTuple):
    """A log, and the observer that fills it."""

    keeper: "LogKeeper"
    collector: "DecisionCollector"


class DecisionLogOptions(NamedTuple):
    """What was typed; an empty `file` is the default place."""

    file: str = ""
    size_bytes: int = 0


def decision_log_options(command: Command) -> Command:
    """`--decision-log` and `--decision-log-size`, received as `decision_log: DecisionLogOptions`."""

    @wraps(command)
    def with_options(**options: Any) -> Any:
        if options["decision_log_file"] == OFF and is_typed(click.get_current_context(), "decision_log_size"):
            raise click.UsageError("--decision-log-size has no effect with --decision-log off: leave one of them out")
        file, size = options.pop("decision_log_file"), options.pop("decision_log_size")
        return command(decision_log=DecisionLogOptions(file, size), **options)

    decorated: Any = with_options
    for decorate in (
        click.option(
            "--decision-log-size",
            default=DEFAULT_SIZE,
            show_default=True,
            metavar="QUANTITY",
            callback=_size,
            help="How large the decision log may become.",
        ),
        click.option(
            "--decision-log",
            "decision_log_file",
            default="",
            metavar="FILE|off",
            help="Where the stories of pods are kept, for `berth explain`; by default in a directory of their own.",
        ),
    ):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]


def _size(_ctx: click.Context, _param: click.Parameter, text: str) -> int:
    from berth.decisions.decision_log import LEAST_BYTES

    return size_of_at_least(text, LEAST_BYTES)


def state_directory(cluster: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the log of a cluster's scheduler is kept by default: $XDG_STATE_HOME/berth/HOST_PORT."""
    base = environ.get("XDG_STATE_HOME", "")
    parts = urlsplit(cluster)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", parts.netloc.rpartition("@")[2] or cluster).lstrip(".") or "cluster"
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "berth" / name


def open_log(options: DecisionLogOptions, default: Path, *, anew: bool = False) -> OpenLog | None:
    """Return the log that the options ask for, by default in this directory; None where it is off.

    With `anew` what is there is of a cluster that is gone, and is removed.
    """
    from berth.cli.setup import warn
    from berth.decisions.collector import DecisionCollector
    from berth.decisions.decision_log import DEFAULT_BYTES, DecisionLog
    from berth.decisions.keeper import LogKeeper
    from berth.decisions.log_segments import Files

    if options.file == OFF:
        return None
    size = options.size_bytes or DEFAULT_BYTES
    storage: Files | None = None
    try:
        storage = _files(options.file, default)
        for suffix in storage.suffixes() if anew else ():
            storage.remove(suffix)
    except OSError as error:
        where = options.file or default / FILE_NAME
        warn(
            f"the decision log {where} cannot be written ({error.strerror or error}), so that stories of pods are kept "
            "in memory and end with this process; --decision-log names another file"
        )
    log = DecisionLog(storage, size if storage is not None else min(size, IN_MEMORY_BYTES))
    collector = DecisionCollector()
    return OpenLog(LogKeeper(log, collector), collector)


def _files(file: str, default: Path) -> Any:
    """Take over the file that is named, or the first in the default directory that nobody writes."""
    from berth.decisions.log_segments import Files, LogInUseError

    if file:
        return Files(Path(file))
    for number in range(1, SCHEDULERS_BESIDE):
        name = FILE_NAME if number == 1 else FILE_NAME.replace(".", f"-{number}.")
        try:
            return Files(default / name)
        except LogInUseError:
            continue
    return Files(default / FILE_NAME)
