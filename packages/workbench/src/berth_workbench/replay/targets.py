"""Files that are written from a recording: none of them is part of it, and each appears whole or not at all."""

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth.recording.errors import RecordingError
from berth.recording.file_format import SUFFIX, recording_files

RECORDED: Final = re.compile(rf"[0-9]{{8}}{re.escape(SUFFIX)}")
"""What a recorder calls its files."""


def refuse_part_of(source: Path, target: Path) -> None:
    """Raise `RecordingError` where the target is part of the recording, or would be once it is written."""
    try:
        for path in recording_files(source):
            if target.exists() and path.samefile(target):
                raise RecordingError(f"cannot write {target}: it is part of the recording; choose another file")
        directory = _directory_of(source)
        place = _place(target)
    except OSError as error:
        raise RecordingError(f"cannot write {target}: {error.strerror or error}") from None
    if place.suffix == SUFFIX and place.parent == directory:
        raise RecordingError(
            f"cannot write {target}: every file in {directory} that ends in {SUFFIX} belongs to the recording; "
            "choose another directory"
        )


def _directory_of(source: Path) -> Path | None:
    """Return the directory that a recorder has written in; None for a file that was exported."""
    if source.is_dir():
        return source.resolve()
    return source.resolve().parent if RECORDED.fullmatch(source.resolve().name) else None


def _place(target: Path) -> Path:
    """Return where a file is, links followed. Raises OSError."""
    try:
        return target.resolve()
    except RuntimeError:  # what Python before 3.13 makes of links in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield the path to write to, in the same directory: what is there in the end takes the target's place.

    After an error the target is what it was before. Raises `RecordingError`.
    """
    part = None
    try:
        place = _place(target)  # where the target is a symbolic link, it stays one
        if place.is_symlink() or (place.exists() and not place.is_file()):
            raise RecordingError(f"cannot write {target}: it is no ordinary file")
        part = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        yield part
        if place.exists():
            shutil.copymode(place, part)
        part.replace(place)
    except RecordingError as error:
        if part is None:
            raise
        raise RecordingError(str(error).replace(str(part), str(target))) from None
    except OSError as error:
        raise RecordingError(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
