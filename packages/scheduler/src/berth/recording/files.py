"""The files that a recorder writes: segments of bounded size in a directory of bounded size.

One process writes to a directory at a time, which a lock on it sees to. Files are numbered on from those that are
there, and the oldest are deleted when there is no more room.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

from berth.recording.calls import Call, CallWriter
from berth.recording.errors import RecordingError
from berth.recording.file_format import SUFFIX, Packer, SegmentHeader, first_line

PARTS: Final = 8
"""A segment has at most this part of the directory's size, so that dropping one drops little."""
SMALLEST_SEGMENT: Final = 64 * 1024
SMALLEST_LIMIT: Final = PARTS * SMALLEST_SEGMENT
"""A directory has room for at least so many bytes."""


class SegmentFiles:
    """Writes one segment after the other. Raises `OSError` where the disk refuses."""

    def __init__(self, directory: Path, limit: int) -> None:
        """Raises `RecordingError` where the directory cannot be used."""
        self.directory = directory
        self.life = ""
        """The life of the segment that is being written; empty before the first."""
        self._limit = limit
        self._segment_limit = max(SMALLEST_SEGMENT, limit // PARTS)
        self._file: BinaryIO | None = None
        self._size = 0
        self._packer = Packer()
        self._writer = CallWriter()
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(directory, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._number = max(map(_number_of, self._files()), default=0)
        except BlockingIOError:
            raise RecordingError(f"another process records to {directory}: give each a directory of its own") from None
        except OSError as error:
            raise RecordingError(f"cannot record to {directory}: {error.strerror or error}") from None

    def begin(self, header: SegmentHeader) -> None:
        """Begin a segment in a new file."""
        self._close_file()
        self._make_room()
        self._number += 1
        path = self.directory / f"{self._number:08d}{SUFFIX}"
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._packer, self._writer, self._size = Packer(), CallWriter(), 0
        self.life = header.life
        self._put(first_line() + self._packer.pack(header))

    def write(self, calls: Iterable[Call]) -> bool:
        """Write calls to the segment that has begun; say whether they have filled it."""
        was_full = self._size > self._segment_limit
        self._put(self._packer.pack([self._writer.write(call) for call in calls]))
        return self._size > self._segment_limit and not was_full

    def close(self) -> None:
        """Close the file, and let other processes write to the directory."""
        with contextlib.suppress(OSError):
            self._close_file()
        with contextlib.suppress(OSError):
            os.close(self._lock)

    def _put(self, data: bytes) -> None:
        assert self._file is not None, "begin comes first"
        self._file.write(data)
        self._file.flush()
        self._size += len(data)

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _make_room(self) -> None:
        """Delete the oldest files until there is room for another segment."""
        sizes = {path: path.stat().st_size for path in self._files()}
        total = sum(sizes.values())
        for path, size in sizes.items():
            if total + self._segment_limit <= self._limit:
                break
            path.unlink()
            total -= size

    def _files(self) -> list[Path]:
        return sorted(self.directory.glob(f"*{SUFFIX}"))


def _number_of(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else 0
