"""`--record` and `--record-limit`, the same for every command that runs a scheduler."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from berth.cli.numbers import size_of_at_least
from berth.cli.option_rules import only_with
from berth.cli.setup import BadConfigurationError

if TYPE_CHECKING:
    from berth.core.options import Build

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_LIMIT = "1Gi"


class RecordingOptions(NamedTuple):
    """What was typed; without a directory nothing is recorded."""

    directory: Path | None
    limit: int


def recording_options(command: Command) -> Command:
    """`--record` and `--record-limit`, received as `recording: RecordingOptions`."""

    @only_with(record_limit="record")
    @wraps(command)
    def with_options(**options: Any) -> Any:
        given = RecordingOptions(options.pop("record"), options.pop("record_limit"))
        return command(recording=given, **options)

    decorated: Any = with_options
    for decorate in (
        click.option(
            "--record-limit",
            default=DEFAULT_LIMIT,
            show_default=True,
            metavar="QUANTITY",
            callback=_size,
            help="How much room recordings may take; the oldest are deleted.",
        ),
        click.option(
            "--record",
            default=None,
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Record what comes in and what is decided, for `berth replay`; see docs/recording.md.",
        ),
    ):
        decorated = decorate(decorated)
    return decorated  # type: ignore[no-any-return]  # click's decorators return what they are given


def _size(_context: click.Context, _option: click.Parameter, text: str) -> int:
    from berth.recording.files import SMALLEST_LIMIT

    return size_of_at_least(text, SMALLEST_LIMIT)


@contextlib.contextmanager
def recording_to(given: RecordingOptions) -> "Iterator[Build]":
    """Give what makes cores: recorded ones, if that is asked for. Raises `BadConfigurationError`."""
    from berth.core.assembly import build_core

    if given.directory is None:
        yield build_core
        return
    from berth.recording.errors import RecordingError
    from berth.recording.recorder import Recorder

    try:
        recorder = Recorder(given.directory, limit=given.limit, report=logging.getLogger("berth.recording").warning)
    except RecordingError as error:
        raise BadConfigurationError(f"--record: {error}") from None
    recorder.start()
    try:
        yield recorder.build_core
    finally:
        recorder.close()
