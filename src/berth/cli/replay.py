"""`berth replay`: a recording once more, as it was made or under another configuration.

A directory or a file that `berth run --record` has written in; words or JSON out. Exit code 0, or 1 where the recording
cannot be read, or where it comes out differently although nothing was changed.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.cli.output import Output, is_structured, output_option, print_structured
from berth.cli.progress import Work, working
from berth.cli.setup import plugin_option, read_registry

if TYPE_CHECKING:
    from berth.recording.file_format import Segment
    from berth.recording.verifying import Verification


@click.command("replay", short_help="What was recorded, once more: the same, or where it first differs.")
@click.argument("recording", type=click.Path(path_type=Path))
@plugin_option
@output_option
def command(recording: Path, plugins: tuple[str, ...], output: Output) -> None:
    """Replay what `berth run --record` has recorded.

    RECORDING is the directory, or one file. Every core is made again from its configuration and its seed, and given
    the same events and answers at the same times. All that comes out is compared, bit for bit.
    """
    from berth.config.errors import ConfigError
    from berth.recording.errors import RecordingError
    from berth.recording.verifying import verify

    registry, _ = read_registry(plugins)
    try:
        with working("replaying") as work:
            found = verify(_segments(recording, work), registry)
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    except ConfigError as error:
        raise click.ClickException(str(error.located("the recorded configuration"))) from None
    if is_structured(output):
        print_structured(found, output)
    else:
        click.echo(_told(found))
    if not found.is_same:
        sys.exit(1)


def _segments(recording: Path, work: Work) -> "Iterator[Segment]":
    """Yield the segments, telling how far it is."""
    from berth.recording.file_format import read_segments, recording_files

    work.total = sum(path.stat().st_size for path in recording_files(recording))
    for segment in read_segments(recording):
        segment.advance = work.advance
        segment.is_stopped = lambda: work.is_stopped
        yield segment
        if work.is_stopped:
            return


def _told(found: "Verification") -> str:
    """Return the result in words."""
    lines = [
        f"{found.events} events, {found.decisions} decisions, {found.bindings} bindings, {found.evictions} evictions",
        f"of {_count(found.lives, 'core')} in {_count(found.segments, 'segment')}",
    ]
    if found.is_cut:
        lines.append("a segment's end is missing, as after a kill: what is there was replayed")
    if found.headless_lives:
        lines.append(f"the beginning of {_count(found.headless_lives, 'core')} is gone: not replayed")
    first = found.first_difference
    if first is None:
        lines.append(f"the same, bit for bit: {found.replayed} events replayed")
    else:
        lines.append(f"differs at event {first.event}, at {first.time:.3f} s: {first.what}")
        lines.append(f"  recorded  {first.recorded}")
        lines.append(f"  now       {first.now}")
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
